"""Weighted sums of rows about their own mean: all that least squares needs to know of them."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mixfree.base.arithmetic import Array

LARGEST = 2.0**1000  # values beyond it are refused: differences and products could overflow
BIG, SMALL = 2.0**250, 2.0**-250  # sizes whose squares and products lose nothing
EMPTY = -(1 << 14)  # exponent of a column that has not varied yet
NEAR = 4.0  # (mean/deviation)² up to which sums about 0 lose less than three bits
FAR = 64.0  # the same for sums about a block's first row, where six bits may be lost


@dataclass(frozen=True, slots=True)
class Sums:
    r"""Weight, mean and centred products of rows x with targets y; a value, never changed.

    .. math:: S = \sum_i w_i (x_i - \bar x)(x_i - \bar x)^\top, \qquad
              c = \sum_i w_i (x_i - \bar x)(y_i - \bar y)^\top

    Attributes
    ----------
    rows, weight
        Number of rows and sum of their weights.
    mean
        Weighted means of all columns, then of all targets.
    scatter, cross, squares
        S, c and Σ w (y − ȳ)² of each target, in units of 2^exponent per column and target.
    exponent
        Of the columns' units, then of the targets'; None where all are 0, as is usual. Units are
        powers of two, so that they cost no digit.
    """

    rows: int
    weight: float
    mean: Array
    scatter: Array
    cross: Array
    squares: Array
    exponent: Array | None = None

    @classmethod
    def nothing(cls, columns: int, targets: int) -> Self:
        """The sums of no rows."""
        return cls(
            0,
            0.0,
            np.zeros(columns + targets),
            np.zeros((columns, columns)),
            np.zeros((columns, targets)),
            np.zeros(targets),
        )

    @property
    def exponents(self) -> Array:
        """Exponents of the units of all columns and targets."""
        return np.zeros(self.mean.size, dtype=np.int64) if self.exponent is None else self.exponent

    @property
    def diagonal(self) -> Array:
        """Centred squares of all columns, then of all targets, in their units."""
        return np.concatenate([self.scatter.diagonal(), self.squares])

    def joined(self, other: Self) -> Self:
        """The sums of both lots of rows (Chan, Golub and LeVeque 1979)."""
        if not self.rows or not other.rows:
            return other if not self.rows else self
        weight = self.weight + other.weight
        move = other.mean - self.mean
        mean = self.mean + move * (other.weight / weight)
        apart = move * np.sqrt(self.weight * (other.weight / weight))
        size = np.abs(apart)
        usual = self.exponent is None and other.exponent is None
        if not usual or size.max() >= BIG or ((size < SMALL) & (size > 0.0)).any():
            return self._joined_in_units(other, weight, mean, apart)
        columns = len(self.scatter)
        x, y = apart[:columns, None], apart[columns:]
        scatter = x * apart[:columns]
        scatter += self.scatter
        scatter += other.scatter
        cross = x * y
        cross += self.cross
        cross += other.cross
        squares = self.squares + other.squares + y * y
        return type(self)(self.rows + other.rows, weight, mean, scatter, cross, squares)

    def about_zero(self) -> Self:
        """Products about 0 instead of the mean, which is then 0: for models without intercept."""
        apart = self.mean * np.sqrt(self.weight)
        nothing = type(self).nothing(*self.cross.shape)
        return self._joined_in_units(nothing, self.weight, np.zeros_like(self.mean), apart)

    def discounted(self, factor: float) -> Self:
        """The same rows with all weights multiplied by ``factor``."""
        return replace(
            self,
            weight=self.weight * factor,
            scatter=self.scatter * factor,
            cross=self.cross * factor,
            squares=self.squares * factor,
        )

    def in_units(self, exponent: Array) -> Self:
        """The same sums in units of 2^exponent."""
        change = np.clip(self.exponents - exponent, -2200, 2200)
        columns = len(self.scatter)
        x, y = change[:columns, None], change[None, columns:]
        return replace(
            self,
            scatter=np.ldexp(self.scatter, x + x.T),
            cross=np.ldexp(self.cross, x + y),
            squares=np.ldexp(self.squares, 2 * y[0]),
            exponent=exponent if exponent.any() else None,
        )

    def _joined_in_units(self, other: Self, weight: float, mean: Array, apart: Array) -> Self:
        parts = [_unit_of(np.abs(apart))]
        parts += [np.where(each.diagonal > 0.0, each.exponents, EMPTY) for each in (self, other)]
        exponent = np.max(parts, axis=0)
        exponent[exponent == EMPTY] = 0
        columns = len(self.scatter)
        apart = np.ldexp(apart, np.clip(-exponent, -2200, 2200))
        x, y = apart[:columns], apart[columns:]
        a, b = self.in_units(exponent), other.in_units(exponent)
        return replace(
            a,
            rows=self.rows + other.rows,
            weight=weight,
            mean=mean,
            scatter=a.scatter + b.scatter + np.outer(x, x),
            cross=a.cross + b.cross + np.outer(x, y),
            squares=a.squares + b.squares + y * y,
        )


def sums_about_zero(rows: Array, targets: Array) -> Sums | None:
    """The sums of rows of weight 1, in the quickest way; None where that could lose digits.

    Products are taken about 0 and moved to the mean afterwards, which costs nothing as long as
    no mean is much larger than its column's deviation.
    """
    n, columns = rows.shape
    scatter = rows.T @ rows
    total = np.concatenate([np.ones(n) @ rows, targets.sum(axis=0)])
    cross = _cross(rows, targets)
    diagonal = np.concatenate([scatter.diagonal(), np.einsum("ij,ij->j", targets, targets)])
    mean = total / n
    moved = total * mean
    # Comparisons with NaN are false, so that what is not finite is looked at more closely.
    if not (moved * (1.0 + 1.0 / NEAR) <= diagonal).all() or not _usual(rows, targets, diagonal):
        return None
    x, y = total[:columns, None], mean[columns:]
    scatter -= x * mean[:columns]
    cross -= x * y
    return Sums(n, float(n), mean, scatter, cross, (diagonal - moved)[columns:])


def sums_about_mean(rows: Array, targets: Array, weights: Array | None = None) -> Sums:
    """The sums of finite rows of any size and offset, with positive weights.

    Examples
    --------
    >>> sums = sums_about_mean(np.array([[1e9], [1e9 + 2]]), np.array([[1.0], [3.0]]))
    >>> sums.scatter, sums.cross
    (array([[2.]]), array([[2.]]))
    """
    columns = rows.shape[1]
    origin = np.concatenate([rows[0], targets[0]])
    root = None if weights is None else np.sqrt(weights)
    sums = None
    for _ in range(2):
        x, y = rows - origin[:columns], targets - origin[columns:]
        moved, sums = _products(x, y, weights, root, origin)
        if sums is None:
            size = np.concatenate([np.abs(x).max(axis=0), np.abs(y).max(axis=0)])
            exponent = _unit_of(size * (1.0 if root is None else float(root.max())))
            exponent[exponent == EMPTY] = 0
            x, y = np.ldexp(x, -exponent[:columns]), np.ldexp(y, -exponent[columns:])
            moved, sums = _products(x, y, weights, root, origin, exponent)
            assert sums is not None
        if (moved <= FAR * sums.diagonal).all():
            break
        origin = sums.mean  # the first row was far from all others
    assert sums is not None
    return sums


def _products(
    x: Array,
    y: Array,
    weights: Array | None,
    root: Array | None,
    origin: Array,
    exponent: Array | None = None,
) -> tuple[Array, Sums | None]:
    """How far the mean is from ``origin``, squared and summed, and the sums of deviations x and y.

    None where they need other units.
    """
    n, columns = x.shape
    if weights is None or root is None:
        weight, total = float(n), np.concatenate([np.ones(n) @ x, y.sum(axis=0)])
    else:
        weight, total = float(weights.sum()), np.concatenate([weights @ x, weights @ y])
        x, y = x * root[:, None], y * root[:, None]
    scatter = x.T @ x
    cross = _cross(x, y)
    diagonal = np.concatenate([scatter.diagonal(), np.einsum("ij,ij->j", y, y)])
    mean = total / weight
    moved = total * mean
    if exponent is None and not _usual(x, y, diagonal):
        return moved, None
    scatter -= total[:columns, None] * mean[:columns]
    cross -= total[:columns, None] * mean[columns:]
    squares = np.maximum((diagonal - moved)[columns:], 0.0)
    if exponent is None or not exponent.any():
        return moved, Sums(n, weight, origin + mean, scatter, cross, squares)
    mean = origin + np.ldexp(mean, exponent)
    return moved, Sums(n, weight, mean, scatter, cross, squares, exponent)


def _cross(x: Array, y: Array) -> Array:
    """xᵀy; for one target the other way round, which reads x as it lies in memory."""
    return x.T @ y if y.shape[1] > 1 else (y[:, 0] @ x)[:, None]


def _usual(x: Array, y: Array, diagonal: Array) -> bool:
    """Whether the columns' squares are in a range that loses nothing; not so for NaN."""
    if not diagonal.max() < BIG**2:
        return False
    if diagonal.min() > SMALL**2:
        return True
    zero = diagonal == 0.0
    columns = x.shape[1]
    vanished = x[:, zero[:columns]].any() or y[:, zero[columns:]].any()
    return not vanished and bool((zero | (diagonal > SMALL**2)).all())


def _unit_of(size: Array) -> Array:
    """Exponents of units in which ``size`` is easily squared; EMPTY for 0."""
    exponent = np.where((size > SMALL) & (size < BIG), 0, np.frexp(size)[1])
    return np.where(size == 0.0, EMPTY, exponent).astype(np.int64)
