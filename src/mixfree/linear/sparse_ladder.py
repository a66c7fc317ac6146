"""The ladder's run over sparse rows, in the form that its kernel changes."""

from dataclasses import dataclass
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
from mixfree.kernels.sparse import LISTED, MASS, Q, V
from mixfree.steps.ladder import Ladder, LadderState

LEAST = 12  # levels for which there is room from the first: more are a copy of everything
# By their names in the states of the ladder and of its distance: columns of the entries, columns
# of the cells, and places in the rates.
_SUMS = {"sum": lazy.SUM, "squares": lazy.SQUARES, "carry": lazy.CARRIED}
_VECTORS = {"weighted_sum": lazy.PULL, "origin": lazy.ORIGIN}
_SCALARS = {"lam": PEAK, "weight": WEIGHT, "numerator": GAIN, "margin": MARGIN}


@dataclass(slots=True)
class SparseLadderState(State):
    """The run in the form that the kernel changes: see :mod:`mixfree.kernels.sparse_ladder`."""

    counts: Array
    numbers: Array
    rates: Array
    cells: Array  # one row per coordinate
    places: Array  # coordinates touched in this block
    entries: Array  # their sums
    touched: Array  # coordinates touched so far
    earlier: Array  # mean of the epoch before
    before: Array  # the tail average's older sum
    kept: Array  # the random iterate

    @classmethod
    def of(cls, run: RunState, step: Ladder) -> "SparseLadderState":
        """The state of a run as the optimiser keeps it, which is left as it is."""
        ladder, distance, output, size = run.step, run.step.distance, run.output, run.x.size
        counts = [run.gradient.samples, run.steps, 0, 1, 0, output.count, 0, 0]
        rates, pull = np.zeros(lazy.LARGEST_SIZE + 1), np.abs(distance.weighted_sum).sum()
        for name, place in _SCALARS.items():
            rates[place] = getattr(distance, name)
        rates[[SHRINK, EPOCH, lazy.RBAR]] = 2.0**-ladder.unit, distance.epoch, distance.rbar[0]
        rates[[lazy.SIZE, lazy.LARGEST_SIZE]], rates[FARTHEST] = pull, step.reach(ladder)
        state = cls(
            counts=np.array(counts),
            numbers=np.array([0.0, 1.0, 0.0]),
            rates=rates,
            cells=_empty(size, _columns(0)),
            places=np.empty(size, np.int32),
            entries=_empty(size, lazy.ADDED + 1),
            touched=np.empty(size, np.int32),
            earlier=distance.before.copy(),
            before=np.array(getattr(output, "before", np.zeros(0))),
            kept=np.array(getattr(output, "kept", np.zeros(0)), dtype=np.float64),
        )
        state._widen(step.levels(run.steps))
        state.cells[:, : lazy.LEVELS] = 0.0
        columns = {V: run.x, lazy.TOTAL: ladder.total}
        columns |= {place: getattr(distance, name) for name, place in _VECTORS.items()}
        if hasattr(output, "sum"):
            columns[Q] = -output.sum
        if distance.weight > 0.0:
            columns[lazy.LAG] = distance.weight * (run.x - distance.mean)
        for place, column in columns.items():
            if column.any():  # a pass over all rows takes as long as thousands of steps
                state.cells[:, place] = column
        state._take_ladder(ladder, run.steps // step.block)
        return state

    def begin(self, step: Ladder, first: float) -> None:
        """See :meth:`mixfree.steps.Ladder.begin`."""
        if step.guesses:
            self.rates[[PEAK, FARTHEST, lazy.RBAR]] = first

    def make_room(self, step: Ladder, samples: int) -> None:
        """Let each coordinate have the levels of so many further samples."""
        self._widen(step.levels(int(self.counts[STEPS]) + samples))

    def _widen(self, levels: int) -> None:
        old = self.cells
        if _columns(levels) > old.shape[1]:
            self.cells = _empty(len(old), _columns(levels))
            self.cells[:, : old.shape[1]] = old

    def settled(self, run: RunState, step: Ladder, l2: float) -> RunState:
        """The run, given as it was when this state was made from it, brought up to date."""
        samples, steps, *_ = self.counts.tolist()
        size, rates, listed = len(self.cells), self.rates, self.places[self._listed]
        tables = np.zeros((3, step.levels(steps), size))
        # Not the state itself, which would have other bits if it was up to date sooner.
        lazy.settle_levels(self.copy().arrays(), steps // step.block, _limit(step), tables)
        total = self.cells[:, lazy.TOTAL].copy()
        root, rate = np.sqrt(total + (tables[EXCESS, 0] if len(tables[0]) else 0.0)), np.zeros(size)
        np.divide(step.length * rates[PEAK] * rates[lazy.RBAR], root, out=rate, where=root > 0.0)
        sums = {name: np.zeros(size) for name in _SUMS}
        for name, place in _SUMS.items():
            sums[name][listed] = self.entries[self._listed, place]
        run.step.load(
            {"unit": 1 - int(np.frexp(rates[SHRINK])[1]), "rate": rate, "total": total}
            | {"halves": tables[HALF], "levels": tables[LEVEL], "excess": tables[EXCESS]}
            | sums
        )
        mean = self.earlier.copy()
        if rates[WEIGHT] > 0.0:
            mean = self.cells[:, V] - self.cells[:, lazy.LAG] / rates[WEIGHT]
        scalars = {name: float(rates[place]) for name, place in _SCALARS.items()}
        run.step.distance.load(
            {name: self.cells[:, place].copy() for name, place in _VECTORS.items()}
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
        """Where the run is."""
        return self.cells[:, V].copy()

    def output(self) -> dict[str, Any]:
        """What the output has, by the names of its state."""
        total = self.numbers[MASS] * self.cells[:, V] - self.cells[:, Q]
        return {
            "count": int(self.counts[COUNT]),
            "sum": total,
            "before": self.before.copy(),
            "kept": self.kept.copy(),
        }

    def arrays(self) -> lazy.SparseLadderRun:
        """The arrays themselves, for the kernel to change."""
        return lazy.SparseLadderRun(
            self.counts,
            self.numbers,
            self.rates,
            self.cells,
            self.cells.view(np.int64),
            self.places,
            self.entries,
            self.touched,
            self.earlier,
            self.before,
            self.kept,
        )

    def plain(self) -> dict[str, Any]:
        """Numbers and arrays, with the levels that coordinates have, one after the other."""
        marks = self._marks.copy()
        listed, slots = self.places[self._listed], self._listed
        last = np.where(marks == 0, -1, lazy.number_of(marks))
        last[listed] = 0
        names = ("counts", "numbers", "rates", "earlier", "before", "kept")
        return {
            **{name: getattr(self, name).copy() for name in names},
            "cells": np.delete(self.cells[:, : lazy.LEVELS], lazy.MARK, axis=1),
            "last": last,
            "first": lazy.first_of(marks).astype(np.int8),
            "end": lazy.end_of(marks).astype(np.int8),
            "low": lazy.low_of(marks).astype(np.int8),
            "levels": self._triples[self._own],
            "places": listed.copy(),
            "entries": self.entries[slots].copy(),
        }

    def restored(self, plain: Any, what: str) -> "SparseLadderState":
        """See :meth:`State.restored`; where the levels and the list stand is made anew."""
        given = _PlainSparseLadder(**self.plain()).restored(plain, what)
        found = self.copy()
        names = ("counts", "numbers", "rates", "earlier", "before", "kept")
        found.load({name: getattr(given, name) for name in names})
        found._widen(int((given.end - given.first).max()))
        found.cells[:, : lazy.LEVELS] = np.insert(given.cells, lazy.MARK, 0.0, axis=1)
        first, end, low = (part.astype(np.int64) for part in (given.first, given.end, given.low))
        marks = lazy.mark_of(np.maximum(given.last, 0), 0, first, end, low)
        found._mark(np.where(given.last < 0, 0, marks))
        found._triples[found._own] = given.levels
        found._list(given.places, given.entries)
        return found

    @property
    def _marks(self) -> Array:
        """Where each coordinate is: see :func:`mixfree.kernels.sparse_ladder.mark_of`."""
        marks: Array = self.cells.view(np.int64)[:, lazy.MARK]
        return marks

    @property
    def _triples(self) -> Array:
        """The levels of each coordinate from its first one on, three numbers each."""
        room = (self.cells.shape[1] - lazy.LEVELS) // 3
        levels = self.cells[:, lazy.LEVELS : lazy.LEVELS + 3 * room]
        return np.lib.stride_tricks.as_strided(
            levels, (len(levels), room, 3), (levels.strides[0], 24, 8)
        )

    @property
    def _own(self) -> Array:
        """Which of them a coordinate has."""
        number = lazy.end_of(self._marks) - lazy.first_of(self._marks)
        own: Array = np.arange(self._triples.shape[1]) < number[:, None]
        return own

    @property
    def _listed(self) -> slice:
        """Where the list stands."""
        return slice(int(self.counts[LISTED]))

    def _mark(self, marks: Array) -> None:
        """Give every coordinate its mark."""
        self._marks[:] = marks
        touched = np.flatnonzero(marks)
        self.counts[lazy.TOUCHED] = touched.size
        self.touched[: touched.size] = touched

    def _list(self, places: Array, entries: Array) -> None:
        """Begin the list with these coordinates."""
        self.counts[LISTED] = places.size
        self.places[self._listed], self.entries[self._listed] = places, entries
        self._marks[places] = lazy.renumbered(self._marks[places], np.arange(places.size), 1)

    def _take_ladder(self, ladder: LadderState, blocks: int) -> None:
        """Take over the levels and the sums of the block that has begun."""
        levels, total = len(ladder.levels), ladder.total
        triples, q = self._triples[:, :levels], np.zeros_like(total)
        waits = [bool(blocks >> j & 1) for j in range(levels)]
        excess = -np.diff(ladder.excess, axis=0, append=np.zeros((1, total.size)))
        # From the oldest on: q is Q when a level was last complete, as it was for those below
        # down to one that waits. Without excess, it may be anything not below V that grows.
        complete = np.where(excess > 0.0, ladder.levels - excess, ladder.levels)
        for j in reversed(range(levels)):
            if j + 1 == levels or waits[j + 1]:
                lowest = max((i for i in range(j + 1) if waits[i]), default=0)
                before, q = q, np.maximum(q, complete[lowest : j + 1].max(axis=0))
                if j + 1 < levels:
                    triples[:, j + 1, lazy.WAITING_DUE] = q - before
            triples[:, j, lazy.WAITING] = ladder.halves[j] if waits[j] else 0.0
            triples[:, j, lazy.WAITING_DUE] = 0.0
            triples[:, j, lazy.OVER] = ladder.levels[j] - q
        if levels:
            self.cells[:, lazy.ABOVE] = ladder.excess[0]
        seen, added = (total > 0.0) | (ladder.squares > 0.0), np.maximum(total - q, 0.0)
        listed = np.flatnonzero((ladder.squares > 0.0) | (ladder.carry != 0.0) | (added > 0.0))
        self._mark(np.where(seen, lazy.mark_of(blocks, 0, 0, levels, 0), 0))
        entries = np.array([ladder.sum, ladder.squares, ladder.rate, ladder.carry, added])
        self._list(listed, entries.T[listed])


@dataclass(slots=True)
class _PlainSparseLadder(State):
    """What is saved of a :class:`SparseLadderState`."""

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
    places: Array
    entries: Array

    # Lists have as many rows as there are levels in use, and coordinates in the block.
    grows: ClassVar[tuple[str, ...]] = ("levels", "places", "entries")

    def check(self, what: str) -> None:
        """Lists are as long as is said elsewhere, and numbers within their range."""
        places, size = self.places, len(self.cells)
        alone = np.unique(places).size == places.size == len(self.entries)
        inside = places.size == 0 or (places.min() >= 0 and places.max() < size)
        if not (alone and inside and places.size == self.counts[LISTED]):
            raise ValueError(f"state of the {what} does not fit: its block's list is not one")
        has = (self.first >= 0) & (self.first <= self.end) & (self.end <= _most_levels(self.counts))
        none = (self.first == lazy.NONE) & (self.end == lazy.NONE)
        low = (self.low >= 0) & (self.low <= self.end)
        own = int((self.end - self.first).sum())
        if not ((has | none).all() and low.all() and own == len(self.levels)):
            raise ValueError(f"state of the {what} does not fit: its levels differ in number")
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
    """Levels that so many steps can have."""
    return int(counts[STEPS]).bit_length()


def _columns(levels: int) -> int:
    """Columns of the cells with room for so many levels: whole cache lines."""
    columns = lazy.LEVELS + 3 * max(levels, LEAST)
    return columns + -columns % (LINE // 8)


def _empty(rows: int, columns: int) -> Array:
    """Room that begins at a cache line, in large pages: NumPy asks for them, but not for zeros."""
    room = np.empty(rows * columns + LINE // 8)
    first = -room.ctypes.data % LINE // 8
    return room[first : first + rows * columns].reshape(rows, columns)
