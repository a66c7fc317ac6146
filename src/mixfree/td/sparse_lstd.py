"""LSTD with sparse sums, for many features that are mostly 0."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from mixfree.base.arithmetic import Array
from mixfree.td.lstd import FIRST_LENGTH, LSTD, MAX_DENSE_FEATURES, check_array
from mixfree.td.solution import Solution, sparse_solution

BLOCK = 256  # transitions per product of matrices
MAX_BATCHES = 16  # of sparse sums, at which neighbours are joined
MAX_ENTRIES = 1 << 24  # of all sparse sums together: 200 MB
MAX_PRODUCTS = 1 << 17  # of features per transition, on average
FADED = 2.0**-60  # fraction of the largest weight below which a trace ends


class SparseLSTD(LSTD):
    """:class:`LSTD` with sparse sums, and without half-life.

    Dependent features are resolved by a ridge of 1e-12 in units of their own scale, which does not
    change the values. Transitions are refused if too many features occur together for the sums to
    fit in memory.

    Memory grows with the number of pairs of features that occur together or one after the other:
    12 bytes each, in the total and in 8 to 16 batches.
    """

    sparse = True

    def _lengths(self) -> tuple[int, int, int]:
        if self.half_life is not None:
            raise ValueError(
                f"half_life needs at most {MAX_DENSE_FEATURES:,} features, not {self.size:,}"
            )
        return BLOCK, FIRST_LENGTH, MAX_BATCHES

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
        return both

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

    def _solved(self) -> Solution:
        empty = sparse.csr_array((self.size, self.size + 2))
        return sparse_solution(sum(self._all, start=empty), self.l2 * self._weight)

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


def _without_tiny(weights: Array) -> Array:
    """Set weights to 0 that are too small to change a sum, so that traces stay sparse."""
    size = np.abs(weights)
    return np.where(size > FADED * size.max(), weights, 0.0)
