"""The sums of a stream in batches of equal length, from whose spread intervals are computed."""

from dataclasses import replace
from typing import Any, Self

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.equal_batches import EqualBatches
from mixfree.base.state import State, shallow
from mixfree.linear.exact.blocks import PARTS, Blocks, block_rows, block_sums
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.sums import Sums, stacked
from mixfree.linear.exact.windows import Window, Windows

MIN_LENGTH = 16  # rows per batch of control variates
MIN_BATCHES, MAX_BATCHES = 16, 64  # at which neighbours are joined: as many as fit in memory
MIN_BLOCK = 1024  # rows of the first blocks, or 8 per column
LONG_BLOCKS = 4  # blocks that are summed as one, once there are enough rows
MAX_BLOCK_VALUES = 1 << 21  # values of such a long block: 16 MB
MEMORY = 32_000_000  # bytes for the batches; there are MIN_BATCHES even if they need more


def most_batches(columns: int, memory: int = MEMORY) -> int:
    """Return the number of batches at which neighbours are joined: 64, 32 or 16.

    Each takes 8·columns² bytes: 64 batches take 5 MB for 100 columns, 16 take 128 MB for 1,000.

    Examples
    --------
    >>> most_batches(100), most_batches(300), most_batches(1000)
    (64, 32, 16)
    """
    fit = memory // (8 * max(columns, 1) ** 2)
    return MAX_BATCHES if fit >= MAX_BATCHES else max(1 << fit.bit_length() >> 1, MIN_BATCHES)


class Batches(State):
    """The sums of a stream and of each of its 32 to 64 batches, and windows of its rows.

    Parameters
    ----------
    columns, targets
        Numbers of features and targets per row. Their offsets cost no digits.
    memory
        Bytes for the sums of the batches; the windows of rows take an eighth of it.

    Examples
    --------
    >>> import numpy as np
    >>> batches = Batches(1)
    >>> batches.add(np.arange(1000.0)[:, None], np.ones(1000))
    >>> batches.split.rows, len(batches.split), batches.total.rows
    (16, 62, 1000)
    """

    def __init__(self, columns: int, targets: int = 1, *, memory: int = MEMORY) -> None:
        self._blocks = Blocks(columns, targets)
        self.memory = check_whole(memory, "memory")
        self.windows = Windows(columns, targets, memory=self.memory // 8)
        most, nothing = most_batches(columns, self.memory), Sums.nothing(columns, targets)
        block, fit = block_rows(columns), MAX_BLOCK_VALUES // max(columns, 1)
        first = min(max(MIN_BLOCK, 8 << columns.bit_length() >> 1), block)
        # Not few rows per batch at first, since a batch has columns² sums.
        length = min(max(2 * first // most, 1 << columns.bit_length() >> 2), first)
        self._batches = EqualBatches(nothing, Sums.joined, most, length)
        self._current = nothing  # of the batch being filled
        self._sums = nothing  # of all full batches
        self._quick = True
        self._lengths = first, max(min(LONG_BLOCKS * block, 1 << fit.bit_length() >> 1), block)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The attributes to save."""
        return "_blocks", "_sums", "_quick", "_current", "_batches", "windows"

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

    def column_sums(self) -> Array:
        """Return the weighted sum of each column."""
        return self._blocks.column_sums(self._sums.joined(self._current))

    @property
    def split(self) -> Sums:
        """The sums of each batch along a leading axis; the last rows may be in none."""
        found = self._all
        return stacked(found.items) if len(found) else stacked([found.nothing])[:0]

    @property
    def _all(self) -> EqualBatches[Sums]:
        """The batches, with those of the pending rows."""
        waiting, found = self._blocks.pending, self._batches
        if waiting is None:
            return found
        if not len(found) and not self._current.rows:
            # A short stream has batches as well, since all its rows are pending.
            short = max(1 << (self._blocks.filled // found.most).bit_length(), 1)
            found = replace(found, length=short)
        if count := self._blocks.filled // found.length:
            pending, _ = block_sums(*_cut(*waiting, count, found.length), quick=False)
            found = found.added(*pending)
        return found

    @property
    def kept(self) -> tuple[Window, ...]:
        """Windows of consecutive rows, spread evenly over the stream; all rows of a short one."""
        return self._complete_windows().all

    def _complete_windows(self) -> Windows:
        """Return the windows with the rows that wait for a block."""
        windows, waiting = shallow(self.windows), self._blocks.pending
        if waiting is not None:
            windows.take(self._sums.rows + self._current.rows, *waiting)
        return windows

    def successor(self) -> Self:
        """Return a copy that shares all sums; only one of the two may be continued."""
        twin = shallow(self)
        twin._blocks, twin.windows = shallow(self._blocks), shallow(self.windows)
        return twin

    def add(self, rows: Any, targets: Any, weights: Any = None) -> None:
        """Add rows in order, dense or sparse, of any real dtype.

        Raises
        ------
        ValueError
            If a shape is wrong, or a value is not finite or above 1e75; go on with the predecessor.
        """
        self._blocks.cut(rows, targets, weights, self._length, self._take)

    def merge(self, other: Self) -> None:
        """Add all rows of ``other``, as if they followed; ``other`` is unchanged.

        Rows of unfinished batches count in the total, but belong to no batch.
        """
        mine, theirs = self._blocks, other._blocks
        if (mine.columns, mine.targets) != (theirs.columns, theirs.targets):
            raise ValueError(
                f"cannot merge {theirs.columns} columns and {theirs.targets} targets into "
                f"{mine.columns} columns and {mine.targets} targets"
            )
        total, windows = self.total.joined(other.total), self._complete_windows()
        windows.merge(other._complete_windows(), total.rows)
        one, two = self._all, other._all
        if not len(two):
            two = replace(two, length=one.length)
        if not len(one):
            one = replace(one, length=two.length)
        found = one.merged(two)
        while found.length < self._batches.length:
            found = found.doubled()
        self._batches, self._sums, self.windows = found, total, windows
        self._quick = self._quick and other._quick
        self._current = found.nothing
        self._blocks = Blocks(self._blocks.columns, self._blocks.targets)

    def mapped(self, change: ColumnMap) -> Self:
        """Return the sums, batches and windows of the same rows for mapped columns."""
        twin = type(self)(change.after, self._blocks.targets, memory=self.memory)
        twin._sums, twin._current = self._sums.mapped(change), self._current.mapped(change)
        twin._quick, twin.windows = self._quick, self.windows.mapped(change, self.memory // 8)
        if twin._sums.rows or twin._current.rows:
            mapped = (batch.mapped(change) for batch in self._batches.items)
            twin._batches = replace(twin._batches, length=self._batches.length).added(*mapped)
        twin._blocks = self._blocks.mapped(change)
        if (waiting := twin._blocks.pending) is not None and twin._blocks.filled >= twin._length():
            twin._blocks = Blocks(change.after, self._blocks.targets)
            twin._blocks.cut(*waiting, twin._length, twin._take)
        return twin

    def _length(self) -> int:
        """Return the rows of the next block: more on long streams, to join sums less often."""
        filled, (least, most) = self._current.rows, self._lengths
        length = 1 << ((self._sums.rows + filled) // PARTS).bit_length() >> 1
        length = min(max(length, least), most)
        # Blocks were longer or shorter before columns were added, so that a batch may end sooner.
        return min(length, self._batches.length - filled) if filled else length

    def _take(self, rows: Array, targets: Array, weights: Array | None) -> None:
        self.windows.take(self._sums.rows + self._current.rows, rows, targets, weights)
        length = self._batches.length
        if length < len(rows):
            pieces = _cut(rows, targets, weights, len(rows) // length, length)
            found, self._quick = block_sums(*pieces, quick=self._quick)
            self._sums = self._sums.joined(found.combined())
            self._batches = self._batches.added(*found)
            return
        block, self._quick = block_sums(rows, targets, weights, quick=self._quick)
        self._current = self._current.joined(block)
        if self._current.rows == length:
            self._sums = self._sums.joined(self._current)
            self._batches = self._batches.added(self._current)
            self._current = self._batches.nothing


def _cut(
    rows: Array, targets: Array, weights: Array | None, count: int, length: int
) -> tuple[Array, Array, Array | None]:
    """Return the first ``count`` pieces of ``length`` rows, along a leading axis."""

    def cut(array: Array) -> Array:
        return array[: count * length].reshape(count, length, *array.shape[1:])

    return cut(rows), cut(targets), None if weights is None else cut(weights)
