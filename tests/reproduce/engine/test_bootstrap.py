"""Intervals over resampled seeds."""

import math

import numpy as np
import pytest

from mixfree.reproduce.engine.bootstrap import bootstrap, median_ratio, ratio_of_means


def streams(rng, count=60):
    """Errors on streams of very different difficulty, of which both have their share."""
    common = rng.lognormal(sigma=1.0, size=count)
    return common * rng.lognormal(sigma=0.1, size=count), 2.0 * common


@pytest.mark.parametrize("ratio", [ratio_of_means, median_ratio])
def test_pairs_stay_together(ratio):
    """Resampling the two apart would make the interval ten times as wide."""
    above, below = streams(np.random.default_rng(0))
    found = ratio(above, below)
    if ratio is ratio_of_means:
        spread = np.std((above - found.value * below) / below.mean(), ddof=1)
    else:
        spread = math.sqrt(math.pi / 2) * np.std(above / below, ddof=1)  # of a normal's median
    error = spread / math.sqrt(60)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.4)
    assert found.low < 0.5 * math.exp(0.005) < found.high


def test_coverage():
    """An interval of one standard error instead of two would hold the truth 68 times of 100."""
    rng = np.random.default_rng(1)
    truth = 0.5 * math.exp(0.005)
    held = 0
    for _ in range(100):
        found = ratio_of_means(*streams(rng))
        held += found.low < truth < found.high
    assert held >= 86  # 95 expected; 92 in small samples; 86 is two standard errors below that


def test_one_seed_has_no_interval():
    found = bootstrap(lambda of: np.asarray(of).mean(axis=-1) + 3.0, 1)
    assert (found.value, found.low, found.high) == (3.0, -math.inf, math.inf)
    assert found.below(1.0) is found.below(-1.0) is None  # an exponent may be negative
