"""Sums of products of rows and functions of predictions, in total and in equal batches."""

from dataclasses import replace
from typing import Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.equal_batches import EqualBatches
from mixfree.base.state import State, shallow
from mixfree.linear.exact.batches import MIN_LENGTH, most_batches
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.sums import Sums, sums_of


class StreamSums(State):
    """The sums of a stream and of each of its 32 to 64 batches, as in :class:`Batches`.

    Here the targets are control variates, no rows are pending, and no windows are kept.

    Parameters
    ----------
    columns, functions
        Numbers of features and functions per row.
    expected
        Least number of rows, which determines the initial length of batches.
    """

    def __init__(self, columns: int, functions: int, expected: int = 0) -> None:
        self.functions = functions
        most, nothing = most_batches(columns), Sums.nothing(columns, functions)
        length = max(1 << (expected // most).bit_length(), MIN_LENGTH)
        self.batches = EqualBatches(nothing, Sums.joined, most, length)
        self._before = nothing  # of all full batches
        self._current = nothing  # of the batch being filled
        self._quick = True

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The attributes to save."""
        return "batches", "_before", "_current", "_quick"

    @property
    def rows(self) -> int:
        """Rows seen."""
        return self._before.rows + self._current.rows

    @property
    def total(self) -> Sums:
        """The sums of all rows."""
        return self._before.joined(self._current)

    def add(self, rows: Array, functions: Array, weights: Array | None) -> None:
        """Add finite rows; ``functions`` has one row per function."""
        targets, done = np.ascontiguousarray(functions.T), 0
        while done < len(rows):
            piece = slice(done, done + self.batches.length - self._current.rows)
            factors = None if weights is None else weights[piece]
            given = rows[piece], targets[piece], factors
            found = sums_of(*given, quick=True) if self._quick else None
            if found is None:
                found = sums_of(*given)
                assert found is not None
                self._quick = found.near
            self._current, done = self._current.joined(found), done + found.rows
            if self._current.rows == self.batches.length:
                self._before = self._before.joined(self._current)
                self.batches = self.batches.added(self._current)
                self._current = self.batches.nothing

    def merge(self, other: Self) -> None:
        """Add all rows of ``other``, as if they followed; ``other`` is unchanged.

        Rows of unfinished batches count in the total, but belong to no batch.
        """
        self._before = self.total.joined(other.total)
        self.batches, self._current = self.batches.merged(other.batches), self.batches.nothing

    def mapped(self, change: ColumnMap) -> Self:
        """Return the sums of the same rows for mapped columns."""
        twin = type(self)(change.after, self.functions)
        twin._before, twin._current = self._before.mapped(change), self._current.mapped(change)
        mapped = (batch.mapped(change) for batch in self.batches.items)
        twin.batches = replace(twin.batches, length=self.batches.length).added(*mapped)
        return twin

    def copy(self) -> Self:
        """Return an independent copy; it shares arrays, which are never changed in place."""
        return shallow(self)

    def check(self, what: str) -> None:
        """The batch being filled is not full."""
        if not 0 <= self._current.rows < self.batches.length:
            raise ValueError(f"state of the {what} does not fit: {self._current.rows} rows pending")
