"""Rows of few numbers and many indicators, of which only the places are stored."""

from typing import Any

import numpy as np
from scipy import sparse

from mixfree.base.arithmetic import Array
from mixfree.linear.exact.sums import Sums, not_negative, sums_of


class Coded:
    r"""The rows of a matrix, most of whose columns are indicators.

    With C the indicators, T = CᵀC is a table of counts, and products with other columns and
    targets are sums of their deviations from the mean by indicator, :math:`C^\top (D - \bar D)`.

    Parameters
    ----------
    numbers, at
        The other columns, one row per row, and their places.
    codes
        The places of the columns that are 1, one row per row; ``columns`` stands for none.
    columns
        Columns of the matrix.

    Examples
    --------
    >>> np.asarray(Coded(np.array([[0.5], [2.0]]), np.array([1]), np.array([[0], [3]]), 3))
    array([[1. , 0.5, 0. ],
           [0. , 2. , 0. ]])
    """

    ndim, dtype = 2, np.dtype(np.float64)

    def __init__(self, numbers: Array, at: Array, codes: Array, columns: int) -> None:
        self.numbers, self.at, self.codes, self.columns = numbers, at, codes, columns

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return len(self.numbers), self.columns

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: Any) -> "Coded":
        """Return some rows."""
        return Coded(self.numbers[rows], self.at, self.codes[rows], self.columns)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the matrix."""
        if len(self.at) == self.columns:
            return self.numbers
        found = np.zeros((len(self), self.columns + 1))
        np.put_along_axis(found, self.codes, 1.0, axis=1)
        found[:, self.at] = self.numbers
        return found[:, :-1]

    toarray = __array__

    def sums(self, targets: Array, before: Sums) -> Sums:
        """Sum all rows without weights; ``before`` are the sums of the rows before."""
        (n, columns), at, codes = self.shape, self.at, self.codes
        both = np.append(at, np.arange(columns, len(before.mean)))
        cross, mean = before.cross[at], before.mean[both]
        last = Sums(
            before.rows, before.weight, mean, before.scatter[np.ix_(at, at)], cross, before.squares
        )
        own = sums_of(self.numbers, targets, before=last)
        apart = np.empty((n, len(both)))
        np.subtract(self.numbers, own.mean[: len(at)], out=apart[:, : len(at)])
        np.subtract(targets, own.mean[len(at) :], out=apart[:, len(at) :])
        ends = np.arange(0, codes.size + 1, codes.shape[1], dtype=codes.dtype)
        chosen = np.ones(codes.size), codes.ravel(), ends
        by_code = (sparse.csc_array(chosen, shape=(columns + 1, n)) @ apart)[:-1]
        side, count = columns + 1, np.zeros(columns + 1)
        table = np.zeros(side**2)
        for place, one in enumerate(codes.T):
            count += np.bincount(one, minlength=side)
            for other in codes.T[place + 1 :]:
                table += np.bincount(one * np.int64(side) + other, minlength=side**2)
        table, count = table.reshape(side, side)[:-1, :-1], count[:-1]
        scatter = table + table.T + np.diag(count) - np.outer(count, count) / n
        scatter[:, at] += by_code[:, : len(at)]
        scatter[at] += by_code[:, : len(at)].T
        scatter[np.ix_(at, at)] = own.scatter
        cross = by_code[:, len(at) :].copy()
        cross[at] = own.cross
        mean = np.append(count / n, own.mean[len(at) :])
        mean[at] = own.mean[: len(at)]
        return Sums(n, own.weight, mean, not_negative(scatter), cross, own.squares)
