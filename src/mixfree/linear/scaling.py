"""Features of unequal size, brought to one size in a single pass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.state import State

LIMIT = 16.0  # largest standardised value
PIECE = 1 << 15  # values of kept rows that are rescaled at a time, while they are in the cache


class Units(NamedTuple):
    """What is subtracted from each column, and what it is divided by then."""

    shift: Array
    scale: Array


@dataclass(slots=True)
class ScaleState(State):
    """Statistics of the columns, each times its unit, and the scale that is in force."""

    mean: Array
    spread: Array  # sum of squared deviations from the mean
    unit: Array  # a power of two that keeps squares from over- and underflow
    shift: Array
    scale: Array
    farthest: Array  # largest deviation of a row for which new units were due
    count: Array = field(default_factory=lambda: np.zeros(1, np.int64))

    def check(self, what: str) -> None:
        """Counts and spreads are not negative; units and scales are positive."""
        if self.count[0] < 0 or (self.spread < 0.0).any() or (self.farthest < 0.0).any():
            raise ValueError(f"state of the {what} does not fit: a spread is negative")
        if not ((self.unit > 0.0).all() and (self.scale > 0.0).all()):
            raise ValueError(f"state of the {what} does not fit: a scale is not positive")


class TooFar(ValueError):
    """A value that is too far from its column's mean to be standardised.

    Examples
    --------
    >>> print(TooFar(1, "is 1e308").named(["wind", "load"]))
    feature 'load' is 1e308
    """

    def __init__(self, place: int, what: str) -> None:
        super().__init__(f"feature {place + 1} {what}")
        self._place, self._what = place, what

    def named(self, names: Sequence[str]) -> ValueError:
        """The same with the feature's name, for those who know it."""
        return ValueError(f"feature {str(names[self._place])!r} {self._what}")


class RunningScale:
    """Standardises rows by what has been seen of the stream so far.

    New units are due when the count of rows reaches a power of two, and at once for a row that
    would exceed ``LIMIT`` scales. A row's own values are part of the statistics that scale it.
    A column may be of any size; one that varies by less than the least normal number of its
    precision, 2e-308 or 1e-38, counts as constant.

    Parameters
    ----------
    columns
        Number of features.
    centred
        Whether to subtract the mean, which takes an intercept to undo.

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
        self._next = np.zeros(columns)  # the row for which new units are due

    @cached_property
    def _state(self) -> ScaleState:
        """Made when it is first asked for: sparse rows, which may be wide, do without it."""
        state = ScaleState(*(np.zeros(self._columns) for _ in range(6)))
        state.unit[:], state.scale[:] = 1.0, 1.0
        return state

    @property
    def units(self) -> Units:
        """The units in force."""
        return Units(self._state.shift, self._state.scale)

    def take(self, rows: Array) -> Array:
        """The rows standardised, up to the first for which new units are due."""
        from mixfree.kernels.scaling import standardise

        state, out = self._state, np.empty(rows.shape, rows.dtype)
        statistics = (state.count, state.mean, state.spread, state.unit, state.shift, state.scale)
        taken = standardise(rows, self.due, self.centred, LIMIT, *statistics, out)
        self.due = taken < len(rows)
        if self.due:
            self._next = rows[taken]
        return out[:taken]

    def change(self) -> None:
        """Put the units in force that the statistics ask for, if they are due."""
        if not self.due:
            return
        state = self._state
        mean = state.mean / state.unit
        with np.errstate(over="ignore", invalid="ignore"):  # not finite: seen below
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
        # One over a smaller scale would overflow; such a feature is as good as constant.
        known = scale >= np.finfo(self._next.dtype).tiny
        state.shift, state.scale = mean, np.where(known, scale, 1.0)

    def state_dict(self) -> dict[str, Any]:
        """All that changes, as arrays of its own."""
        return self._state.plain()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where the scale that gave ``state`` was."""
        self._state, self.due = self._state.restored(state, "running scale"), False


def original(columns: int) -> Units:
    """The units in which the rows are given."""
    return Units(np.zeros(columns), np.ones(columns))


def points_in(x: Array, outputs: int, old: Units, new: Units) -> Array:
    """Weights in new units of the function Σ u_k (x_k − shift_k)/scale_k + b.

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
    """The gradient with respect to the weights in new units: it changes as the rows do."""
    columns = old.shift.size
    blocks = g.reshape(outputs, -1)
    found = blocks.astype(np.float64)
    found[:, :columns] *= old.scale / new.scale
    if blocks.shape[1] > columns:
        found[:, :columns] += blocks[:, columns:] * ((old.shift - new.shift) / new.scale)
    return found.ravel().astype(g.dtype)


def points_kept(x: Array, outputs: int, old: Units, new: Units) -> Array:
    """Weights to go on with in new units: those of the function, shrunk where the scale grew.

    A step taken in a unit r times too small is r² times too long in the rows' own, as in
    normalised online learning (Ross, Mineiro and Langford 2013), so it is taken back by as much.
    """
    columns = old.shift.size
    growth = np.maximum(new.scale / old.scale, 1.0)
    shrunk = x.reshape(outputs, -1).astype(np.float64)
    shrunk[:, :columns] /= growth  # twice, since the square of growth may overflow
    shrunk[:, :columns] /= growth
    return points_in(shrunk.ravel(), outputs, old, new).astype(x.dtype)


class Rescaling:
    """A change of the columns' units, as it concerns a run over standardised rows.

    Parameters
    ----------
    outputs
        Outputs of the model, one block of weights each.
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
        """Points to go on with: see :func:`points_kept`."""
        return self._each(points_kept, x)

    def gradients(self, g: Array) -> Array:
        """Gradients with respect to the new weights: see :func:`gradients_in`."""
        return self._each(gradients_in, g)

    def samples(self, columns: list[Array]) -> list[Array]:
        """Rows, which come first in a sample, standardised by the new units."""
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
