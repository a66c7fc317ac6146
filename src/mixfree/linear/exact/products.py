"""Sums of products of columns by BLAS, in pieces of rows that stay in a cache."""

import numpy as np

from mixfree.base.arithmetic import Array

PIECE_VALUES = 1 << 17  # per piece: 1 MB
MIN_PIECE_ROWS = 1024  # least rows per piece: with fewer, BLAS is slower


class Products:
    r"""The sum :math:`\sum_i x_i x_i^\top` of rows that are given in pieces.

    NumPy finds the product of a matrix with itself in half the time of another, and symmetric to
    the last bit. For 20 columns, SciPy's BLAS takes half as long again.

    Examples
    --------
    >>> products = Products(2)
    >>> products.add(np.array([[1.0, 2.0], [0.0, 1.0]]))
    >>> products.total
    array([[1., 2.],
           [2., 5.]])
    """

    def __init__(self, columns: int) -> None:
        self.total: Array = np.zeros((columns, columns))
        self.piece = max(1 << (PIECE_VALUES // max(columns, 1)).bit_length() >> 1, MIN_PIECE_ROWS)

    def add(self, rows: Array) -> None:
        """Add contiguous rows, preferably ``piece`` of them at a time."""
        if rows.size:
            self.total += rows.T @ rows
