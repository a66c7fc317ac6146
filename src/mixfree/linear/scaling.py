"""Features of unequal size, brought to one size in a single pass."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array, State
from mixfree.core.optimizer import Optimizer
from mixfree.gradients import Window
from mixfree.steps.ladder import GRADIENTS, POINTS

LIMIT = 16.0  # standardised values never exceed it


class Units(NamedTuple):
    """What is subtracted from each column, and what it is divided by then."""

    shift: Array
    scale: Array


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
        self._state: State = {
            "count": np.zeros(1, dtype=np.int64),
            "mean": np.zeros(columns),
            "spread": np.zeros(columns),
            "unit": np.ones(columns),
            "shift": np.zeros(columns),
            "scale": np.ones(columns),
        }
        self._farthest = np.zeros(columns)
        self._next = np.zeros(columns)  # the row for which new units are due

    @property
    def units(self) -> Units:
        """The units in force."""
        return Units(self._state["shift"], self._state["scale"])

    def take(self, rows: Array) -> Array:
        """The rows standardised, up to the first for which new units are due."""
        from mixfree.kernels.scaling import standardise

        out = np.empty(rows.shape, rows.dtype)
        taken = standardise(rows, self.due, self.centred, LIMIT, *self._state.values(), out)
        self.due = taken < len(rows)
        if self.due:
            self._next = rows[taken]
        return out[:taken]

    def change(self) -> None:
        """Put the units in force that the statistics ask for, if they are due."""
        if not self.due:
            return
        state = self._state
        mean = state["mean"] / state["unit"]
        with np.errstate(over="ignore"):  # beyond the largest number: seen below
            self._farthest = np.maximum(self._farthest, np.abs(self._next - mean))
        deviation = np.sqrt(state["spread"] / state["count"][0]) / state["unit"]
        scale = np.maximum(deviation, self._farthest / LIMIT)
        if not np.isfinite(scale).all():
            place = int(np.argmin(np.isfinite(scale)))
            raise TooFar(
                place,
                f"is {self._next[place]:.3g} in row {state['count'][0]:,}, "
                f"too far from its mean {mean[place]:.3g} to be standardised",
            )
        # One over a smaller scale would overflow; such a feature is as good as constant.
        known = scale >= np.finfo(self._next.dtype).tiny
        state["shift"], state["scale"] = mean, np.where(known, scale, 1.0)

    def state_dict(self) -> State:
        """All that changes, as arrays of its own."""
        state = {name: value.copy() for name, value in self._state.items()}
        return {**state, "farthest": self._farthest.copy()}

    def load_state_dict(self, state: State) -> None:
        """Go on where the scale that gave ``state`` was."""
        self._state = {name: np.array(state[name]) for name in self._state}
        self._farthest = np.array(state["farthest"])


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
    shrunk[:, :columns] /= growth  # and once more: its square may overflow
    shrunk[:, :columns] /= growth
    return points_in(shrunk.ravel(), outputs, old, new).astype(x.dtype)


def refuse_replay(opt: Optimizer) -> None:
    """ValueError for a method that keeps rows, which would stay in the units of their time."""
    if not isinstance(opt.gradient, Window):
        raise ValueError(f"scale='running' does not go with {opt.name}, which replays old rows")


def change_units(opt: Optimizer, outputs: int, old: Units, new: Units) -> None:
    """Express a run over standardised rows in new units, its pending window included."""
    gradient, step, output = opt.states

    def convert(state: State, names: tuple[str, ...], to: Callable[..., Array]) -> None:
        for name in names:
            if name in state:
                rows = [to(row, outputs, old, new) for row in np.atleast_2d(state[name])]
                state[name] = np.array(rows).reshape(state[name].shape)

    convert(gradient, ("sum",), gradients_in)
    convert(output, ("sum", "before", "kept"), points_kept)
    convert(step, GRADIENTS, gradients_in)
    convert(step, POINTS, points_kept)
    if "squares" in step:
        _change_ladder(step, outputs, new.scale / old.scale)
    opt.go_to(np.array(opt.domain.project(points_kept(opt.x, outputs, old, new))), opt.steps)


def _change_ladder(state: State, outputs: int, ratio: Array) -> None:
    """Numbers that the ladder keeps for each coordinate, as far as the old center was right."""
    block = state["sum"].size // outputs
    growth = np.tile(np.append(ratio, np.ones(block - ratio.size)), outputs)
    if state["squares"].size != growth.size:
        return
    # A column that has had no gradient yet had no unit either.
    growth = np.where(state["squares"] + state["total"] > 0.0, growth, 1.0)
    for name in ("squares", "total", "levels", "excess"):
        state[name] = state[name] / growth / growth
    state["rate"] = state["rate"] * growth
