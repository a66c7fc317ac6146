"""Cost of the exact method in the number of columns, and where the ladder overtakes it.

Rates are CPU time of one thread, including solving for the weights at the end. The figure is
written to the file ``EXACT_COST_FIGURE``, if set.
"""

import os

import numpy as np
from sklearn.linear_model import SGDRegressor

from benchmarks.core import cpu_seconds, problem
from benchmarks.streams import ONE_PASS
from benchmarks.table import show
from mixfree.base.figures import label_ends, new_figure, styles_of
from mixfree.sklearn import StreamClassifier, StreamRegressor

COLUMNS = (10, 30, 100, 300, 1000, 2000)
LOGISTIC = 300  # most columns with the logistic loss, whose kept rows become too costly
NAMES = ("exact, squared", "exact, logistic", "ladder, squared", "SGDRegressor, averaged")


def seconds_per_row(columns):
    """Return CPU seconds per row of each method, by name."""
    rows, targets = problem(int(np.clip(3e7 / columns, 15_000, 500_000)), columns)
    labels = np.where(targets + np.random.default_rng(1).logistic(size=len(rows)) > 0, 1, -1)
    models = {
        "exact, squared": (StreamRegressor(method="exact"), targets),
        "exact, logistic": (StreamClassifier(method="exact"), labels),
        "ladder, squared": (StreamRegressor(method="ladder"), targets),
        "SGDRegressor, averaged": (SGDRegressor(average=True, **ONE_PASS), targets),
    }
    if columns > LOGISTIC:
        del models["exact, logistic"]
    return {
        name: cpu_seconds(lambda m=model, y=y: m.fit(rows, y).coef_, 3) / len(rows)
        for name, (model, y) in models.items()
    }


def draw(found, path):
    figure, axes = new_figure(1, 1, width=7.4, height=4.0)
    styles = styles_of(NAMES)
    for name in NAMES:
        places = [columns for columns in found if name in found[columns]]
        values = [1e6 * found[columns][name] for columns in places]
        axes.plot(places, values, label=name, marker="o", markersize=4, **styles[name])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("columns")
    axes.set_ylabel("CPU time per row, µs")
    axes.set_title("Cost of a row, lower is better", loc="left")
    label_ends(axes)
    figure.savefig(path, dpi=150)


def main():
    found = {columns: seconds_per_row(columns) for columns in COLUMNS}
    lines = [
        (f"d = {columns}", *(1e6 * each[name] if name in each else None for name in NAMES))
        for columns, each in found.items()
    ]
    show("CPU time per row, the weights included", ("µs per row", *NAMES), lines)
    if path := os.environ.get("EXACT_COST_FIGURE"):
        draw(found, path)
