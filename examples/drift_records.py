"""Which half-life forecasts drifting records best, and is a mixture as good?

python examples/drift_records.py FOLDER

The folder has three of the files that `records.py` names. Every model predicts 50 rows, then learns
from them. The output is the squared error of these predictions divided by that of the best constant
in hindsight.
"""

import sys
from pathlib import Path

import numpy as np
from curves import keep
from records import record
from river import linear_model, preprocessing
from sklearn.linear_model import SGDRegressor
from sklearn.preprocessing import StandardScaler

from mixfree.sklearn import StreamRegressor

CHUNK = 50
HALF_LIVES = (50, 200, 800, 3200, 12800, None)
DRIFTING = {
    "transformer-oil": "ETTh1",
    "bike-hours": "UCI Bike Sharing",
    "beijing-pm25": "UCI Beijing PM2.5",
}


class Scaled:
    """A scikit-learn estimator on columns standardised by the rows seen so far."""

    def __init__(self, model):
        self.scaler, self.model = StandardScaler(), model

    def partial_fit(self, rows, targets):
        self.scaler.partial_fit(rows)
        self.model.partial_fit(self.scaler.transform(rows), targets)

    def predict(self, rows):
        return self.model.predict(self.scaler.transform(rows))


class River:
    """river's linear regression on columns standardised by river."""

    def __init__(self):
        self.model = preprocessing.StandardScaler() | linear_model.LinearRegression()

    def partial_fit(self, rows, targets):
        for row, target in zip(rows, targets, strict=True):
            self.model.learn_one(dict(enumerate(row.tolist())), float(target))

    def predict(self, rows):
        return np.array([self.model.predict_one(dict(enumerate(row.tolist()))) for row in rows])


def models():
    """Return the models to compare, by name."""
    fixed = {
        "never" if life is None else f"{life:,}": StreamRegressor(half_life=life)
        for life in HALF_LIVES
    }
    return fixed | {
        "auto": StreamRegressor(half_life="auto"),
        "SGD, averaged": Scaled(SGDRegressor(average=True, random_state=0)),
        "SGD": Scaled(SGDRegressor(random_state=0)),
        "river": River(),
    }


def forecast_errors(rows, targets, chunk=CHUNK):
    """Return each model's test-then-train squared error relative to the best constant's."""
    found = {}
    for name, model in models().items():
        lost = 0.0
        for start in range(0, len(rows), chunk):
            now = slice(start, start + chunk)
            if start:
                # A diverging model would overflow.
                lost += float(
                    np.sum((model.predict(rows[now]) - targets[now]).clip(-1e100, 1e100) ** 2)
                )
            model.partial_fit(rows[now], targets[now])
        found[name] = lost / float(np.sum((targets[chunk:] - targets[chunk:].mean()) ** 2))
    return found


def main(folder):
    """Measure the errors by record and model."""
    found = {}
    for name, source in DRIFTING.items():
        rows, targets = record(Path(folder) / f"{name}.csv.gz")
        errors = forecast_errors(rows, targets)
        cells = [f"{error:.3f}" if error < 10.0 else "diverged" for error in errors.values()]
        found[f"{name} ({source}, {len(rows):,} rows)"] = cells
        print(name, *cells)
    return found


if __name__ == "__main__":
    title = "Squared error of forecasts over that of the best constant"
    written = {"auto": '`half_life="auto"`', "SGD": "SGD, last iterate"}
    keep(__file__, title, main(sys.argv[1]), [written.get(name, name) for name in models()])
