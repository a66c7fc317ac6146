"""Do 90 % intervals of new rows hold on four records, 50 rows at a time?

python examples/intervals_of_records.py FOLDER

The folder has the files that `records.py` names. Every interval is made before its rows are learnt.
The fixed interval has the width that covers 90 % of the errors in the first fifth of the rows.
"""

import sys
from pathlib import Path

import numpy as np
from curves import keep
from records import RECORDS, record

from mixfree.sklearn import StreamClassifier, StreamRegressor

CHUNK, FIRST, LEVEL = 50, 500, 0.9
CLASSES = "room-occupancy"


def regression(rows, targets, half_life=None):
    """Return errors of predictions, and the ends of intervals minus the targets."""
    model, found = StreamRegressor(half_life=half_life), []
    for start in range(0, len(rows), CHUNK):
        now = slice(start, start + CHUNK)
        if start >= FIRST:
            found.append(np.array(model.predict(rows[now], LEVEL)) - targets[now])
        model.partial_fit(rows[now], targets[now])
    return np.hstack(found)


def classification(rows, targets):
    """Return whether sets contain the class, their sizes, and log losses as is and calibrated."""
    model, found, labels = StreamClassifier(), [], targets.astype(int)
    for start in range(0, len(rows), CHUNK):
        now = slice(start, start + CHUNK)
        if start >= FIRST:
            x, own = rows[now], (np.arange(len(labels[now])), labels[now])
            sets = model.predict_set(x, LEVEL)
            losses = [-np.log(model.predict_proba(x, calibrated=c)[own]) for c in (False, True)]
            found.append([sets[own], sets.sum(axis=1), *losses])
        model.partial_fit(rows[now], labels[now], classes=[0, 1])
    return np.hstack(found).mean(axis=1)


def intervals(rows, targets, half_life=None):
    """Return coverage and mean width, of the intervals and of the fixed one."""
    error, low, high = regression(rows, targets, half_life)
    inside, fifth = (low <= 0.0) & (high >= 0.0), len(error) // 5
    half = np.quantile(np.abs(error[:fifth]), LEVEL)
    worst = np.convolve(inside, np.full(1000, 1e-3), "valid").min() if len(inside) >= 1000 else 0.0
    fixed = np.mean(np.abs(error[fifth:]) <= half)
    return inside.mean(), worst, np.mean(high - low), fixed, 2.0 * half


def main(folder):
    """Measure coverage and width by record."""
    found = {}
    for name in RECORDS:
        rows, targets = record(Path(folder) / f"{name}.csv.gz")
        if name == CLASSES:
            covered, size, *losses = classification(rows, targets)
            note = "sets of {:.2f} classes; log loss {:.3f}, calibrated {:.3f}"
            cells = [f"{100.0 * covered:.1f}", "", note.format(size, *losses), "", ""]
            found[name] = cells
            continue
        for half_life in (None, "auto"):
            covered, worst, width, fixed, fixed_width = intervals(rows, targets, half_life)
            cells = [f"{100.0 * covered:.1f}", f"{100.0 * worst:.1f}", f"{width:.4g}"]
            cells += [f"{100.0 * fixed:.1f}", f"{fixed_width:.4g}"]
            found[name + (", half-life auto" if half_life else "")] = cells
    for name, cells in found.items():
        print(name, *cells)
    return found


if __name__ == "__main__":
    heads = ["coverage", "worst 1,000 rows", "width", "fixed: coverage", "fixed: width"]
    title = "90 % intervals of new rows, 50 at a time: coverage in per cent, and width"
    keep(__file__, title, main(sys.argv[1]), heads)
