"""Weighted sums of rows about their mean: sufficient statistics of least squares."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from mixfree.base.arithmetic import MAX_VALUE, Array
from mixfree.base.state import State
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.products import Products

MAX_OFFSET = 4.0  # (mean/deviation)² up to which sums about 0 lose less than three bits
MAX_ROW_OFFSET = 64.0  # the same, for sums about a first row and six bits
MAX_STACKED_ROWS = 1024  # rows per block below which multiplying all blocks at once is faster


@dataclass(frozen=True, slots=True)
class Sums(State):
    r"""Weight, mean and centred products of rows x with targets y; immutable.

    .. math:: S = \sum_i w_i (x_i - \bar x)(x_i - \bar x)^\top, \qquad
              c = \sum_i w_i (x_i - \bar x)(y_i - \bar y)^\top

    All arrays may have a leading axis, for the sums of several blocks.

    Attributes
    ----------
    rows
        Number of rows of each block.
    weight
        Sum of the rows' weights.
    mean
        Weighted means of all columns, then of all targets.
    scatter, cross, squares
        S, c and Σ w (y − ȳ)² of each target.
    """

    rows: int
    weight: Array
    mean: Array
    scatter: Array
    cross: Array
    squares: Array

    @classmethod
    def nothing(cls, columns: int, targets: int) -> Self:
        """Return the sums of no rows."""
        return cls(
            0,
            np.zeros(()),
            np.zeros(columns + targets),
            np.zeros((columns, columns)),
            np.zeros((columns, targets)),
            np.zeros(targets),
        )

    def check(self, what: str) -> None:
        """Numbers of rows and their weights are not negative."""
        if self.rows < 0 or (self.weight < 0.0).any():
            raise ValueError(f"state of the {what} does not fit: its weight is negative")

    @property
    def diagonal(self) -> Array:
        """Centred squares of all columns, then of all targets."""
        return np.concatenate([_diagonal(self.scatter), self.squares], axis=-1)

    @property
    def near(self) -> bool:
        """Whether sums about 0 would have been accurate."""
        return bool((self.mean**2 * self.weight[..., None] <= MAX_OFFSET * self.diagonal).all())

    def __len__(self) -> int:
        return len(self.weight)

    def __getitem__(self, place: int | slice) -> Self:
        """Return the sums of one block, or of several."""
        return type(self)(self.rows, *(np.asarray(array[place]) for array in self._arrays))

    def __iter__(self) -> Iterator[Self]:
        """Return the blocks one by one."""
        return (self[place] for place in range(len(self)))

    @property
    def _arrays(self) -> tuple[Array, Array, Array, Array, Array]:
        return self.weight, self.mean, self.scatter, self.cross, self.squares

    def joined(self, other: Self) -> Self:
        """Return the sums of both sets of rows (Chan, Golub and LeVeque 1979)."""
        if not self.rows or not other.rows:
            return other if not self.rows else self
        weight = np.asarray(self.weight + other.weight)
        share = other.weight / weight
        move = other.mean - self.mean
        mean = self.mean + move * share[..., None]
        apart = move * np.sqrt(self.weight * share)[..., None]
        return type(self)(self.rows + other.rows, weight, mean, *_added(apart, self, other))

    def combined(self) -> Self:
        """Return the sums of all blocks together."""
        weight = np.asarray(self.weight.sum())
        mean = self.mean[0] + (self.weight / weight) @ (self.mean - self.mean[0])
        apart = (self.mean - mean) * np.sqrt(self.weight)[:, None]
        columns = self.scatter.shape[-1]
        x, y = apart[:, :columns], apart[:, columns:]
        return type(self)(
            self.rows * len(self),
            weight,
            mean,
            self.scatter.sum(axis=0) + x.T @ x,
            self.cross.sum(axis=0) + x.T @ y,
            self.squares.sum(axis=0) + np.einsum("ij,ij->j", y, y),
        )

    def about_zero(self) -> Self:
        """Return sums about 0 instead of the mean, for models without intercept."""
        apart = self.mean * np.sqrt(self.weight)[..., None]
        added = _added(apart, self)
        return type(self)(self.rows, self.weight, np.zeros_like(self.mean), *added)

    def mapped(self, change: ColumnMap) -> Self:
        """Return the sums of the same rows for mapped columns."""
        mean, targets = np.split(self.mean, [change.before], axis=-1)
        scatter = change.products(self.scatter)
        cross = change.rows(self.cross.swapaxes(-1, -2)).swapaxes(-1, -2)
        constant = change.cancelled(_diagonal(self.scatter), _diagonal(scatter))
        scatter[constant], cross[constant] = 0.0, 0.0
        scatter.swapaxes(-1, -2)[constant] = 0.0
        mean = np.concatenate([change.rows(mean), targets], axis=-1)
        return type(self)(
            self.rows, self.weight, mean, scatter, np.ascontiguousarray(cross), self.squares
        )


def stacked(parts: Sequence[Sums]) -> Sums:
    """Stack blocks of the same length, or join stacks of them, along a leading axis."""
    join = np.concatenate if parts[0].weight.ndim else np.stack
    arrays = zip(*(part._arrays for part in parts), strict=True)
    return Sums(parts[0].rows, *map(join, arrays))


def sums_of(
    rows: Array, targets: Array, weights: Array | None = None, *, quick: bool = False
) -> Sums | None:
    """Sum rows of any offset, with positive weights; no size exceeds ``MAX_VALUE``.

    Parameters
    ----------
    rows, targets, weights
        A matrix, a matrix and a vector; or several of each along a leading axis.
    quick
        Take products about 0 and move them to the mean afterwards. That is accurate as long as no
        mean is much larger than its column's deviation; the result is None otherwise, and if an
        unweighted value may be too large or is not finite.

    Examples
    --------
    >>> sums = sums_of(np.array([[1e9], [1e9 + 2]]), np.array([[1.0], [3.0]]))
    >>> sums.scatter, sums.cross
    (array([[2.]]), array([[2.]]))
    """
    columns = rows.shape[-1]
    if quick and rows.shape[-2] > columns:  # moving a few rows is faster than moving their products
        return _products(rows, targets, weights, None, quick=True)
    origin = np.concatenate([rows[..., 0, :], targets[..., 0, :]], axis=-1)
    for _ in range(2):
        x = rows - origin[..., None, :columns]
        y = targets - origin[..., None, columns:]
        sums = _products(x, y, weights, origin)
        assert sums is not None
        moved = sums.mean - origin
        if (
            rows.shape[-2] <= columns
            or (moved**2 * sums.weight[..., None] <= MAX_ROW_OFFSET * sums.diagonal).all()
        ):
            break
        origin = sums.mean  # the first row was far from the others
    return sums


@np.errstate(over="ignore", invalid="ignore")  # values that are too large are refused later
def _products(
    x: Array, y: Array, weights: Array | None, origin: Array | None, quick: bool = False
) -> Sums | None:
    """Sum deviations from ``origin``; None for ``quick`` sums that need another origin."""
    n, columns = x.shape[-2:]
    root = None if weights is None else np.sqrt(weights)[..., None]
    count = np.full(x.shape[:-2], float(n)) if weights is None else weights.sum(axis=-1)
    weight = np.asarray(count)
    few = n <= columns  # then rows, not products, are moved to the mean
    if few:
        total = _first(x, y, weights)
        mean = total / weight[..., None]
        x, y = x - mean[..., None, :columns], y - mean[..., None, columns:]
        gram = _gram(x, y, root)
    else:
        gram = _gram(x, y, root)
        total = gram[..., -1, :-1]
        mean = total / weight[..., None]
    scatter, cross = gram[..., :columns, :columns], gram[..., :columns, columns:-1]
    squares = _diagonal(gram)[..., columns:-1]
    if quick:
        diagonal = np.concatenate([_diagonal(scatter), squares], axis=-1)
        far = total * mean
        if weight.ndim:
            # All rows of a small block may be equal, so blocks are judged together.
            diagonal, whole = diagonal.sum(axis=0), total.sum(axis=0)
            far = whole / weight.sum() * whole
        near = (far * (1.0 + 1.0 / MAX_OFFSET) <= diagonal).all()
        if not (near and diagonal.max(initial=0.0) <= MAX_VALUE**2):  # NaN is neither
            return None
    if few:
        scatter, cross, squares = scatter.copy(), cross.copy(), squares.copy()
    else:
        scatter = not_negative(scatter - total[..., :columns, None] * mean[..., None, :columns])
        cross = cross - total[..., :columns, None] * mean[..., None, columns:]
        squares = np.maximum(squares - (total * mean)[..., columns:], 0.0)
    if origin is not None:
        mean = origin + mean
    return Sums(n, weight, mean, scatter, cross, squares)


def not_negative(scatter: Array) -> Array:
    """Replace squares that rounding has made negative by 0, in place.

    Examples
    --------
    >>> not_negative(np.array([[-1e-18, 0.0], [0.0, 1.0]]))
    array([[0., 0.],
           [0., 1.]])
    """
    squares = np.einsum("...ii->...i", scatter)  # a view
    np.maximum(squares, 0.0, out=squares)
    return scatter


def _first(x: Array, y: Array, weights: Array | None) -> Array:
    """Return weighted sums of columns and targets."""
    line = np.ones(x.shape[:-1]) if weights is None else weights
    line = line[..., None, :]
    return np.concatenate([(line @ x)[..., 0, :], (line @ y)[..., 0, :]], axis=-1)


def _gram(x: Array, y: Array, root: Array | None) -> Array:
    """Return the products of (columns, targets, 1) with each other, summed over rows."""
    n, columns = x.shape[-2:]
    size = columns + y.shape[-1] + 1
    if x.ndim > 2 and n < MAX_STACKED_ROWS:  # copied side by side, for one product
        z = np.empty((*x.shape[:-1], size))
        z[..., :columns], z[..., columns:-1], z[..., -1] = x, y, 1.0
        if root is not None:
            z *= root
        several: Array = z.swapaxes(-1, -2) @ z
        return several
    gram = np.zeros((*x.shape[:-2], size, size))
    if x.ndim > 2:
        for place in range(len(x)):
            gram[place] = _gram(x[place], y[place], None if root is None else root[place])
        return gram
    products = Products(columns)
    for start in range(0, n, products.piece):
        piece = slice(start, start + products.piece)
        rows, others = x[piece], np.ones((len(x[piece]), size - columns))
        others[:, :-1] = y[piece]
        if root is not None:
            rows = rows * root[piece]
            others *= root[piece]
        products.add(rows)
        gram[:columns, columns:] += rows.T @ others
        gram[columns:, columns:] += others.T @ others
    gram[:columns, :columns] = products.total
    gram[columns:, :columns] = gram[:columns, columns:].T
    return gram


def _added(apart: Array, *parts: Sums) -> tuple[Array, Array, Array]:
    """Add scatter, cross and squares of sums, whose means are ``apart``."""
    columns = parts[0].scatter.shape[-1]
    x, y = apart[..., :columns], apart[..., columns:]
    scatter = x[..., :, None] * x[..., None, :]
    cross = x[..., :, None] * y[..., None, :]
    squares = y * y
    for part in parts:
        scatter += part.scatter
        cross += part.cross
        squares += part.squares
    return scatter, cross, squares


def _diagonal(scatter: Array) -> Array:
    return np.diagonal(scatter, axis1=-2, axis2=-1)
