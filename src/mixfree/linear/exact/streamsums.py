"""Sums of products of rows and functions of predictions, in total and in equal batches."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.interrupts import shallow
from mixfree.linear.exact.batches import most_batches
from mixfree.linear.exact.blocks import check_array, plain_sums, restored_sums
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.products import Products, symmetric
from mixfree.linear.exact.reservoir import Kept
from mixfree.linear.exact.sums import NEAR, Sums, not_negative, sums_of

FIRST = 16  # least rows per batch


class StreamSums:
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
        self.most = most_batches(columns)
        self.length = max(1 << (expected // self.most).bit_length(), FIRST)
        self.closed: tuple[Sums, ...] = ()
        self._origin = np.zeros(columns) if origin is None else origin
        self._before = Sums.nothing(columns, functions)  # of all full batches
        self._careful = Sums.nothing(columns, functions)  # of this batch: rows far from the origin
        self._clear()

    def _clear(self) -> None:
        self._count = 0
        self._products = np.zeros((self.columns, self.columns), order="F")  # one triangle
        self._cross = np.zeros((1 + self.functions, self.columns))
        self._totals = np.zeros(self.functions)
        self._squares = np.zeros(self.functions)

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
            piece = slice(done, done + self.length - self._careful.rows - self._count)
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
        if self._careful.rows + self._count == self.length:
            batch = self._current
            self._before = self._before.joined(batch)
            self.closed = (*self.closed, batch)
            self._careful = Sums.nothing(self.columns, self.functions)
            self._clear()
            self._shorten()

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
        if not (cross[0] ** 2 * ((1.0 + 1.0 / NEAR) / n) <= half.half.diagonal()).all():
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
        mine, theirs = self.closed, other.closed
        length = other.length
        self._careful = Sums.nothing(self.columns, self.functions)
        self._clear()
        while self.length < length:
            mine, self.length = joined_pairs(mine), 2 * self.length
        while length < self.length:
            theirs, length = joined_pairs(theirs), 2 * length
        self.closed = mine + theirs
        self._shorten()

    def _shorten(self) -> None:
        """Join neighbours while there are too many batches."""
        while len(self.closed) >= self.most:
            self.closed, self.length = joined_pairs(self.closed), 2 * self.length

    def mapped(self, change: ColumnMap) -> Self:
        """Return the sums of the same rows for mapped columns."""
        twin = type(self)(change.after, self.functions, change.rows(self._origin))
        twin._before, twin._careful = self._before.mapped(change), self._careful.mapped(change)
        twin.closed, twin.length = tuple(b.mapped(change) for b in self.closed), self.length
        twin._count, twin._cross = self._count, change.rows(self._cross)
        twin._products = np.asfortranarray(np.triu(change.products(symmetric(self._products))))
        twin._totals, twin._squares = self._totals, self._squares
        twin._shorten()
        return twin

    def copy(self) -> Self:
        """Return an independent copy; it shares arrays, which are never changed in place."""
        return shallow(self)

    def plain(self) -> dict[str, Any]:
        """Return the state as numbers and copies of arrays."""
        return {
            "origin": self._origin.copy(),
            "before": plain_sums(self._before),
            "careful": plain_sums(self._careful),
            "closed": [plain_sums(batch) for batch in self.closed],
            "length": self.length,
            "count": self._count,
            "products": symmetric(self._products),
            "cross": self._cross.copy(),
            "totals": self._totals.copy(),
            "squares": self._squares.copy(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that :meth:`plain` returned; an error changes nothing."""
        columns, functions = self.columns, self.functions
        arrays = {
            f"_{name}": check_array(state[name], name, getattr(self, f"_{name}").shape)
            for name in ("origin", "products", "cross", "totals", "squares")
        }
        before, careful = (
            restored_sums(state[name], columns, functions) for name in ("before", "careful")
        )
        closed = tuple(restored_sums(batch, columns, functions) for batch in state["closed"])
        if len(closed) >= self.most:
            raise ValueError(
                f"the state must have fewer than {self.most} batches, not {len(closed)}"
            )
        length = check_whole(state["length"], "length of the state", least=FIRST)
        count = check_whole(state["count"], "count of the state", least=0, most=length)
        vars(self).update(arrays)
        self._products = np.asfortranarray(np.triu(self._products))
        self._before, self._careful = before, careful
        self.closed, self.length, self._count = closed, length, count


def joined_pairs(batches: tuple[Sums, ...]) -> tuple[Sums, ...]:
    """Join neighbours; a last one without a neighbour is dropped."""
    return tuple(a.joined(b) for a, b in zip(batches[::2], batches[1::2], strict=False))


def origin_of(kept: Kept) -> Array:
    """Return a point near the rows: the mean of columns far from 0, and 0 for other columns."""
    mean, square = np.zeros((2, kept.rows.shape[1]))
    for piece in kept.pieces:
        mean += piece.rows.sum(axis=0) / len(kept)
        square += np.einsum("ij,ij->j", piece.rows, piece.rows) / len(kept)
    return np.where(mean**2 * (1.0 + 2.0 / NEAR) > square, mean, 0.0)
