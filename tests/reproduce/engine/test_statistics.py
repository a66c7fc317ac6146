import math

import numpy as np
import pytest
from scipy.stats import t, ttest_1samp

from mixfree.reproduce.engine.statistics import (
    Estimate,
    Ratio,
    estimate,
    exponent,
    exponent_over_seeds,
    paired_ratio,
)


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


@pytest.mark.parametrize("x", [[], [3.0], [3.0, 3.0]])
def test_no_line_goes_through_one_place(x):
    assert math.isnan(exponent(x, [2.0] * len(x)))


def test_exponents_are_fitted_seed_by_seed():
    rows = [
        {"seed": seed, "x": x, "y": 7.0**seed * x**power}
        for x in (1.0, 10.0, 100.0)
        for seed, power in enumerate((-0.4, -0.5, -0.6))
    ]
    found = exponent_over_seeds(rows, "x", "y")
    assert found == pytest.approx(estimate([-0.4, -0.5, -0.6]))
    none = exponent_over_seeds([], "x", "y")
    assert math.isnan(none.mean) and none.half == math.inf


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (Estimate(0.5, 0.4), True),
        (Estimate(0.5, 0.6), None),
        (Estimate(1.5, 0.6), None),
        (Estimate(1.5, 0.4), False),
        (Estimate(0.5, math.inf), None),
        (Estimate(math.nan, math.inf), None),
        (Estimate(math.nan, math.nan), None),
    ],
)
def test_an_interval_says_what_it_can(found, verdict):
    assert found.below(1.0) is verdict
    assert Ratio(found.mean, found.low, found.high).below_one is verdict


def test_one_pair_says_nothing():
    alone = paired_ratio([1.0], [2.0])
    assert alone.below_one is None
    assert str(alone) == "0.50"
