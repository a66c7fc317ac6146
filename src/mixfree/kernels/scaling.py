"""The running scale's kernel: statistics of the columns and standardised rows, in one pass."""

from typing import NamedTuple

import numpy as np

from mixfree.kernels.jit import by_type, inline, kernel
from mixfree.kernels.run import unshared


class OwnUnits(NamedTuple):
    """Rows as they are given."""


class RunningUnits(NamedTuple):
    """The arrays of a running scale: see :class:`mixfree.linear.scaling.RunningScale`."""

    due: np.ndarray  # 1 if the next row is counted already, and waits for new units
    count: np.ndarray
    mean: np.ndarray
    spread: np.ndarray  # sum of squares around the mean
    shift: np.ndarray
    inverse: np.ndarray  # of the scale
    out: np.ndarray  # a standardised row, and what follows it
    centred: bool
    limit: float


@inline
def counts_row(units, row, out):
    """Count a row and leave it standardised in ``out``; False if new units are due first."""
    mean, spread, shift, inverse = units[2:6]
    new = 1 - units.due[0]
    units.count[0] += new
    count, far = units.count[0], 0
    for k in range(row.size):
        out[k] = (float(row[k]) - shift[k]) * inverse[k]
        far += abs(out[k]) > units.limit  # a sum of integers is the same in any order
    due = far > 0 or count & (count - 1) == 0
    share = new / count if units.centred else 0.0
    rest = new - share
    for k in range(row.size):
        delta = float(row[k]) - mean[k]
        mean[k] += share * delta
        spread[k] += rest * delta * delta
    units.due[0] = 1 if due and new > 0 else 0
    return units.due[0] == 0


@by_type
def in_units(units, row):
    """Whether the row can be taken now, and the row in these units."""
    return True, row


@in_units.register(RunningUnits)
def _(units, row):
    return counts_row(units, row, units.out), units.out


@kernel
def standardise(units, rows, out):
    """Standardise rows up to one for which new units are due; how many they are."""
    # One version of each loop at all addresses: others would round differently.
    units, rows, out = unshared(units), unshared(rows), unshared(out)
    for i in range(rows.shape[0]):
        if not counts_row(units, rows[i], out[i]):
            return i
    return rows.shape[0]
