"""Standardise features in one pass, by the mean and the deviation of the rows so far."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.state import State

LIMIT = 16.0  # largest absolute value of a standardised feature
PIECE = 1 << 15  # values rescaled at a time, which fit into the cache


class Units(NamedTuple):
    """What is subtracted from each column, and what the difference is divided by."""

    shift: Array
    scale: Array


@dataclass(slots=True)
class ScaleState(State):
    """Statistics of the columns, each multiplied by its unit, and the current scale."""

    mean: Array
    spread: Array  # sum of squared deviations from the mean
    unit: Array  # a power of two that keeps squares from overflow and underflow
    shift: Array
    scale: Array
    farthest: Array  # largest deviation among rows that made new units necessary
    count: Array = field(default_factory=lambda: np.zeros(1, np.int64))

    def check(self, what: str) -> None:
        """Check that counts and spreads are not negative, and units and scales positive."""
        if self.count[0] < 0 or (self.spread < 0.0).any() or (self.farthest < 0.0).any():
            raise ValueError(f"state of the {what} does not fit: a spread is negative")
        if not ((self.unit > 0.0).all() and (self.scale > 0.0).all()):
            raise ValueError(f"state of the {what} does not fit: a scale is not positive")


class TooFar(ValueError):
    """The error for a value too far from its column's mean to be standardised.

    Examples
    --------
    >>> print(TooFar(1, "is 1e308").named(["wind", "load"]))
    feature 'load' is 1e308
    """

    def __init__(self, place: int, what: str) -> None:
        super().__init__(f"feature {place + 1} {what}")
        self._place, self._what = place, what

    def named(self, names: Sequence[str]) -> ValueError:
        """Return the error with the feature's name instead of its number."""
        return ValueError(f"feature {str(names[self._place])!r} {self._what}")


class RunningScale:
    """Standardises rows by the mean and the deviation of the stream so far.

    Units change when the number of rows reaches a power of two, and for a row that would exceed
    ``LIMIT`` scales. The statistics that scale a row include the row itself. A column may have
    any scale; one that varies by less than the smallest normal number of its dtype, 2e-308 or
    1e-38, counts as constant.

    Parameters
    ----------
    columns
        Number of features.
    centred
        Whether to subtract the mean, which needs an intercept.

    Examples
    --------
    >>> scale = RunningScale(1, centred=True)
    >>> rows, standardised = np.array([[0.0], [2000.0], [1000.0]]), []
    >>> while len(rows):
    ...     piece = scale.take(rows)
    ...     standardised += piece.ravel().tolist()
    ...     rows = rows[len(piece) :]
    ...     scale.change()
    >>> standardised
    [0.0, 1.0, 0.0]
    """

    def __init__(self, columns: int, centred: bool) -> None:
        self.centred = centred
        self.due = False
        self._columns = columns
        self._next = np.zeros(columns)  # the row that needs new units

    @cached_property
    def _state(self) -> ScaleState:
        """Created on first use: sparse rows, which may be wide, do not need it."""
        state = ScaleState(*(np.zeros(self._columns) for _ in range(6)))
        state.unit[:], state.scale[:] = 1.0, 1.0
        return state

    @property
    def units(self) -> Units:
        """The current units."""
        return Units(self._state.shift, self._state.scale)

    def take(self, rows: Array) -> Array:
        """Standardise rows, up to the first one that needs new units."""
        from mixfree.kernels.scaling import standardise

        state, out = self._state, np.empty(rows.shape, rows.dtype)
        statistics = (state.count, state.mean, state.spread, state.unit, state.shift)
        taken = standardise(
            rows, self.due, self.centred, LIMIT, *statistics, 1.0 / state.scale, out
        )
        self.due = taken < len(rows)
        if self.due:
            self._next = rows[taken]
        return out[:taken]

    def change(self) -> None:
        """Change to the units of the current statistics, if they are due."""
        if not self.due:
            return
        state = self._state
        mean = state.mean / state.unit
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            state.farthest = np.maximum(state.farthest, np.abs(self._next - mean))
        deviation = np.sqrt(state.spread / state.count[0]) / state.unit
        scale = np.maximum(deviation, state.farthest / LIMIT)
        if not np.isfinite(scale).all():
            place = int(np.argmin(np.isfinite(scale)))
            raise TooFar(
                place,
                f"is {self._next[place]:.3g} in row {state.count[0]:,}, "
                f"too far from its mean {mean[place]:.3g} to be standardised",
            )
        # The inverse of a smaller scale would overflow; such a feature counts as constant.
        known = scale >= np.finfo(self._next.dtype).tiny
        state.shift, state.scale = mean, np.where(known, scale, 1.0)

    def state_dict(self) -> dict[str, Any]:
        """Return the state as copies of arrays."""
        return self._state.plain()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that :meth:`state_dict` returned."""
        self._state, self.due = self._state.restored(state, "running scale"), False


def original(columns: int) -> Units:
    """Return the units in which rows are given."""
    return Units(np.zeros(columns), np.ones(columns))


def points_in(x: Array, outputs: int, old: Units, new: Units) -> Array:
    """Convert the weights of the function Σ u_k (x_k − shift_k)/scale_k + b to new units.

    Examples
    --------
    >>> old = Units(np.array([2.0]), np.array([10.0]))
    >>> points_in(np.array([5.0, 1.0]), 1, old, original(1))
    array([0.5, 0. ])
    """
    columns = old.shift.size
    blocks = x.reshape(outputs, -1)
    found = blocks.astype(np.float64)
    found[:, :columns] *= new.scale / old.scale
    if blocks.shape[1] > columns:
        rise = (new.shift - old.shift) / old.scale
        found[:, columns] += (blocks[:, :columns] * rise).sum(axis=1)
    return found.ravel().astype(x.dtype)


def gradients_in(g: Array, outputs: int, old: Units, new: Units) -> Array:
    """Convert a gradient to one with respect to the weights in new units."""
    columns = old.shift.size
    blocks = g.reshape(outputs, -1)
    found = blocks.astype(np.float64)
    found[:, :columns] *= old.scale / new.scale
    if blocks.shape[1] > columns:
        found[:, :columns] += blocks[:, columns:] * ((old.shift - new.shift) / new.scale)
    return found.ravel().astype(g.dtype)


def points_kept(x: Array, outputs: int, old: Units, new: Units) -> Array:
    """Convert weights to new units, and shrink them where the scale grew.

    A step taken in a unit r times too small is r² times too long in the original units, and is
    shrunk by as much, as in normalised online learning (Ross, Mineiro and Langford 2013).
    """
    columns = old.shift.size
    growth = np.maximum(new.scale / old.scale, 1.0)
    shrunk = x.reshape(outputs, -1).astype(np.float64)
    shrunk[:, :columns] /= growth  # twice, since the square of growth may overflow
    shrunk[:, :columns] /= growth
    return points_in(shrunk.ravel(), outputs, old, new).astype(x.dtype)


class Rescaling:
    """A change of the columns' units, applied to a run over standardised rows.

    Parameters
    ----------
    outputs
        Outputs of the model, with one block of weights each.
    intercept
        1 if each block ends with an intercept, else 0.
    old, new
        The units before and after.
    """

    def __init__(self, outputs: int, intercept: int, old: Units, new: Units) -> None:
        self._outputs, self._old, self._new = outputs, old, new
        growth = np.append(new.scale / old.scale, np.ones(intercept))
        self.growth: Array = np.tile(growth, outputs)

    def points(self, x: Array) -> Array:
        """Convert points: see :func:`points_kept`."""
        return self._each(points_kept, x)

    def gradients(self, g: Array) -> Array:
        """Convert gradients: see :func:`gradients_in`."""
        return self._each(gradients_in, g)

    def samples(self, columns: list[Array]) -> list[Array]:
        """Convert the rows, which are the first part of every sample."""
        rows, *others = columns
        old, new = self._old, self._new
        found, back = np.empty_like(rows), old.shift - new.shift
        length = max(PIECE // max(rows.shape[1], 1), 1)
        for start in range(0, len(rows), length):
            piece = rows[start : start + length] * old.scale
            piece += back
            piece /= new.scale
            found[start : start + length] = piece
        return [found, *others]

    def _each(self, convert: Callable[..., Array], rows: Array) -> Array:
        flat = rows.reshape(-1, rows.shape[-1])
        found = [convert(row, self._outputs, self._old, self._new) for row in flat]
        return np.array(found, rows.dtype).reshape(rows.shape)
