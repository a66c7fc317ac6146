"""The state of the ladder over sparse rows, in the form of its kernel."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import MOST_COUNTED
from mixfree.base.state import RunState, State
from mixfree.kernels import sparse_ladder as lazy
from mixfree.kernels.ladder import (
    EPOCH,
    EXCESS,
    FARTHEST,
    GAIN,
    HALF,
    LEVEL,
    MARGIN,
    PEAK,
    SHRINK,
    WEIGHT,
)
from mixfree.kernels.memory import LINE
from mixfree.kernels.run import COUNT, STEPS
from mixfree.kernels.sparse import MASS, Q, V
from mixfree.steps.ladder import EARLY, Ladder, LadderState

LEAST = 12  # levels with room from the start, since adding one copies everything
# Places in ``rates`` of the fields of the ladder's distance.
_SCALARS = {"lam": PEAK, "weight": WEIGHT, "numerator": GAIN, "margin": MARGIN}


@dataclass(slots=True)
class SparseLadderState(State):
    """A run in the form of its kernel: see :mod:`mixfree.kernels.sparse_ladder`."""

    counts: Array
    numbers: Array
    rates: Array
    cells: Array  # one row per coordinate
    touched: Array  # coordinates touched so far
    earlier: Array  # mean of the previous epoch
    before: Array  # older sum of the tail average
    kept: Array  # the random iterate

    @classmethod
    def of(cls, run: RunState, step: Ladder) -> "SparseLadderState":
        """Convert the state of an optimiser's run, which is not changed."""
        ladder, distance, output, size = run.step, run.step.distance, run.output, run.x.size
        counts = [run.gradient.samples, run.steps, 0, 1, 0, output.count, 0]
        rates = np.zeros(lazy.NEWEST + 1)
        for name, place in _SCALARS.items():
            rates[place] = getattr(distance, name)
        rates[[SHRINK, EPOCH, lazy.RBAR]] = 2.0**-ladder.unit, distance.epoch, distance.rbar[0]
        rates[FARTHEST] = step.reach(ladder)
        state = cls(
            counts=np.array(counts),
            numbers=np.array([0.0, 1.0, 0.0]),
            rates=rates,
            cells=_empty(size, _columns(0)),
            touched=np.empty(size, np.int32),
            earlier=distance.before.copy(),
            before=np.array(getattr(output, "before", np.zeros(0))),
            kept=np.array(getattr(output, "kept", np.zeros(0)), dtype=np.float64),
        )
        state._widen(step.levels(run.steps))
        state.cells[:, : lazy.LEVELS] = 0.0
        columns = {V: run.x, lazy.ORIGIN: distance.origin}
        if hasattr(output, "sum"):
            columns[Q] = -output.sum
        if distance.weight > 0.0:
            columns[lazy.LAG] = distance.weight * (run.x - distance.mean)
        for place, column in columns.items():
            if column.any():  # a pass over all coordinates takes as long as thousands of steps
                state.cells[:, place] = column
        if run.steps:
            state._take_ladder(ladder, run.steps // step.block, run.steps < EARLY * step.block)
        return state

    def begin(self, step: Ladder, first: float) -> None:
        """See :meth:`mixfree.steps.Ladder.begin`."""
        if step.guesses:
            self.rates[[PEAK, FARTHEST, lazy.RBAR]] = first

    def make_room(self, step: Ladder, samples: int) -> None:
        """Make room for the levels that ``samples`` further samples need."""
        self._widen(step.levels(int(self.counts[STEPS]) + samples))

    def mark(self, places: Array | None, samples: int) -> "Mark":
        """Mark the state before ``samples`` samples, with entries at ``places`` if given."""
        count, steps = int(self.counts[COUNT]), int(self.counts[STEPS])
        tail_turns = self.before.size and (count + samples).bit_length() > count.bit_length()
        everywhere = steps + samples >= self.rates[EPOCH] or tail_turns or self.kept.size
        if places is None or everywhere:
            return Mark(self.copy())
        numbers = {name: getattr(self, name).copy() for name in ("counts", "numbers", "rates")}
        return Mark(replace(self, cells=self.cells[places], **numbers), places)

    def go_back(self, mark: "Mark") -> "SparseLadderState":
        """Return the state as it was at the mark."""
        old: SparseLadderState = mark.state
        if mark.places is None:
            return old
        self.cells[mark.places, : old.cells.shape[1]] = old.cells
        return replace(old, cells=self.cells)

    def wants_all(self, run: Any) -> bool:
        """Whether the kernel stopped at a row that would change every coordinate."""
        return bool(run.whole[0] == lazy.WANTED)

    def _widen(self, levels: int) -> None:
        old = self.cells
        if _columns(levels) > old.shape[1]:
            self.cells = _empty(len(old), _columns(levels))
            self.cells[:, : old.shape[1]] = old

    def settled(self, run: RunState, step: Ladder, l2: float) -> RunState:
        """Write this state into ``run``, the run that it was made from, and return it."""
        samples, steps, *_ = self.counts.tolist()
        size, rates, early = len(self.cells), self.rates, steps < EARLY * step.block
        tables = np.zeros((3, step.levels(steps), size))
        # A copy: settling the state itself would change the bits of later steps.
        done = self.copy()
        lazy.settle_levels(done.arrays(), steps // step.block, _limit(step), tables)
        total, carry, due = (done.cells[:, place] for place in (lazy.TOTAL, lazy.CARRY, lazy.DUE))
        total = total + due if early else total.copy()
        root, rate = np.sqrt(total + (tables[EXCESS, 0] if len(tables[0]) else 0.0)), np.zeros(size)
        np.divide(step.length * rates[PEAK] * rates[lazy.RBAR], root, out=rate, where=root > 0.0)
        # After the early steps, the reference adds a block's sums only when the block is full.
        waiting, squares = (carry * (not early), due * (not early))
        run.step.load(
            {"unit": 1 - int(np.frexp(rates[SHRINK])[1]), "rate": rate, "total": total}
            | {"halves": tables[HALF], "levels": tables[LEVEL], "excess": tables[EXCESS]}
            | {"sum": waiting / rates[PEAK], "squares": squares / rates[PEAK] ** 2}
            | {"carry": carry - waiting}
        )
        mean = self.earlier.copy()
        if rates[WEIGHT] > 0.0:
            mean = self.cells[:, V] - self.cells[:, lazy.LAG] / rates[WEIGHT]
        scalars = {name: float(rates[place]) for name, place in _SCALARS.items()}
        run.step.distance.load(
            {"weighted_sum": self.cells[:, lazy.PULL] - waiting}
            | {"origin": self.cells[:, lazy.ORIGIN].copy()}
            | {"mean": mean, "before": self.earlier.copy()}
            | {"rbar": np.full(size, rates[lazy.RBAR]), "epoch": int(rates[EPOCH])}
            | scalars
        )
        point = self.point().astype(run.x.dtype)
        run.gradient.load({"samples": samples})
        run.output.load(self.output() | {"kept": self.kept.astype(point.dtype)})
        run.load({"x": point, "steps": steps})
        return run

    def point(self) -> Array:
        """Return the current point."""
        return self.cells[:, V].copy()

    def output(self) -> dict[str, Any]:
        """Return the fields of the output's state by name."""
        total = self.numbers[MASS] * self.cells[:, V] - self.cells[:, Q]
        return {
            "count": int(self.counts[COUNT]),
            "sum": total,
            "before": self.before.copy(),
            "kept": self.kept.copy(),
        }

    def arrays(self, whole: bool = True) -> lazy.SparseLadderRun:
        """Return the arrays themselves; the kernel changes the ``whole`` or the rows' cells."""
        return lazy.SparseLadderRun(
            self.counts,
            self.numbers,
            self.rates,
            self.cells,
            self.cells.view(np.int64),
            self.touched,
            self.earlier,
            self.before,
            self.kept,
            np.array([lazy.WHOLE if whole else lazy.PART]),
        )

    def plain(self) -> dict[str, Any]:
        """Return the state as copies of arrays, with the levels of all coordinates in a row."""
        marks = self._marks.copy()
        names = ("counts", "numbers", "rates", "earlier", "before", "kept")
        return {
            **{name: getattr(self, name).copy() for name in names},
            "cells": np.delete(self.cells[:, : lazy.LEVELS], lazy.MARK, axis=1),
            "last": np.where(marks == 0, -1, lazy.block_of(marks)),
            "first": lazy.first_of(marks).astype(np.int8),
            "end": lazy.end_of(marks).astype(np.int8),
            "low": lazy.low_of(marks).astype(np.int8),
            "levels": self._triples[self._own],
        }

    def restored(self, plain: Any, what: str) -> "SparseLadderState":
        """See :meth:`State.restored`; the places of the levels are recomputed."""
        given = _PlainSparseLadder(**self.plain()).restored(plain, what)
        found = self.copy()
        names = ("counts", "numbers", "rates", "earlier", "before", "kept")
        found.load({name: getattr(given, name) for name in names})
        found._widen(int((given.end - given.first).max()))
        found.cells[:, : lazy.LEVELS] = np.insert(given.cells, lazy.MARK, 0.0, axis=1)
        first, end, low = (part.astype(np.int64) for part in (given.first, given.end, given.low))
        marks = lazy.mark_of(np.maximum(given.last, 0), first, end, low)
        found._mark(np.where(given.last < 0, 0, marks))
        found._triples[found._own] = given.levels
        return found

    @property
    def _marks(self) -> Array:
        """Packed block, levels and low of each coordinate: see :func:`lazy.mark_of`."""
        marks: Array = self.cells.view(np.int64)[:, lazy.MARK]
        return marks

    @property
    def _triples(self) -> Array:
        """The levels of each coordinate from its first level on, three numbers each."""
        room = (self.cells.shape[1] - lazy.LEVELS) // 3
        levels = self.cells[:, lazy.LEVELS : lazy.LEVELS + 3 * room]
        return np.lib.stride_tricks.as_strided(
            levels, (len(levels), room, 3), (levels.strides[0], 24, 8)
        )

    @property
    def _own(self) -> Array:
        """Which of these levels a coordinate has."""
        number = lazy.end_of(self._marks) - lazy.first_of(self._marks)
        own: Array = np.arange(self._triples.shape[1]) < number[:, None]
        return own

    def _mark(self, marks: Array) -> None:
        """Set the mark of every coordinate."""
        self._marks[:] = marks
        touched = np.flatnonzero(marks)
        self.counts[lazy.TOUCHED] = touched.size
        self.touched[: touched.size] = touched

    def _take_ladder(self, ladder: LadderState, blocks: int, early: bool) -> None:
        """Convert the reference's levels, and its sums of the current block."""
        levels, total, lam = len(ladder.levels), ladder.total, self.rates[PEAK]
        triples, q = self._triples[:, :levels], np.zeros_like(total)
        waits = [bool(blocks >> j & 1) for j in range(levels)]
        excess = -np.diff(ladder.excess, axis=0, append=np.zeros((1, total.size)))
        # From the oldest level on: q is Q when a level was last complete, which is the same for
        # the levels below it down to one that waits. Without excess, any q ≥ V that grows will do.
        complete = np.where(excess > 0.0, ladder.levels - excess, ladder.levels)
        for j in reversed(range(levels)):
            if j + 1 == levels or waits[j + 1]:
                lowest = max((i for i in range(j + 1) if waits[i]), default=0)
                before, q = q, np.maximum(q, complete[lowest : j + 1].max(axis=0))
                if not (early or any(waits[: j + 1])):
                    q = total  # these levels were complete when the rates were last renewed
                if j + 1 < levels:
                    triples[:, j + 1, lazy.WAITING_DUE] = q - before
            triples[:, j, lazy.WAITING] = ladder.halves[j] if waits[j] else 0.0
            triples[:, j, lazy.WAITING_DUE] = 0.0
            triples[:, j, lazy.OVER] = ladder.levels[j] - q
        if levels:
            self.cells[:, lazy.ABOVE] = ladder.excess[0]
        seen, due = (total > 0.0) | (ladder.squares > 0.0), np.maximum(total - q, 0.0)
        if not early:  # the rest of Q is of a whole block, which waits at the first level
            if levels and waits[0]:
                triples[:, 0, lazy.WAITING_DUE] = due
            due = np.zeros_like(due)
        waiting, squares = lam * ladder.sum, lam**2 * ladder.squares
        pull = ladder.distance.weighted_sum + waiting
        self.cells[:, lazy.TOTAL], self.cells[:, lazy.PULL] = total - due, pull
        self.cells[:, lazy.CARRY] = ladder.carry + waiting
        self.cells[:, lazy.DUE] = due + squares
        ahead = self.cells[:, lazy.ORIGIN] - self.cells[:, V]
        back = 0.5 * ladder.rate / lam * (waiting**2 + squares)
        self.rates[lazy.NEWEST] = waiting @ ahead - back.sum()
        self.rates[[lazy.SIZE, lazy.LARGEST_SIZE]] = np.abs(pull).sum()
        self._mark(np.where(seen, lazy.mark_of(blocks, 0, levels, 0), 0))


@dataclass(slots=True)
class Mark:
    """A state to return to: all of it, or its numbers and the cells at some places."""

    state: Any
    places: Array | None = None

    def widen(self, now: Any) -> None:
        """Extend the mark to all cells; those not yet in it have not changed."""
        if self.places is not None:
            self.state, self.places = now.copy().go_back(self), None


@dataclass(slots=True)
class _PlainSparseLadder(State):
    """The saved form of a :class:`SparseLadderState`."""

    counts: Array
    numbers: Array
    rates: Array
    earlier: Array
    before: Array
    kept: Array
    cells: Array
    last: Array
    first: Array
    end: Array
    low: Array
    levels: Array

    grows: ClassVar[tuple[str, ...]] = ("levels",)  # one row per level in use

    def check(self, what: str) -> None:
        """Check the numbers of levels and the ranges of all numbers."""
        has = (self.first >= 0) & (self.first <= self.end) & (self.end <= _most_levels(self.counts))
        none = (self.first == lazy.NONE) & (self.end == lazy.NONE)
        low = (self.low >= 0) & (self.low <= self.end)
        own = int((self.end - self.first).sum())
        if not ((has | none).all() and low.all() and own == len(self.levels)):
            raise ValueError(
                f"state of the {what} does not fit: its numbers of levels contradict each other"
            )
        blocks = (self.last >= -1) & (self.last <= self.counts[STEPS])
        scales = self.rates[[SHRINK, PEAK, lazy.RBAR, EPOCH, MARGIN]] > 0.0
        counted = (self.counts >= 0).all() and (self.counts < MOST_COUNTED).all()
        if not (blocks.all() and scales.all() and counted):
            raise ValueError(f"state of the {what} does not fit: its counts contradict each other")
        if (self.cells[:, [lazy.TOTAL, lazy.ABOVE, lazy.DUE - 1]] < 0.0).any():
            raise ValueError(f"state of the {what} does not fit: a sum of squares is negative")


def _limit(step: Ladder) -> int:
    return 64 if step.max_levels is None else step.max_levels


def _most_levels(counts: Array) -> int:
    """Return the number of levels that so many steps can have."""
    return int(counts[STEPS]).bit_length()


def _columns(levels: int) -> int:
    """Return the columns of the cells for so many levels, in whole cache lines."""
    columns = lazy.LEVELS + 3 * max(levels, LEAST)
    return columns + -columns % (LINE // 8)


def _empty(rows: int, columns: int) -> Array:
    """Allocate an array at a cache line; unlike np.zeros, np.empty requests large pages."""
    room = np.empty(rows * columns + LINE // 8)
    first = -room.ctypes.data % LINE // 8
    return room[first : first + rows * columns].reshape(rows, columns)
