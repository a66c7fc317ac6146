"""Where the kernels' arrays lie."""

import numpy as np

LINE = 64  # bytes of a cache line


def aligned(values):
    """A copy whose rows begin at cache lines and end in zeros up to the next one.

    A vector register that is stored across two lines costs twice.
    """
    entries = LINE // values.itemsize
    *rows, size = values.shape
    shape = (*rows, size + -size % entries if rows else size)
    room = np.zeros(int(np.prod(shape)) + entries, values.dtype)
    first = -room.ctypes.data % LINE // values.itemsize
    copy = room[first : room.size - entries + first].reshape(shape)
    copy[..., :size] = values
    return copy
