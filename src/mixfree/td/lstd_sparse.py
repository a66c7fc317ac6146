"""Least-squares temporal differences with many features, few of which are nonzero at a time."""

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import splu

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_values, check_whole
from mixfree.linear.exact.blocks import check_array
from mixfree.td.lstd import (
    FIRST,
    check_discounts,
    check_level,
    check_transitions,
    correlation_remark,
    half_widths,
    paired,
)

BLOCK = 256  # transitions per product of matrices
MOST = 16  # batches at which neighbours are joined
ENTRIES = 1 << 24  # most entries of all sums together: 200 MB
PER_TRANSITION = 1 << 17  # most products of features per transition, on average
RIDGE = 1e-12  # in units of the features' scales, for dependent features
FADED = 2.0**-60  # fraction of the largest weight below which a trace ends
VALUES = 1 << 22  # numbers in the dense rows that are solved for at a time
REFINED = 2  # steps of iterative refinement, which remove the effect of the ridge


class SparseLSTD:
    """:class:`mixfree.td.lstd.LSTD` with sparse sums, and without half-life.

    Dependent features are resolved by a ridge of 1e-12 in units of their own scale, which does not
    change the values.

    Parameters
    ----------
    size, gamma, lam, l2
        As for :class:`LSTD`. Memory grows with the number of pairs of features that occur
        together or one after the other: 12 bytes each, in the total and in 8 to 16 batches.

    Examples
    --------
    >>> lstd = SparseLSTD(2, gamma=0.5)
    >>> states = sparse.csr_array(np.eye(2)[[0, 1] * 50])
    >>> lstd.add(states, np.ones(100), states[:, ::-1], np.zeros(100, dtype=bool))
    >>> lstd.theta.round(9)
    array([2., 2.])
    """

    half_life = None

    def __init__(self, size: int, gamma: float, *, lam: float = 0.0, l2: float = 0.0) -> None:
        self.size = check_whole(size, "size")
        self.gamma, self.lam, self.l2 = check_discounts(gamma, lam, l2)
        self._waiting = sparse.csr_array((0, 2 * size))
        self._given = np.zeros((0, 2))  # rewards, and whether the trajectory is cut off
        self._trace = np.zeros(size)
        self._rows, self._filled, self._length = 0, 0, FIRST
        # Of the batch being filled: sums of 2^level blocks, each level at most once.
        self._pieces: tuple[tuple[int, Any], ...] = ()
        self._closed: tuple[Any, ...] = ()

    @property
    def transitions(self) -> int:
        """Transitions seen."""
        return self._rows + len(self._given)

    def add(
        self,
        rows: Any,
        rewards: npt.ArrayLike,
        next_rows: Any,
        terminated: npt.ArrayLike,
        *,
        ended: npt.ArrayLike | None = None,
    ) -> None:
        """Add transitions in order, dense or sparse, as :meth:`LSTD.add` does.

        Raises
        ------
        ValueError
            If a shape is wrong, a value is not finite or above 1e75, or too many features occur
            together for the sums to fit in memory; nothing has changed then.
        """
        x, ahead = (as_csr(each) for each in (rows, next_rows))
        r, stop, broken = check_transitions(x, ahead, rewards, terminated, ended, self.size)
        given = np.column_stack([r, broken])
        both = sparse.hstack([x, ahead.multiply(~stop[:, None])], format="csr")
        both.eliminate_zeros()
        check_values(rows=both.data, rewards=r)
        before = dict(vars(self))
        try:
            both = sparse.vstack([self._waiting, both], format="csr")
            given = np.concatenate([self._given, given])
            done = 0
            while len(given) - done >= (rest := min(BLOCK, self._length - self._filled)):
                self._take(both[done : done + rest], given[done : done + rest])
                done += rest
            self._waiting, self._given = both[done:], given[done:]
        except BaseException:
            vars(self).update(before)
            raise

    def break_off(self) -> None:
        """Mark the trajectory as cut off after the last transition: traces start afresh."""
        if len(self._given):
            self._given = self._given.copy()
            self._given[-1, 1] = 1.0
        else:
            self._trace = np.zeros(self.size)

    def _take(self, both: Any, given: Array) -> None:
        sums, self._trace = self._sums(both, given)
        level, pieces = 0, self._pieces
        while pieces and pieces[-1][0] == level:
            sums, pieces, level = pieces[-1][1] + sums, pieces[:-1], level + 1
        self._pieces = (*pieces, (level, sums))
        self._rows, self._filled = self._rows + len(given), self._filled + len(given)
        if self._filled == self._length:
            self._closed = (*self._closed, self._current)
            self._pieces, self._filled = (), 0
            if len(self._closed) == MOST:
                self._closed, self._length = paired(self._closed), 2 * self._length
        held = sum(each.nnz for each in self._all)
        if held > ENTRIES:
            raise ValueError(
                f"lstd with {self.size:,} features would store {held:,} products of features, but "
                f"at most {ENTRIES:,} are allowed: use `method='ladder'`, which stores none"
            )

    def _sums(self, both: Any, given: Array) -> tuple[Any, Array]:
        """Return matrix, vector and squares of a block as one matrix, and the trace after it."""
        x = both[:, : self.size]
        change = x - self.gamma * both[:, self.size :]
        left, trace = self._traces(x, given[:, 1])
        products = np.diff(left.indptr) @ np.diff(change.indptr)
        if products > PER_TRANSITION * len(given):
            raise ValueError(
                f"lstd needs sparse rows for more than 1,000 features: a transition has "
                f"{products // len(given):,} products of features, more than {PER_TRANSITION:,}; "
                "use `method='ladder'`, which takes any features"
            )
        right = sparse.hstack([change, sparse.csr_array(given[:, :1])], format="csr")
        squares = sparse.csr_array(x.multiply(x).sum(axis=0)[:, None])
        return sparse.hstack([left.T @ right, squares], format="csr"), trace

    def _traces(self, x: Any, broken: Array) -> tuple[Any, Array]:
        decay = self.gamma * self.lam
        if decay == 0.0:
            return x, self._trace
        n = len(broken)
        episode = np.append(0, np.cumsum(broken)[:-1])
        age = np.arange(n)[:, None] - np.arange(n)
        joined = (age >= 0) & (episode[:, None] == episode)
        weights = _without_tiny(np.where(joined, decay ** np.maximum(age, 0), 0.0))
        before = _without_tiny(np.where(episode == 0, decay ** np.arange(1.0, n + 1.0), 0.0))
        trace = sparse.csr_array(self._trace[None])
        traces = sparse.csr_array(weights) @ x + sparse.csr_array(before[:, None]) @ trace
        last = np.zeros(self.size) if broken[-1] else traces[[-1]].toarray()[0]
        return traces, _without_tiny(last)

    @property
    def _all(self) -> list[Any]:
        """Sums of all batches and pieces, without pending transitions."""
        return [*self._closed, *(sums for _, sums in self._pieces)]

    @property
    def _current(self) -> Any:
        """Sums of the batch being filled."""
        return sum(sums for _, sums in self._pieces)

    def _folded(self) -> Self:
        """Return this object with pending transitions added to its sums."""
        if not len(self._given):
            return self
        twin = self.copy()
        twin._take(self._waiting, self._given)
        twin._waiting, twin._given = self._waiting[:0], self._given[:0]
        return twin

    @property
    def theta(self) -> Array:
        """The fixed point of all transitions."""
        return self._folded()._solved().theta

    def _solved(self) -> "_Solved":
        empty = sparse.csr_array((self.size, self.size + 2))
        return _Solved(sum(self._all, start=empty), self.l2 * self._rows)

    def batches_met(self, rows: Any) -> Array:
        """Count the closed batches in which the rarest feature of each row occurs."""
        x = self._checked(rows)
        closed = self._folded()._closed
        met = sum(((_column(batch, -1) > 0.0).astype(int) for batch in closed), np.zeros(self.size))
        x.data = len(closed) - met[x.indices]
        fewest: Array = len(closed) - x.max(axis=1).toarray()
        return fewest

    def errors(self, rows: Any, level: float = 0.95) -> Array:
        """Return half-widths of simultaneous intervals of the values φᵀθ: see :class:`LSTD`."""
        check_level(level)
        whole, met, x = self._folded(), self.batches_met(rows), self._checked(rows)
        solved = whole._solved()
        residuals = whole._residuals(solved.theta)
        moved, aside = np.zeros((x.shape[0], len(residuals))), np.zeros(x.shape[0])
        together = max(VALUES // self.size, 1)
        for start in range(0, x.shape[0], together):
            piece = slice(start, start + together)
            dense = x[piece].toarray()
            change = solved.changes(dense)
            moved[piece] = change @ residuals.T
            aside[piece] = np.linalg.norm(dense - change @ solved.system, axis=1)
        covered = len(whole._closed) * whole._length / max(whole._rows, 1)
        return half_widths(sparse.linalg.norm(x, axis=1), moved, aside, met, covered, level)

    def _checked(self, rows: Any) -> Any:
        """Return a CSR copy of rows, which must be finite and of the right size."""
        x = as_csr(rows).copy()
        if x.shape[1:] != (self.size,):
            raise ValueError(f"rows must have {self.size:,} columns, not shape {x.shape}")
        if not np.isfinite(x.data).all():
            raise ValueError("rows must be finite")
        x.eliminate_zeros()
        return x

    def _residuals(self, theta: Array) -> Array:
        """Return the residuals of each batch's equations at θ, with ridge."""
        ridge = self.l2 * self._length * theta
        left = [_column(batch, -2) - batch[:, :-2] @ theta - ridge for batch in self._closed]
        return np.array(left).reshape(-1, self.size)

    @property
    def remark(self) -> str:
        """A sentence on why the errors are too small; empty if there is no known reason."""
        whole = self._folded()
        return correlation_remark(whole._residuals(whole._solved().theta), whole._length)

    def copy(self) -> Self:
        """Return an independent copy; it shares arrays, which are never changed in place."""
        return copy.copy(self)

    def plain(self) -> dict[str, Any]:
        """Return the state as numbers and copies of arrays."""
        return {
            "waiting": _plain(self._waiting),
            "given": self._given.copy(),
            "trace": self._trace.copy(),
            "rows": self._rows,
            "filled": self._filled,
            "length": self._length,
            "levels": np.array([level for level, _ in self._pieces], dtype=np.int64),
            "pieces": [_plain(sums) for _, sums in self._pieces],
            "closed": [_plain(sums) for sums in self._closed],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that :meth:`plain` returned; an error changes nothing."""
        shape, count = (self.size, self.size + 2), len(state["given"])
        waiting = _restored(state["waiting"], "waiting", (count, 2 * self.size))
        given = check_array(state["given"], "given", (count, 2))
        trace = check_array(state["trace"], "trace", (self.size,))
        rows, filled, length = (
            check_whole(state[name], f"{name} of the state", least=least)
            for name, least in (("rows", 0), ("filled", 0), ("length", FIRST))
        )
        levels = check_array(state["levels"], "levels", (len(state["pieces"]),), "i").tolist()
        pieces = tuple(_restored(each, "pieces", shape) for each in state["pieces"])
        closed = tuple(_restored(each, "closed", shape) for each in state["closed"])
        if len(closed) >= MOST:
            raise ValueError(f"the state must have fewer than {MOST} batches, not {len(closed)}")
        self._waiting, self._given, self._trace = waiting, given, trace
        self._rows, self._filled, self._length = rows, filled, length
        self._pieces, self._closed = tuple(zip(levels, pieces, strict=True)), closed


class _Solved:
    """The fixed point of sums, and the factors that solve for it.

    Parameters
    ----------
    total
        Matrix, vector and squares of the features, over all transitions.
    ridge
        Ridge of all transitions together.
    """

    def __init__(self, total: Any, ridge: float) -> None:
        size = total.shape[0]
        self.system = (total[:, :-2] + ridge * sparse.eye_array(size)).tocsr()
        squares = _column(total, -1)
        # Features that never occurred keep the value 0.
        self._met = np.flatnonzero(squares > 0.0)
        self._scale = 1.0 / np.sqrt(squares[self._met] + ridge)
        diagonal = sparse.diags_array(self._scale)
        self._scaled = diagonal @ self.system[self._met][:, self._met] @ diagonal
        lifted = self._scaled + RIDGE * sparse.eye_array(len(self._met))
        self._factors = splu(lifted.tocsc()) if len(self._met) else None
        self.theta = np.zeros(size)
        self.theta[self._met] = self._scale * self._solve(
            self._scale * _column(total, -2)[self._met], "N"
        )

    def changes(self, rows: Array) -> Array:
        """Return the change of the rows' values per unit of each equation's residual."""
        found = np.zeros(rows.shape)
        solved = self._solve((rows[:, self._met] * self._scale).T, "T")
        found[:, self._met] = solved.T * self._scale
        return found

    def _solve(self, right: Array, which: str) -> Array:
        if self._factors is None:
            return np.zeros_like(right)
        matrix = self._scaled if which == "N" else self._scaled.T
        found: Array = self._factors.solve(right, which)
        for _ in range(REFINED):
            found = found + self._factors.solve(right - matrix @ found, which)
        return found


def as_csr(rows: Any) -> Any:
    """Return rows as a CSR array of float64, with indices of 32 bits as in the sums."""
    if sparse.issparse(rows) or np.ndim(rows) != 2:
        found = sparse.csr_array(rows, dtype=np.float64)
        found.indices, found.indptr = sparse.safely_cast_index_arrays(found, np.int32)
        return found
    dense = np.ascontiguousarray(rows, dtype=np.float64)
    count, size = dense.shape
    # A search of Booleans takes a fraction of the time of SciPy's search of numbers.
    places = np.flatnonzero(dense != 0.0)
    starts = np.searchsorted(places, size * np.arange(count + 1))
    parts = dense.ravel()[places], (places % size).astype(np.int32), starts.astype(np.int32)
    return sparse.csr_array(parts, shape=dense.shape)


def _without_tiny(weights: Array) -> Array:
    """Set weights to 0 that are too small to change a sum, so that traces stay sparse."""
    size = np.abs(weights)
    return np.where(size > FADED * size.max(), weights, 0.0)


def _column(sums: Any, place: int) -> Array:
    found: Array = sums[:, [sums.shape[1] + place]].toarray()[:, 0]
    return found


def _plain(matrix: Any) -> dict[str, Any]:
    return {name: getattr(matrix, name).copy() for name in ("data", "indices", "indptr")}


def _restored(state: Mapping[str, Any], name: str, shape: tuple[int, int]) -> Any:
    data = check_array(state["data"], f"data of {name}", (len(state["data"]),))
    indices = check_array(state["indices"], f"indices of {name}", data.shape, "i")
    indptr = check_array(state["indptr"], f"indptr of {name}", (shape[0] + 1,), "i")
    matrix = sparse.csr_array((data, indices, indptr), shape=shape)
    matrix.check_format(full_check=True)
    return matrix
