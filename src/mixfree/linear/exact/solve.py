r"""Least squares from sums, with a ridge, for columns of any scale or dependence.

The matrix is that of the columns' correlations. Eigenvalues below ``TOLERANCE`` times the largest
cannot be distinguished from rounding errors and count as 0; the solution is then that of least norm
for standardised columns. Columns that agree to about 1e-6 of their deviation count as equal;
``numpy.linalg.lstsq``, which needs all rows at once, distinguishes them up to 1e-15.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from mixfree.base.arithmetic import MIN_VALUE, Array
from mixfree.linear.exact.sums import Sums

TOLERANCE = 1e-13  # relative to the largest eigenvalue
MIN_RCOND = 1e-8  # reciprocal condition above which a Cholesky factor is accurate enough
LIFT = 1e-10  # ridge that hardly changes predictions
DEPENDENT = 1e-11  # share of a column's variance below which others determine it
CONSTANT_ROUNDING = 4 * np.finfo(np.float64).eps  # deviation over mean that is a rounding error


@dataclass(frozen=True, slots=True)
class Solution:
    """Weights of the best linear model, and quantities that intervals need."""

    weights: Array  # one row per target, in the units of the rows; an intercept is last
    penalty: float | Array  # ridge per unit of weight
    deviation: Array  # of columns, 0 if constant, and targets; without intercept, about 0
    scale: Array  # with the next two, the inverse of (correlations + ridge)
    factor: Array
    values: Array | None

    @property
    def rank(self) -> int:
        """Number of directions that the rows determine."""
        return int(self.factor.shape[1])


def solve(
    sums: Sums, *, l2: float | Array = 0.0, intercept: bool = True, rough: bool = False
) -> Solution:
    r"""Find the weights w and intercept b with the least sum of squares and ridge.

    .. math:: \min_{w,\, b} \sum_i \omega_i \big( \tfrac12 \|y_i - w x_i - b\|^2
              + \tfrac12 \lambda \|w\|^2 \big)

    ``l2`` is λ, or one per column. As in scikit-learn's ``Ridge``, the intercept is not penalised,
    and w is in the units of the rows. A row of weight 2 is equivalent to two rows. ``rough``
    weights predict alike, in less time if some columns depend on others.
    """
    sums = sums if intercept else sums.about_zero()
    columns, weight = len(sums.scatter), sums.weight if sums.weight > 0.0 else 1.0
    deviation = np.sqrt(np.maximum(sums.diagonal, 0.0) / weight)
    still = deviation <= np.maximum(CONSTANT_ROUNDING * np.abs(sums.mean), MIN_VALUE)
    deviation[still] = 0.0
    # A constant column correlates with nothing.
    size, unit = np.split(np.where(still, np.inf, deviation), [columns])
    # Scaled to a unit diagonal again, so that no ridge makes the condition worse.
    scale = 1.0 / np.sqrt(1.0 + l2 / size / size)
    matrix = sums.scatter / size[:, None] / size / weight * scale[:, None] * scale
    np.fill_diagonal(matrix, np.where(still[:columns], 0.0, 1.0))
    factor, values = factored(matrix, still[:columns], rough)
    cross = sums.cross / size[:, None] / unit / weight
    standardised = inverse_times(scale[:, None], factor, values, cross)
    weights = (standardised / size[:, None] * deviation[columns:]).T
    if intercept:
        free = sums.mean[columns:] - weights @ sums.mean[:columns]
        weights = np.column_stack([weights, free])
    return Solution(weights, l2, deviation, scale[:, None], factor, values)


def dependent(scatter: Array) -> Array:
    """Return which columns are combinations of those before them, from their centred products."""
    size = np.sqrt(np.maximum(np.diagonal(scatter), 0.0))
    found, varied = np.zeros(len(size), bool), np.flatnonzero(size)
    matrix = scatter[np.ix_(varied, varied)] / np.outer(size[varied], size[varied])
    if factored(matrix, np.zeros(len(varied), bool))[1] is None or not len(varied):
        return found
    kept, factor = list[int](), np.zeros(matrix.shape)
    for place, column in enumerate(matrix):
        known = len(kept)
        row = linalg.solve_triangular(factor[:known, :known], column[kept], lower=True)
        rest = column[place] - row @ row
        if rest > DEPENDENT:
            factor[known, :known], factor[known, known] = row, np.sqrt(rest)
            kept.append(place)
        else:
            found[varied[place]] = True
    return found


def inverse_times(scale: Array, factor: Array, values: Array | None, vectors: Array) -> Array:
    """Multiply by the inverse from a Cholesky factor, or from eigenvectors and their values."""
    vectors = scale * vectors
    if values is None:
        solved: Array = lapack.dpotrs(factor, vectors, lower=1)[0]
    else:
        solved = factor @ ((factor.T @ vectors) / values)
    return scale * solved


def factored(matrix: Array, still: Array, rough: bool = False) -> tuple[Array, Array | None]:
    """Return a Cholesky factor of a correlation matrix, or eigenvectors and values that count.

    ``rough`` replaces the latter by the factor of a matrix whose diagonal is larger by ``LIFT``.
    """
    if still.all():
        return np.zeros((still.size, 0)), np.zeros((0, 1))
    if not still.any():
        factor, failed = lapack.dpotrf(matrix, lower=1, clean=0)
        if not failed:
            largest = float(np.abs(matrix).sum(axis=0).max())
            well, _ = lapack.dpocon(factor, largest, uplo="L")
            if well >= MIN_RCOND:
                return factor, None
    if rough:
        factor, failed = lapack.dpotrf(matrix + LIFT * np.eye(len(matrix)), lower=1, clean=0)
        if not failed:
            return factor, None
    values, vectors = np.linalg.eigh(matrix)
    kept = values > TOLERANCE * values[-1]
    return vectors[:, kept], values[kept, None]
