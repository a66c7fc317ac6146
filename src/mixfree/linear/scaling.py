"""Standardise features in one pass, by the mean and the deviation of the rows so far."""

from typing import NamedTuple

import numpy as np

from mixfree.base.arithmetic import MIN_VALUE, Array
from mixfree.base.state import State

LIMIT = 16.0  # largest absolute value of a standardised feature


class Units(NamedTuple):
    """What is subtracted from each column, and what the difference is divided by."""

    shift: Array
    scale: Array


class RunningScale(State):
    """Standardises rows by the mean and the deviation of the stream so far.

    Units change when the number of rows reaches a power of two, and for a row that would exceed
    ``LIMIT`` scales. The statistics that scale a row include the row itself. A column that varies
    by less than 1e-75, or 1e-38 in single precision, counts as constant. ``centred`` rows, from
    which the mean is subtracted, need an intercept.
    """

    saved = ("mean", "spread", "shift", "scale", "farthest", "count")

    def __init__(self, columns: int, centred: bool) -> None:
        self.centred, self._due = centred, np.zeros(1, np.int64)
        self.count = np.zeros(1, np.int64)
        # Sums of squares around the mean, and the largest deviation of rows that changed the units.
        self.mean, self.spread, self.shift, self.farthest = np.zeros((4, columns))
        self.scale = np.ones(columns)

    @property
    def current(self) -> Units:
        """The current units."""
        return Units(self.shift, self.scale)

    @property
    def due(self) -> bool:
        """Whether the next row waits for new units."""
        return bool(self._due[0])

    def take(self, rows: Array, out: Array) -> Array:
        """Standardise as many rows as there is room in ``out``, up to one that needs new units."""
        from mixfree.kernels.linear import RunningUnits, standardise
        from mixfree.kernels.run import aligned

        known = [self.mean, self.spread, self.shift, 1.0 / self.scale]
        self.mean, self.spread, shift, inverse = aligned(np.array(known))[:, : self.mean.size]
        statistics = self._due, self.count, self.mean, self.spread
        arrays = RunningUnits(*statistics, shift, inverse, self.centred, LIMIT)
        return out[: standardise(arrays, rows[: len(out)], out)]

    def change(self, row: Array) -> tuple[Units, Units]:
        """Change to the units of the current statistics, which include those of ``row``.

        Return the units before and after.
        """
        before = self.current
        self.farthest = np.maximum(self.farthest, np.abs(row - self.mean))
        scale = np.maximum(np.sqrt(self.spread / self.count[0]), self.farthest / LIMIT)
        known = scale >= max(MIN_VALUE, float(np.finfo(row.dtype).tiny))
        self.shift, self.scale = self.mean.copy(), np.where(known, scale, 1.0)
        return before, self.current


class Rescaling:
    """A change of the columns' units, applied to a run over standardised rows.

    There is one block of weights per output, with 1 intercept at its end or 0.
    """

    def __init__(self, outputs: int, intercept: int, old: Units, new: Units) -> None:
        self._old, self._new, self._columns = old, new, old.shift.size
        self._growth = new.scale / old.scale
        self._rise = (new.shift - old.shift) / old.scale
        self.growth: Array = np.tile(np.append(self._growth, np.ones(intercept)), outputs)
        self._width = self._columns + intercept

    def function(self, x: Array) -> Array:
        """Convert the weights of the function Σ u_k (x_k − shift_k)/scale_k + b."""
        blocks, weights, levels = self._parts(x)
        levels += (weights * self._rise).sum(axis=1, keepdims=True)
        weights *= self._growth
        return blocks.reshape(x.shape).astype(x.dtype, copy=False)

    def points(self, x: Array) -> Array:
        """Convert weights, and shrink them where the scale grew.

        A step taken in a unit r times too small is r² times too long in the original units, and
        is shrunk by as much, as in normalised online learning (Ross, Mineiro and Langford 2013).
        """
        blocks, weights, _ = self._parts(x)
        weights /= np.maximum(self._growth, 1.0) ** 2
        return self.function(blocks).reshape(x.shape).astype(x.dtype, copy=False)

    def gradients(self, g: Array) -> Array:
        """Convert gradients with respect to the weights."""
        blocks, weights, levels = self._parts(g)
        weights /= self._growth
        if levels.size:
            weights -= levels * self._rise / self._growth
        return blocks.reshape(g.shape).astype(g.dtype, copy=False)

    def samples(self, columns: list[Array]) -> list[Array]:
        """Convert the rows, which are the first part of every sample."""
        rows, *others = columns
        found = rows * self._old.scale
        found += self._old.shift - self._new.shift
        found /= self._new.scale
        return [found.astype(rows.dtype, copy=False), *others]

    def _parts(self, array: Array) -> tuple[Array, Array, Array]:
        """Return a copy in double precision, one block per output, and its two parts."""
        blocks = array.astype(np.float64).reshape(-1, self._width)
        return blocks, blocks[:, : self._columns], blocks[:, self._columns :]
