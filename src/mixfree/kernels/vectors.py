"""Loops over vectors that the kernels share."""

import math

import numpy as np

from mixfree.base.arithmetic import LEAST, MOST
from mixfree.kernels.jit import apart, inline

_LEAST_SINGLE = 1e-30  # above it a sum of squares in single precision has lost no digits


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
def square_along(square, factor):
    """‖factor · row‖² from ‖row‖²; 0 where single precision may have lost digits.

    Callers compute the norm carefully where a square is 0.
    """
    wide = np.float64(factor)
    return 0.0 if square < _LEAST_SINGLE else np.float64(square) * (wide * wide)


@inline
def sum_of_squares(v):
    """Σ v_k² in double precision, since squares of small float32 entries would underflow."""
    square = 0.0
    for k in range(v.size):
        entry = np.float64(v[k])
        square += entry * entry
    return square


@apart
def scaled_size(v):
    """Norm of a vector whose plain sum of squares overflows, underflows or is NaN.

    Twin of the second half of :func:`mixfree.base.arithmetic.norm`.
    """
    largest = 0.0
    for k in range(v.size):
        if math.isnan(v[k]):
            return np.nan
        largest = max(largest, float(abs(v[k])))
    if largest == 0.0 or math.isinf(largest):
        return largest
    total = 0.0
    for k in range(v.size):
        share = v[k] / largest
        total += share * share
    return largest * math.sqrt(total)


@inline
def size_along(row, factor, square):
    """Norm of factor · row, whose plain sum of squares is ``square``.

    Twin of :func:`mixfree.base.arithmetic.norm`, with the same limits.
    """
    return math.sqrt(square) if LEAST < square < MOST else abs(factor) * scaled_size(row)


@inline
def longer(root, row, factor, square):
    """hypot(root, ‖factor · row‖), which is slow, or a plain root where nothing is lost."""
    total = root * root + square
    if square > LEAST and total < MOST:
        return math.sqrt(total)
    return math.hypot(root, size_along(row, factor, square))


@apart
def divide(row, factor, divisor, out):
    """Write factor · row/divisor to ``out``, which may be ``row``."""
    for k in range(row.size):
        out[k] = factor * row[k] / divisor


@apart
def add_scaled(total, factor, v):
    """Add factor · v to ``total``."""
    for k in range(v.size):
        total[k] += factor * v[k]


@apart
def copy(v, out):
    """Copy ``v`` to ``out``."""
    for k in range(v.size):
        out[k] = v[k]


@apart
def clear(v):
    """Set all entries to zero."""
    for k in range(v.size):
        v[k] = 0.0
