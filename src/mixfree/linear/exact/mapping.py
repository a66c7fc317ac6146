"""Linear maps of columns: what was summed for some columns, for combinations of them."""

import math
from typing import Any, Self

import numpy as np
from scipy import sparse

from mixfree.base.arithmetic import MAX_VALUE, Array

ROUNDING = 1e-13  # variance of a combination over that of its terms that is only a rounding error


class ColumnMap:
    r"""The map :math:`z \mapsto z T` of rows, which also maps their sums and products.

    Most columns of T, dense or sparse, usually select a column, which keeps its bits, or are 0: the
    product is that of a sparse matrix.
    """

    def __init__(self, matrix: Any) -> None:
        self._matrix = t = sparse.csc_array(matrix, dtype=np.float64)
        if t.ndim != 2 or not (np.abs(t.data) <= MAX_VALUE).all():
            raise ValueError("the map of columns must be a matrix of finite numbers up to 1e75")
        t.eliminate_zeros()
        self.before, self.after = t.shape

    @property
    def places(self) -> bool:
        """Whether every column is kept as it is, once, at the same place or another."""
        t = self._matrix
        kept = np.bincount(t.indices, minlength=self.before)
        return bool((kept == 1).all() and (t.data == 1.0).all() and (np.diff(t.indptr) <= 1).all())

    def between(self) -> Self:
        """Return the map of (1, columns, target), whose first and last entries stay."""
        return type(self)(sparse.block_diag([[[1.0]], self._matrix, [[1.0]]]))

    def rows(self, array: Array) -> Array:
        """Map the last axis of an array."""
        found = array.reshape(math.prod(array.shape[:-1]), self.before) @ self._matrix
        return np.asarray(found).reshape(*array.shape[:-1], self.after)

    def products(self, array: Array) -> Array:
        """Map symmetric products of columns, on the last two axes."""
        found = self.rows(self.rows(array).swapaxes(-1, -2))
        return 0.5 * (found + found.swapaxes(-1, -2))

    def cancelled(self, before: Array, after: Array) -> Array:
        """Return which combinations are constant: their squares are only rounding errors."""
        size = np.sqrt(before) @ np.abs(self._matrix)
        return np.asarray(after < ROUNDING * size**2)
