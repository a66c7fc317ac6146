import math

import numpy as np
import pytest
from scipy.stats import t, ttest_1samp

from mixfree.reproduce.engine.statistics import (
    Estimate,
    Interval,
    Ratio,
    bootstrap_mean,
    difference_of_exponents,
    estimate,
    exponent,
    exponent_of_mean,
    exponent_over_seeds,
    paired_ratio,
    spread,
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
    assert Ratio(found.mean, found.low, found.high).below(1.0) is verdict


def test_one_pair_says_nothing():
    alone = paired_ratio([1.0], [2.0])
    assert alone.below(1.0) is None
    assert str(alone) == "0.50"


def heavy(seeds, in_x, worst=1.0):
    """Errors x^in_x in all seeds but the first, whose are ``worst`` at every x."""
    return [
        {"seed": seed, "x": x, "y": worst if seed == 0 else x**in_x}
        for seed in range(seeds)
        for x in (1.0, 10.0, 100.0)
    ]


def test_the_exponent_of_the_mean_is_not_the_mean_of_the_exponents():
    """One run of ten that never improves: the mean hardly falls, though nine fits of ten do."""
    rows = heavy(10, -1.0)
    found = exponent_of_mean(rows, "x", "y")
    means = [1.0, 0.1 + 0.9 * 0.1, 0.1 + 0.9 * 0.01]
    assert found.value == pytest.approx(exponent([1.0, 10.0, 100.0], means))
    assert found.value > exponent_over_seeds(rows, "x", "y").mean + 0.3
    # Resamples without that run, of which there is one in three, fall with exponent −1.
    assert found.low == pytest.approx(-1.0) and found.high > found.value
    assert exponent_of_mean(rows[:3], "x", "y").below(9.9) is None
    assert math.isnan(exponent_of_mean([], "x", "y").value)
    assert math.isnan(exponent_of_mean([r for r in rows if r["x"] == 1.0], "x", "y").value)


def test_exponents_are_compared_on_the_same_seeds():
    """The difference is exact where the same seed is at fault on both sides."""
    ours, others = (
        heavy(10, -1.0),
        [{**row, "y": row["y"] * row["x"] ** 0.3} for row in heavy(10, -1.0)],
    )
    less = difference_of_exponents(ours, others, "x", "y")
    assert (less.value, less.low, less.high) == pytest.approx((-0.3, -0.3, -0.3))


def test_the_bootstrap_of_normal_values_is_near_students():
    values = np.random.default_rng(3).normal(5.0, 2.0, 400)
    found, expected = bootstrap_mean(values), estimate(values)
    assert found.value == pytest.approx(expected.mean)
    # The ends of 2,000 resamples have a standard error of some 4 % of the half-width.
    assert (found.low, found.high) == pytest.approx(
        (expected.low, expected.high), abs=0.2 * expected.half
    )
    assert bootstrap_mean([3.0]) == Interval(3.0, -math.inf, math.inf)


def test_the_spread_is_of_quantiles():
    assert spread(np.arange(11.0)) == "5.0e+00 (1.0e+00 to 9.0e+00)"
