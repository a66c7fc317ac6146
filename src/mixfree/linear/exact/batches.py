"""The sums of a stream in batches of equal length, whose spread tells how sure a fit is."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.linear.exact.moments import (
    Blocks,
    Moments,
    block_rows,
    block_sums,
    check_same_columns,
    plain_sums,
    restored_sums,
)
from mixfree.linear.exact.sums import Sums, stacked
from mixfree.linear.exact.windows import Window, Windows

SHORTEST = 16  # rows of a batch, but where the whole stream is shorter than a block
MOST, LEAST = 64, 16  # batches at which two neighbours become one: as many as the memory allows
LONG, SOON = 4, 16  # blocks that are taken as one, once the stream has so many
LARGEST = 1 << 21  # values of such a block: 16 MB
MEMORY = (
    32 * 10**6
)  # bytes that batches may take; there are LEAST of them even where they need more


def most_batches(columns: int, memory: int = MEMORY) -> int:
    """Number of batches at which two neighbours become one: 64, 32 or 16.

    Each holds 8·columns² bytes: 64 batches take 5 MB at 100 columns, 16 take 128 MB at 1,000.

    Examples
    --------
    >>> most_batches(100), most_batches(300), most_batches(1000)
    (64, 32, 16)
    """
    fit = memory // (8 * max(columns, 1) ** 2)
    return MOST if fit >= MOST else max(1 << fit.bit_length() >> 1, LEAST)


class Batches(Moments):
    """The sums of a stream, of each of its 32 to 64 batches, and some rows as they were.

    Batches are as long as each other, and two neighbours become one when there are 64 of them,
    so that they grow with the stream and nothing has to be chosen.

    Parameters
    ----------
    columns, targets
        Numbers of features and of targets per row.
    memory
        Bytes for the batches' sums and, an eighth of it, the windows of rows.

    Examples
    --------
    >>> batches = Batches(1)
    >>> batches.add(np.arange(1000.0)[:, None], np.ones(1000))
    >>> batches.split.rows, len(batches.split), batches.total.rows
    (16, 62, 1000)
    """

    def __init__(self, columns: int, targets: int = 1, *, memory: int = MEMORY) -> None:
        super().__init__(columns, targets)
        self.memory = check_whole(memory, "memory")
        self.most = most_batches(columns, self.memory)
        self.windows = Windows(columns, targets, memory=self.memory // 8)
        self._length_of_batch = _first_length(columns, self.most)
        self._closed: tuple[Sums, ...] = ()  # stacks of batches, in their order
        self._current = Sums.nothing(columns, targets)  # of the batch that is being filled

    @property
    def rows(self) -> int:
        """Rows of positive weight seen."""
        return self._sums.rows + self._current.rows + self._blocks.filled

    @property
    def total(self) -> Sums:
        """The sums of all rows."""
        return self._sums.joined(self._current).joined(self.pending)

    @property
    def split(self) -> Sums:
        """The sums of each batch along a leading axis; the last rows may be in none."""
        waiting = self._blocks.pending
        length, parts = self._length_of_batch, list(self._closed)
        if waiting is not None:
            if not parts and not self._current.rows:
                # Short streams have batches just as well: their rows are all at hand.
                length = max(1 << (self._blocks.filled // self.most).bit_length(), 1)
            if count := self._blocks.filled // length:
                parts.append(block_sums(*_cut(waiting, count, length), quick=False)[0])
        if not parts:
            nothing = Sums.nothing(self._blocks.columns, self._blocks.targets)
            return stacked([nothing])[:0]
        count = sum(map(len, parts))
        return stacked(_paired(parts) if count >= self.most else parts)

    @property
    def kept(self) -> tuple[Window, ...]:
        """Windows of consecutive rows, evenly over the stream; all rows of a short one."""
        waiting = self._blocks.pending
        if waiting is None:
            return self.windows.all
        windows = self.windows.copy()
        windows.take(self._sums.rows + self._current.rows, *waiting)
        return windows.all

    def add(self, rows: Any, targets: Any, weights: Any = None) -> None:
        """Take rows in their order, of any real type, dense or sparse; as in :class:`Moments`."""
        before = self._current, self._closed, self._length_of_batch, self.windows.copy()
        try:
            super().add(rows, targets, weights)
        except BaseException:
            self._current, self._closed, self._length_of_batch, self.windows = before
            raise

    def merge(self, other: Self) -> None:
        """Take all rows of another one, as if they came after those here; it stays as it is.

        Rows of batches that are not full are part of the fit but of no batch.
        """
        check_same_columns(self._blocks, other._blocks)
        one, two, total = self.split, other.split, self.total.joined(other.total)
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
        self._shorten()
        self.windows.merge(other.windows, self.rows)

    def copy(self) -> Self:
        """Another one that goes on by itself."""
        twin = type(self)(self._blocks.columns, self._blocks.targets, memory=self.memory)
        twin._blocks, twin._sums, twin._quick = self._blocks.copy(), self._sums, self._quick
        twin._current, twin._closed = self._current, self._closed
        twin._length_of_batch, twin.windows = self._length_of_batch, self.windows.copy()
        return twin

    def plain(self) -> dict[str, Any]:
        """Everything that changes, as arrays and numbers of their own."""
        closed = plain_sums(stacked(self._closed)) if self._closed else None
        return {
            **super().plain(),
            "current": plain_sums(self._current),
            "closed": closed,
            "length": self._length_of_batch,
            "windows": self.windows.plain(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where the one that gave ``state`` was; an error changes nothing."""
        columns, targets = self._blocks.columns, self._blocks.targets
        current = restored_sums(state["current"], columns, targets)
        closed: tuple[Sums, ...] = ()
        if state["closed"] is not None:
            count = check_whole(np.size(state["closed"]["weight"]), "batches", 1, self.most - 1)
            closed = (restored_sums(state["closed"], columns, targets, count),)
        length = check_whole(state["length"], "length of the state")
        windows = Windows(columns, targets, memory=self.memory // 8)
        windows.restore(state["windows"])
        super().restore(state)
        self._current, self._closed, self.windows = current, closed, windows
        self._length_of_batch = length

    def _length(self) -> int:
        """Rows of the next block: on long streams so many that joining sums takes no time."""
        block = super()._length()
        fit = 1 << (LARGEST // max(self._blocks.columns, 1)).bit_length() >> 1
        long = max(min(LONG * block, fit), block)
        aligned = self._current.rows % long == 0
        return long if aligned and self._sums.rows >= SOON * block else block

    def _take(self, rows: Array, targets: Array, weights: Array | None) -> None:
        self.windows.take(self._sums.rows + self._current.rows, rows, targets, weights)
        length = self._length_of_batch
        if length < len(rows):
            pieces = _cut((rows, targets, weights), len(rows) // length, length)
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
    """Rows per batch at first; sums of columns² entries are not taken of only a few rows."""
    block = block_rows(columns)
    return min(max(2 * block // most, SHORTEST, 1 << columns.bit_length() >> 1), block)


def _cut(
    block: tuple[Array, Array, Array | None], count: int, length: int
) -> tuple[Array, Array, Array | None]:
    """The first ``count`` pieces of ``length`` rows, along a leading axis."""
    rows, targets, weights = (
        None if each is None else each[: count * length].reshape(count, length, *each.shape[1:])
        for each in block
    )
    assert rows is not None and targets is not None
    return rows, targets, weights


def _paired(parts: Sequence[Sums]) -> tuple[Sums, ...]:
    """Neighbours joined, in stacks of batches; a last one without neighbour is dropped."""
    if any(len(part) % 2 for part in parts):
        whole = stacked(parts)
        parts = (whole[: len(whole) // 2 * 2],)
    return tuple(part[::2].joined(part[1::2]) for part in parts if len(part))
