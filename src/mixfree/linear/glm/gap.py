"""The optimality gap: by how much a fit's loss exceeds that of the fit to all rows."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import special

from mixfree.base.arithmetic import Array
from mixfree.linear.exact.reservoir import Kept
from mixfree.linear.glm.newton import Part, Point, standardised
from mixfree.linear.glm.problem import ROUGH, Problem

MAX_FREEDOM = 1e9  # degrees of freedom that are as good as infinitely many
LEVEL = 0.98  # nominal level of the 95 % bound, since sorted streams have heavier tails
FOLDS = 5
MAX_ALL_FOLDS = 1 << 19  # values of the kept rows, times outputs, up to which all are held out


class Gap(NamedTuple):
    """The loss above that of the fit to all rows: an estimate and a 95 % upper bound."""

    estimate: float
    upper: float


NOTHING = Gap(0.0, 0.0)


def gap_of(problem: Problem, point: Point, problem_of: Callable[[list[Part]], Problem]) -> Gap:
    """Estimate the gap of a fit to a sample of the stream.

    It follows from the spread of the part of the kept rows' slopes that the sums do not explain.
    Where classes can be separated, the losses of the kept rows are uninformative. The gap then
    follows from losses of rows that are left out of further fits, above the least loss of the same
    rows: half of this excess is that of the fit itself.

    Parameters
    ----------
    problem, point
        The fit.
    problem_of
        Makes the problem for other rows.
    """
    if np.any(problem.ridge):
        lost, shares = _held_out(problem, point, problem_of)
        mean = float(shares @ lost)
        error = float(np.sqrt(np.sum((shares * (lost - mean)) ** 2)))
        estimate = max(0.5 * mean, 0.0)
        return Gap(estimate, max(estimate, mean + 2.0 * error))
    assert problem.known is not None
    unit = problem.units.scale**2 * problem.settings.family.weight
    mean, *others = problem.known.excess_loss(point).tolist()
    return Gap(max(mean, 0.0) * unit, _quantile(mean, *others) * unit)


def _held_out(
    problem: Problem, point: Point, problem_of: Callable[[list[Part]], Problem]
) -> tuple[Array, Array]:
    """Return losses of rows left out above those of a fit to them, and shares of the rows."""
    start = problem.own(point.theta)
    (kept, factor), *others = problem.parts
    few = kept.rows.size * len(start) <= MAX_ALL_FOLDS
    fold = np.arange(len(kept)) % FOLDS
    lost = np.zeros(len(kept))
    for number in range(FOLDS if few else 1):
        out = fold == number
        rest = Part(kept.take(~out), factor * len(kept) / np.sum(~out))
        without = replace(problem_of([rest, *others]), ridge=problem.ridge)
        lost[out] = _losses(*without.solved(start, ROUGH), kept.take(out))
    least = replace(problem, known=None, ridge=0.0).solved(start, ROUGH)
    out = fold < (FOLDS if few else 1)
    weights = kept.weights[out]
    return lost[out] - _losses(*least, kept.take(out)), weights / weights.sum()


def _losses(problem: Problem, point: Point, rows: Kept) -> Array:
    """Return the loss of each row at a fit, for a family without a unit."""
    z = standardised(rows.rows, problem.units, problem.settings.intercept) @ point.theta.T
    return problem.settings.family.at(z, rows.targets)[0]


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
