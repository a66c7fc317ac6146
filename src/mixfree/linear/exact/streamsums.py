"""The sums of a stream and of its batches of equal length, from whose spread intervals come."""

from dataclasses import replace
from typing import Any, Self

from mixfree.base.arithmetic import Array
from mixfree.base.equal_batches import EqualBatches
from mixfree.base.state import State
from mixfree.linear.exact.coded import has_codes
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.sums import Sums, stacked, sums_of

MIN_BATCHES, MAX_BATCHES = 16, 64  # at which neighbours are joined: as many as fit in memory
MEMORY = 32_000_000  # bytes for the batches; there are MIN_BATCHES even if they need more


def most_batches(columns: int, memory: int = MEMORY) -> int:
    """Return the number of batches at which neighbours are joined: 64, 32 or 16.

    Each takes 8·columns² bytes: 64 batches take 5 MB for 100 columns, 16 take 128 MB for 1,000.
    """
    fit = memory // (8 * max(columns, 1) ** 2)
    return MAX_BATCHES if fit >= MAX_BATCHES else max(1 << fit.bit_length() >> 1, MIN_BATCHES)


class StreamSums(State):
    """The sums of a stream and of each of its 32 to 64 batches, in so many bytes of memory.

    Batches initially have about 1/64 of the ``expected`` rows.
    """

    saved = ("batches", "_before", "current")

    def __init__(
        self, columns: int, targets: int, expected: int = 0, *, memory: int = MEMORY
    ) -> None:
        self.targets, self._memory = targets, memory
        most, nothing = most_batches(columns, memory), Sums.nothing(columns, targets)
        length = 1 << (expected // most).bit_length()
        self.batches = EqualBatches(nothing, Sums.joined, most, length)
        self._before = nothing  # of all full batches
        self.current = nothing  # of the batch being filled

    @property
    def rows(self) -> int:
        """Rows seen."""
        return self._before.rows + self.current.rows

    @property
    def total(self) -> Sums:
        """The sums of all rows."""
        return self._before.joined(self.current)

    @property
    def last(self) -> Sums:
        """The sums of the last rows."""
        between = len(self.batches) and not self.current.rows
        return self.batches.items[-1] if between else self.current

    def add(self, rows: Any, targets: Array, weights: Array | None) -> None:
        """Add rows in order, as contiguous matrices."""
        done = 0
        while done < len(rows):
            length = self.batches.length - self.current.rows
            alone = self.current.rows or has_codes(rows)
            count = 1 if alone else max((len(rows) - done) // length, 1)
            piece = slice(done, done + count * length)
            x, y, w = rows[piece], targets[piece], None if weights is None else weights[piece]
            last = self.last
            found = x.sums(y, last) if has_codes(x) else sums_of(x, y, w, before=last, blocks=count)
            if count > 1:
                self._before = self._before.joined(found.combined())
                self.batches = self.batches.added(*found)
            else:
                self.current = self.current.joined(found)
            if self.current.rows == self.batches.length:
                self._before = self._before.joined(self.current)
                self.batches = self.batches.added(self.current)
                self.current = self.batches.nothing
            done = piece.stop

    def merge(self, other: Self) -> None:
        """Add all rows of ``other``, as if they followed; ``other`` is unchanged.

        Rows of unfinished batches count in the total, but belong to no batch.
        """
        self._before, one, two = self.total.joined(other.total), self.batches, other.batches
        # The length of no batches is only a guess.
        one = one if len(one) else replace(one, length=two.length)
        two = two if len(two) else replace(two, length=one.length)
        self.batches, self.current = one.merged(two), one.nothing

    def mapped(self, change: ColumnMap) -> Self:
        """Return the sums of the same rows for mapped columns."""
        found = type(self)(change.after, self.targets, memory=self._memory)
        found._before, found.current = self._before.mapped(change), self.current.mapped(change)
        mapped = stacked(self.batches.items).mapped(change) if len(self.batches) else ()
        found.batches = replace(found.batches, length=self.batches.length).added(*mapped)
        return found
