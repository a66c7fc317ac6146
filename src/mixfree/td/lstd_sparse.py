"""Least-squares temporal differences with many features, few of which are nonzero at a time."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_values
from mixfree.linear.exact.blocks import check_array
from mixfree.td.lstd import FIRST_LENGTH, FixedPoint, column

BLOCK = 256  # transitions per product of matrices
MAX_BATCHES = 16  # at which neighbours are joined
MAX_ENTRIES = 1 << 24  # of all sums together: 200 MB
MAX_PRODUCTS = 1 << 17  # of features per transition, on average
RIDGE = 1e-12  # in units of the features' scales, for dependent features
FADED = 2.0**-60  # fraction of the largest weight below which a trace ends
REFINEMENTS = 2  # steps of iterative refinement, which remove the effect of the ridge


class SparseLSTD(FixedPoint):
    """:class:`mixfree.td.lstd.LSTD` with sparse sums, and without half-life.

    Dependent features are resolved by a ridge of 1e-12 in units of their own scale, which does not
    change the values. Transitions are refused if too many features occur together for the sums to
    fit in memory.

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

    keeps_pieces = True

    def __init__(self, size: int, gamma: float, *, lam: float = 0.0, l2: float = 0.0) -> None:
        super().__init__(size, gamma, lam, l2, BLOCK, FIRST_LENGTH, MAX_BATCHES)

    @staticmethod
    def as_rows(rows: Any) -> Any:
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

    @staticmethod
    def _beside(x: Any, ahead: Any, stop: Array) -> Any:
        both = sparse.hstack([x, ahead.multiply(~stop[:, None])], format="csr")
        both.eliminate_zeros()
        check_values(rows=both.data)
        return both

    @staticmethod
    def _below(first: Any, second: Any) -> Any:
        return sparse.vstack([first, second], format="csr")

    def _take(self, both: Any, given: Array) -> None:
        super()._take(both, given)
        held = sum(each.nnz for each in self._all)
        if held > MAX_ENTRIES:
            raise ValueError(
                f"lstd with {self.size:,} features would store {held:,} products of features, but "
                f"at most {MAX_ENTRIES:,} are allowed: use `method='ladder'`, which stores none"
            )

    def _sums(self, both: Any, given: Array) -> tuple[Any, Array]:
        x = both[:, : self.size]
        change = x - self.gamma * both[:, self.size :]
        left, trace = self._traces(x, given[:, 1])
        products = np.diff(left.indptr) @ np.diff(change.indptr)
        if products > MAX_PRODUCTS * len(given):
            raise ValueError(
                f"lstd needs sparse rows for more than 1,000 features: a transition has "
                f"{products // len(given):,} products of features, more than {MAX_PRODUCTS:,}; "
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

    def _solved(self) -> "_SparseSolved":
        empty = sparse.csr_array((self.size, self.size + 2))
        return _SparseSolved(sum(self._all, start=empty), self.l2 * self._weight)

    @staticmethod
    def _plain(matrix: Any) -> dict[str, Any]:
        return {name: getattr(matrix, name).copy() for name in ("data", "indices", "indptr")}

    @staticmethod
    def _restored_matrix(state: Mapping[str, Any], name: str, shape: tuple[int, int]) -> Any:
        data = check_array(state["data"], f"data of {name}", (len(state["data"]),))
        indices = check_array(state["indices"], f"indices of {name}", data.shape, "i")
        indptr = check_array(state["indptr"], f"indptr of {name}", (shape[0] + 1,), "i")
        matrix = sparse.csr_array((data, indices, indptr), shape=shape)
        matrix.check_format(full_check=True)
        return matrix


class _SparseSolved:
    """The fixed point of sparse sums, and the factors that solve for it."""

    def __init__(self, total: Any, ridge: float) -> None:
        size = total.shape[0]
        self.system = (total[:, :-2] + ridge * sparse.eye_array(size)).tocsr()
        squares = column(total, -1)
        # Features that never occurred keep the value 0.
        self._met = np.flatnonzero(squares > 0.0)
        self._scale = 1.0 / np.sqrt(squares[self._met] + ridge)
        diagonal = sparse.diags_array(self._scale)
        self._scaled = diagonal @ self.system[self._met][:, self._met] @ diagonal
        lifted = self._scaled + RIDGE * sparse.eye_array(len(self._met))
        self._factors = splu(lifted.tocsc()) if len(self._met) else None
        self.theta = np.zeros(size)
        self.theta[self._met] = self._scale * self._solve(
            self._scale * column(total, -2)[self._met], "N"
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
        for _ in range(REFINEMENTS):
            found = found + self._factors.solve(right - matrix @ found, which)
        return found


def _without_tiny(weights: Array) -> Array:
    """Set weights to 0 that are too small to change a sum, so that traces stay sparse."""
    size = np.abs(weights)
    return np.where(size > FADED * size.max(), weights, 0.0)
