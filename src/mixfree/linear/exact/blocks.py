"""Blocks of a stream that do not depend on how it is cut into chunks, and their sums."""

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import MAX_VALUE, MIN_VALUE, Array
from mixfree.base.checks import check_values, check_whole
from mixfree.base.state import State, shallow
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.sums import Sums, sums_of

PARTS = 8  # the next block has at most 1/PARTS of the rows so far
MAX_PRODUCT_VALUES = 1 << 19  # per matrix product: they stay in a cache


def block_rows(columns: int) -> int:
    """Return the rows per matrix product: a power of two from 256 to 8,192, at least ``columns``.

    Sums of size columns² are added once per block, which must not cost more than the product.

    Examples
    --------
    >>> block_rows(10), block_rows(100), block_rows(1000)
    (8192, 4096, 1024)
    """
    fit = (MAX_PRODUCT_VALUES // max(columns, 1)).bit_length() - 1
    return 1 << min(max(fit, 8, (columns - 1).bit_length()), 13)


class Blocks(State):
    """Cuts a stream into blocks whose borders depend only on the number of rows before them.

    Pending rows, which do not fill a block yet, are stored. Rows of weight 0 are skipped.

    Parameters
    ----------
    columns, targets
        Numbers of features and targets per row.
    """

    grows: ClassVar[tuple[str, ...]] = ("_rows", "_targets", "_weights")

    def __init__(self, columns: int, targets: int = 1) -> None:
        self.columns = check_whole(columns, "columns", least=0)
        self.targets = check_whole(targets, "targets")
        self.filled = 0
        self._rows = np.empty((0, self.columns))
        self._targets = np.empty((0, self.targets))
        self._weights = np.empty(0)

    @property
    def pending(self) -> tuple[Array, Array, Array | None] | None:
        """The pending rows with their targets and weights; None if there are none."""
        return self.stored if self.filled else None

    @property
    def stored(self) -> tuple[Array, Array, Array | None]:
        """The pending rows, if any, with their targets and weights."""
        return _block(self._rows, self._targets, self._weights, 0, self.filled)

    def column_sums(self, others: Sums) -> Array:
        """Return the weighted sum of each column over the pending rows and those of ``others``."""
        pending = self._weights[: self.filled] @ self._rows[: self.filled]
        return np.asarray(others.weight * others.mean[: self.columns] + pending)

    def cut(
        self,
        rows: Any,
        targets: npt.ArrayLike,
        weights: npt.ArrayLike | None,
        length: Callable[[], int],
        take: Callable[[Array, Array, Array | None], None],
        together: int = 1,
    ) -> None:
        """Call ``take`` for every complete block; ``length`` returns the rows of the next block.

        ``together`` is the largest number of equally long blocks per call.
        """
        x, y, w = check_rows(rows, targets, weights, self.columns, self.targets)
        start, filled, count = 0, self.filled, x.shape[0]
        first = length() - filled
        if first < 1:
            raise ValueError(
                f"state is damaged: {filled} rows are pending, which is a block or more"
            )
        if count >= first and filled:
            self._keep(x[:first], y[:first], None if w is None else w[:first], filled)
            take(*_block(self._rows, self._targets, self._weights, 0, filled + first))
            # What the predecessor shows is not written over.
            self._rows, self._targets = np.empty_like(self._rows), np.empty_like(self._targets)
            self._weights = np.empty_like(self._weights)
            start, filled = first, 0
        while filled == 0 and count - start >= (rest := length()):
            end = start + rest * min((count - start) // rest, together)
            take(*_block(x, y, w, start, end))
            start = end
        tail = slice(start, None)
        check_values(rows=_dense(x[tail]), targets=y[tail])
        self._keep(x[tail], y[tail], None if w is None else w[tail], filled)
        self.filled = filled + count - start

    def successor(self) -> Self:
        """Return a copy that shares the pending rows; only one of the two may be continued."""
        return shallow(self)

    def mapped(self, change: ColumnMap) -> Self:
        """Return the same pending rows with mapped columns; both may be continued."""
        state = self.plain() | {"rows": change.rows(self._rows[: self.filled])}
        return type(self)(change.after, self.targets).restored(state, "blocks")

    def _keep(self, x: Any, y: Array, w: Array | None, place: int) -> None:
        """Store rows after the first ``place`` pending rows."""
        end = place + x.shape[0]
        if end > len(self._rows):
            room = max(end, 2 * len(self._rows))  # unwritten room takes no memory
            self._rows = _longer(self._rows, room)
            self._targets = _longer(self._targets, room)
            self._weights = _longer(self._weights, room)
        self._rows[place:end] = _dense(x)
        self._targets[place:end] = y
        self._weights[place:end] = 1.0 if w is None else w

    def copy(self) -> Self:
        """Return an independent copy."""
        return self.restored(self.plain(), "blocks")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The arrays to save."""
        return "_rows", "_targets", "_weights"

    def plain(self) -> dict[str, Any]:
        """Return copies of the pending rows, targets and weights."""
        kept = slice(self.filled)
        return {
            "rows": self._rows[kept].copy(),
            "targets": self._targets[kept].copy(),
            "weights": self._weights[kept].copy(),
        }

    def restored(self, plain: Any, what: str) -> Self:
        """Return the pending rows from which ``plain`` was made, after checking it."""
        found = super().restored(plain, what)
        found.filled = len(found._weights)
        lengths = {len(found._rows), len(found._targets), found.filled}
        if len(lengths) > 1 or not (found._weights > 0.0).all():
            raise ValueError(f"state of the {what} does not fit: each row needs a positive weight")
        return found


def block_sums(
    rows: Array, targets: Array, weights: Array | None, *, quick: bool
) -> tuple[Sums, bool]:
    """Return the sums of a block, and whether to try the quick way for the next block."""
    if weights is not None:  # else quick sums show values that are too large
        check_values(rows=rows, targets=targets)
    sums = sums_of(rows, targets, weights, quick=True) if quick else None
    if sums is not None:
        return sums, True
    check_values(rows=rows, targets=targets)
    sums = sums_of(rows, targets, weights)
    assert sums is not None
    return sums, (sums.combined() if sums.weight.ndim else sums).near


def check_rows(
    rows: Any,
    targets: npt.ArrayLike,
    weights: npt.ArrayLike | None,
    columns: int,
    outputs: int,
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
    allowed = {(x.shape[0], outputs)} | ({(x.shape[0],)} if outputs == 1 else set())
    if y.shape not in allowed:
        shape = " or ".join(map(str, sorted(allowed, key=len)))
        raise ValueError(f"targets must have shape {shape}, not {y.shape}")
    y = y.astype(np.float64, copy=False).reshape(x.shape[0], outputs)
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


def check_array(value: Any, name: str, shape: tuple[int, ...], kind: str = "f") -> Array:
    """Check an array of a saved state, and return a copy."""
    array = np.array(value)
    if array.dtype.kind not in kind or array.dtype.itemsize > 8 or array.shape != shape:
        raise ValueError(
            f"{name} of the state must have shape {shape} and kind {kind!r}, "
            f"not {array.dtype} of shape {array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} of the state must be finite")
    return array.astype(np.float64 if kind == "f" else np.int64)


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


def _longer(array: Array, length: int) -> Array:
    longer = np.empty((length, *array.shape[1:]))
    longer[: len(array)] = array
    return longer
