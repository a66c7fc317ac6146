"""The kept rows of a stream, their number, and the same rows in standard units."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mixfree.base.arithmetic import MIN_VALUE, Array
from mixfree.base.checks import check_bytes, check_whole
from mixfree.linear.exact.solve import CONSTANT_ROUNDING
from mixfree.linear.exact.sums import Sums
from mixfree.linear.losses import Family

MIN_ROWS = 64  # least rows of a sample
MIN_ROWS_PER_COLUMN = 3  # least rows per column: with fewer, kept rows could be fitted perfectly
SPARE = 8  # one more row per SPARE rows is stored for a moment, before it replaces another
MAX_SLAB_VALUES = 1 << 16  # standardised values in use at a time
# BLAS multiplies products with fewer multiplications in one thread: waking other threads takes
# longer, and ten times as long on a busy machine.
MAX_ONE_THREAD = 1 << 18
MIN_SLAB_ROWS = 128  # below which products of wide rows become slow
MAX_CACHED_VALUES = 1 << 22  # standardised values that are kept between steps


def rows_of(memory: int | str, columns: int, outputs: int) -> int:
    """Convert ``memory``, a number of rows or bytes such as "32MB", to a number of rows.

    Examples
    --------
    >>> rows_of(2048, 10, 1), rows_of("32MB", 96, 1)
    (2048, 35555)
    """
    least = max(MIN_ROWS, MIN_ROWS_PER_COLUMN * (columns + 1))
    each = 8 * (columns + outputs + 3) * (1 + 1 / SPARE)
    if not isinstance(memory, str):
        return check_whole(memory, "memory", least=least)
    rows = int(check_bytes(memory, "memory", "a number of rows or bytes") / each)
    if rows < least:
        raise ValueError(
            f"memory={memory!r} holds {rows:,} rows, but {columns:,} columns need {least:,}: "
            f"give memory='{-int(-least * each // 1e6)}MB'"
        )
    return rows


@dataclass(frozen=True)
class Settings:
    """Settings of :class:`mixfree.linear.glm.fit.GlmFit`."""

    loss: Family
    columns: int
    intercept: bool
    l2: float | None
    radius: float | None


@dataclass(slots=True)
class Kept:
    """Rows with their targets, their weights, and their predictions at arrival."""

    rows: Array
    targets: Array
    weights: Array
    before: Array

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, places: Any) -> "Kept":
        """Return some of the rows: copies for an array of places, views for a slice."""
        return Kept(
            self.rows[places], self.targets[places], self.weights[places], self.before[places]
        )

    def cut(self, length: int) -> "Iterator[Kept]":
        """Yield views of so many rows each."""
        return (self.take(slice(start, start + length)) for start in range(0, len(self), length))


Slab = tuple[Array, Array, Array, Kept]  # standardised rows, targets and weights; and the rows


class Rows:
    """Rows in standard units: columns of mean 0 and deviation 1, residuals in widths of the loss.

    Columns keep their mean if there is no intercept. Weights sum to 1 over the stream.

    Parameters
    ----------
    settings
        Settings of the fit.
    sample, factor
        Kept rows, which represent ``factor`` rows of the stream each.
    total
        Sums of all rows that the sample was drawn from, if they are known.
    """

    def __init__(self, settings: Settings, sample: Kept, factor: float, total: Sums | None) -> None:
        self.settings, self.sample, self.factor = settings, sample, factor
        outputs, width = self.shape = settings.loss.outputs, settings.columns + settings.intercept
        quick = max(MAX_ONE_THREAD // max(width * outputs, 1), MIN_SLAB_ROWS)
        self._length = max(min(MAX_SLAB_VALUES // max(width, 1), quick), 1)
        self.weight = float(sample.weights.sum()) * factor
        if total is None:
            mean, size = self._units_of_rows()
        else:
            self.weight, mean = float(total.weight), total.mean[: settings.columns]
            size = np.sqrt(total.scatter.diagonal() / self.weight)
            if not settings.intercept:
                mean, size = np.zeros(settings.columns), np.hypot(size, mean)
        constant = size <= np.maximum(CONSTANT_ROUNDING * np.abs(mean), MIN_VALUE)
        self.mean, self.size = mean, np.where(constant, np.inf, size)
        self.shift, self.unit = 0.0, 1.0
        if settings.loss.width is not None:  # a power of two costs no digits
            self.unit = float(np.ldexp(1.0, np.frexp(settings.loss.width)[1]))
            if settings.intercept and len(sample):
                self.shift = float(np.median(sample.targets))
        self.loss = settings.loss.in_unit(self.unit)

    def _units_of_rows(self) -> tuple[Array, Array]:
        """Return the weighted mean (0 without intercept) and deviation of columns."""
        mean: Array = np.zeros(self.settings.columns)
        if not len(self.sample):
            return mean, mean
        share, pieces = self.factor / self.weight, list(self.sample.cut(self._length))
        if self.settings.intercept:
            first = self.sample.rows[0]
            mean = first + share * sum(p.weights @ (p.rows - first) for p in pieces)
        return mean, np.sqrt(share * sum(p.weights @ (p.rows - mean) ** 2 for p in pieces))

    @property
    def varying(self) -> Array:
        """Which columns are not constant."""
        return np.isfinite(self.size)

    @property
    def slabs(self) -> Iterable[Slab]:
        """The rows, a few at a time."""
        return self._cut() if self._stored is None else self._stored

    @cached_property
    def _stored(self) -> list[Slab] | None:
        """All slabs if they are not too large."""
        few = len(self.sample) * self.shape[1] <= MAX_CACHED_VALUES
        return list(self._cut()) if few else None

    def _cut(self) -> Iterator[Slab]:
        for piece in self.sample.cut(self._length):
            weights = piece.weights * (self.factor / self.weight)
            yield self.standardised(piece.rows), self.targets(piece), weights, piece

    def standardised(self, rows: Array) -> Array:
        """Standardise rows, and append a 1 for an intercept."""
        columns = rows.shape[1]
        x = np.empty((len(rows), self.shape[1]))
        np.subtract(rows, self.mean, out=x[:, :columns])
        x[:, :columns] *= 1.0 / self.size
        x[:, columns:] = 1.0
        return x

    def targets(self, kept: Kept) -> Array:
        """Return targets in the unit of the fit."""
        found: Array = (kept.targets - self.shift) / self.unit
        return found

    def slopes(self, theta: Array) -> Array:
        """Convert standardised weights to the units of the rows, without intercepts."""
        found: Array = theta[..., : self.settings.columns] / self.size * self.unit
        return found

    def weights(self, theta: Array) -> Array:
        """Convert standardised weights to the units of the rows."""
        slopes = self.slopes(theta)
        if not self.settings.intercept:
            return slopes
        level = theta[:, -1] * self.unit + self.shift - slopes @ self.mean
        return np.column_stack([slopes, level])

    def theta(self, weights: Array) -> Array:
        """Convert weights in the units of the rows to standardised weights."""
        slopes = weights[:, : self.settings.columns]
        theta = slopes * np.where(self.varying, self.size, 0.0) / self.unit
        if not self.settings.intercept:
            return theta
        level = weights[:, -1] + slopes @ self.mean - self.shift
        return np.column_stack([theta, level / self.unit])
