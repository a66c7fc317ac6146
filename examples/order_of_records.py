"""What does the time order of four records cost exact fits and ladders?

python examples/order_of_records.py FOLDER

All settings that the table does not name are defaults. The output is the final model's loss above
that of the best linear model in hindsight, as a fraction of that model's gain over the best
constant: 0 is the best, 1 is no better than a constant.
"""

import sys
from pathlib import Path

import numpy as np
from curves import keep
from records import RECORDS, record
from scipy.optimize import minimize
from scipy.special import expit

from mixfree.sklearn import StreamClassifier, StreamRegressor

SEEDS = range(5000, 5005)
WAYS = {
    "exact, the default": {},
    "exact, `memory=2048`": {"memory": 2048},
    "ladder, `memory=0`": {"method": "ladder", "memory": 0},
    'ladder, `memory="auto"`': {"method": "ladder"},
    "ladder, `memory=0`, rows standardised in advance": {
        "method": "ladder",
        "memory": 0,
        "scale": None,
    },
    'ladder, `memory="auto"`, rows standardised in advance': {"method": "ladder", "scale": None},
}


def gain_lost(rows, targets, **settings):
    """Return the fraction of the best linear model's gain that the estimator loses."""
    classes = set(np.unique(targets)) == {0.0, 1.0}
    if not classes and "method" not in settings:
        settings.pop("memory", None)  # sums are enough for the squared loss
    estimator = (StreamClassifier if classes else StreamRegressor)(**settings)
    estimator.fit(rows, targets)
    weights = np.append(np.ravel(estimator.coef_), estimator.intercept_)
    # The solver of the best model needs standardised columns to reach its minimum.
    size = rows.std(axis=0)
    size[size == 0.0] = 1.0
    x = np.column_stack([(rows - rows.mean(axis=0)) / size, np.ones(len(rows))])
    z = rows @ weights[:-1] + weights[-1]
    if not classes:
        best = x @ np.linalg.lstsq(x, targets, rcond=None)[0]
        found, least, constant = (
            np.mean((targets - each) ** 2) for each in (z, best, targets.mean())
        )
        return (found - least) / (constant - least)
    signs = 2.0 * targets - 1.0

    def loss(predicted):
        return float(np.mean(np.logaddexp(0.0, -signs * predicted)))

    def slope(w):
        return -(signs * expit(-signs * (x @ w))) @ x / len(x)

    def bend(w):
        p = expit(x @ w)
        return (x.T * (p * (1.0 - p) / len(x))) @ x

    options = {"gtol": 1e-10}
    best = minimize(
        lambda w: loss(x @ w), np.zeros(x.shape[1]), jac=slope, hess=bend,
        method="trust-exact", options=options,
    )  # fmt: skip
    share = targets.mean()
    return (loss(z) - best.fun) / (loss(np.log(share / (1.0 - share))) - best.fun)


def main(folder, seeds=SEEDS):
    """Return the mean loss over seeds by record, their geometric mean and the worst, by method."""
    found = {way: [] for way in WAYS}
    for name in RECORDS:
        rows, targets = record(Path(folder) / f"{name}.csv.gz")
        size = rows.std(axis=0)
        standardised = (rows - rows.mean(axis=0)) / np.where(size > 0.0, size, 1.0)
        for way, settings in WAYS.items():
            given = standardised if "scale" in settings else rows
            lost = [gain_lost(given, targets, **settings, seed=seed) for seed in seeds]
            found[way].append(float(np.mean(lost)))
    for lost in found.values():
        several = np.maximum(lost, 1e-16)
        lost += [float(np.exp(np.log(several).mean())), max(lost)]
    return {
        way: [f"{each:.3g}" if each > 1e-10 else "0" for each in lost]
        for way, lost in found.items()
    }


if __name__ == "__main__":
    title = "Fraction of the best linear model's gain over a constant that one pass loses"
    keep(__file__, title, main(sys.argv[1]), [*RECORDS, "geometric mean", "worst"], SEEDS)
