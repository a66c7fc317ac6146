"""Intervals that hold, whatever the learner does."""

import numpy as np

from mixfree.td import RewardProcess, TDLearner, rescaled
from mixfree.td.certificate import Certificate

GAMMA, BATCHES = 0.8, 20


def process():
    rng = np.random.default_rng(9)
    P = rng.exponential(size=(8, 8))
    P *= 0.9 / P.sum(axis=1, keepdims=True)
    features = rescaled(rng.standard_normal((8, 3)))
    return RewardProcess(P, rng.standard_normal(8), GAMMA, features, start=np.eye(8)[0])


def certified(mrp, features, samples, seed):
    path = mrp.simulate(samples, seed=seed)
    learner = TDLearner(features, GAMMA)
    found = Certificate(GAMMA, learner.features.size)
    for k in range(BATCHES):
        found.begin_batch()
        part = slice(samples * k // BATCHES, samples * (k + 1) // BATCHES)
        found.add(*learner.looked_up(*(each[part] for each in path)))
    found.solve()
    return found


def test_intervals_hold_for_all_states_together():
    mrp = process()
    paths, held = 100, 0
    for seed in range(paths):
        found = certified(mrp, mrp.features, 2000, seed)
        error = mrp.features @ (found.theta - mrp.theta_star)
        held += bool((np.abs(error) <= found.errors(mrp.features, 0.9)).all())
    # At least nine in ten should hold: three standard errors below is 0.81.
    assert held >= 81
    # Bonferroni over eight states that depend on three numbers is cautious, not blind.
    half = found.errors(mrp.features, 0.9)
    assert (half < 0.3 * np.abs(mrp.features @ mrp.theta_star).max()).all()


def test_sparse_and_dense_features_agree():
    mrp = process()
    few = np.zeros((8, 40))
    few[np.arange(8), 5 * np.arange(8)] = 1.0
    dense, sparse = certified(mrp, np.eye(8), 3000, 0), certified(mrp, few, 3000, 0)
    np.testing.assert_allclose(sparse.theta[::5], dense.theta, rtol=1e-9)
    np.testing.assert_allclose(sparse.errors(few, 0.95), dense.errors(np.eye(8), 0.95), rtol=1e-9)
    assert not sparse.theta[1::5].any()


def test_the_fixed_point_is_that_of_the_transitions_seen():
    """Σ g(θ̂; z) = 0 over the trajectory itself."""
    mrp = process()
    found = certified(mrp, mrp.features, 3000, 1)
    total = sum(
        mrp.semi_gradient(found.theta, *transition)
        for transition in zip(*mrp.simulate(3000, seed=1), strict=True)
    )
    assert np.abs(total).max() < 1e-4
