"""Blocks of a stream that do not depend on how it is cut into chunks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import MAX_VALUE, MIN_VALUE, Array
from mixfree.base.checks import check_values, check_whole
from mixfree.base.state import State, shallow
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.sums import Sums

PARTS = 8  # the next block has at most 1/PARTS of the rows so far
MAX_PRODUCT_VALUES = 1 << 19  # per matrix product: they stay in a cache


def block_rows(columns: int) -> int:
    """Return the rows per matrix product: a power of two from 256 to 8,192, at least ``columns``.

    Sums of size columns² are added once per block, which must not cost more than the product.
    """
    fit = (MAX_PRODUCT_VALUES // max(columns, 1)).bit_length() - 1
    return 1 << min(max(fit, 8, (columns - 1).bit_length()), 13)


@dataclass(frozen=True, slots=True)
class Chunk(State):
    """Consecutive rows with their targets, as a matrix of one column, and weights."""

    rows: Array
    targets: Array
    weights: Array

    grows: ClassVar[tuple[str, ...]] = ("rows", "targets", "weights")

    @classmethod
    def nothing(cls, columns: int, room: int = 0) -> Self:
        """Return a chunk without rows, or with so many that hold anything."""
        return cls(np.empty((room, columns)), np.empty((room, 1)), np.empty(room))

    def __len__(self) -> int:
        return len(self.weights)

    def part(self, start: int, end: int) -> "Chunk":
        """Return views of some rows."""
        here = slice(start, end)
        return Chunk(self.rows[here], self.targets[here], self.weights[here])

    def write(self, start: int, rows: Array, targets: Array, weights: Array | float) -> None:
        """Write rows in place."""
        here = slice(start, start + len(rows))
        self.rows[here], self.targets[here], self.weights[here] = rows, targets, weights

    def followed(self, other: "Chunk") -> "Chunk":
        """Return copies of both as one chunk."""
        pairs = ((self.rows, other.rows), (self.targets, other.targets))
        return Chunk(*map(np.concatenate, (*pairs, (self.weights, other.weights))))

    def mapped(self, change: ColumnMap) -> "Chunk":
        """Return copies of the same rows with mapped columns."""
        return Chunk(change.rows(self.rows), self.targets.copy(), self.weights.copy())

    def check(self, what: str) -> None:
        """All rows have a target and a weight."""
        if not len(self.rows) == len(self.targets) == len(self.weights):
            raise ValueError(f"state of the {what} does not fit: its arrays differ in length")


class Blocks(State):
    """Cuts a stream into blocks whose borders depend only on the number of rows before them.

    Pending rows, which do not fill a block yet, are stored. Rows of weight 0 are skipped.
    """

    def __init__(self, columns: int) -> None:
        self.columns = check_whole(columns, "columns", least=0)
        self._room, self.filled = Chunk.nothing(columns), 0

    @property
    def pending(self) -> tuple[Array, Array, Array | None] | None:
        """The pending rows with their targets and weights; None if there are none."""
        return self.stored if self.filled else None

    @property
    def stored(self) -> tuple[Array, Array, Array | None]:
        """The pending rows, if any, with their targets and weights."""
        room = self._room
        return _block(room.rows, room.targets, room.weights, 0, self.filled)

    def column_sums(self, others: Sums) -> Array:
        """Return the weighted sum of each column over the pending rows and those of ``others``."""
        kept = self._room.part(0, self.filled)
        return np.asarray(others.weight * others.mean[: self.columns] + kept.weights @ kept.rows)

    def cut(
        self,
        x: Any,
        y: Array,
        w: Array | None,
        length: Callable[[], int],
        take: Callable[[Array, Array, Array | None], None],
        together: int = 1,
    ) -> None:
        """Call ``take`` for every complete block; ``length`` returns the rows of the next block.

        ``together`` is the largest number of equally long blocks per call.
        """
        start, filled, count = 0, self.filled, x.shape[0]
        first = max(length() - filled, 0)  # blocks may have become shorter with more columns
        if filled and count >= first:
            self._keep(x[:first], y[:first], None if w is None else w[:first])
            waiting = self.stored
            # What the predecessor shows is not written over.
            self._room, self.filled = Chunk.nothing(self.columns, len(self._room)), 0
            take(*waiting)
            start = first
        while not self.filled and count - start >= (rest := length()):
            end = start + rest * min((count - start) // rest, together)
            take(*_block(x, y, w, start, end))
            start = end
        tail = slice(start, None)
        check_values(rows=_dense(x[tail]), targets=y[tail])
        self._keep(x[tail], y[tail], None if w is None else w[tail])

    def mapped(self, change: ColumnMap) -> Self:
        """Return the same pending rows with mapped columns; both may be continued."""
        found = type(self)(change.after)
        found._room, found.filled = self._room.part(0, self.filled).mapped(change), self.filled
        return found

    def _keep(self, x: Any, y: Array, w: Array | None) -> None:
        """Store rows after the pending rows, where the predecessor does not look."""
        start, end = self.filled, self.filled + x.shape[0]
        if end > len(self._room):
            old = self._room.part(0, start)
            most = max(end, 2 * len(self._room))  # unwritten room takes no memory
            self._room = Chunk.nothing(self.columns, most)
            self._room.write(0, old.rows, old.targets, old.weights)
        self._room.write(start, _dense(x), y, 1.0 if w is None else w)
        self.filled = end

    def plain(self) -> dict[str, Any]:
        """Return copies of the pending rows, targets and weights."""
        return self._room.part(0, self.filled).plain()

    def restored(self, plain: Any, what: str) -> Self:
        """Return the pending rows from which ``plain`` was made, after checking it."""
        found = type(self)(self.columns)
        found._room = found._room.restored(plain, what)
        found.filled = len(found._room)
        return found


class Fit(State):
    """What all fits to a stream share: pending rows, and answers until the next rows arrive."""

    together: int = 1  # largest number of equally long blocks that are taken at once

    def __init__(self, columns: int) -> None:
        self.samples, self._blocks = 0, Blocks(columns)
        self._solution: Any = None
        self._inference: Any = None

    @property
    def columns(self) -> int:
        """Number of features."""
        return self._blocks.columns

    def _length(self) -> int:
        """Return the rows of the next block."""
        raise NotImplementedError

    def _take(self, rows: Array, targets: Array, weights: Array | None) -> None:
        """Learn from whole blocks."""
        raise NotImplementedError

    def _check_targets(self, targets: Array) -> None:
        """Raise ValueError for targets that the loss does not allow."""

    def add(self, rows: Any, targets: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> None:
        """Add rows in order, dense or sparse, of any real dtype.

        Rows of weight 0 count as samples, but have no other effect.

        Raises
        ------
        ValueError
            If a shape is wrong, a value is not finite or above 1e75, or a target does not suit
            the loss; go on with the predecessor.
        """
        x, y, w = check_rows(rows, targets, weights, self.columns)
        self._check_targets(y)
        self._blocks.cut(x, y, w, self._length, self._take, self.together)
        self.samples += len(np.asarray(targets))
        self._solution = self._inference = None

    def successor(self) -> Self:
        """Return a copy that shares all arrays; only one of the two may be continued."""
        twin = shallow(self)
        twin._blocks = shallow(self._blocks)
        return twin

    def restored(self, plain: Any, what: str) -> Self:
        """Return the fit from which ``plain`` was made, after checking it."""
        found = super().restored(plain, what)
        found._solution = found._inference = None
        return found


def check_rows(
    rows: Any, targets: npt.ArrayLike, weights: npt.ArrayLike | None, columns: int
) -> tuple[Any, Array, Array | None]:
    """Check shapes and dtypes, and return rows, a matrix of targets and positive weights.

    Rows of weight 0 are left out. Values are checked later, by ``check_values``.
    """
    sparse = hasattr(rows, "tocsr")
    x = rows.tocsr() if sparse else np.asarray(rows)
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
        raise ValueError(
            f"weights must be {x.shape[0]} real numbers, not {w.dtype} of shape {w.shape}"
        )
    w = w.astype(np.float64, copy=False)
    used = w != 0.0
    wrong = used & ~((w >= MIN_VALUE) & (w <= MAX_VALUE))
    if wrong.any():
        place = int(np.argmax(wrong))
        raise ValueError(
            f"weights must be 0 or lie in [{MIN_VALUE:g}, {MAX_VALUE:g}], but weights[{place}] "
            f"is {w[place]}"
        )
    return (x, y, w) if used.all() else (x[used], y[used], w[used])


def _block(
    x: Any, y: Array, w: Array | None, start: int, end: int
) -> tuple[Array, Array, Array | None]:
    """Return some rows as contiguous doubles, without weights if all are 1."""
    rows = np.ascontiguousarray(_dense(x[start:end]), dtype=np.float64)
    targets = np.ascontiguousarray(y[start:end])
    weights = None if w is None else w[start:end]
    return rows, targets, None if weights is None or (weights == 1.0).all() else weights


def _dense(rows: Any) -> Array:
    return rows if isinstance(rows, np.ndarray) else rows.toarray()
