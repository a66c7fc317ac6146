"""Blocks of a stream that do not depend on how it is cut into chunks."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import MAX_VALUE, MIN_VALUE, Array
from mixfree.base.checks import check_values, check_whole
from mixfree.base.state import State, shallow
from mixfree.linear.exact.coded import Coded, has_codes
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.streamsums import StreamSums
from mixfree.linear.exact.sums import Sums, sums_of

Block = tuple[Array, Array, Array | None]  # rows, targets and weights

PARTS = 8  # the next block has at most 1/PARTS of the rows so far
CODED_ROWS = 1 << 16  # per block of rows with codes
MAX_PRODUCT_VALUES = 1 << 19  # per block: they stay in a cache
MIN_BLOCK = 1024  # rows of the first blocks, or 8 per column
LONG_BLOCKS = 4  # blocks that are summed as one, once there are enough rows
MAX_BLOCK_VALUES = 1 << 20  # values of such a long block: 8 MB


def block_rows(columns: int) -> int:
    """Return the rows per block: a power of two from 256 to 8,192, at least ``columns``.

    Sums of size columns² are added once per block, which must not cost more than the product.
    """
    fit = (MAX_PRODUCT_VALUES // max(columns, 1)).bit_length() - 1
    return 1 << min(max(fit, 8, (columns - 1).bit_length()), 13)


@cache
def block_lengths(columns: int) -> tuple[int, int]:
    """Return the rows of the first blocks, and of those of a long stream."""
    block, fit = block_rows(columns), MAX_BLOCK_VALUES // max(columns, 1)
    first = min(max(MIN_BLOCK, 8 << columns.bit_length() >> 1), block)
    return first, max(min(LONG_BLOCKS * block, 1 << fit.bit_length() >> 1), block)


@dataclass(frozen=True, slots=True)
class Chunk(State):
    """Consecutive rows with their targets, as a matrix of one column, and weights."""

    rows: Array
    targets: Array
    weights: Array

    grows: ClassVar[tuple[str, ...]] = ("rows", "targets", "weights")

    @classmethod
    def nothing(cls, columns: int) -> Self:
        """Return a chunk without rows."""
        return cls(np.empty((0, columns)), np.empty((0, 1)), np.empty(0))

    def __len__(self) -> int:
        return len(self.weights)

    def part(self, start: int, end: int) -> "Chunk":
        """Return views of some rows."""
        here = slice(start, end)
        return Chunk(self.rows[here], self.targets[here], self.weights[here])

    def write(self, start: int, rows: Any, targets: Array, weights: Array | float) -> None:
        """Write rows in place."""
        here = slice(start, start + len(rows))
        if isinstance(rows, Coded):
            rows.write(self.rows[here])
        else:
            self.rows[here] = rows
        self.targets[here], self.weights[here] = targets, weights

    def followed(self, other: "Chunk") -> "Chunk":
        """Return copies of both as one chunk."""
        rows = np.concatenate([self.rows, np.ascontiguousarray(other.rows)])
        targets = np.concatenate([self.targets, other.targets])
        return Chunk(rows, targets, np.append(self.weights, other.weights))

    def mapped(self, change: ColumnMap) -> "Chunk":
        """Return copies of the same rows with mapped columns."""
        return Chunk(change.rows(self.rows), self.targets.copy(), self.weights.copy())

    def check(self, what: str) -> None:
        """All rows have a target and a weight."""
        if not len(self.rows) == len(self.targets) == len(self.weights):
            raise ValueError(f"state of the {what} does not fit: its arrays differ in length")


class Fit(State, ABC):
    """What all fits to a stream share: rows that wait for their block, and answers.

    The borders of blocks depend only on the number of rows before them. Pending rows, which do not
    fill a block yet, are stored. Rows of weight 0 are skipped.
    """

    together: int = 1  # largest number of equally long blocks that are taken at once
    order: Literal["C", "K"] = "C"  # of a block's values: K if columns may be contiguous as well
    _sums: StreamSums

    def __init__(self, columns: int) -> None:
        self.columns, self.samples = check_whole(columns, "columns", least=0), 0
        self._blocks = Chunk.nothing(columns)

    @property
    def _blocks(self) -> Chunk:
        """The pending rows."""
        return self._room.part(0, self._filled)

    @_blocks.setter
    def _blocks(self, pending: Chunk) -> None:
        self._room, self._filled = pending, len(pending)

    @property
    def _waiting(self) -> Block:
        """The pending rows, if any, with their targets and weights."""
        room = self._room.part(0, self._filled)
        # Rows of an unfinished block are contiguous, as they are when a saved fit is restored.
        rows = room.rows if self._filled >= self._length() else np.ascontiguousarray(room.rows)
        return self._part(rows, room.targets, room.weights, 0, self._filled)

    def _length(self) -> int:
        """Return the rows of the next block: more on long streams, to join sums less often."""
        least, most = block_lengths(self.columns)
        return min(max(1 << (self._sums.rows // PARTS).bit_length() >> 1, least), most)

    @abstractmethod
    def _take(self, rows: Array, targets: Array, weights: Array | None) -> None:
        """Learn from whole blocks."""

    def _check_targets(self, targets: Array) -> None:
        """Raise ValueError for targets that the loss does not allow."""

    def add(self, rows: Any, targets: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> None:
        """Add rows in order, dense or sparse, of any real dtype.

        Rows of weight 0 count as samples, but have no other effect. After an error, go on with the
        predecessor.
        """
        x, y, w = check_rows(rows, targets, weights, self.columns)
        self._check_targets(y)
        self._cut(x, y, w)
        self.samples += len(np.asarray(targets))
        self._forget()

    def _cut(self, x: Any, y: Array, w: Array | None) -> None:
        """Take every complete block of pending and further rows, and keep the rest.

        Rows with codes are taken as they come: chunks may change the rounding of their sums.
        """
        start, count = 0, x.shape[0]
        if has_codes(x):
            self._flush()
            for start in range(0, count, CODED_ROWS):
                self._take(*self._part(x, y, w, start, start + CODED_ROWS))
            return
        first = max(self._length() - self._filled, 0)  # more columns may have shortened blocks
        if self._filled and count >= first:
            self._keep(x[:first], y[:first], None if w is None else w[:first])
            self._flush()
            start = first
        while not self._filled and count - start >= (length := self._length()):
            end = start + length * min((count - start) // length, self.together)
            self._take(*self._part(x, y, w, start, end))
            start = end
        tail = slice(start, None)
        self._keep(x[tail], y[tail], None if w is None else w[tail])
        kept = self._room.part(self._filled - (count - start), self._filled)
        check_values(rows=kept.rows, targets=kept.targets)

    def _flush(self) -> None:
        """Take the pending rows, if any; what the predecessor shows is not written over."""
        if self._filled:
            waiting, self._blocks = self._waiting, Chunk.nothing(self.columns)
            self._take(*waiting)

    def _keep(self, x: Any, y: Array, w: Array | None) -> None:
        """Store rows after the pending rows, where the predecessor does not look."""
        rows, start = _dense(x), self._filled
        self._filled = start + len(rows)
        if self._filled > len(self._room):
            old, most = self._room, max(self._filled, 2 * len(self._room))
            like = np.empty((2, 2), order="F") if isinstance(rows, Coded) else rows
            # Unwritten room takes no memory.
            room = np.empty_like(like, float, self.order, shape=(most, self.columns))
            self._room = Chunk(room, np.empty((most, 1)), np.empty(most))
            self._room.write(0, old.rows[:start], old.targets[:start], old.weights[:start])
        self._room.write(start, rows, y, 1.0 if w is None else w)

    def _part(self, x: Any, y: Array, w: Array | None, start: int, end: int) -> Block:
        """Return some rows as contiguous doubles, without weights if all are 1."""
        rows = _dense(x[start:end])
        if not isinstance(rows, Coded):
            rows = np.asarray(rows, dtype=np.float64, order=self.order)
        targets = np.ascontiguousarray(y[start:end])
        weights = None if w is None else w[start:end]
        return rows, targets, None if weights is None or (weights == 1.0).all() else weights

    def columns_alone(self) -> Sums:
        """Return the sums of all rows, without targets."""
        total, width = self._sums.total, self.columns
        sums = total.scatter, total.cross[:, :0], total.squares[:0]
        alone = Sums(total.rows, total.weight, total.mean[:width], *sums)
        if not self._filled:
            return alone
        rows, _, weights = self._waiting
        return alone.joined(sums_of(rows, np.empty((len(rows), 0)), weights))

    def column_sums(self) -> Array:
        """Return the weighted sum of each column over all rows."""
        total, kept = self._sums.total, self._blocks
        rows = np.ascontiguousarray(kept.rows)  # which its restored state also has
        return np.asarray(total.weight * total.mean[: self.columns] + kept.weights @ rows)

    def successor(self) -> Self:
        """Return a copy that shares all arrays; only one of the two may be continued."""
        return shallow(self)

    def _mapped(self, change: ColumnMap) -> Self:
        """Return a copy with mapped pending rows and without answers."""
        found = shallow(self)
        found.columns, found._blocks = change.after, self._blocks.mapped(change)
        found._forget()
        return found

    def restored(self, plain: Any, what: str) -> Self:
        """Return the fit from which ``plain`` was made, after checking it."""
        found = super().restored(plain, what)
        found._forget()
        return found

    def _forget(self) -> None:
        """Forget answers that are cached."""
        for name in ("total", "solution", "inference"):
            vars(self).pop(name, None)


def check_rows(
    rows: Any, targets: npt.ArrayLike, weights: npt.ArrayLike | None, columns: int
) -> tuple[Any, Array, Array | None]:
    """Check shapes and dtypes, and return rows, a matrix of targets and positive weights.

    Rows of weight 0 are left out. Values are checked later, by ``check_values``.
    """
    sparse = hasattr(rows, "tocsr")
    x = rows.tocsr() if sparse else rows if isinstance(rows, Coded) else np.asarray(rows)
    y = np.asarray(targets)
    for name, array in (("rows", x), ("targets", y)):
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise ValueError(f"{name} must hold real numbers of at most 64 bits, not {array.dtype}")
    if x.ndim != 2 or x.shape[1] != columns:
        raise ValueError(f"rows must have shape (n, {columns}), not {x.shape}")
    if y.shape not in ((x.shape[0],), (x.shape[0], 1)):
        raise ValueError(f"targets must have shape ({x.shape[0]},), not {y.shape}")
    y = y.astype(np.float64, copy=False).reshape(x.shape[0], 1)
    if weights is None:
        return x, y, None
    w = np.asarray(weights)
    if w.shape != (x.shape[0],) or w.dtype.kind not in "biuf":
        raise ValueError(f"weights must be {x.shape[0]} real numbers, not {w.dtype} {w.shape}")
    w = w.astype(np.float64, copy=False)
    used = w != 0.0
    wrong = np.flatnonzero(used & ~((w >= MIN_VALUE) & (w <= MAX_VALUE)))
    if wrong.size:
        found = f"weights[{wrong[0]}] is {w[wrong[0]]}"
        raise ValueError(f"weights must be 0 or from {MIN_VALUE:g} to {MAX_VALUE:g}, but {found}")
    return (x, y, w) if used.all() else (x[used], y[used], w[used])


def _dense(rows: Any) -> Any:
    return rows.toarray() if hasattr(rows, "tocsr") else rows
