"""Estimates from one path: whether the intervals hold, and whether short paths are reported."""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.chains_coverage import CHAINS, intervals
from mixfree.chains import MarkovChain, estimate_mixing_time, random_chain, two_state
from mixfree.chains.envelope import Envelope
from mixfree.chains.estimate import METHODS
from mixfree.chains.rows import RowEstimates, entry_intervals, estimate_rows, observe

PATH = two_state(0.4).simulate(4000, seed=1)


@pytest.mark.parametrize("name", CHAINS)
def test_intervals_hold_the_truth(name):
    chain = CHAINS[name]
    truth = chain.mixing_time()
    for method, (low, high) in intervals(chain, 20_000, range(20)).items():
        inside = np.count_nonzero((low <= truth) & (truth <= high))
        # At least 95 % each: fewer than 16 of 20 has a chance of 0.3 %.
        assert inside >= 16, (name, method, inside)


@pytest.mark.parametrize("name", list(CHAINS)[1:])
def test_the_envelope_closes_on_the_mixing_time(name):
    chain = CHAINS[name]
    result = estimate_mixing_time(chain.simulate(1_000_000, seed=3))
    truth = chain.mixing_time()
    assert result.mixing_time == truth
    assert truth / 2 <= result.lower <= truth <= result.upper <= 2 * truth


def test_the_contraction_interval_of_the_papers_chain():
    """At 10⁶ samples and p = 1e-3 (true 347) it is within a factor of ten."""
    path = two_state(1e-3).simulate(1_000_000, seed=1)
    result = estimate_mixing_time(path, method="contraction")
    assert 100 < result.lower <= 347 <= result.upper < 3470
    (rate,) = result.coefficients
    assert rate.lower <= 2e-3 <= rate.upper
    both = estimate_mixing_time(path)
    assert result.lower <= both.lower <= 347 <= both.upper <= result.upper


def test_row_errors_cover_the_true_rows_at_any_length():
    """The chance that any bound on any row ever fails is 5 %, however often it is checked."""
    chain = random_chain(4, seed=1)
    failures = 0
    for seed in range(60):
        path = chain.simulate(3000, seed=np.random.default_rng([seed, 1]))
        for length in (50, 200, 800, 3000):
            rows = estimate_rows(observe(path[:length], range(4)).counts, 0.95)
            off = np.abs(rows.P - chain.P)
            if (off > rows.entry_error).any() or (off.sum(axis=1) > rows.row_error).any():
                failures += 1
                break
    assert failures <= stats.binom.ppf(0.999, 60, 0.05)


def test_entry_intervals_are_no_wider_than_they_need():
    """Compare with a Clopper–Pearson interval at a level that allows for all lengths."""
    n, k = 10_000, np.array([0, 3, 100, 5000, 10_000])
    low, high = entry_intervals(k, np.full(5, n), 0.01)
    exact = [stats.binomtest(int(count), n).proportion_ci(0.99) for count in k]
    for index, interval in enumerate(exact):
        assert low[index] <= interval.low and interval.high <= high[index]
        assert high[index] - low[index] < 2.5 * (interval.high - interval.low)


def test_the_error_of_powers_holds_for_the_worst_rows_allowed():
    """Perturb a known matrix by known amounts: every derived bound must hold."""
    rng = np.random.default_rng(5)
    for trial in range(40):
        truth = random_chain(4, rng, reversible=trial % 2 == 0)
        P = 0.98 * truth.P + 0.02 * random_chain(4, rng).P
        rows = RowEstimates(P, np.abs(P - truth.P), np.abs(P - truth.P).sum(axis=1))
        known = Envelope(rows)
        for power in known.powers[:6]:
            exact = np.linalg.matrix_power(truth.P, power.time)
            off = np.abs(power.power.matrix - exact).sum(axis=1)
            assert (off <= power.error + 1e-12).all()
            distance = truth.distance(power.time)
            least, largest = power.from_stationary(rows.mu, known.stationary_error)
            assert least <= distance + 1e-12 and distance <= largest + 1e-12
        assert np.abs(rows.mu - truth.stationary).sum() <= known.stationary_error
        for name, method in METHODS.items():
            if name == "reversible" and not truth.is_reversible:
                continue
            low, high, coefficients = method(known)
            assert low <= truth.mixing_time() <= high, name
            for found in coefficients:
                value = {
                    "contraction rate": truth.contraction_rate,
                    "pseudo-spectral gap": truth.pseudo_spectral_gap,
                    "spectral gap": truth.spectral_gap,
                }[found.name]
                assert found.lower <= value + 1e-12 and value <= found.upper + 1e-12


def test_strings_and_unsorted_labels_are_states():
    path = two_state(0.3).simulate(5000, seed=0)
    plain = estimate_mixing_time(path)
    for labels in (["up", "down"], [70, -3], [0.5, 0.25], [True, False]):
        named = estimate_mixing_time([labels[state] for state in path])
        assert named.upper == plain.upper and named.mixing_time == plain.mixing_time
        assert set(named.chain.states) == set(labels)


@pytest.mark.parametrize(
    ("path", "states", "lower", "sentence"),
    [
        ([0, 1] * 500 + [0, 0, 1, 1] * 500 + [9], None, range(1, 10_000), "state 9 was never left"),
        (PATH, [0, 1, 2, 3], range(10_000), "state 2 was never left"),
        ([0, 1, 1, 0, 1], None, [1], "too short for any bound"),
        ([0, 1] * 5000, None, range(51, 10_000), ""),  # alternates
    ],
)
def test_paths_that_allow_no_upper_bound(path, states, lower, sentence):
    result = estimate_mixing_time(path, states=states)
    assert result.lower in lower and result.upper == math.inf
    assert sentence in result.sentence
    assert len(result.chain) == len(states or set(path))


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ([1], {}, "1 samples"),
        ([3, 3, 3], {}, "only one state, 3"),
        ([0.0, math.nan, 1.0], {}, r"path\[1\] = nan is not a state"),
        ([0, "a", 1], {}, r"path mixes text and other labels: path\[1\] = 'a'"),
        (np.zeros((3, 2)), {}, r"shape \(3, 2\)"),
        (np.random.default_rng(0).random(100), {}, "like measurements"),
        (np.arange(10_000), {}, "10000 states; at most 4096"),
        ([0, 1, 1], {"level": 95}, "level = 95 must"),
        ([0, 1, 1], {"method": "spectral"}, "method must be one of 'envelope'.*, not 'spectral'"),
        ([0, 1, 1], {"states": [0, 2]}, "path visits 1, which is not among states"),
    ],
)
def test_wrong_paths_and_options(path, options, message):
    with pytest.raises(ValueError, match=message):
        estimate_mixing_time(path, **options)


def test_the_fitted_chain_is_the_smoothed_one():
    result = estimate_mixing_time([0, 0, 1, 0, 0, 1, 1, 0])
    assert isinstance(result.chain, MarkovChain)
    assert np.allclose(result.chain.P, [[2.5 / 5, 2.5 / 5], [2.5 / 4, 1.5 / 4]])
