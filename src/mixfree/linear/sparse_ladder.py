"""The state of the ladder over sparse rows, in the form of its kernel."""

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.state import RunState, State
from mixfree.kernels import sparse_ladder as lazy
from mixfree.kernels import sparse_records as layout
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
from mixfree.linear.sparse_saved import SavedSparseLadder
from mixfree.steps.ladder import EARLY, Ladder, LadderState

ROOM = 6  # slots allocated per coordinate; memory that is never used is not there
MORE = 1 << 12  # and beyond them
# Places in ``rates`` of the fields of the ladder's distance.
_SCALARS = {"lam": PEAK, "weight": WEIGHT, "numerator": GAIN, "margin": MARGIN}
_NUMBERS = ("counts", "numbers", "rates")
_VECTORS = ("origin", "earlier", "before", "kept")


@dataclass(slots=True)
class SparseLadderState(State):
    """A run in the form of its kernel: see :mod:`mixfree.kernels.sparse_ladder`."""

    counts: Array
    numbers: Array
    rates: Array
    cells: Array  # one row per coordinate
    records: Array  # their levels, one row per slot
    touched: Array  # coordinates touched so far
    origin: Array  # of the distance
    earlier: Array  # mean of the previous epoch
    before: Array  # older sum of the tail average
    kept: Array  # the random iterate

    @classmethod
    def of(cls, run: RunState, step: Ladder) -> "SparseLadderState":
        """Convert the state of an optimiser's run, which is not changed."""
        ladder, distance, output, size = run.step, run.step.distance, run.output, run.x.size
        counts = [run.gradient.samples, run.steps, 0, 1, 0, output.count, 0, 1]
        rates = np.zeros(lazy.SHIFTED + 1)
        for name, place in _SCALARS.items():
            rates[place] = getattr(distance, name)
        rates[[SHRINK, EPOCH, lazy.RBAR]] = 2.0**-ladder.unit, distance.epoch, distance.rbar[0]
        rates[FARTHEST] = step.reach(ladder)
        rates[lazy.SHIFTED] = distance.origin.any()
        state = cls(
            counts=np.array(counts),
            numbers=np.array([0.0, 1.0, 0.0]),
            rates=rates,
            cells=_empty(size, lazy.ROOM + 1),
            records=_empty(ROOM * size + MORE, layout.SLOT),
            touched=np.empty(size, np.int32),
            origin=distance.origin.copy(),
            earlier=distance.before.copy(),
            before=np.array(getattr(output, "before", np.zeros(0))),
            kept=np.array(getattr(output, "kept", np.zeros(0)), dtype=np.float64),
        )
        state.cells[:] = 0.0
        state.records[0] = 0.0
        columns = {V: run.x}
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

    def mark(self, places: Array | None, samples: int, spare: "Mark | None") -> "Mark":
        """Mark the state before ``samples`` samples, with entries at ``places`` if given.

        The memory of ``spare``, a mark that is not needed any more, may be used again: to request
        new memory takes many times as long as to copy.
        """
        count, steps = int(self.counts[COUNT]), int(self.counts[STEPS])
        tail_turns = self.before.size and (count + samples).bit_length() > count.bit_length()
        everywhere = steps + samples >= self.rates[EPOCH] or tail_turns or self.kept.size
        if places is None or everywhere:
            return Mark(self._copied(spare.state if spare is not None else None))
        numbers = {name: getattr(self, name).copy() for name in _NUMBERS}
        entries = self._entries(places)
        old = replace(self, cells=self.cells[places], records=self._flat[entries], **numbers)
        return Mark(old, places, entries)

    def go_back(self, mark: "Mark") -> "SparseLadderState":
        """Return the state as it was at the mark."""
        old: SparseLadderState = mark.state
        if mark.places is None:
            return old
        self.cells[mark.places] = old.cells
        self._flat[mark.entries] = old.records
        return replace(self, **{name: getattr(old, name) for name in _NUMBERS})

    def copy(self) -> "SparseLadderState":
        """Return an independent copy, without what is in unused slots."""
        return self._copied(None)

    def _copied(self, spare: "SparseLadderState | None") -> "SparseLadderState":
        used, found = int(self.counts[layout.USED]), copy.copy(self)
        for name in self.names():
            mine = getattr(self, name)
            theirs = mine[:0] if spare is None else getattr(spare, name)
            if theirs.shape != mine.shape:
                theirs = _empty(*mine.shape) if mine.ndim == 2 else np.empty_like(mine)
            part = slice(used if name == "records" else len(mine))
            theirs[part] = mine[part]
            setattr(found, name, theirs)
        return found

    def __deepcopy__(self, memo: Any) -> "SparseLadderState":
        return self.copy()

    def needs(self, run: Any, mark: "Mark | None") -> bool:
        """Whether the kernel stopped for something that it has now, and can go on."""
        if run.needs[0] == lazy.SLOTS:
            self._add_slots(2 * len(self.records) + run.most * len(self.cells))
        elif run.needs[0] == lazy.ALL and mark is not None:
            mark.widen(self)
        return bool(run.needs[0])

    def _add_slots(self, number: int) -> None:
        old, used = self.records, int(self.counts[layout.USED])
        self.records = _empty(number, layout.SLOT)
        self.records[:used] = old[:used]

    def settled(self, run: RunState, step: Ladder, l2: float) -> RunState:
        """Write this state into ``run``, the run that it was made from, and return it."""
        samples, steps, *_ = self.counts.tolist()
        size, rates, early = len(self.cells), self.rates, steps < EARLY * step.block
        tables = np.zeros((3, step.levels(steps), size))
        # A copy: settling the state itself would change the bits of later steps.
        done = self.copy()
        done._add_slots(len(done.records) + _most_slots(step, steps) * size)
        lazy.settle_levels(done.arrays(step, 0), steps // step.block, _limit(step), tables)
        total, carry, due = done.cells[:, lazy.TOTAL], done.cells[:, lazy.CARRY], done._due()
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
            | {"origin": self.origin.copy()}
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

    def arrays(self, step: Ladder, samples: int, whole: bool = True) -> lazy.SparseLadderRun:
        """Return the arrays themselves; the kernel changes the ``whole`` or the rows' cells."""
        return lazy.SparseLadderRun(
            self.counts,
            self.numbers,
            self.rates,
            self.cells,
            self.cells.view(np.int64),
            self.records,
            self._flat,
            self._flat.view(np.int64),
            self.touched,
            self.origin,
            self.earlier,
            self.before,
            self.kept,
            np.array([lazy.NOTHING]),
            whole,
            _most_slots(step, int(self.counts[STEPS]) + samples),
        )

    def plain(self) -> dict[str, Any]:
        """Return the state as copies of arrays, with the levels of all coordinates in a row."""
        marks, rooms, at = self._marks, self._rooms, layout.place_of(self._rooms)
        counts = self.counts.copy()
        counts[layout.USED] = 0
        return {
            **{name: getattr(self, name).copy() for name in (*_NUMBERS, *_VECTORS)},
            "counts": counts,
            "cells": self.cells[:, : lazy.MARK].copy(),
            "last": np.where(marks == 0, -1, layout.block_of(marks)),
            "due": self._due(),
            "several": layout.has_several(marks).astype(np.int8),
            "above": self._flat[at + layout.ABOVE],
            "waits": self._flat.view(np.int64)[at + layout.WAITS],
            "depth": layout.depth_of(rooms).astype(np.int8),
            "first": layout.first_of(rooms).astype(np.int8),
            "count": layout.count_of(rooms).astype(np.int8),
            "halves": self._flat[self._halves()].reshape(-1, 2),
            "over": self._flat[self._over()],
        }

    def restored(self, plain: Any, what: str) -> "SparseLadderState":
        """See :meth:`State.restored`; the places of the levels are recomputed."""
        given = SavedSparseLadder(**self.plain()).restored(plain, what)
        found = self.copy()
        found.load({name: getattr(given, name) for name in (*_NUMBERS, *_VECTORS)})
        found.cells[:, : lazy.MARK] = given.cells
        depth, first, count = (
            part.astype(np.int64) for part in (given.depth, given.first, given.count)
        )
        found._give(given.last, given.several.astype(np.int64), depth, first, count)
        found._fill(given.waits, given.above, given.due, given.halves.ravel(), given.over)
        return found

    @property
    def _flat(self) -> Array:
        """All records as a vector."""
        return self.records.reshape(-1)

    @property
    def _marks(self) -> Array:
        """Packed block of each coordinate: see :func:`layout.block_of`."""
        marks: Array = self.cells.view(np.int64)[:, lazy.MARK]
        return marks

    @property
    def _rooms(self) -> Array:
        """Packed place and contents of each coordinate's record: see :func:`layout.room_of`."""
        rooms: Array = self.cells.view(np.int64)[:, lazy.ROOM]
        return rooms

    def _entries(self, places: Array) -> Array:
        """Return where the records of some coordinates are."""
        rooms = self._rooms[places]
        rooms = rooms[rooms != 0]
        return _ranges(layout.place_of(rooms), layout.size_of(rooms))

    def _halves(self) -> Array:
        """Return where the halves are."""
        return _ranges(
            layout.place_of(self._rooms) + layout.HALVES, 2 * layout.depth_of(self._rooms)
        )

    def _over(self) -> Array:
        """Return where the U_j are."""
        rooms, number = self._rooms, layout.count_of(self._rooms)
        return _ranges(layout.place_of(rooms) + layout.size_of(rooms) - number, number)

    def _due(self) -> Array:
        """Return the sum of (λg)² over the last block of each coordinate."""
        at, carry = layout.place_of(self._rooms) + layout.DUE, self.cells[:, lazy.CARRY]
        return np.where(layout.has_several(self._marks), self._flat[at], carry * carry)

    def _give(self, last: Array, several: Array, depth: Array, first: Array, count: Array) -> None:
        """Mark the coordinates, and give each one that needs it a new record."""
        self._marks[:] = np.where(last < 0, 0, layout.mark_of(last, several))
        touched = np.flatnonzero(last >= 0)
        self.counts[lazy.TOUCHED] = touched.size
        self.touched[: touched.size] = touched
        size = np.maximum(_slots(layout.HALVES + 2 * (depth + 1) + count), layout.LEAST)
        needs = (depth + count + several) > 0
        slots = np.cumsum(np.where(needs, size, 0))
        self.counts[layout.USED] = 1 + (slots[-1] if slots.size else 0)
        if self.counts[layout.USED] + MORE > len(self.records):
            self.records = _empty(2 * int(self.counts[layout.USED]) + MORE, layout.SLOT)
        self.records[0] = 0.0
        rooms = layout.room_of(1 + slots - size, size, first, count, depth)
        self._rooms[:] = np.where(needs, rooms, 0)

    def _fill(self, waits: Array, above: Array, due: Array, halves: Array, over: Array) -> None:
        """Write what the records have."""
        own = self._rooms != 0
        at = layout.place_of(self._rooms[own])
        self._flat.view(np.int64)[at + layout.WAITS] = waits[own]
        self._flat[at + layout.ABOVE], self._flat[at + layout.DUE] = above[own], due[own]
        self._flat[self._halves()], self._flat[self._over()] = halves, over

    def _take_ladder(self, ladder: LadderState, blocks: int, early: bool) -> None:
        """Convert the reference's levels, and its sums of the current block."""
        levels, total, lam = len(ladder.levels), ladder.total, self.rates[PEAK]
        over, q = np.zeros((total.size, levels)), np.zeros_like(total)
        waits = [bool(blocks >> j & 1) for j in range(levels)]
        squares = np.zeros((total.size, levels + 1))  # of the halves that wait
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
                squares[:, j + 1] = q - before
            over[:, j] = ladder.levels[j] - q
        seen, due = (total > 0.0) | (ladder.squares > 0.0), np.maximum(total - q, 0.0)
        if not early:  # the rest of Q is of a whole block, which waits at the first level
            squares[:, 0] = due
            due = np.zeros_like(due)
        waiting, newest = lam * ladder.sum, lam**2 * ladder.squares
        pull = ladder.distance.weighted_sum + waiting
        self.cells[:, lazy.TOTAL], self.cells[:, lazy.PULL] = total - due, pull
        self.cells[:, lazy.CARRY] = ladder.carry + waiting
        ahead = self.origin - self.cells[:, V]
        back = 0.5 * ladder.rate / lam * (waiting**2 + newest)
        self.rates[lazy.NEWEST] = waiting @ ahead - back.sum()
        self.rates[[lazy.SIZE, lazy.LARGEST_SIZE]] = np.abs(pull).sum()
        those = [j for j in reversed(range(levels)) if waits[j]]
        whole, nothing = seen.astype(np.int64), np.zeros_like(seen, np.int64)
        self._give(np.where(seen, blocks, -1), whole, len(those) * whole, nothing, levels * whole)
        halves = np.stack([ladder.halves[those].T, squares[:, those]], axis=2)
        above = ladder.excess[0] if levels else np.zeros_like(total)
        bits = np.full(total.size, sum(1 << j for j in those))
        self._fill(bits, above, due + newest, halves[seen].ravel(), over[seen, ::-1].ravel())


@dataclass(slots=True)
class Mark:
    """A state to return to: all of it, or its numbers, some cells, and entries of records."""

    state: Any
    places: Array | None = None
    entries: Array | None = None

    def widen(self, now: Any) -> None:
        """Extend the mark to all cells; those not yet in it have not changed."""
        if self.places is not None:
            self.state, self.places = now.copy().go_back(self), None


def _limit(step: Ladder) -> int:
    return 64 if step.max_levels is None else step.max_levels


def _most_slots(step: Ladder, steps: int) -> int:
    """Return the number of slots that a coordinate may need on its way to so many steps."""
    # The last record is at most half as large again as it must be, and so is each one before it.
    return layout.LEAST + 5 * int(_slots(layout.HALVES + 3 * step.levels(steps) + 2))


def _slots(numbers: Any) -> Any:
    return -(-numbers // layout.SLOT)


def _ranges(starts: Array, lengths: Array) -> Array:
    """Return the numbers from each start on, one range after another.

    Examples
    --------
    >>> _ranges(np.array([3, 10]), np.array([2, 1])).tolist()
    [3, 4, 10]
    """
    ends: Array = np.cumsum(lengths)
    return np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1] if ends.size else 0)


def _empty(rows: int, columns: int) -> Array:
    """Allocate an array at a cache line; unlike np.zeros, np.empty requests large pages."""
    room = np.empty(rows * columns + LINE // 8)
    first = -room.ctypes.data % LINE // 8
    return room[first : first + rows * columns].reshape(rows, columns)
