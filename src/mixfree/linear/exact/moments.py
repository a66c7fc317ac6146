"""The sums of a stream, the same bits however it is cut into chunks."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.linear.exact.sums import LARGEST, Sums, sums_of

VALUES = 1 << 19  # per matrix product: what stays in a cache
HEAVIEST = 1e150  # weight of a row beyond which sums of weights are not safe


def block_rows(columns: int) -> int:
    """Rows per matrix product: a power of two up to 8,192, and not less than 256 or the columns.

    Sums of size columns² are added to each other once per block, which must not cost more than
    the product itself.

    Examples
    --------
    >>> block_rows(10), block_rows(100), block_rows(1000)
    (8192, 4096, 1024)
    """
    fit = (VALUES // max(columns, 1)).bit_length() - 1
    return 1 << min(max(fit, 8, (columns - 1).bit_length()), 13)


class Blocks:
    """Cuts a stream into blocks whose borders depend only on how many rows came before.

    Rows that do not fill a block yet are kept as they are. Rows of weight 0 are left out, as if
    they had not been given.

    Parameters
    ----------
    columns, targets
        Numbers of features and of targets per row.
    """

    def __init__(self, columns: int, targets: int = 1) -> None:
        self.columns = check_whole(columns, "columns", least=0)
        self.targets = check_whole(targets, "targets")
        self.filled = 0
        self._rows = np.empty((0, self.columns))
        self._targets = np.empty((0, self.targets))
        self._weights = np.empty(0)

    def clear(self) -> None:
        """Let no row wait."""
        self.filled = 0

    @property
    def pending(self) -> tuple[Array, Array, Array | None] | None:
        """Rows that wait for more, their targets and weights."""
        return self._block(self._rows, self._targets, self._weights, 0, self.filled)

    def cut(
        self,
        rows: Any,
        targets: npt.ArrayLike,
        weights: npt.ArrayLike | None,
        length: Callable[[], int],
        take: Callable[[Array, Array, Array | None], None],
        together: int = 1,
    ) -> None:
        """Give ``take`` every block that is complete now; ``length`` tells the next one's rows.

        ``together`` is the largest number of blocks, all equally long, to give at a time.
        An error of ``take``, or what is not finite among the rows that wait, leaves this object
        as it was.
        """
        x, y, w = check_rows(rows, targets, weights, self.columns, self.targets)
        start, filled, count = 0, self.filled, x.shape[0]
        first = length() - filled
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            if count >= first and filled:
                self._keep(x[:first], y[:first], None if w is None else w[:first], filled)
                block = self._block(self._rows, self._targets, self._weights, 0, filled + first)
                assert block is not None
                take(*block)
                start, filled = first, 0
            while filled == 0 and count - start >= (rest := length()):
                ones = w if w is not None else np.empty(0)
                end = start + rest * min((count - start) // rest, together)
                block = self._block(x, y, ones, start, end)
                assert block is not None
                take(*block)
                start = end
            tail = slice(start, None)
            check_finite(_dense(x[tail]), y[tail])
        self._keep(x[tail], y[tail], None if w is None else w[tail], filled)
        self.filled = filled + count - start

    def _keep(self, x: Any, y: Array, w: Array | None, place: int) -> None:
        """Write rows behind the first ``place`` ones of those that wait."""
        end = place + x.shape[0]
        if end > len(self._rows):
            room = max(end, 2 * len(self._rows))  # what is never written to takes no memory
            self._rows = _longer(self._rows, room)
            self._targets = _longer(self._targets, room)
            self._weights = _longer(self._weights, room)
        self._rows[place:end] = _dense(x)
        self._targets[place:end] = y
        self._weights[place:end] = 1.0 if w is None else w

    def _block(
        self, x: Any, y: Array, w: Array, start: int, end: int
    ) -> tuple[Array, Array, Array | None] | None:
        """Rows, targets and weights of a block as contiguous doubles; None for no rows."""
        if start == end:
            return None
        rows = np.ascontiguousarray(_dense(x[start:end]), dtype=np.float64)
        targets = np.ascontiguousarray(y[start:end])
        weights = w[start:end] if w.size else None
        if weights is not None and (weights == 1.0).all():
            weights = None
        return rows, targets, weights

    def copy(self) -> Self:
        """Another one that goes on by itself."""
        twin = type(self)(self.columns, self.targets)
        twin.restore(self.plain())
        return twin

    def plain(self) -> dict[str, Any]:
        """The rows that wait, as arrays of their own."""
        return {
            "rows": self._rows[: self.filled].copy(),
            "targets": self._targets[: self.filled].copy(),
            "weights": self._weights[: self.filled].copy(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where the one that gave ``state`` was; an error changes nothing."""
        filled = len(np.atleast_1d(state["weights"]))
        shapes = {
            "rows": (filled, self.columns),
            "targets": (filled, self.targets),
            "weights": (filled,),
        }
        found = {name: check_array(state[name], name, shape) for name, shape in shapes.items()}
        if not (found["weights"] > 0.0).all():
            raise ValueError("weights of the state must be positive")
        self._rows, self._targets, self._weights = found.values()
        self.filled = filled


class Moments:
    """The sums of all rows of a stream, for least squares with several targets.

    Parameters
    ----------
    columns, targets
        Numbers of features and of targets per row. Their sizes may lie anywhere between 1e-150
        and 1e150, and their offsets cost no digits.

    Examples
    --------
    >>> moments = Moments(1)
    >>> moments.add(np.array([[1.0], [2.0], [6.0]]), np.array([0.0, 1.0, 5.0]))
    >>> sums = moments.total
    >>> sums.mean, sums.scatter
    (array([3., 2.]), array([[14.]]))
    """

    def __init__(self, columns: int, targets: int = 1) -> None:
        self._blocks = Blocks(columns, targets)
        self._sums = Sums.nothing(columns, targets)
        self._quick = True

    @property
    def rows(self) -> int:
        """Rows of positive weight seen."""
        return self._sums.rows + self._blocks.filled

    @property
    def total(self) -> Sums:
        """The sums of all rows, those that wait for a block included."""
        return self._sums.joined(self.pending)

    @property
    def pending(self) -> Sums:
        """The sums of the rows that wait for a block."""
        waiting = self._blocks.pending
        if waiting is None:
            return Sums.nothing(self._blocks.columns, self._blocks.targets)
        return block_sums(*waiting, quick=self._quick)[0]

    def add(self, rows: Any, targets: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> None:
        """Take rows in their order, of any real type, dense or sparse.

        Raises
        ------
        ValueError
            For a wrong shape and for what is not finite; nothing has changed then.
        """
        before = self._sums, self._quick
        try:
            self._blocks.cut(rows, targets, weights, self._length, self._take)
        except BaseException:
            self._sums, self._quick = before
            raise

    def _length(self) -> int:
        return block_rows(self._blocks.columns)

    def _take(self, rows: Array, targets: Array, weights: Array | None) -> None:
        block, self._quick = block_sums(rows, targets, weights, quick=self._quick)
        self._sums = self._sums.joined(block)

    def merge(self, other: Self) -> None:
        """Take all rows of another one, which stays as it is."""
        check_same_columns(self._blocks, other._blocks)
        self._sums = self.total.joined(other.total)
        self._quick = self._quick and other._quick
        self._blocks.clear()

    def copy(self) -> Self:
        """Another one that goes on by itself."""
        twin = type(self)(self._blocks.columns, self._blocks.targets)
        twin._blocks, twin._sums, twin._quick = self._blocks.copy(), self._sums, self._quick
        return twin

    def plain(self) -> dict[str, Any]:
        """Everything that changes, as arrays and numbers of their own."""
        sums = plain_sums(self._sums)
        return {"blocks": self._blocks.plain(), "sums": sums, "quick": self._quick}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where the one that gave ``state`` was; an error changes nothing."""
        sums = restored_sums(state["sums"], self._blocks.columns, self._blocks.targets)
        self._blocks.restore(state["blocks"])
        self._sums, self._quick = sums, bool(state["quick"])


def block_sums(
    rows: Array, targets: Array, weights: Array | None, *, quick: bool
) -> tuple[Sums, bool]:
    """The sums of a block, and whether the quick way is worth trying for the next one."""
    sums = sums_of(rows, targets, weights, quick=True) if quick else None
    if sums is not None:
        return sums, True
    check_finite(rows, targets)
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
    """Rows, a matrix of targets and positive weights of right shapes and types, or ValueError.

    Rows of weight 0 are left out. Whether rows and targets are finite is not looked at.
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
    if not ((w >= 0.0) & (w <= HEAVIEST)).all():
        wrong = int(np.argmin((w >= 0.0) & (w <= HEAVIEST)))
        raise ValueError(
            f"weights must lie in [0, {HEAVIEST:g}], but weights[{wrong}] is {w[wrong]}"
        )
    used = w > 0.0
    return (x, y, w) if used.all() else (x[used], y[used], w[used])


def check_finite(rows: Array, targets: Array) -> None:
    """ValueError for values that are not finite, or too large to be squared even in other units."""
    for name, array in (("rows", rows), ("targets", targets)):
        if array.size == 0 or np.isfinite(np.vdot(array, array)):
            continue
        wrong = ~(np.abs(array) <= LARGEST)
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise ValueError(
                f"{name} must be finite and at most {LARGEST:.3g} in size, but a value in "
                f"column {place[1]} is {array[place]}"
            )


def check_same_columns(one: Blocks, other: Blocks) -> None:
    """ValueError unless both are of as many columns and targets."""
    if (one.columns, one.targets) != (other.columns, other.targets):
        raise ValueError(
            f"cannot merge {other.columns} columns and {other.targets} targets into "
            f"{one.columns} columns and {one.targets} targets"
        )


def check_array(value: Any, name: str, shape: tuple[int, ...], kind: str = "f") -> Array:
    """A finite array of its own with the given shape, from a saved state, or ValueError."""
    array = np.array(value)
    if array.dtype.kind not in kind or array.dtype.itemsize > 8 or array.shape != shape:
        raise ValueError(
            f"{name} of the state must have shape {shape} and kind {kind!r}, "
            f"not {array.dtype} of shape {array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} of the state must be finite")
    return array.astype(np.float64 if kind == "f" else np.int64)


def plain_sums(sums: Sums) -> dict[str, Any]:
    """Sums as arrays and numbers of their own."""
    state = {field.name: getattr(sums, field.name) for field in fields(sums)}
    return {name: v.copy() if isinstance(v, np.ndarray) else v for name, v in state.items()}


def restored_sums(state: Mapping[str, Any], columns: int, targets: int, *blocks: int) -> Sums:
    """Sums from what :func:`plain_sums` gave, checked; of so many blocks, if there are some."""
    rows = check_whole(state["rows"], "rows of the state", least=0)
    both = columns + targets
    shapes = {
        "weight": (),
        "mean": (both,),
        "scatter": (columns, columns),
        "cross": (columns, targets),
        "squares": (targets,),
    }
    found = {
        name: check_array(state[name], name, (*blocks, *shape)) for name, shape in shapes.items()
    }
    given = state["exponent"]
    exponent = None if given is None else check_array(given, "exponent", (both,), "i")
    diagonal = np.diagonal(found["scatter"], axis1=-2, axis2=-1)
    if any((each < 0.0).any() for each in (found["weight"], diagonal, found["squares"])):
        raise ValueError("weight and squares of the state must not be negative")
    return Sums(rows, **found, exponent=exponent)


def _dense(rows: Any) -> Array:
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


def _longer(array: Array, length: int) -> Array:
    longer = np.empty((length, *array.shape[1:]))
    longer[: len(array)] = array
    return longer
