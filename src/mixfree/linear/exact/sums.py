"""Weighted sums of rows about their mean: sufficient statistics of least squares."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from mixfree.base.arithmetic import MAX_VALUE, Array
from mixfree.base.checks import check_values
from mixfree.base.state import State
from mixfree.linear.exact.mapping import ColumnMap

MAX_OFFSET = 16.0  # (mean/deviation)² up to which sums about another origin lose four bits
MAX_STACKED_ROWS = 1024  # rows per block below which multiplying all blocks at once is faster
MAX_STACKED_TARGETS = 16  # targets up to which columns and targets are multiplied in one product
PIECE_VALUES = 1 << 17  # values multiplied at a time, which stay in a cache: 1 MB
MIN_PIECE_ROWS = 1024  # least rows multiplied at a time: with fewer, BLAS is slower


@dataclass(frozen=True, slots=True)
class Sums(State):
    r"""Weight, mean and centred products of rows x with targets y; immutable.

    .. math:: S = \sum_i w_i (x_i - \bar x)(x_i - \bar x)^\top, \qquad
              c = \sum_i w_i (x_i - \bar x)(y_i - \bar y)^\top

    All arrays may have a leading axis, for the sums of several blocks.
    """

    rows: int  # of each block
    weight: Array  # sum of the rows' weights
    mean: Array  # weighted, of all columns, then of all targets
    scatter: Array  # S
    cross: Array  # c
    squares: Array  # Σ w (y − ȳ)² of each target

    @classmethod
    def nothing(cls, columns: int, targets: int) -> Self:
        """Return the sums of no rows."""
        products = np.zeros((columns, columns)), np.zeros((columns, targets)), np.zeros(targets)
        return cls(0, np.zeros(()), np.zeros(columns + targets), *products)

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
        x, y = np.split(apart, [self.scatter.shape[-1]], axis=1)
        scatter, cross = self.scatter.sum(axis=0) + x.T @ x, self.cross.sum(axis=0) + x.T @ y
        squares = self.squares.sum(axis=0) + np.einsum("ij,ij->j", y, y)
        return type(self)(self.rows * len(self), weight, mean, scatter, cross, squares)

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
        products = scatter, np.ascontiguousarray(cross), self.squares
        return type(self)(self.rows, self.weight, mean, *products)


def stacked(parts: Sequence[Sums]) -> Sums:
    """Stack blocks of the same length, or join stacks of them, along a leading axis."""
    join = np.concatenate if parts[0].weight.ndim else np.stack
    arrays = zip(*(part._arrays for part in parts), strict=True)
    return Sums(parts[0].rows, *map(join, arrays))


def sums_of(
    rows: Array, targets: Array, weights: Array | None = None, *, before: Sums | None = None
) -> Sums:
    """Sum rows of any offset, with positive weights, or several blocks along a leading axis.

    Products are about 0 if that was accurate for the rows ``before``, and otherwise about the first
    row, but about the mean before where the first row is an outlier, as indicators are. If that
    turns out to be far from the mean, products about it follow.
    """
    if before is not None and before.near:
        if weights is not None:  # else the sums show values that are too large
            check_values(rows=rows, targets=targets)
        sums, accurate = _sums_about(None, rows, targets, weights)
        if accurate:
            return sums
    check_values(rows=rows, targets=targets)
    origin = np.concatenate([rows[..., 0, :], targets[..., 0, :]], axis=-1)
    if before is not None:
        outlier = (origin - before.mean) ** 2 * before.weight > MAX_OFFSET * before.diagonal
        origin = np.where(outlier & (before.diagonal > 0.0), before.mean, origin)
    sums, accurate = _sums_about(origin, rows, targets, weights)
    if not accurate:
        sums, _ = _sums_about(sums.mean, rows, targets, weights)
    return sums


@np.errstate(over="ignore", invalid="ignore")  # values that are too large are refused later
def _sums_about(
    origin: Array | None, x: Array, y: Array, weights: Array | None
) -> tuple[Sums, bool]:
    """Sum deviations from ``origin``; return also whether these sums are accurate."""
    n, columns = x.shape[-2:]
    if origin is not None:
        x, y = x - origin[..., None, :columns], y - origin[..., None, columns:]
    scatter, cross, ends = _products(x, y, None if weights is None else np.sqrt(weights)[..., None])
    weight = np.asarray(np.full(x.shape[:-2], float(n)) if weights is None else weights.sum(-1))
    total = np.concatenate([cross[..., -1], ends[..., 0, :]], axis=-1)
    diagonal = np.concatenate([_diagonal(scatter), ends[..., 1, :]], axis=-1)
    mean = total / weight[..., None]
    far = total * mean
    # All rows of a small block may be equal, so blocks are judged together.
    square, whole = (each.sum(axis=0) if weight.ndim else each for each in (diagonal, far))
    accurate = bool((whole * (1.0 + 1.0 / MAX_OFFSET) <= square).all())
    accurate = accurate and bool(square.max(initial=0.0) <= MAX_VALUE**2)  # NaN is neither
    rest = total[..., :columns, None] * mean[..., None, :]
    scatter = not_negative(scatter - rest[..., :columns])
    cross = cross[..., :-1] - rest[..., columns:]
    squares = np.maximum((diagonal - far)[..., columns:], 0.0)
    mean = mean if origin is None else origin + mean
    return Sums(n, weight, mean, scatter, cross, squares), accurate


def not_negative(scatter: Array) -> Array:
    """Replace squares that rounding has made negative by 0, in place."""
    squares = np.einsum("...ii->...i", scatter)  # a view
    np.maximum(squares, 0.0, out=squares)
    return scatter


def _products(x: Array, y: Array, root: Array | None) -> tuple[Array, Array, Array]:
    """Return products of columns, those of columns with targets and 1, and of each target.

    The last has the sums of the targets and of their squares.
    """
    n, columns = x.shape[-2:]
    if x.ndim > 2 and n >= MAX_STACKED_ROWS:
        roots = [None] * len(x) if root is None else root
        scatter, cross, ends = map(np.stack, zip(*map(_products, x, y, roots), strict=True))
        return scatter, cross, ends
    others = np.ones((*y.shape[:-1], y.shape[-1] + 1))
    others[..., :-1] = y
    others = others if root is None else others * root
    ones = np.ones(n) if root is None else root[..., 0]
    if x.ndim == 2:
        scatter, cross = np.zeros((columns, columns)), np.zeros((columns, others.shape[1]))
        length = max(1 << (PIECE_VALUES // max(columns, 1)).bit_length() >> 1, MIN_PIECE_ROWS)
        for piece in (slice(start, start + length) for start in range(0, n, length)):
            rows = x[piece] if root is None else x[piece] * root[piece]
            # NumPy multiplies a matrix with itself in half the time, symmetric to the last bit.
            scatter += rows.T @ rows
            cross += rows.T @ others[piece]
    else:
        rows = x if root is None else x * root
        if others.shape[-1] <= MAX_STACKED_TARGETS:  # copied side by side, for one product
            both = np.concatenate([rows, others], axis=-1)
            gram = both.swapaxes(-1, -2) @ both
            scatter, cross = gram[..., :columns, :columns], gram[..., :columns, columns:]
        else:
            scatter, cross = (rows.swapaxes(-1, -2) @ each for each in (rows, others))
    y = others[..., :-1]
    ends = np.stack(
        [np.einsum("...n,...nt->...t", ones, y), np.einsum("...nt,...nt->...t", y, y)], -2
    )
    return scatter, cross, ends


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
