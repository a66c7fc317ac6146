"""The optimality gap: by how much a fit's loss exceeds that of the fit to all rows."""

from typing import NamedTuple

import numpy as np
from scipy import linalg, special

from mixfree.base.arithmetic import Array, norm
from mixfree.linear.glm.control_variates import ERROR_DRAWS
from mixfree.linear.glm.newton import Point
from mixfree.linear.glm.problem import ROUGH_DECREMENT, Problem
from mixfree.linear.glm.rows import Kept

MAX_FREEDOM = 1e9  # degrees of freedom that are as good as infinitely many
LEVEL = 0.98  # nominal level of the 95 % bound, since sorted streams have heavier tails
FOLDS = 5  # rows are left out by fifths


class Gap(NamedTuple):
    """The loss above that of the fit to all rows: an estimate and a 95 % upper bound."""

    estimate: float
    upper: float


NOTHING = Gap(0.0, 0.0)


def gap_of(problem: Problem, point: Point) -> Gap:
    """Estimate the gap of a fit to a sample of the stream.

    It follows from the spread of the part of the kept rows' slopes that the sums do not explain.
    The excess loss is half a sum of squares of normal variables, of about a gamma law; where its
    mean and variance are estimates from few rows, the bound is larger, as Fisher's F is beside χ².
    Where classes can be separated, the gap follows from losses of rows that are left out of further
    fits, above the least loss of the same rows: half of this excess is that of the fit itself.

    The bound is over the choice of the kept rows alone, of a given stream. Where a few kept rows
    carry most of the error, as rows of a rare regime do, it is too small.
    """
    if problem.ridge:
        lost, weights = _held_out(problem, point), problem.rows.sample.weights
        mean = float(np.average(lost, weights=weights))
        error = norm(weights * (lost - mean)) / float(weights.sum())
        estimate = max(0.5 * mean, 0.0)
        return Gap(estimate, max(estimate, mean + 2.0 * error))
    assert problem.controls is not None
    left_out = 1.0 - 1.0 / problem.rows.factor
    errors = np.sqrt(ERROR_DRAWS * left_out) * problem.controls.sampling_errors(point)
    gram = np.tensordot(errors, point.solve(errors), axes=([1, 2], [1, 2]))
    mean, freedom = 0.5 * float(gram.diagonal().mean()), _freedom(problem, point)
    # Where the sums explain all slopes, the rest is rounding, with less than a degree of freedom.
    if not (mean > 0.0 and freedom >= 1.0):
        return Gap(max(mean, 0.0), max(mean, 0.0))
    # The squares of products of two draws have the sum of squared eigenvalues as their mean.
    others = gram[~np.eye(ERROR_DRAWS, dtype=bool)] / mean
    shape = 2.0 / max(float(np.mean(others**2)), 1e-9)
    return Gap(mean, mean * float(special.fdtri(2.0 * shape, min(freedom, MAX_FREEDOM), LEVEL)))


def _freedom(problem: Problem, point: Point) -> float:
    """Return the degrees of freedom of a variance, from the spread of the rows' squares."""
    assert problem.controls is not None
    rest = problem.controls.residuals(point)
    each = np.einsum("ij,ij->i", rest, rest)
    for x, part in problem.rows.slabs:
        white = linalg.solve_triangular(point.metric, x.T, lower=True, check_finite=False)
        each[part] *= np.einsum("ij,ij->j", white, white)
    spread = float(np.var(each / max(float(each.mean()), 1e-300)))
    return 2.0 * len(each) / max(spread, 1e-300)


def _held_out(problem: Problem, point: Point) -> Array:
    """Return losses of rows in fits without them, above those of a fit to them."""
    start, kept = problem.weights(point), problem.rows.sample
    lost = -_losses(problem.alone, start, kept)
    for out in (np.arange(len(kept)) % FOLDS == number for number in range(FOLDS)):
        lost[out] += _losses(problem.with_sample(kept.take(~out)), start, kept.take(out))
    return lost


def _losses(problem: Problem, start: Array, kept: Kept) -> Array:
    """Return the loss of each row at a rough fit."""
    rows, theta = problem.rows, problem.solved(start, ROUGH_DECREMENT).theta
    z = rows.standardised(kept.rows) @ theta.T
    return rows.settings.loss.at(z, kept.targets - rows.shift)[0]
