"""Exact mixing times against brute force, and every bound against the exact time."""

import math

import numpy as np
import pytest

from mixfree.chains import (
    MarkovChain,
    birth_death,
    powers,
    random_chain,
    spectral,
    two_state,
    winning_streak,
)


def brute_force(chain: MarkovChain, eps: float = 0.25) -> int:
    """Try every t from every start, one plain product at a time."""
    time, power = 0, np.eye(len(chain))
    while max(np.abs(row - chain.stationary).sum() / 2 for row in power) > eps * (1 + 1e-12):
        power = power @ chain.P
        time += 1
    return time


def chains_of_all_kinds(count: int) -> list[MarkovChain]:
    """Random chains of 2 to 40 states: dense, slow, sparse and one-way, reversible and not."""
    rng = np.random.default_rng(2022)
    made = []
    while len(made) < count:
        n, kind = int(rng.integers(2, 41)), len(made) % 4
        P = random_chain(n, rng, reversible=kind in (0, 1)).P
        if kind in (1, 2):
            stay = rng.uniform(0.5, 0.99)
            P = stay * np.eye(n) + (1 - stay) * P
        if kind == 3:
            P = P * (rng.random((n, n)) < 3 / n) + 0.2 * np.roll(np.eye(n), 1, axis=1)
            P += 0.05 * np.eye(n)[:, [0]]
        made.append(MarkovChain(P / P.sum(axis=1, keepdims=True)))
    return made


def test_exact_times_and_bounds_on_random_chains():
    chains = chains_of_all_kinds(320)
    assert 100 < sum(chain.is_reversible for chain in chains) < 220
    for number, chain in enumerate(chains):
        eps = (0.25, 0.25, 0.1, 0.45)[number // 4 % 4]
        exact = chain.mixing_time(eps)
        assert exact == brute_force(chain, eps), number
        assert chain.distance(exact) <= eps < chain.distance(exact - 1)
        for bound in chain.mixing_bounds(eps).bounds:
            assert bound.lower <= exact <= bound.upper * (1 + 1e-12), (number, bound, exact)


@pytest.mark.parametrize(("p", "time"), [(1e-4, 3466), (0.01, 35), (1e-3, 347), (0.25, 1)])
def test_the_papers_two_state_chain(p, time):
    """Catches a bound with another logarithm, which the times of many chains would not."""
    chain = two_state(p)
    assert chain.mixing_time() == time
    # Theorem E.1, as the last display of the appendix on mixing times has it for this chain.
    stated = (1 - 2 * p) / (2 * p) * math.log(2), math.log(8) / (2 * p)
    assert stated[0] <= time <= stated[1]
    relaxation = chain.mixing_bounds().bounds[0]
    assert (relaxation.lower, relaxation.upper) == pytest.approx(stated, rel=1e-9)
    assert np.allclose(np.sort(chain.eigenvalues), [1 - 2 * p, 1])


@pytest.mark.parametrize("p", [1e-6, 1e-11])
def test_slow_chains_keep_their_digits(p):
    chain = two_state(p)
    exact = math.ceil(math.log(0.5) / math.log1p(-2 * p))
    assert chain.mixing_time() == pytest.approx(exact, rel=1e-11)
    bounds = chain.mixing_bounds()
    assert bounds.lower <= exact * (1 + 1e-11) and exact <= bounds.upper
    assert chain.spectral_gap == pytest.approx(2 * p, rel=1e-12)


def test_a_tie_counts_as_mixed():
    third = MarkovChain([[1 / 2, 1 / 4, 1 / 4], [1 / 4, 1 / 2, 1 / 4], [1 / 4, 1 / 4, 1 / 2]])
    distances = [third.distance(time) for time in (0, 1, 2**70)]
    assert distances == pytest.approx([2 / 3, 1 / 6, 0], abs=1e-12)
    assert third.mixing_time(1 / 6) == 1
    assert two_state(0.3).mixing_time(0.5) == 0


@pytest.mark.parametrize("n", [3, 5, 10, 30, 60])
def test_the_appendix_example_mixes_in_linear_time(n):
    """Its two claims: stationary after n − 1 steps, and at least ¼ away after n − 2."""
    chain = winning_streak(n).reversal()
    assert chain.distance(n - 1) == pytest.approx(0, abs=1e-15)
    assert chain.distance(n - 2) >= 0.25
    assert n - 2 <= chain.mixing_time() <= n - 1
    assert winning_streak(n).mixing_time() <= 2


def test_distances_and_times_that_measure_nothing_are_refused():
    chain = two_state(0.1)
    for eps in (0, 1, float("nan"), 9e-13):
        for asked in (chain.mixing_time, chain.mixing_bounds):
            with pytest.raises(ValueError, match=f"eps = {eps} must be at least 1e-12 and below 1"):
                asked(eps)
    for t in (-1, 2.5, "3", True):
        with pytest.raises(ValueError, match="t must be a whole number of at least 0, not"):
            chain.distance(t)


def test_the_pseudo_spectral_gap_is_the_largest_of_all_powers():
    for seed in range(12):
        chain = random_chain(4, seed)
        slow = MarkovChain(0.9 * np.roll(np.eye(4), 1, axis=1) + 0.1 * chain.P)
        back = slow.reversal().P
        gaps = []
        for k in range(1, 80):
            product = np.linalg.matrix_power(back, k) @ np.linalg.matrix_power(slow.P, k)
            gaps.append((1 - np.sort(np.linalg.eigvals(product).real)[-2]) / k)
        assert slow.pseudo_spectral_gap == pytest.approx(max(gaps), rel=1e-9)


def test_the_contraction_rate_is_the_largest_of_all_powers():
    for n in (4, 9):
        chain = winning_streak(n).reversal()
        rates = [
            (1 - powers.contraction(np.linalg.matrix_power(chain.P, s))) / s for s in range(1, 60)
        ]
        assert chain.contraction_rate == pytest.approx(max(rates), rel=1e-12)
        tau = chain.mixing_time()
        assert 1 / (2 * max(rates)) <= tau <= (1 + math.log(4)) / max(rates)


def test_the_contraction_rate_of_a_ring_with_a_drift():
    """It contracts only after a full turn: the best power is a late one."""
    ring = MarkovChain(0.995 * np.roll(np.eye(40), 1, axis=1) + 0.005 * np.eye(40))
    rate = spectral.contraction_rate(ring.P)
    assert rate.value <= rate.ceiling <= 1.001 * rate.value
    tau = ring.mixing_time()
    assert 1 / (2 * rate.ceiling) <= tau <= (1 + math.log(4)) / rate.value


def test_reversible_gaps_from_both_sides():
    chain = birth_death([0.9, 0.9, 0.0], [0.0, 0.1, 0.95])
    values = np.linalg.eigvals(chain.P).real
    modulus = np.sort(np.abs(values))[-2]
    assert chain.spectral_gap == pytest.approx(1 - modulus)
    assert chain.relaxation_time == pytest.approx(1 / (1 - modulus))
    assert chain.pseudo_spectral_gap == pytest.approx(1 - modulus**2)
