"""Loops over vectors that the kernels share."""

import numpy as np

from mixfree.kernels.jit import inline, out_of_line

_LEAST, _MOST = 1e-30, 1e30  # between them a sum of squares in single precision lost no digits


@inline
def dot(v, row):
    """Σ v_k row_k."""
    product = v.dtype.type(0.0)
    for k in range(row.size):
        product += v[k] * row[k]
    return product


@inline
def dot_and_square(v, row):
    """Σ v_k row_k and Σ row_k² in one pass."""
    product, square = v.dtype.type(0.0), v.dtype.type(0.0)
    for k in range(row.size):
        product += v[k] * row[k]
        square += row[k] * row[k]
    return product, square


@inline
def square_along(square, row, factor):
    """‖factor · row‖² from ‖row‖², which is summed anew where single precision lost digits."""
    wide = np.float64(square) if _LEAST < square < _MOST else sum_of_squares(row)
    return wide * (np.float64(factor) * np.float64(factor))


@out_of_line
def sum_of_squares(v):
    """Σ v_k² in double precision."""
    square = 0.0
    for k in range(v.size):
        entry = np.float64(v[k])
        square += entry * entry
    return square


@out_of_line
def add_scaled(total, factor, v):
    """Add factor · v to ``total``."""
    for k in range(v.size):
        total[k] += factor * v[k]


@out_of_line
def copy(v, out):
    """Copy ``v`` to ``out``."""
    for k in range(v.size):
        out[k] = v[k]


@out_of_line
def clear(v):
    """Set all entries to zero."""
    for k in range(v.size):
        v[k] = 0.0
