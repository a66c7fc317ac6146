"""Draws of places for the memory of the drop-ins."""

import numpy as np

from mixfree.base.draws import SAMPLE, below, key
from mixfree.dropins.reservoir import below_each


def test_many_draws_are_the_single_ones_also_of_more_than_32_bits():
    """Catches products of 64 bits that overflow, and a limit that decides for all draws."""
    own, numbers = key(3, SAMPLE), np.arange(50, dtype=np.uint64)
    for limits in (numbers + 1, numbers + 2**32 - 30, numbers * 2**57 + 1):
        wanted = [below(own, int(n), int(m)) for n, m in zip(numbers, limits, strict=True)]
        assert below_each(own, numbers, limits.astype(np.uint64)).tolist() == wanted
