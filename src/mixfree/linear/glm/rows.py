"""Rows of a stream in standard units, and the settings of a fit to them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mixfree.base.arithmetic import MIN_VALUE, Array
from mixfree.linear.exact.solve import CONSTANT_ROUNDING
from mixfree.linear.exact.sums import Sums
from mixfree.linear.glm.kept import Kept
from mixfree.linear.losses import Family

MAX_SLAB_VALUES = 1 << 16  # standardised values in use at a time
# BLAS multiplies products with fewer multiplications in one thread: waking other threads takes
# longer, and ten times as long on a busy machine.
MAX_ONE_THREAD = 1 << 18
MIN_SLAB_ROWS = 128  # below which products of wide rows become slow
MAX_CACHED_VALUES = 1 << 22  # standardised values that are kept between steps

Slab = tuple[Array, Array, Array, Kept]  # standardised rows, targets and weights; and the rows


@dataclass(frozen=True)
class Settings:
    """Settings of :class:`mixfree.linear.glm.fit.GlmFit`."""

    loss: Family
    columns: int
    intercept: bool
    l2: float | None
    radius: float | None


class Rows:
    """Rows in standard units: columns of mean 0 and deviation 1, residuals in widths of the loss.

    Columns keep their mean if there is no intercept. Weights sum to 1 over the stream.

    Parameters
    ----------
    settings
        Settings of the fit.
    sample, factor
        Kept rows, which represent ``factor`` rows of the stream each.
    pending
        Rows of the stream that the sample was not drawn from.
    total
        Sums of all rows that the sample was drawn from, if they are known.
    """

    def __init__(
        self, settings: Settings, sample: Kept, factor: float, pending: Kept, total: Sums | None
    ) -> None:
        self.settings, self.sample, self.factor, self.pending = settings, sample, factor, pending
        drawn = float(sample.weights.sum()) * factor if total is None else float(total.weight)
        self.weight = drawn + float(pending.weights.sum())
        if total is None:
            mean, size = self._units_of_rows()
        else:
            mean, size = total.mean[: settings.columns], np.sqrt(total.scatter.diagonal() / drawn)
            if not settings.intercept:
                mean, size = np.zeros(settings.columns), np.hypot(size, mean)
        constant = size <= np.maximum(CONSTANT_ROUNDING * np.abs(mean), MIN_VALUE)
        self.mean, self.size = mean, np.where(constant, np.inf, size)
        width, self.shift, self.unit = settings.loss.width, 0.0, 1.0
        if width is not None:  # a power of two costs no digits
            self.unit = float(np.ldexp(1.0, np.frexp(width)[1]))
            if settings.intercept and len(sample):
                self.shift = float(np.median(sample.targets))
        self.loss = settings.loss.in_unit(self.unit)

    def _units_of_rows(self) -> tuple[Array, Array]:
        """Return the weighted mean (0 without intercept) and deviation of columns."""
        share = self.factor / self.weight if self.weight else 0.0
        lots = [(p, p.weights * share) for p in self.sample.pieces]
        lots += [(p, p.weights / self.weight) for p in self.pending.pieces]
        mean = np.zeros(self.settings.columns)
        if not lots:
            return mean, mean
        if self.settings.intercept:
            first = lots[0][0].rows[0]
            mean = first + sum(weights @ (p.rows - first) for p, weights in lots)
        return mean, np.sqrt(sum(weights @ (p.rows - mean) ** 2 for p, weights in lots))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the weights: outputs × (columns, intercept)."""
        return self.loss.outputs, self.settings.columns + self.settings.intercept

    @property
    def at_hand(self) -> float:
        """Weight of the rows at hand, not of those that they represent."""
        return float(self.sample.weights.sum() + self.pending.weights.sum())

    @property
    def varying(self) -> Array:
        """Which columns are not constant."""
        return np.isfinite(self.size)

    def __iter__(self) -> Iterator[Slab]:
        """Yield all rows, a few at a time."""
        yield from self.slabs
        yield from self._cut(self.pending, 1.0) if self._stored is None else self._stored[1]

    @property
    def slabs(self) -> Iterator[Slab]:
        """The rows of the sample, a few at a time."""
        if self._stored is None:
            return self._cut(self.sample, self.factor)
        return iter(self._stored[0])

    @cached_property
    def _stored(self) -> tuple[list[Slab], list[Slab]] | None:
        """All slabs if they are not too large."""
        if (len(self.sample) + len(self.pending)) * self.shape[1] > MAX_CACHED_VALUES:
            return None
        return list(self._cut(self.sample, self.factor)), list(self._cut(self.pending, 1.0))

    def _cut(self, kept: Kept, factor: float) -> Iterator[Slab]:
        outputs, width = self.shape
        quick = max(MAX_ONE_THREAD // max(width * outputs, 1), MIN_SLAB_ROWS)
        length = max(min(MAX_SLAB_VALUES // max(width, 1), quick), 1)
        for start in range(0, len(kept), length):
            piece = kept.take(slice(start, start + length))
            weights = piece.weights * (factor / self.weight)
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
