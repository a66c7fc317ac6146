"""Weighted sums of rows about their mean: sufficient statistics of least squares."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mixfree.base.arithmetic import MAX_VALUE, Array
from mixfree.base.checks import check_values
from mixfree.base.state import State
from mixfree.linear.exact.mapping import ColumnMap

MAX_OFFSET = 16.0  # (mean/deviation)² up to which sums about another origin lose four bits


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
        shift = move * np.sqrt(self.weight * share)[..., None]
        return type(self)(self.rows + other.rows, weight, mean, *_added(shift, self, other))

    def combined(self) -> Self:
        """Return the sums of all blocks together."""
        weight = np.asarray(self.weight.sum())
        mean = self.mean[0] + (self.weight / weight) @ (self.mean - self.mean[0])
        shift = (self.mean - mean) * np.sqrt(self.weight)[:, None]
        x, y = np.split(shift, [self.scatter.shape[-1]], axis=1)
        scatter, cross = self.scatter.sum(axis=0) + x.T @ x, self.cross.sum(axis=0) + x.T @ y
        squares = self.squares.sum(axis=0) + np.einsum("ij,ij->j", y, y)
        return type(self)(self.rows * len(self), weight, mean, scatter, cross, squares)

    def about_zero(self) -> Self:
        """Return sums about 0 instead of the mean, for models without intercept."""
        shift = self.mean * np.sqrt(self.weight)[..., None]
        added = _added(shift, self)
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
    rows: Any,
    targets: Array,
    weights: Array | None = None,
    *,
    before: Sums | None = None,
    blocks: int = 1,
) -> Sums:
    """Sum rows of any offset, with positive weights, or each of several equally long blocks.

    Products are about 0 if that was accurate for the rows ``before``, and otherwise about the first
    row, but about the mean before where the first row is an outlier, as indicators are. If that
    turns out to be far from the mean, products about it follow.
    """
    given = rows, targets, weights, blocks
    if before is not None and before.near:
        if weights is not None:  # else the sums show values that are too large
            check_values(rows=np.asarray(rows), targets=targets)
        sums, accurate = _sums_about(None, *given)
        if accurate:
            return sums
    check_values(rows=np.asarray(rows), targets=targets)
    each = slice(None, None, max(len(targets) // blocks, 1))
    origin = np.hstack([np.asarray(rows[each]), targets[each]])[:blocks]
    if before is not None:
        origin = origin_of(origin, before.mean, before.weight, before.diagonal)
    sums, accurate = _sums_about(origin, *given)
    if not accurate:
        sums, _ = _sums_about(np.atleast_2d(sums.mean), *given)
    return sums


def origin_of(first: Array, mean: Array, weight: Array, diagonal: Array) -> Array:
    """Return the first row, but the mean of the rows before where it is an outlier of theirs."""
    outlier = (first - mean) ** 2 * weight > MAX_OFFSET * diagonal
    return np.where(outlier & (diagonal > 0.0), mean, first)


@np.errstate(over="ignore", invalid="ignore")  # values that are too large are refused later
def _sums_about(
    origin: Array | None, x: Any, y: Array, weights: Array | None, blocks: int
) -> tuple[Sums, bool]:
    """Sum deviations from ``origin``; return also whether these sums are accurate."""
    columns, length, grams = x.shape[1], len(y) // blocks, list[Array]()
    weight = np.full(blocks, length, float)
    by_row = isinstance(x, np.ndarray) and x.flags.c_contiguous
    # NumPy multiplies a matrix with itself in half the time, symmetric to the last bit, and with
    # the same bits whether its rows or its columns are contiguous.
    z = np.empty((length, columns + y.shape[1] + 1), order="C" if by_row else "F")  # x, y and 1
    for place in range(blocks):
        here = slice(place * length, (place + 1) * length)
        if isinstance(x, np.ndarray):
            z[:, :columns] = x[here]
        else:
            x[here].write(z[:, :columns])
        z[:, columns:-1], z[:, -1] = y[here], 1.0
        if origin is not None:
            z[:, :-1] -= origin[place]
        if weights is not None:
            weight[place] = weights[here].sum()
            z *= np.sqrt(weights[here])[:, None]
        grams.append(np.dot(z.T, z))  # unlike @, it lets other threads go on
    gram = np.stack(grams)
    total, diagonal = gram[:, -1, :-1], _diagonal(gram)[:, :-1]
    mean = total / weight[:, None]
    far = total * mean
    # All rows of a small block may be equal, so blocks are examined together.
    square, whole = diagonal.sum(axis=0), far.sum(axis=0)
    accurate = bool((whole * (1.0 + 1.0 / MAX_OFFSET) <= square).all())
    accurate = accurate and bool(square.max(initial=0.0) <= MAX_VALUE**2)  # NaN is neither
    rest = total[:, :columns, None] * mean[:, None, :]
    scatter = not_negative(gram[:, :columns, :columns] - rest[..., :columns])
    cross = gram[:, :columns, columns:-1] - rest[..., columns:]
    squares = np.maximum((diagonal - far)[:, columns:], 0.0)
    mean = mean if origin is None else origin + mean
    found = Sums(length, weight, mean, scatter, cross, squares)
    return found if blocks > 1 else found[0], accurate


def not_negative(scatter: Array) -> Array:
    """Replace squares that rounding has made negative by 0, in place."""
    squares = np.einsum("...ii->...i", scatter)  # a view
    np.maximum(squares, 0.0, out=squares)
    return scatter


def _added(shift: Array, *parts: Sums) -> tuple[Array, Array, Array]:
    """Add scatter, cross and squares of sums, whose means are ``shift``."""
    columns = parts[0].scatter.shape[-1]
    x, y = shift[..., :columns], shift[..., columns:]
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
