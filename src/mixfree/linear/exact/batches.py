"""The sums of a stream in batches of equal length, from whose spread intervals are computed."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.interrupts import all_or_nothing, shallow
from mixfree.linear.exact.blocks import (
    Blocks,
    block_rows,
    block_sums,
    check_same_columns,
    plain_sums,
    restored_sums,
)
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.sums import Sums, stacked
from mixfree.linear.exact.windows import Window, Windows

SHORTEST = 16  # rows per batch, unless the whole stream is shorter than a block
MOST, LEAST = 64, 16  # batches at which neighbours are joined: as many as fit in memory
LONG, SOON = 4, 16  # LONG blocks are summed as one, once the stream has SOON of them
LARGEST = 1 << 21  # values of such a long block: 16 MB
MEMORY = 32_000_000  # bytes for the batches; there are LEAST of them even if they need more


def most_batches(columns: int, memory: int = MEMORY) -> int:
    """Return the number of batches at which neighbours are joined: 64, 32 or 16.

    Each takes 8·columns² bytes: 64 batches take 5 MB for 100 columns, 16 take 128 MB for 1,000.

    Examples
    --------
    >>> most_batches(100), most_batches(300), most_batches(1000)
    (64, 32, 16)
    """
    fit = memory // (8 * max(columns, 1) ** 2)
    return MOST if fit >= MOST else max(1 << fit.bit_length() >> 1, LEAST)


class Batches:
    """The sums of a stream and of each of its 32 to 64 batches, and windows of its rows.

    All batches have the same length. When there are 64 of them, neighbours are joined, so that
    their length grows with the stream and need not be chosen.

    Parameters
    ----------
    columns, targets
        Numbers of features and targets per row. Their offsets cost no digits.
    memory
        Bytes for the sums of the batches; the windows of rows take an eighth of it.

    Examples
    --------
    >>> batches = Batches(1)
    >>> batches.add(np.arange(1000.0)[:, None], np.ones(1000))
    >>> batches.split.rows, len(batches.split), batches.total.rows
    (16, 62, 1000)
    """

    def __init__(self, columns: int, targets: int = 1, *, memory: int = MEMORY) -> None:
        self._blocks = Blocks(columns, targets)
        self._sums = Sums.nothing(columns, targets)  # of all full batches
        self._quick = True
        self.memory = check_whole(memory, "memory")
        self.most = most_batches(columns, self.memory)
        self.windows = Windows(columns, targets, memory=self.memory // 8)
        self._length_of_batch = _first_length(columns, self.most)
        self._closed: tuple[Sums, ...] = ()  # stacks of batches, in their order
        self._current = Sums.nothing(columns, targets)  # of the batch being filled

    @property
    def rows(self) -> int:
        """Rows of positive weight seen."""
        return self._sums.rows + self._current.rows + self._blocks.filled

    @property
    def total(self) -> Sums:
        """The sums of all rows."""
        total, waiting = self._sums.joined(self._current), self._blocks.pending
        return (
            total if waiting is None else total.joined(block_sums(*waiting, quick=self._quick)[0])
        )

    @property
    def split(self) -> Sums:
        """The sums of each batch along a leading axis; the last rows may be in none."""
        waiting = self._blocks.pending
        length, parts = self._length_of_batch, list(self._closed)
        if waiting is not None:
            if not parts and not self._current.rows:
                # A short stream has batches as well, since all its rows are pending.
                length = max(1 << (self._blocks.filled // self.most).bit_length(), 1)
            if count := self._blocks.filled // length:
                parts.append(block_sums(*_cut(*waiting, count, length), quick=False)[0])
        if not parts:
            nothing = Sums.nothing(self._blocks.columns, self._blocks.targets)
            return stacked([nothing])[:0]
        count = sum(map(len, parts))
        return stacked(_paired(parts) if count >= self.most else parts)

    @property
    def kept(self) -> tuple[Window, ...]:
        """Windows of consecutive rows, spread evenly over the stream; all rows of a short one."""
        return self._complete_windows().all

    def _complete_windows(self) -> Windows:
        """Return the windows with the rows that wait for a block."""
        windows, waiting = self.windows.copy(), self._blocks.pending
        if waiting is not None:
            windows.take(self._sums.rows + self._current.rows, *waiting)
        return windows

    def successor(self) -> Self:
        """Return a copy that shares all sums; only one of the two may be continued."""
        twin = shallow(self)
        twin._blocks, twin.windows = self._blocks.successor(), self.windows.copy()
        return twin

    @all_or_nothing
    def add(self, rows: Any, targets: Any, weights: Any = None) -> None:
        """Add rows in order, dense or sparse, of any real dtype.

        Raises
        ------
        ValueError
            If a shape is wrong, or a value is not finite or above 1e75; nothing has changed then.
        """
        self._blocks.cut(rows, targets, weights, self._length, self._take)

    @all_or_nothing
    def merge(self, other: Self) -> None:
        """Add all rows of ``other``, as if they followed; ``other`` is unchanged.

        Rows of unfinished batches count in the total, but belong to no batch.
        """
        check_same_columns(self._blocks, other._blocks)
        one, two, total = self.split, other.split, self.total.joined(other.total)
        windows = self._complete_windows()
        windows.merge(other._complete_windows(), total.rows)
        length = max(one.rows, two.rows, self._length_of_batch)
        closed: tuple[Sums, ...] = ()
        for each in (one, two):
            parts: tuple[Sums, ...] = (each,) if len(each) else ()
            own = each.rows
            while parts and own < length:
                parts, own = _paired(parts), 2 * own
            closed += parts
        self._sums, self._quick = total, self._quick and other._quick
        self._current = Sums.nothing(self._blocks.columns, self._blocks.targets)
        self._blocks = Blocks(self._blocks.columns, self._blocks.targets)
        self._closed, self._length_of_batch = closed, length
        self.windows = windows
        self._shorten()

    def mapped(self, change: ColumnMap) -> Self:
        """Return the sums, batches and windows of the same rows for mapped columns."""
        twin = type(self)(change.after, self._blocks.targets, memory=self.memory)
        twin._sums, twin._current = self._sums.mapped(change), self._current.mapped(change)
        twin._closed = tuple(part.mapped(change) for part in self._closed)
        twin._quick, twin.windows = self._quick, self.windows.mapped(change, self.memory // 8)
        if twin._sums.rows or twin._current.rows:
            twin._length_of_batch = self._length_of_batch
        twin._shorten()
        twin._blocks = self._blocks.mapped(change)
        if (waiting := twin._blocks.pending) is not None and twin._blocks.filled >= twin._length():
            twin._blocks = Blocks(change.after, self._blocks.targets)
            twin._blocks.cut(*waiting, twin._length, twin._take)
        return twin

    def plain(self) -> dict[str, Any]:
        """Return the state as numbers and copies of arrays."""
        closed = plain_sums(stacked(self._closed)) if self._closed else None
        return {
            "blocks": self._blocks.plain(),
            "sums": plain_sums(self._sums),
            "quick": self._quick,
            "current": plain_sums(self._current),
            "closed": closed,
            "length": self._length_of_batch,
            "windows": self.windows.plain(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that :meth:`plain` returned; an error changes nothing."""
        columns, targets = self._blocks.columns, self._blocks.targets
        sums = restored_sums(state["sums"], columns, targets)
        current = restored_sums(state["current"], columns, targets)
        closed: tuple[Sums, ...] = ()
        if state["closed"] is not None:
            count = check_whole(np.size(state["closed"]["weight"]), "batches", 1, self.most - 1)
            closed = (restored_sums(state["closed"], columns, targets, count),)
        length = check_whole(state["length"], "length of the state")
        windows = Windows(columns, targets, memory=self.memory // 8)
        windows.restore(state["windows"])
        self._blocks.restore(state["blocks"])
        self._sums, self._current, self._closed, self.windows = sums, current, closed, windows
        self._length_of_batch, self._quick = length, bool(state["quick"])

    def _length(self) -> int:
        """Return the rows of the next block: more on long streams, to join sums less often."""
        block = block_rows(self._blocks.columns)
        fit = 1 << (LARGEST // max(self._blocks.columns, 1)).bit_length() >> 1
        long = max(min(LONG * block, fit), block)
        aligned = self._current.rows % long == 0
        length = long if aligned and self._sums.rows >= SOON * block else block
        # Blocks were longer or shorter before columns were added, so that a batch may end sooner.
        room = self._length_of_batch - self._current.rows
        return min(length, room) if self._current.rows else length

    def _take(self, rows: Array, targets: Array, weights: Array | None) -> None:
        self.windows.take(self._sums.rows + self._current.rows, rows, targets, weights)
        length = self._length_of_batch
        if length < len(rows):
            pieces = _cut(rows, targets, weights, len(rows) // length, length)
            block, self._quick = block_sums(*pieces, quick=self._quick)
            self._sums = self._sums.joined(block.combined())
            self._closed = (*self._closed, block)
        else:
            block, self._quick = block_sums(rows, targets, weights, quick=self._quick)
            self._current = self._current.joined(block)
            if self._current.rows < length:
                return
            self._sums = self._sums.joined(self._current)
            self._closed = (*self._closed, stacked([self._current]))
            self._current = Sums.nothing(self._blocks.columns, self._blocks.targets)
        self._shorten()

    def _shorten(self) -> None:
        """Join neighbours while there are too many batches."""
        while sum(map(len, self._closed)) >= self.most:
            self._closed, self._length_of_batch = _paired(self._closed), 2 * self._length_of_batch


def _first_length(columns: int, most: int) -> int:
    """Return the initial rows per batch: not few, since a batch has columns² sums."""
    block = block_rows(columns)
    return min(max(2 * block // most, SHORTEST, 1 << columns.bit_length() >> 1), block)


def _cut(
    rows: Array, targets: Array, weights: Array | None, count: int, length: int
) -> tuple[Array, Array, Array | None]:
    """Return the first ``count`` pieces of ``length`` rows, along a leading axis."""

    def cut(array: Array) -> Array:
        return array[: count * length].reshape(count, length, *array.shape[1:])

    return cut(rows), cut(targets), None if weights is None else cut(weights)


def _paired(parts: Sequence[Sums]) -> tuple[Sums, ...]:
    """Join neighbours in stacks of batches; a last one without a neighbour is dropped."""
    if any(len(part) % 2 for part in parts):
        whole = stacked(parts)
        parts = (whole[: len(whole) // 2 * 2],)
    return tuple(part[::2].joined(part[1::2]) for part in parts if len(part))
