r"""Least squares from sums, with a ridge, a ball, and columns of any size or dependence.

The system is solved for standardised columns, whose matrix is that of their correlations. Its
eigenvalues below ``TOLERANCE`` of the largest cannot be told from rounding and count as 0; the
solution is then the one of least norm in standardised columns. An eigenvalue is the square of
a singular value of the rows, so that columns which agree to about 1e-6 of their deviation count
as the same, where ``numpy.linalg.lstsq``, which needs all rows at once, tells them apart to 1e-15.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from mixfree.base.arithmetic import Array, norm
from mixfree.linear.exact.sums import Sums

TOLERANCE = 1e-13  # relative to the largest eigenvalue
WELL = 1e-8  # reciprocal condition number from which a Cholesky factor loses too little to matter
CONSTANT = 4 * np.finfo(np.float64).eps  # deviation over mean that is only rounding
ROUNDS = 100  # Newton steps for the multiplier of the ball, of which a few are usual


@dataclass(frozen=True, slots=True)
class Solution:
    """Weights of the best linear model, and what intervals need to know of it.

    Attributes
    ----------
    weights
        One row per target, in the rows' own units; the intercept, if there is one, is last.
    rank
        Number of directions that the rows determine.
    penalty
        Ridge per unit of weight, the multiplier of an active ball included.
    mean, deviation
        Of the columns and targets; 0 and the root mean square without intercept. A column that
        does not vary has deviation 0.
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
    r"""The weights w and intercept b that minimise a mean of squares under a ridge and a ball.

    .. math:: \min_{w,\, b} \sum_i \omega_i \big( \tfrac12 \|y_i - w x_i - b\|^2
              + \tfrac12 \lambda \|w\|^2 \big) \quad \text{with} \quad \|w\| \le r

    Parameters
    ----------
    sums
        Of all rows.
    l2
        λ, or one per column. As in scikit-learn's ``Ridge`` the intercept is free, and w is in the
        rows' own units.
        A row of weight 2 is the same as two rows.
    radius
        r; the norm is that of the weights of all targets together, without intercepts.
    intercept
        Whether there is one.

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
        with np.errstate(over="ignore"):
            free = sums.mean[columns:] - weights @ sums.mean[:columns]
        weights = np.column_stack([weights, free])
    return Solution(weights, rank, penalty, sums.mean, system.deviation, inverse)


class _System:
    """The normal equations of standardised columns."""

    def __init__(self, sums: Sums) -> None:
        columns = len(sums.scatter)
        weight = sums.weight if sums.weight > 0.0 else 1.0
        with np.errstate(over="ignore", under="ignore"):
            root = np.sqrt(np.maximum(sums.diagonal, 0.0) / weight)
            self.deviation = np.ldexp(root, sums.exponents)
        still = self.deviation <= CONSTANT * np.abs(sums.mean)
        self.deviation[still] = 0.0
        root = np.where(still, np.inf, root)  # what does not vary correlates with nothing
        self.columns = columns
        self.size = np.where(still, np.inf, self.deviation)[:columns]
        rows, others = root[:columns, None], root[columns:]
        self.correlation = sums.scatter / rows / rows.T / weight
        self.cross = sums.cross / rows / others / weight
        self.targets = self.deviation[columns:]

    def solved(self, penalty: float | Array) -> tuple[Array, Callable[[Array], Array], int]:
        """Weights in the rows' own units, the inverse that gave them, and the rank."""
        inverse, rank = self._factored(penalty)
        return self._own(inverse(self.cross)).T, inverse, rank

    def _own(self, standardised: Array) -> Array:
        """Weights in the rows' own units of those of standardised columns and targets."""
        with np.errstate(over="ignore"):
            return standardised / self.size[:, None] * self.targets

    def slope(self, weights: Array, inverse: Callable[[Array], Array], length: float) -> float:
        """−½ d‖w‖²/dpenalty over ‖w‖², at ‖w‖ = ``length``."""
        x = (weights / length).T / self.size[:, None]
        return float(np.sum(x * inverse(x)))

    def _factored(self, penalty: float | Array) -> tuple[Callable[[Array], Array], int]:
        """The inverse of (correlations + penalty/size²), and the rank of the matrix."""
        varies = np.isfinite(self.size)
        matrix = self.correlation.copy()
        with np.errstate(over="ignore", under="ignore"):
            ridge = np.minimum(np.where(varies, penalty / self.size / self.size, 0.0), 1e300)
        # Once more to a unit diagonal, so that a ridge of any size leaves the condition good.
        scale = 1.0 / np.sqrt(1.0 + ridge)
        matrix *= scale[:, None]
        matrix *= scale
        np.fill_diagonal(matrix, np.where(varies, 1.0, 0.0))
        solver, rank = _inverse_of(matrix, varies)
        return _Scaled(scale[:, None], solver), rank


# The inverses are classes and not functions, because an estimator that has one is pickled.
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
    """The inverse, or pseudo-inverse, of a correlation matrix as a function, and its rank."""
    if varies.size == 0 or not varies.any():
        return np.zeros_like, 0
    if varies.all():
        factor, failed = lapack.dpotrf(matrix, lower=1, clean=0)
        if not failed:
            largest = float(np.abs(matrix).sum(axis=0).max())
            well, _ = lapack.dpocon(factor, largest, uplo="L")
            if well >= WELL:
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
    """The solution on the ball: the multiplier by Newton's method (Moré and Sorensen 1983).

    1/‖w(penalty)‖ is nearly linear in the penalty and concave, so that Newton's steps from the
    left come ever closer and never go too far.
    """
    penalty = l2
    for _ in range(ROUNDS):
        length = norm(weights.ravel())
        if length <= radius * (1.0 + 1e-14):
            break
        step = (length / radius - 1.0) / system.slope(weights, inverse, length)
        if not np.all(penalty + step > penalty):
            break
        penalty = penalty + step
        weights, inverse, _ = system.solved(penalty)
    length = norm(weights.ravel())
    return weights * min(1.0, radius / length) if length else weights, inverse, penalty
