"""The bounds, term by term."""

import math

import pytest

from mixfree.reproduce.theory import bounds


def test_formulas_term_by_term():
    # K = 3·⌈2 log₂ 1000⌉ = 60, N = 10⁶: every term is at work.
    assert bounds.decorrelation_time(3, 1000) == 60
    ratio = 60 / 10**6
    root = 12 * math.sqrt(ratio)
    left = 0.05 - 10**6 * 2.0**-20
    assert left < 0
    assert bounds.deviation(10**6, 2.0, 0.05, 3, 60) == 4.0
    left = 0.05 - 10**6 * 2.0**-40
    longer = 12 * math.sqrt(2 * ratio) * (1 + math.sqrt(math.log(120 / left))) + 6 * 2 * ratio
    assert bounds.deviation(10**6, 2.0, 0.05, 3, 120) == pytest.approx(2 * longer)
    in_mean = root * (1 + math.sqrt(math.log(60 * 10**6))) + 6 * ratio + 4 / 10**6
    assert bounds.mean_error(10**6, 2.0, 3, 1000) == pytest.approx(2 * in_mean)
    squared = 576 * ratio * (1 + math.log(60 * 10**6)) + 72 * ratio**2 + 8 / 10**6
    assert bounds.mean_square_error(10**6, 2.0, 3, 1000) == pytest.approx(4 * squared)


def test_concentration_term_by_term():
    """Lemmas A.1 to A.4 as the appendix has them, with n = ⌊N/K⌋ = 14 and not 1000/70."""
    assert bounds.coupling_bound(8, 0.01) == pytest.approx(0.07)
    assert bounds.coupling_bound(500, 0.01) == 1.0
    root = 6 * 3.0 / math.sqrt(400) * (1 + math.sqrt(math.log(20)))
    assert bounds.independent_deviation(400, 3.0, 0.05) == pytest.approx(root)
    assert bounds.independent_deviation(4, 3.0, 0.05) == 6.0
    parts, delay, samples, away = 1400, 70, 98_001, 1e-7
    for bound, left in (
        (bounds.stationary_deviation, 0.05 - delay * (parts - 1) * away),
        (bounds.delayed_deviation, 0.05 - (delay * (parts - 1) + 1) * away),
    ):
        root = 6 / math.sqrt(parts) * (1 + math.sqrt(math.log(delay / left)))
        expected = 3.0 * (root + 2 * delay / samples)
        assert bound(samples, 3.0, 0.05, delay, away) == pytest.approx(expected, rel=1e-14)
        assert bound(samples, 3.0, 0.05, delay, 1e-6) == 6.0  # δ′ is below 0
        assert bound(60, 3.0, 0.05, delay, 0.0) == 6.0  # K is above N


def test_rates_term_by_term():
    """Lemma 3.1 sums over levels; the theorems have the same two terms, with their own factors."""
    T = 3 * 10**7  # at which no bound is the trivial one
    errors = [bounds.mean_square_error(2**j, 5.0, 3, T) for j in range(25)]
    levels = sum(2**j * 2 * (errors[j] + errors[j - 1]) for j in range(1, 25))
    moment = bounds.second_moment(5.0, 3, T)
    assert moment == pytest.approx(2 * 5.0**2 + 2 * levels)
    error = bounds.mean_error(2**24, 5.0, 3, T)
    assert error < 2.0
    expected = 4.0 * math.sqrt(2 * T * moment) / T + 4.0 * error
    assert bounds.convex_rate(5.0, 4.0, 3, T) == pytest.approx(expected)
    assert bounds.td_rate(1.0, 2.0, 0.8, 3, T) == pytest.approx(expected / 0.2)
    expected = (2 * 1.5 + 0.7) * math.sqrt(T * moment) / T + 5.0 * error
    assert bounds.nonconvex_rate(5.0, 1.5, 0.7, 3, T) == pytest.approx(expected)
