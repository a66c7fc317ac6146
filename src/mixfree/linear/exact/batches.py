"""The sums of a stream in batches of equal length, whose spread tells how sure a fit is."""

from collections.abc import Mapping
from typing import Any, Self

from mixfree.base.arithmetic import Array, State
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
from mixfree.linear.exact.sums import Sums
from mixfree.linear.exact.windows import Windows

FIRST = 8  # rows of a batch at first
MOST, LEAST = 64, 16  # batches at which two neighbours become one: as many as the memory allows
MEMORY = 32 << 20  # bytes that batches may take; there are LEAST of them even where they need more


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
        Bytes for the batches' sums and, a quarter of it, the windows of rows.

    Examples
    --------
    >>> import numpy as np
    >>> batches = Batches(1)
    >>> batches.add(np.arange(1000.0)[:, None], np.ones(1000))
    >>> batches.length, len(batches.closed), batches.total.rows
    (16, 62, 1000)
    """

    def __init__(self, columns: int, targets: int = 1, *, memory: int = MEMORY) -> None:
        super().__init__(columns, targets)
        self.memory = check_whole(memory, "memory")
        self.most = most_batches(columns, self.memory)
        self.length = FIRST
        self.closed: tuple[Sums, ...] = ()
        self.windows = Windows(columns, targets, memory=self.memory // 4)
        self._current = Sums.nothing(columns, targets)  # of the batch that is being filled

    @property
    def rows(self) -> int:
        """Rows of positive weight seen."""
        return self._sums.rows + self._current.rows + self._blocks.filled

    @property
    def total(self) -> Sums:
        """The sums of all rows."""
        return self._sums.joined(self._current).joined(self.pending)

    def add(self, rows: Any, targets: Any, weights: Any = None) -> None:
        """Take rows in their order, of any real type, dense or sparse; as in :class:`Moments`."""
        before = self._current, self.closed, self.length, self.windows.copy()
        try:
            super().add(rows, targets, weights)
        except BaseException:
            self._current, self.closed, self.length, self.windows = before
            raise

    def merge(self, other: Self) -> None:
        """Take all rows of another one, as if they came after those here; it stays as it is.

        Rows of batches that are not full are part of the fit but of no batch.
        """
        check_same_columns(self._blocks, other._blocks)
        parts = [(self.closed, self.length), (other.closed, other.length)]
        self._sums = self.total.joined(other.total)
        self._quick = self._quick and other._quick
        self._current = Sums.nothing(self._blocks.columns, self._blocks.targets)
        self._blocks = Blocks(self._blocks.columns, self._blocks.targets)
        self.length = max(self.length, other.length)
        self.closed = sum((_paired(*part, self.length) for part in parts), ())
        while len(self.closed) >= self.most:
            self.closed = _paired(self.closed, self.length, 2 * self.length)
            self.length *= 2
        self.windows.merge(other.windows, self.rows)

    def copy(self) -> Self:
        """Another one that goes on by itself."""
        twin = type(self)(self._blocks.columns, self._blocks.targets, memory=self.memory)
        twin._blocks, twin._sums, twin._quick = self._blocks.copy(), self._sums, self._quick
        twin._current, twin.closed, twin.length = self._current, self.closed, self.length
        twin.windows = self.windows.copy()
        return twin

    def plain(self) -> State:
        """Everything that changes, as arrays and numbers of their own."""
        return {
            **super().plain(),
            "current": plain_sums(self._current),
            "closed": [plain_sums(batch) for batch in self.closed],
            "length": self.length,
            "windows": self.windows.plain(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where the one that gave ``state`` was; an error changes nothing."""
        columns, targets = self._blocks.columns, self._blocks.targets
        current = restored_sums(state["current"], columns, targets)
        closed = tuple(restored_sums(batch, columns, targets) for batch in state["closed"])
        if len(closed) >= self.most:
            raise ValueError(f"the state has {len(closed)} batches, but {self.most} are too many")
        length = check_whole(state["length"], "length of the state", least=FIRST)
        windows = Windows(columns, targets, memory=self.memory // 4)
        windows.restore(state["windows"])
        super().restore(state)
        self._current, self.closed, self.length, self.windows = current, closed, length, windows

    def _length(self) -> int:
        return min(self.length, block_rows(self._blocks.columns))

    def _take(self, rows: Array, targets: Array, weights: Array | None) -> None:
        block, self._quick = block_sums(rows, targets, weights, quick=self._quick)
        self.windows.take(self._sums.rows + self._current.rows, rows, targets, weights)
        self._current = self._current.joined(block)
        if self._current.rows >= self.length:
            self._sums = self._sums.joined(self._current)
            self.closed = (*self.closed, self._current)
            self._current = Sums.nothing(self._blocks.columns, self._blocks.targets)
            if len(self.closed) == self.most:
                self.closed = _paired(self.closed, self.length, 2 * self.length)
                self.length *= 2


def _paired(batches: tuple[Sums, ...], length: int, wanted: int) -> tuple[Sums, ...]:
    """Neighbours joined until batches have the wanted length; what is left over is dropped."""
    while length < wanted:
        halves = zip(batches[::2], batches[1::2], strict=False)
        batches = tuple(one.joined(other) for one, other in halves)
        length *= 2
    return batches
