import numpy as np
import pytest
from scipy import stats

from mixfree.chains import MarkovChain, random_chain


def test_every_row_is_drawn_from_its_probabilities():
    P = random_chain(9, seed=6).P
    P[P < 0.06] = 0
    P /= P.sum(axis=1, keepdims=True)
    path, counts = MarkovChain(P).simulate(300_000, start=0, seed=3), np.zeros((9, 9))
    np.add.at(counts, (path[:-1], path[1:]), 1)
    assert (counts[P == 0] == 0).all()
    for row, mu in zip(counts, P, strict=True):
        seen = mu > 0
        # 9 rows: a level of 1e-4 each fails by chance once in 1,000 seeds.
        assert stats.chisquare(row[seen], row.sum() * mu[seen] / mu[seen].sum()).pvalue > 1e-4


def test_the_seed_decides_the_path():
    chain = random_chain(6, seed=0)
    assert np.array_equal(chain.simulate(500, seed=8), chain.simulate(500, seed=8))
    assert not np.array_equal(chain.simulate(500, seed=8), chain.simulate(500, seed=9))
    generator = np.random.default_rng(8)
    one, other = (chain.simulate(500, start=1, seed=generator) for _ in range(2))
    assert not np.array_equal(one, other)
    assert np.array_equal(chain.simulate(50, 2, seed=1), chain.simulate(900, 2, seed=1)[:50])


def test_starts():
    chain = MarkovChain([[0.9, 0.1], [0.3, 0.7]])
    assert chain.simulate(5, start=1, seed=0)[0] == 1
    first = np.array([chain.simulate(1, seed=seed)[0] for seed in range(2000)])
    # The stationary distribution is (¾, ¼).
    assert abs(first.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 2000)
    with pytest.raises(ValueError, match="start must be a whole number of at least 0, at most 1"):
        chain.simulate(5, start=2)
