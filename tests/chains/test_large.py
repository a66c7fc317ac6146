import networkx
import numpy as np
import pytest
from scipy import sparse

from mixfree.chains import MarkovChain, chain, cycle, large, random_walk, winning_streak


def bounds_both_ways(monkeypatch, walk: MarkovChain):
    exact = walk.mixing_time()
    monkeypatch.setattr(chain, "MAX_DENSE_STATES", 10)
    return exact, MarkovChain(sparse.csr_array(walk.P)).mixing_bounds()


@pytest.mark.parametrize(
    "walk",
    [
        cycle(101),
        cycle(60, lazy=True),
        random_walk(networkx.grid_2d_graph(12, 12), "metropolis"),
        random_walk(networkx.barabasi_albert_graph(200, 2, seed=1), lazy=True),
        random_walk(networkx.barbell_graph(20, 3)),
    ],
)
def test_bounds_of_reversible_walks_hold_the_exact_time(monkeypatch, walk):
    exact, bounds = bounds_both_ways(monkeypatch, walk)
    assert bounds.lower <= exact <= bounds.upper < np.inf
    assert bounds.lower >= exact / 6, "the walks should come near the exact time"


def test_the_walks_can_be_too_short_to_reach_the_mixing_time(monkeypatch):
    monkeypatch.setattr(large, "MAX_WALK", 50)
    bounds = cycle(6001).mixing_bounds()
    assert bounds.upper > bounds.lower > 50


def test_no_bound_rests_on_a_probability_too_small_to_be_known():
    """The streak's probabilities end at 2^−4999; its mixing time is 2, with d(2) = ¼ exactly."""
    bounds = winning_streak(5000).mixing_bounds()
    assert (bounds.lower, bounds.upper) == (2, np.inf)
    with pytest.raises(ValueError, match=r"the reversal divides by .*, which is below 1e-10"):
        winning_streak(5000).reversal()


def test_of_a_large_chain_only_questions_of_all_pairs_are_refused():
    ring = cycle(6001)
    assert ring.is_sparse and ring.is_reversible
    for question in (ring.mixing_time, lambda: ring.eigenvalues, lambda: ring.distance(3)):
        with pytest.raises(ValueError, match=r"6001 states .* mixing_bounds\(\)"):
            question()
    assert np.abs(np.diff(ring.simulate(100, seed=0)) % 6001 % 5999).max() <= 2
    assert ring.hitting_times(0)[3000] == pytest.approx(3000 * 3001)


def test_bounds_of_a_one_way_chain_hold_the_exact_time(monkeypatch):
    n = 200
    here, away = np.arange(n), np.random.default_rng(3).permutation(n)
    P = np.zeros((n, n))
    for to, probability in ((np.roll(here, -1), 0.4), (away, 0.4), (here, 0.2)):
        P[here, to] += probability
    exact, bounds = bounds_both_ways(monkeypatch, MarkovChain(P))
    assert bounds.lower <= exact <= bounds.upper < np.inf
    monkeypatch.setattr(large, "_lanczos", lambda *a: None)  # as where it does not converge
    assert MarkovChain(sparse.csr_array(P)).mixing_bounds().upper == np.inf
