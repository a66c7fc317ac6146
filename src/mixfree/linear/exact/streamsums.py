"""Sums of products of rows and functions of predictions, in total and in equal batches."""

from dataclasses import replace
from typing import Any, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.equal_batches import EqualBatches
from mixfree.base.interrupts import shallow
from mixfree.base.state import State
from mixfree.linear.exact.batches import MIN_LENGTH, most_batches
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.products import Products, symmetric
from mixfree.linear.exact.sums import MAX_OFFSET, Sums, not_negative, sums_of


class StreamSums(State):
    """The sums of a stream and of each of its 32 to 64 batches, as in :class:`Batches`.

    Here the targets are control variates, which need not be accurate to the last digit. For speed,
    products are taken about a fixed point, and moved to the mean when a batch is full.

    Parameters
    ----------
    columns, functions
        Numbers of features and functions per row.
    origin
        A point near the rows. Rows far from it are added in the accurate way.
    expected
        Least number of rows, which determines the initial length of batches.
    """

    def __init__(
        self, columns: int, functions: int, origin: Array | None = None, expected: int = 0
    ) -> None:
        self.columns, self.functions = columns, functions
        most, nothing = most_batches(columns), Sums.nothing(columns, functions)
        length = max(1 << (expected // most).bit_length(), MIN_LENGTH)
        self.batches = EqualBatches(nothing, Sums.joined, most, length)
        self._origin = np.zeros(columns) if origin is None else origin
        self._before = nothing  # of all full batches
        self._careful = nothing  # of this batch: rows far from the origin
        self._clear()

    def _clear(self) -> None:
        self._count = 0
        self._products = np.zeros((self.columns, self.columns), order="F")  # one triangle
        self._cross = np.zeros((1 + self.functions, self.columns))
        self._totals = np.zeros(self.functions)
        self._squares = np.zeros(self.functions)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The attributes to save."""
        quick = "_count", "_products", "_cross", "_totals", "_squares"
        return "batches", "_origin", "_before", "_careful", *quick

    @property
    def rows(self) -> int:
        """Rows seen."""
        return self._before.rows + self._careful.rows + self._count

    @property
    def total(self) -> Sums:
        """The sums of all rows."""
        return self._before.joined(self._current)

    @property
    def _current(self) -> Sums:
        """The sums of the batch being filled."""
        if not self._count:
            return self._careful
        n, t, u = self._count, self._cross[0], self._totals
        mean = np.concatenate([self._origin + t / n, u / n])
        scatter = not_negative(symmetric(self._products) - np.outer(t, t / n))
        cross = (self._cross[1:] - np.outer(u, t / n)).T.copy()
        squares = np.maximum(self._squares - u * (u / n), 0.0)
        return self._careful.joined(Sums(n, np.array(float(n)), mean, scatter, cross, squares))

    def add(self, rows: Array, functions: Array, weights: Array | None) -> None:
        """Add finite rows; ``functions`` has one row per function."""
        done = 0
        while done < len(rows):
            piece = slice(done, done + self.batches.length - self._careful.rows - self._count)
            factors = None if weights is None else weights[piece]
            self._add(rows[piece], functions[:, piece], factors)
            done += len(rows[piece])

    def _add(self, rows: Array, functions: Array, weights: Array | None) -> None:
        """Add rows of one batch."""
        if weights is not None or not self._add_quickly(rows, functions):
            given = np.ascontiguousarray(functions.T)
            found = sums_of(rows, given, weights)
            assert found is not None
            self._careful = self._careful.joined(found)
        if self._careful.rows + self._count == self.batches.length:
            batch = self._current
            self._before, self.batches = self._before.joined(batch), self.batches.added(batch)
            self._careful = self.batches.nothing
            self._clear()

    def _add_quickly(self, rows: Array, functions: Array) -> bool:
        """Add rows of weight 1 the quick way; return False if that would lose digits."""
        n, far = len(rows), self._origin.any()
        half, cross = Products(self.columns), np.zeros_like(self._cross)
        both = np.ones((len(cross), n))
        both[1:] = functions
        for start in range(0, n, half.piece):
            piece = slice(start, start + half.piece)
            x = rows[piece] - self._origin if far else rows[piece]
            half.add(x)
            cross += both[:, piece] @ x
        if not (cross[0] ** 2 * ((1.0 + 1.0 / MAX_OFFSET) / n) <= half.half.diagonal()).all():
            return False
        self._count += n
        self._products = self._products + half.half
        self._cross = self._cross + cross
        self._totals = self._totals + functions.sum(axis=1)
        self._squares = self._squares + np.einsum("ij,ij->i", functions, functions)
        return True

    def merge(self, other: Self) -> None:
        """Add all rows of ``other``, as if they followed; ``other`` is unchanged.

        Rows of unfinished batches count in the total, but belong to no batch.
        """
        self._before = self.total.joined(other.total)
        self.batches, self._careful = self.batches.merged(other.batches), self.batches.nothing
        self._clear()

    def mapped(self, change: ColumnMap) -> Self:
        """Return the sums of the same rows for mapped columns."""
        twin = type(self)(change.after, self.functions, change.rows(self._origin))
        twin._before, twin._careful = self._before.mapped(change), self._careful.mapped(change)
        mapped = (batch.mapped(change) for batch in self.batches.items)
        twin.batches = replace(twin.batches, length=self.batches.length).added(*mapped)
        twin._count, twin._cross = self._count, change.rows(self._cross)
        twin._products = np.asfortranarray(np.triu(change.products(symmetric(self._products))))
        twin._totals, twin._squares = self._totals, self._squares
        return twin

    def copy(self) -> Self:
        """Return an independent copy; it shares arrays, which are never changed in place."""
        return shallow(self)

    def plain(self) -> dict[str, Any]:
        """Return the state as numbers and copies of arrays; products as a whole matrix."""
        return super().plain() | {"products": symmetric(self._products)}

    def restored(self, plain: Any, what: str) -> Self:
        """Return the sums from which ``plain`` was made, after checking it."""
        found = super().restored(plain, what)
        found._products = np.asfortranarray(np.triu(found._products))
        return found

    def check(self, what: str) -> None:
        """The batch being filled is not full."""
        if not 0 <= self._count + self._careful.rows < self.batches.length:
            raise ValueError(f"state of the {what} does not fit: {self._count} rows in a batch")
