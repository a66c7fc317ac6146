"""The optimality gap: by how much a fit's loss exceeds that of the fit to all rows."""

from typing import NamedTuple

import numpy as np
from scipy import special

from mixfree.base.arithmetic import Array
from mixfree.linear.glm.newton import Point
from mixfree.linear.glm.problem import ROUGH_DECREMENT, Problem
from mixfree.linear.glm.rows import Kept, Rows

MAX_FREEDOM = 1e9  # degrees of freedom that are as good as infinitely many
LEVEL = 0.98  # nominal level of the 95 % bound, since sorted streams have heavier tails
FOLDS = 5
MAX_ALL_FOLDS = 1 << 19  # values of the kept rows, times outputs, up to which all are held out


class Gap(NamedTuple):
    """The loss above that of the fit to all rows: an estimate and a 95 % upper bound."""

    estimate: float
    upper: float


NOTHING = Gap(0.0, 0.0)


def gap_of(problem: Problem, point: Point) -> Gap:
    """Estimate the gap of a fit to a sample of the stream.

    It follows from the spread of the part of the kept rows' slopes that the sums do not explain.
    Where classes can be separated, the losses of the kept rows are uninformative. The gap then
    follows from losses of rows that are left out of further fits, above the least loss of the same
    rows: half of this excess is that of the fit itself.

    The bound is over the choice of the kept rows alone, of a given stream: it says nothing of how
    far the fit to all rows is from the truth, which intervals say. It takes the gradient's error
    as normal and the loss as quadratic around the fit. Where a few kept rows carry most of the
    error, as rows of a rare regime do, both fail towards too small a bound.
    """
    if problem.ridge:
        lost, shares = _held_out(problem, point)
        mean = float(shares @ lost)
        error = float(np.sqrt(np.sum((shares * (lost - mean)) ** 2)))
        estimate = max(0.5 * mean, 0.0)
        return Gap(estimate, max(estimate, mean + 2.0 * error))
    assert problem.controls is not None
    unit = problem.rows.unit**problem.rows.loss.degree
    mean, *others = problem.controls.excess_loss(point).tolist()
    return Gap(max(mean, 0.0) * unit, _quantile(mean, *others) * unit)


def _held_out(problem: Problem, point: Point) -> tuple[Array, Array]:
    """Return losses of rows left out above those of a fit to them, and shares of the rows."""
    start, kept = problem.weights(point), problem.rows.sample
    few = kept.rows.size * len(start) <= MAX_ALL_FOLDS
    fold = np.arange(len(kept)) % FOLDS
    lost = np.zeros(len(kept))
    for number in range(FOLDS if few else 1):
        out = fold == number
        without = problem.with_sample(kept.take(~out))
        lost[out] = _losses(without.rows, without.solved(start, ROUGH_DECREMENT), kept.take(out))
    least = problem.alone.solved(start, ROUGH_DECREMENT)
    out = fold < (FOLDS if few else 1)
    weights = kept.weights[out]
    return lost[out] - _losses(problem.rows, least, kept.take(out)), weights / weights.sum()


def _losses(rows: Rows, point: Point, kept: Kept) -> Array:
    """Return the loss of each row at a fit, for a loss without a unit."""
    return rows.loss.at(rows.standardised(kept.rows) @ point.theta.T, kept.targets)[0]


def _quantile(mean: float, variance: float, third: float, freedom: float) -> float:
    """Return a bound from three cumulants by a shifted gamma law (Buckley and Eagleson 1988).

    The bound allows for estimated cumulants by the ratio of quantiles of F and χ².
    """
    # Where the sums explain all slopes, the rest is rounding, with less than a degree of freedom.
    if not (mean > 0.0 and variance > 0.0 and third > 0.0 and freedom >= 1.0):
        return max(float(mean), 0.0)
    shape = 4.0 * variance**3 / third**2
    unit = (variance / shape) ** 0.5
    bound = mean + unit * (special.gammaincinv(shape, LEVEL) - shape)
    half = mean**2 / variance
    freedom = min(freedom, MAX_FREEDOM)
    longer = special.fdtri(2.0 * half, freedom, LEVEL) * half / special.gammaincinv(half, LEVEL)
    return float(bound * longer)
