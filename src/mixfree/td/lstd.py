"""LSTD with dense sums, and with sparse ones for many features that are mostly 0."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_positive, check_values, check_whole
from mixfree.linear.exact.streamsums import most_batches
from mixfree.td.fixed_point import FixedPoint, check_array, column

# Most features for dense sums: the total and the sums of 16 batches take 136 MB.
MAX_DENSE_FEATURES = 1000
FIRST_LENGTH = 16  # initial transitions per batch
DENSE_BLOCK, SPARSE_BLOCK = 1024, 256  # transitions per product of matrices
TOLERANCE = 1e-13  # singular values below it, relative to the largest, count as 0
MAX_CONDITION = 1e10  # up to which the inverse is as accurate as singular values
MAX_BATCHES = 16  # of sparse sums, at which neighbours are joined
MAX_ENTRIES = 1 << 24  # of all sparse sums together: 200 MB
MAX_PRODUCTS = 1 << 17  # of features per transition, on average
RIDGE = 1e-12  # in units of the features' scales, for dependent features
FADED = 2.0**-60  # fraction of the largest weight below which a trace ends
REFINEMENTS = 2  # steps of iterative refinement, which remove the effect of the ridge


def least_squares(size: int, gamma: float, **options: Any) -> FixedPoint:
    """Start LSTD, with sparse sums of more than 1,000 features; options as for :class:`LSTD`."""
    if size <= MAX_DENSE_FEATURES:
        return LSTD(size, gamma, **options)
    if "half_life" in options:
        raise ValueError(f"half_life needs at most {MAX_DENSE_FEATURES:,} features, not {size:,}")
    return SparseLSTD(size, gamma, **options)


class LSTD(FixedPoint):
    """Learns values φ(s)ᵀθ from transitions; their chunking does not change a bit.

    Parameters
    ----------
    size
        Number of features. The total and the sums of 16 to 64 batches take 8·size² bytes each:
        5 MB for 100 features, 136 MB for 1,000.
    gamma
        Discount in [0, 1].
    lam
        Decay λ of the eligibility traces, in [0, 1].
    l2
        Ridge per transition.
    half_life
        Number of transitions after which a transition counts half; None never forgets.

    Examples
    --------
    >>> lstd = LSTD(2, gamma=0.5)
    >>> states = np.eye(2)[[0, 1] * 50]
    >>> lstd.add(states, np.ones(100), states[:, ::-1], np.zeros(100, dtype=bool))
    >>> lstd.theta
    array([2., 2.])
    """

    keeps_pieces = sparse = False

    def __init__(
        self,
        size: int,
        gamma: float,
        *,
        lam: float = 0.0,
        l2: float = 0.0,
        half_life: float | None = None,
    ) -> None:
        length = max(FIRST_LENGTH, 1 << check_whole(size, "size").bit_length() >> 1)
        block = DENSE_BLOCK
        if half_life is not None:
            self.half_life = check_positive(half_life, "half_life")
            block = min(block, 1 << max(int(half_life).bit_length() - 2, 0))
            length = 1 << 61  # there are no batches, since their sums would not be forgotten
        super().__init__(size, gamma, lam, l2, block, length, most_batches(size))

    @staticmethod
    def as_rows(rows: Any) -> Array:
        """Return rows as an array of float64."""
        return np.asarray(rows, dtype=np.float64)

    @staticmethod
    def _beside(x: Array, ahead: Array, stop: Array) -> Array:
        ahead = np.where(stop[:, None], 0.0, ahead)
        check_values(rows=x, next_rows=ahead)
        return np.concatenate([x, ahead], axis=1)

    @staticmethod
    def _below(first: Array, second: Array) -> Array:
        return np.concatenate([first, second]) if len(first) else second

    def _sums(self, both: Array, given: Array) -> tuple[Array, Array]:
        x = both[:, : self.size]
        change = np.empty((len(both), self.size + 1))
        change[:, :-1] = x - self.gamma * both[:, self.size :]
        change[:, -1] = given[:, 0]
        left, trace = self._traces(x, given[:, 1])
        return np.column_stack([left.T @ change, np.einsum("ij,ij->j", x, x)]), trace

    def _traces(self, x: Array, broken: Array) -> tuple[Array, Array]:
        decay = self.gamma * self.lam
        if decay == 0.0:
            return x, self._trace
        from scipy.signal import lfilter

        traces, trace, start = np.empty_like(x), self._trace, 0
        for end in [*(np.flatnonzero(broken) + 1), len(x)]:
            if start < end:
                piece = slice(start, end)
                before = decay * trace[None]
                traces[piece], _ = lfilter([1.0], [1.0, -decay], x[piece], axis=0, zi=before)
                trace = np.zeros(self.size) if broken[end - 1] else traces[end - 1]
            start = end
        return traces, trace.copy()

    def _solved(self) -> "_DenseSolved":
        total = sum(self._all, start=np.zeros((self.size, self.size + 2)))
        return _DenseSolved(total, self.l2 * self._weight)


class _DenseSolved:
    """The fixed point of dense sums, and the (pseudo-)inverse that gives it."""

    def __init__(self, total: Array, ridge: float) -> None:
        size = len(total)
        self.system = total[:, :-2] + ridge * np.eye(size)
        self._inverse = np.zeros((size, size))
        # In units of each feature's own scale, rare features are as well determined as others.
        met = total[:, -1] > 0.0
        if met.any():
            scale = 1.0 / np.sqrt(total[met, -1] + ridge)
            scaled = scale[:, None] * self.system[np.ix_(met, met)] * scale
            self._inverse[np.ix_(met, met)] = scale[:, None] * _inverse(scaled, scale) * scale
        self.theta: Array = self._inverse @ total[:, -2]

    def changes(self, rows: Array) -> Array:
        """Return the change of the rows' values per unit of each equation's residual."""
        change: Array = rows @ self._inverse
        return change


def _inverse(system: Array, scale: Array) -> Array:
    """Return the inverse; for a singular system, ``scale * solution`` has the least norm."""
    inverse: Array
    try:
        inverse = np.linalg.inv(system)
        if np.linalg.norm(inverse, 1) * np.linalg.norm(system, 1) < MAX_CONDITION:
            return inverse
    except np.linalg.LinAlgError:
        pass
    left, singular, right = np.linalg.svd(system)
    kept = singular > TOLERANCE * max(float(singular[0]), 1e-300)
    inverse = (right[kept].T / singular[kept]) @ left[:, kept].T
    if not kept.all():
        free, _ = np.linalg.qr(scale[:, None] * right[~kept].T)
        inverse -= free @ (free.T @ (scale[:, None] * inverse)) / scale[:, None]
    return inverse


class SparseLSTD(FixedPoint):
    """:class:`LSTD` with sparse sums, and without half-life.

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

    keeps_pieces = sparse = True

    def __init__(self, size: int, gamma: float, *, lam: float = 0.0, l2: float = 0.0) -> None:
        super().__init__(size, gamma, lam, l2, SPARSE_BLOCK, FIRST_LENGTH, MAX_BATCHES)

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
