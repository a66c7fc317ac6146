"""Linear maps of columns: what was summed for some columns, for combinations of them."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from mixfree.base.arithmetic import MAX_VALUE, Array

ROUNDING = 1e-13  # variance of a combination over that of its terms that is only a rounding error


class ColumnMap:
    r"""The map :math:`z \mapsto z T` of rows, which also maps their sums and products.

    Most columns of T, dense or sparse, usually select a column. These are copied, so that they keep
    their bits; columns of zeros are filled with zeros; only the other columns are multiplied.

    Examples
    --------
    >>> change = ColumnMap([[0.0, 1.0, 2.0], [0.0, 0.0, 1.0]])
    >>> change.rows(np.array([[3.0, 4.0]]))
    array([[ 0.,  3., 10.]])
    >>> ColumnMap.placing([2, 0], 4).rows(np.array([[3.0, 4.0]]))
    array([[4., 0., 3., 0.]])
    """

    def __init__(self, matrix: Any) -> None:
        t = sparse.csc_array(matrix, dtype=np.float64)
        if t.ndim != 2 or not (np.abs(t.data) <= MAX_VALUE).all():
            raise ValueError("the map of columns must be a matrix of finite numbers up to 1e75")
        t.eliminate_zeros()
        self._matrix = t
        self.before, self.after = t.shape
        entries = np.diff(t.indptr)
        first = np.minimum(t.indptr[:-1], max(t.nnz - 1, 0))
        selects = (entries == 1) & (t.data[first] == 1.0 if t.nnz else False)
        self._to = np.flatnonzero(selects)
        self._from = t.indices[first[self._to]] if t.nnz else self._to
        self._combined = np.flatnonzero((entries > 0) & ~selects)
        mixed = t[:, self._combined]
        self._used = np.unique(mixed.indices)
        self._factors = mixed[self._used].toarray()

    @classmethod
    def placing(cls, places: npt.ArrayLike, columns: int) -> Self:
        """Return the map that puts column i at ``places[i]`` of so many, the others being 0."""
        to = np.asarray(places)
        if to.ndim != 1 or (to.size and to.dtype.kind not in "iu"):
            raise ValueError(f"places must be a list of whole numbers, not {to.dtype} {to.shape}")
        if to.size and (to.min() < 0 or to.max() >= columns):
            raise ValueError(f"places must lie in 0, …, {columns - 1}, not {to.tolist()}")
        if len(np.unique(to)) < len(to):
            raise ValueError("places must differ: two columns cannot be put at one place")
        ones = np.ones(len(to)), (np.arange(len(to)), to)
        return cls(sparse.coo_array(ones, shape=(len(to), columns)))

    @property
    def places(self) -> bool:
        """Whether every column is kept as it is, once, at the same place or another."""
        kept = np.bincount(self._from, minlength=self.before)
        return not self._combined.size and bool((kept == 1).all())

    def between(self) -> Self:
        """Return the map of (1, columns, target), whose first and last entries stay."""
        return type(self)(sparse.block_diag([[[1.0]], self._matrix, [[1.0]]]))

    def rows(self, array: Array) -> Array:
        """Map the last axis of an array."""
        found = np.zeros((*array.shape[:-1], self.after))
        found[..., self._to] = array[..., self._from]
        if self._combined.size:
            found[..., self._combined] = array[..., self._used] @ self._factors
        return found

    def products(self, array: Array) -> Array:
        """Map symmetric products of columns, on the last two axes."""
        found = self.rows(self.rows(array).swapaxes(-1, -2))
        if self._combined.size:
            found = 0.5 * (found + found.swapaxes(-1, -2))
        return found

    def cancelled(self, before: Array, after: Array) -> Array:
        """Return which combinations are constant: their squares are only rounding errors."""
        found = np.zeros(after.shape, dtype=bool)
        if self._combined.size:
            size = np.sqrt(before[..., self._used]) @ np.abs(self._factors)
            found[..., self._combined] = after[..., self._combined] <= ROUNDING * size**2
        return found
