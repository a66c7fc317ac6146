"""Compiled :mod:`mixfree.base.draws`, which Numba cannot compile: Python's integers have no bound.

Words are int64 masked to 32 bits, since Numba turns a mixture of signs into floats.
"""

import numpy as np

from mixfree.kernels.jit import inline

_MASK = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_32 = np.uint64(32)


@inline
def mix(word):
    """See :func:`mixfree.base.draws.mix`."""
    word ^= word >> 16
    word = (word * 0x7FEB352D) & _MASK
    word ^= word >> 15
    word = (word * 0x846CA68B) & _MASK
    return word ^ (word >> 16)


@inline
def word(first, second, counter, lane):
    """See :func:`mixfree.base.draws.word`."""
    inner = mix((counter & _MASK) ^ first)
    high = (counter >> 32) + lane * _GOLDEN
    if high != 0:
        inner = mix((inner + high) & _MASK)
    return mix((inner + second) & _MASK)


@inline
def trailing_zeros(first, second, counter):
    """See :func:`mixfree.base.draws.trailing_zeros`."""
    lane = 0
    drawn = word(first, second, counter, lane)
    while drawn == 0:
        lane += 1
        drawn = word(first, second, counter, lane)
    zeros = 32 * lane
    while drawn & 1 == 0:
        drawn >>= 1
        zeros += 1
    return zeros


@inline
def below(first, second, counter, limit):
    """See :func:`mixfree.base.draws.below`; ``limit`` is below 2^31 here."""
    low, high = word(first, second, counter, 0), word(first, second, counter, 1)
    return (high * limit + ((low * limit) >> 32)) >> 32


@inline
def one_in(first, second, counter):
    """True with probability 1/counter, as the reservoir draws it."""
    low, high = word(first, second, counter, 0), word(first, second, counter, 1)
    drawn = (np.uint64(high) << _32) | np.uint64(low)
    return drawn <= _ALL // np.uint64(counter)
