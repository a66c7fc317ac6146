r"""Least squares from sums, with a ridge and a ball, for columns of any scale or dependence.

The system is solved for standardised columns, so that its matrix is that of their correlations.
Eigenvalues below ``TOLERANCE`` times the largest cannot be distinguished from rounding errors and
count as 0; the solution is then that of least norm for standardised columns. An eigenvalue is the
square of a singular value of the rows. Columns that agree to about 1e-6 of their deviation
therefore count as equal, whereas ``numpy.linalg.lstsq``, which needs all rows at once,
distinguishes them up to 1e-15.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from mixfree.base.arithmetic import MIN_VALUE, Array, norm
from mixfree.linear.exact.sums import Sums

TOLERANCE = 1e-13  # relative to the largest eigenvalue
MIN_RCOND = 1e-8  # reciprocal condition above which a Cholesky factor is accurate enough
CONSTANT_ROUNDING = 4 * np.finfo(np.float64).eps  # deviation over mean that is a rounding error
MAX_BALL_STEPS = 100  # most Newton steps for the multiplier of the ball; usually there are a few


@dataclass(frozen=True, slots=True)
class Solution:
    """Weights of the best linear model, and quantities that intervals need.

    Attributes
    ----------
    weights
        One row per target, in the units of the rows; an intercept is last.
    rank
        Number of directions that the rows determine.
    penalty
        Ridge per unit of weight, including the multiplier of an active ball.
    mean, deviation
        Those of columns and targets; without intercept, 0 and the root mean square. A constant
        column has deviation 0.
    inverse
        Multiplies vectors of standardised columns by the inverse of (correlations + ridge).
    """

    weights: Array
    rank: int
    penalty: float | Array
    mean: Array
    deviation: Array
    inverse: Callable[[Array], Array]


def solve(
    sums: Sums, *, l2: float | Array = 0.0, radius: float | None = None, intercept: bool = True
) -> Solution:
    r"""Find the weights w and intercept b with the least sum of squares, with ridge and ball.

    .. math:: \min_{w,\, b} \sum_i \omega_i \big( \tfrac12 \|y_i - w x_i - b\|^2
              + \tfrac12 \lambda \|w\|^2 \big) \quad \text{with} \quad \|w\| \le r

    Parameters
    ----------
    sums
        Sums of all rows. A row of weight 2 is equivalent to two rows.
    l2
        λ, or one per column. As in scikit-learn's ``Ridge``, the intercept is not penalised, and w
        is in the units of the rows.
    radius
        r. The norm runs over the weights of all targets, without intercepts.
    intercept
        Whether to fit an intercept.

    Examples
    --------
    >>> from mixfree.linear.exact.sums import sums_of
    >>> sums = sums_of(np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]]))
    >>> solve(sums).weights
    array([[2., 1.]])
    >>> solve(sums, radius=0.5).weights
    array([[0.5, 2.5]])
    """
    columns = len(sums.scatter)
    if not intercept:
        sums = sums.about_zero()
    system = _System(sums)
    weights, inverse, rank = system.solved(l2)
    penalty = l2
    if radius is not None and norm(weights.ravel()) > radius:
        weights, inverse, penalty = _in_ball(system, weights, inverse, l2, radius)
    if intercept:
        free = sums.mean[columns:] - weights @ sums.mean[:columns]
        weights = np.column_stack([weights, free])
    return Solution(weights, rank, penalty, sums.mean, system.deviation, inverse)


class _System:
    """The normal equations of standardised columns."""

    def __init__(self, sums: Sums) -> None:
        columns = len(sums.scatter)
        weight = sums.weight if sums.weight > 0.0 else 1.0
        self.deviation = np.sqrt(np.maximum(sums.diagonal, 0.0) / weight)
        still = self.deviation <= np.maximum(CONSTANT_ROUNDING * np.abs(sums.mean), MIN_VALUE)
        self.deviation[still] = 0.0
        root = np.where(still, np.inf, self.deviation)  # a constant column correlates with nothing
        self.columns, self.size = columns, root[:columns]
        rows, others = root[:columns, None], root[columns:]
        self.correlation = sums.scatter / rows / rows.T / weight
        self.cross = sums.cross / rows / others / weight
        self.targets = self.deviation[columns:]

    def solved(self, penalty: float | Array) -> tuple[Array, Callable[[Array], Array], int]:
        """Return weights in the units of the rows, the inverse behind them, and the rank."""
        inverse, rank = self._factored(penalty)
        return self._own(inverse(self.cross)).T, inverse, rank

    def _own(self, standardised: Array) -> Array:
        """Convert standardised weights to the units of the rows."""
        return standardised / self.size[:, None] * self.targets

    def slope(self, weights: Array, inverse: Callable[[Array], Array], length: float) -> float:
        """Return −½ d‖w‖²/dpenalty over ‖w‖², at ‖w‖ = ``length``."""
        x = (weights / length).T / self.size[:, None]
        return float(np.sum(x * inverse(x)))

    def _factored(self, penalty: float | Array) -> tuple[Callable[[Array], Array], int]:
        """Return the inverse of (correlations + penalty/size²), and the rank of the matrix."""
        varies = np.isfinite(self.size)
        matrix = self.correlation.copy()
        with np.errstate(over="ignore", under="ignore"):
            ridge = np.minimum(np.where(varies, penalty / self.size / self.size, 0.0), 1e300)
        # Scaled to a unit diagonal again, so that no ridge makes the condition worse.
        scale = 1.0 / np.sqrt(1.0 + ridge)
        matrix *= scale[:, None]
        matrix *= scale
        np.fill_diagonal(matrix, np.where(varies, 1.0, 0.0))
        solver, rank = _inverse_of(matrix, varies)
        return _Scaled(scale[:, None], solver), rank


# The inverses are classes rather than functions, so that estimators can be pickled.
@dataclass(frozen=True, slots=True)
class _Scaled:
    """An inverse between two diagonal matrices."""

    scale: Array
    solver: Callable[[Array], Array]

    def __call__(self, vectors: Array) -> Array:
        return self.scale * self.solver(self.scale * vectors)


@dataclass(frozen=True, slots=True)
class _Cholesky:
    """The inverse by a Cholesky factor."""

    factor: Array

    def __call__(self, vectors: Array) -> Array:
        solved: Array = lapack.dpotrs(self.factor, vectors, lower=1)[0]
        return solved


@dataclass(frozen=True, slots=True)
class _Spectral:
    """The pseudo-inverse by the eigenvectors that are kept."""

    basis: Array
    values: Array

    def __call__(self, vectors: Array) -> Array:
        solved: Array = self.basis @ ((self.basis.T @ vectors) / self.values)
        return solved


def _inverse_of(matrix: Array, varies: Array) -> tuple[Callable[[Array], Array], int]:
    """Return the inverse or pseudo-inverse of a correlation matrix, and its rank."""
    if varies.size == 0 or not varies.any():
        return np.zeros_like, 0
    if varies.all():
        factor, failed = lapack.dpotrf(matrix, lower=1, clean=0)
        if not failed:
            largest = float(np.abs(matrix).sum(axis=0).max())
            well, _ = lapack.dpocon(factor, largest, uplo="L")
            if well >= MIN_RCOND:
                return _Cholesky(factor), varies.size
    values, vectors = np.linalg.eigh(matrix)
    kept = values > TOLERANCE * values[-1]
    values, basis = values[kept], vectors[:, kept]
    return _Spectral(basis, values[:, None]), int(kept.sum())


def _in_ball(
    system: _System,
    weights: Array,
    inverse: Callable[[Array], Array],
    l2: float | Array,
    radius: float,
) -> tuple[Array, Callable[[Array], Array], float | Array]:
    """Find the solution on the ball by Newton's method for its multiplier (Moré and Sorensen 1983).

    1/‖w(penalty)‖ is nearly linear and concave in the penalty, so that Newton steps from the left
    converge without overshooting.
    """
    penalty = l2
    for _ in range(MAX_BALL_STEPS):
        length = norm(weights.ravel())
        if length <= radius * (1.0 + 1e-14):
            break
        step = (length / radius - 1.0) / system.slope(weights, inverse, length)
        if not np.any(penalty + step > penalty):
            break
        penalty = penalty + step
        weights, inverse, _ = system.solved(penalty)
    length = norm(weights.ravel())
    return weights * min(1.0, radius / length) if length else weights, inverse, penalty
