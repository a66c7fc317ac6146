import numpy as np
import pytest
from scipy.stats import t, ttest_1samp

from mixfree.experiments.statistics import estimate, exponent


def test_the_interval_is_students():
    values = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
    found = estimate(values)
    expected = ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.half == pytest.approx(t.ppf(0.975, 4) * values.std(ddof=1) / 5**0.5)


def test_one_value_has_no_interval():
    assert estimate([2.0]).mean == 2.0
    assert estimate([2.0]).half == float("inf")


def test_exponent_of_a_noisy_power_law():
    x = np.logspace(0, 4, 200)
    noise = np.random.default_rng(0).normal(0, 0.1, 200)
    error = 0.1 / (np.log(x).std() * 200**0.5)
    assert exponent(x, 5 * x**-0.5 * np.exp(noise)) == pytest.approx(-0.5, abs=5 * error)
