"""Random draws as pure functions of (seed, purpose, counter).

A draw does not depend on earlier draws, so a run can be cut, saved and resumed anywhere, and
every backend draws the same numbers: :mod:`mixfree.kernels.draws` (Numba) and
:mod:`mixfree.optax.draws` (JAX) compute the same. Only 32-bit unsigned arithmetic is used, since
JAX has no 64-bit integers by default.
"""

from typing import NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole

# Purposes: what a draw is for.
LEVELS, REPLAY, RESERVOIR, _, SAMPLE, KEPT, DRAWN, TESTED = range(1, 9)

_MASK = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9


class Key(NamedTuple):
    """Two words derived from a seed and a purpose, which every draw mixes in."""

    first: int
    second: int


def mix(word: int) -> int:
    """A bijection of 32-bit words in which every bit of the input moves every bit of the output."""
    word = word ^ (word >> 16)
    word = (word * 0x7FEB352D) & _MASK
    word = word ^ (word >> 15)
    word = (word * 0x846CA68B) & _MASK
    return word ^ (word >> 16)


def _mix_words(words: Array) -> Array:
    """As :func:`mix`, in place, which takes half the time."""
    shifted = words >> 16
    words ^= shifted
    words *= np.uint32(0x7FEB352D)
    words ^= np.right_shift(words, 15, out=shifted)
    words *= np.uint32(0x846CA68B)
    words ^= np.right_shift(words, 16, out=shifted)
    return words


def key(seed: int, purpose: int) -> Key:
    """The key of a seed for one purpose."""
    seed = check_whole(seed, "seed", least=0, most=2**64 - 1)
    words = []
    for half in (0, 1):
        word = mix(2 * purpose + half + _GOLDEN)
        word = mix((word + _GOLDEN) & _MASK ^ (seed & _MASK))
        words.append(mix((word + _GOLDEN) & _MASK ^ (seed >> 32)))
    return Key(*words)


def word(key: Key, counter: int, lane: int = 0) -> int:
    """32 random bits for a counter below 2^64; ``lane`` gives further words for the same one."""
    first, second = key
    inner = mix((counter & _MASK) ^ first)
    high = (counter >> 32) + lane * _GOLDEN
    if high:
        inner = mix((inner + high) & _MASK)
    return mix((inner + second) & _MASK)


def words(key: Key, counters: Array, lane: int | Array = 0) -> Array:
    """As :func:`word`, for each of an array of counters, and of lanes of type uint64."""
    inner = _mix_words(counters.astype(np.uint32) ^ np.uint32(key.first))
    if np.ndim(lane) or lane or (counters.dtype.itemsize > 4 and counters.max(initial=0) > _MASK):
        high = (counters.astype(np.uint64, copy=False) >> 32) + lane * _GOLDEN
        inner = np.where(high, _mix_words(inner + high.astype(np.uint32)), inner)
    inner += np.uint32(key.second)
    return _mix_words(inner)


def bits(key: Key, counter: int) -> int:
    """64 random bits."""
    return (word(key, counter, 1) << 32) | word(key, counter)


def trailing_zeros(key: Key, counter: int) -> int:
    """Number of zeros before the first one in an endless run of fair bits: P(n) = 2^-(n+1).

    Examples
    --------
    >>> [trailing_zeros(key(0, LEVELS), t) for t in range(1, 13)]
    [2, 0, 0, 0, 1, 0, 0, 3, 0, 1, 0, 1]
    """
    drawn, lane = word(key, counter), 0
    while drawn == 0:
        lane += 1
        drawn = word(key, counter, lane)
    return 32 * lane + (drawn & -drawn).bit_length() - 1


def below(key: Key, counter: int, limit: int) -> int:
    """A whole number in [0, limit), uniform to within limit/2^64."""
    return (bits(key, counter) * limit) >> 64


def below_each(key: Key, counters: Array, limits: Array, lanes: Array | int = 0) -> Array:
    """As :func:`below`, for each of several counters, with two lanes per draw."""
    pairs = np.asarray(lanes, np.uint64)
    low, high = (words(key, counters, pairs + np.uint64(i)).astype(np.uint64) for i in (0, 1))
    if limits.max(initial=0) < 2**32:
        found: Array = (high * limits + (low * limits >> np.uint64(32))) >> np.uint64(32)
        return found
    exact = (high.astype(object) << 32 | low.astype(object)) * limits.astype(object) >> 64
    return np.array(exact, np.uint64)
