"""Draws: pure functions, the same in both twins, fair."""

from types import SimpleNamespace

import numba
import numpy as np
from scipy import stats

from mixfree.base import draws
from mixfree.kernels import draws as kernel_draws

# The twins are plain functions until a kernel is compiled with them.
NAMES = ("word", "trailing_zeros", "below", "one_in")
twin = SimpleNamespace(**{name: numba.njit(getattr(kernel_draws, name)) for name in NAMES})

COUNTERS = [0, 1, 2, 63, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**53, 2**62]


def test_the_twins_agree():
    for seed in (0, 1, 2**32, 2**64 - 1):
        for purpose in (draws.LEVELS, draws.REPLAY, draws.RESERVOIR):
            key = draws.key(seed, purpose)
            for counter in COUNTERS:
                for lane in (0, 1, 2):
                    assert twin.word(*key, counter, lane) == draws.word(key, counter, lane)
            for lane in (0, 1, 2):
                several = draws.words(key, np.array(COUNTERS), lane).tolist()
                assert several == [draws.word(key, counter, lane) for counter in COUNTERS]
            for counter in COUNTERS:
                assert twin.trailing_zeros(*key, counter) == draws.trailing_zeros(key, counter)
                for limit in (1, 2, 10, 2**31 - 1):
                    assert twin.below(*key, counter, limit) == draws.below(key, counter, limit)
                if counter:
                    kept = draws.bits(key, counter) <= (2**64 - 1) // counter
                    assert twin.one_in(*key, counter) == kept


def test_below_is_uniform():
    key = draws.key(5, draws.REPLAY)
    counts = np.bincount([draws.below(key, t, 10) for t in range(100_000)], minlength=10)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_many_draws_are_the_single_ones_also_of_more_than_32_bits():
    """Catches products of 64 bits that overflow, and a limit that decides for all draws."""
    own, numbers = draws.key(3, draws.SAMPLE), np.arange(50, dtype=np.uint64)
    for limits in (numbers + 1, numbers + 2**32 - 30, numbers * 2**57 + 1):
        wanted = [draws.below(own, int(n), int(m)) for n, m in zip(numbers, limits, strict=True)]
        assert draws.below_each(own, numbers, limits.astype(np.uint64)).tolist() == wanted
