"""Arithmetic shared by all parts: dot products and norms that do not overflow."""

import math
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Larger values of rows, targets and weights are refused: sums of their products cannot overflow.
MAX_VALUE = 1e75
MIN_VALUE = 1e-75  # columns that vary by less count as constant: their squares lose digits

# BLAS may split longer dot products among threads; the bits would depend on their number.
_DOT_BLOCK = 8192
# Unlike dot, vdot does not warn of overflow. Skipping its dispatcher saves a third of the time.
inner = getattr(np.vdot, "_implementation", np.vdot)
LEAST, MOST = 1e-280, 1e280  # sums of squares in between lost no digits to over- or underflow
MAX_COLUMNS_PER_THREAD = 256  # up to which BLAS gains nothing by several threads

Result = TypeVar("Result")


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


def one_thread(method: Callable[..., Result]) -> Callable[..., Result]:
    """Let a method of an object with few ``columns`` use one thread of BLAS.

    On a busy machine the threads of OpenBLAS wait for one another a hundred times as long as they
    compute, and with their number the bits change.
    """

    @wraps(method)
    def limited(self: Any, *args: Any, **options: Any) -> Result:
        few = self.columns <= MAX_COLUMNS_PER_THREAD
        several = [(each, each.num_threads) for each in _blas() if few and each.num_threads > 1]
        try:
            for each, _ in several:
                each.set_num_threads(1)
            return method(self, *args, **options)
        finally:
            for each, before in several:
                each.set_num_threads(before)

    return limited


def dot(a: Array, b: Array) -> float:
    """Σ a_k b_k, the same bits for any number of threads."""
    if a.size <= _DOT_BLOCK:
        return float(inner(a, b))
    blocks = (slice(i, i + _DOT_BLOCK) for i in range(0, a.size, _DOT_BLOCK))
    return sum(float(inner(a[block], b[block])) for block in blocks)


def norm(v: Array) -> float:
    """Euclidean norm that neither overflows nor underflows; not finite if ``v`` is not."""
    if v.itemsize < 8:
        v = v.astype(np.float64)
    square = dot(v, v)
    if LEAST < square < MOST:
        return math.sqrt(square)
    largest = float(np.abs(v).max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    return largest * norm(v / largest)


def largest_of(dtype: npt.DTypeLike) -> float:
    """The largest norm of gradients, and scale of steps, of a method: its sums cannot overflow."""
    return MAX_VALUE if np.dtype(dtype).itemsize >= 8 else 1e25
