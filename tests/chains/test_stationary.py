"""Stationary distributions against closed forms and QuantEcon on ill-conditioned chains."""

import numpy as np
import pytest
from quantecon.markov import gth_solve
from scipy import sparse

from mixfree.chains import MarkovChain, stationary


def nearly_apart(epsilon: float) -> np.ndarray:
    """Two tight groups of three states joined by steps of probability epsilon."""
    rng = np.random.default_rng(1)
    P = np.zeros((6, 6))
    P[:3, :3], P[3:, 3:] = rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(3), 3)
    P[0, 0] -= epsilon
    P[0, 5] = epsilon
    P[4, 4] -= 2 * epsilon
    P[4, 1] = 2 * epsilon
    return P


@pytest.mark.parametrize("epsilon", [1e-6, 1e-14])
def test_ill_conditioned_chains_agree_with_quantecon(epsilon):
    P = nearly_apart(epsilon)
    mu = MarkovChain(P).stationary
    assert np.allclose(mu, gth_solve(P), rtol=1e-12, atol=0)
    assert mu.sum() == pytest.approx(1, rel=1e-15)


def slow_ring(leaving: np.ndarray) -> sparse.csr_array:
    """A ring that is left clockwise, whose distribution is proportional to one over ``leaving``."""
    n = len(leaving)
    here = np.arange(n)
    return sparse.csr_array(
        (np.r_[1 - leaving, leaving], (np.tile(here, 2), np.r_[here, (here + 1) % n])), shape=(n, n)
    )


@pytest.mark.parametrize(("states", "leaving"), [(200, 1e-12), (400, 1e-17), (6000, 0.3)])
def test_large_and_slow_chains_are_solved_where_arpack_fails(states, leaving):
    """Catches a residual that any vector has in a slow chain, and 1 − P(i, i), which loses it."""
    away = np.where(np.arange(states) < states // 2, 1.0, 2.0) * leaving
    ring = slow_ring(away)
    mu = MarkovChain(ring).stationary if states > 4096 else stationary.by_krylov(ring)
    assert np.allclose(mu, (1 / away) / (1 / away).sum(), rtol=1e-9)
