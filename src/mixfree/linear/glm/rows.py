"""The kept rows of a stream, their number, and the same rows in standard units."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfree.base.arithmetic import MIN_VALUE, Array
from mixfree.base.checks import check_bytes, check_whole
from mixfree.base.sample import SPARE
from mixfree.linear.exact.solve import CONSTANT_ROUNDING
from mixfree.linear.exact.sums import Sums
from mixfree.linear.losses import Family

MIN_ROWS = 64  # least rows of a sample
MIN_ROWS_PER_COLUMN = 3  # least rows per column: with fewer, kept rows could be fitted perfectly
MAX_SLAB_VALUES = 1 << 16  # standardised values in use at a time
# BLAS multiplies products with fewer multiplications in one thread: waking other threads takes
# longer, and ten times as long on a busy machine.
MAX_ONE_THREAD = 1 << 18
MIN_SLAB_ROWS = 128  # below which products of wide rows become slow
MAX_CACHED_VALUES = 1 << 22  # standardised values that are kept between steps


def rows_of(memory: int | str, columns: int, outputs: int) -> int:
    """Convert ``memory``, a number of rows or bytes such as "32MB", to a number of rows."""
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


@dataclass(slots=True)
class Kept:
    """Rows with their targets, their weights, and their predictions at arrival."""

    rows: Array
    targets: Array
    weights: Array
    before: Array

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, which: Any) -> "Kept":
        """Return some of the rows: copies for an array of places, views for a slice."""
        return Kept(self.rows[which], self.targets[which], self.weights[which], self.before[which])


class Rows:
    """Rows in standard units: columns of mean 0 and deviation 1; residuals keep their unit.

    Columns keep their mean if there is no intercept. The ``sample`` is drawn from ``count`` rows of
    the stream, of which ``total`` has the sums, if they are known. ``factor`` is the rows of the
    stream per kept row, ``shares`` the fractions of the stream's ``weight`` that kept rows
    represent, and ``shape`` outputs × weights per output.
    """

    def __init__(self, settings: Settings, sample: Kept, count: int, total: Sums | None) -> None:
        self.settings, self.sample, self.count = settings, sample, count
        self.factor = factor = count / max(len(sample), 1)
        outputs, width = self.shape = settings.loss.outputs, settings.columns + settings.intercept
        quick = max(MAX_ONE_THREAD // max(width * outputs, 1), MIN_SLAB_ROWS)
        self._length = max(min(MAX_SLAB_VALUES // max(width, 1), quick), 1)
        self.weight = float(sample.weights.sum() * factor if total is None else total.weight)
        self.shares = sample.weights * (factor / max(self.weight, 1e-300))
        if total is None:
            mean, size = self._moments()
        else:
            mean = total.mean[: settings.columns]
            size = np.sqrt(total.scatter.diagonal() / self.weight)
        if not settings.intercept:
            mean, size = np.zeros(settings.columns), np.hypot(size, mean)
        constant = size <= np.maximum(CONSTANT_ROUNDING * np.abs(mean), MIN_VALUE)
        self.mean, self.size = mean, np.where(constant, np.inf, size)
        shifted = settings.loss.of_residuals and settings.intercept and len(sample)
        self.shift = float(np.median(sample.targets)) if shifted else 0.0
        self.targets = sample.targets - self.shift
        self._stored: list[tuple[Array, slice]] | None = None  # slabs that are not too large

    def _moments(self) -> tuple[Array, Array]:
        """Return the weighted mean and deviation of the sample's columns."""
        x, zero = self.sample.rows, np.zeros(self.settings.columns)
        first = x[0] if len(x) else zero
        mean = first + sum((self.shares[p] @ (x[p] - first) for p in self._parts), start=zero)
        squares = sum((self.shares[p] @ (x[p] - mean) ** 2 for p in self._parts), start=zero)
        return mean, np.sqrt(squares)

    @property
    def varying(self) -> Array:
        """Which columns are not constant."""
        return np.isfinite(self.size)

    @property
    def _parts(self) -> Iterator[slice]:
        starts = range(0, len(self.sample), self._length)
        return (slice(start, start + self._length) for start in starts)

    @property
    def slabs(self) -> Iterable[tuple[Array, slice]]:
        """Standardised rows, a few at a time, and their places in the sample."""
        if self._stored is not None:
            return self._stored
        cut = ((self.standardised(self.sample.rows[part]), part) for part in self._parts)
        if len(self.sample) * self.shape[1] > MAX_CACHED_VALUES:
            return cut
        self._stored = list(cut)
        return self._stored

    def standardised(self, rows: Array) -> Array:
        """Standardise rows, and append a 1 for an intercept."""
        columns = rows.shape[1]
        x = np.empty((len(rows), self.shape[1]))
        np.subtract(rows, self.mean, out=x[:, :columns])
        x[:, :columns] *= 1.0 / self.size
        x[:, columns:] = 1.0
        return x

    def weights(self, theta: Array) -> Array:
        """Convert standardised weights to the units of the rows."""
        slopes: Array = theta[:, : self.settings.columns] / self.size
        if not self.settings.intercept:
            return slopes
        return np.column_stack([slopes, theta[:, -1] + self.shift - slopes @ self.mean])

    def theta(self, weights: Array) -> Array:
        """Convert weights in the units of the rows to standardised weights."""
        slopes = weights[:, : self.settings.columns]
        theta = slopes * np.where(self.varying, self.size, 0.0)
        if not self.settings.intercept:
            return theta
        return np.column_stack([theta, weights[:, -1] + slopes @ self.mean - self.shift])
