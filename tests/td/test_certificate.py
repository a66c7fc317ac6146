"""Coverage of the intervals, for any learner."""

import numpy as np
import pytest

from mixfree.td import RewardProcess, TDLearner, rescaled
from mixfree.td.certificate import FEWEST, Certificate

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
        found.add(*learner.look_up(*(each[part] for each in path)))
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


def with_a_rare_state():
    """Seven states that are seen often, and one that one step in a thousand leads to."""
    rng = np.random.default_rng(10)
    P = rng.exponential(size=(8, 8))
    P[:, 7] = 0.0
    P *= 0.999 / P.sum(axis=1, keepdims=True)
    P[:, 7] = 0.001
    return RewardProcess(P, 10.0 * rng.standard_normal(8), GAMMA, np.eye(8))


def test_what_few_batches_met_has_no_interval():
    mrp = with_a_rare_state()
    batches = []
    for seed in range(20):
        found = certified(mrp, np.eye(8), 4000, seed)
        half = found.errors(np.eye(8), 0.9)
        batches.append(int(found.batches_met(np.eye(8)[7:])[0]))
        assert np.isfinite(half[:7]).all()
        assert np.isinf(half[7]) == (batches[-1] < FEWEST), batches[-1]
    assert 0 in batches
    assert max(batches) >= FEWEST


def test_rarely_met_states_are_held_too():
    mrp, rare = with_a_rare_state(), np.eye(8)[7:]
    held = []
    for seed in range(150):
        found = certified(mrp, np.eye(8), 6000, seed)
        half = found.errors(rare, 0.9)[0]
        if np.isfinite(half):
            held.append(abs(found.theta[7] - mrp.theta_star[7]) <= half)
    assert len(held) > 50
    error = (0.9 * 0.1 / len(held)) ** 0.5
    assert np.mean(held) >= 0.9 - 3.0 * error, (sum(held), len(held))


@pytest.mark.parametrize("width", [8, 3])
def test_a_direction_that_was_not_met_has_no_interval(width):
    """Whatever the basis: here no feature is zero, and the trajectory never enters state 7."""
    mrp = RewardProcess(np.full((7, 7), 1.0 / 7.0), np.arange(7.0), GAMMA, np.eye(7))
    features = rescaled(np.random.default_rng(11).standard_normal((8, width)))
    half = certified(mrp, features[:7], 2000, 0).errors(features, 0.9)
    assert np.isfinite(half[:7]).all()
    # Three features are known from any three states.
    assert np.isinf(half[7]) == (width == 8)


def test_values_that_nothing_is_known_to_vary_have_no_interval():
    """Without a reward on the way all batches agree on zero; with one, none of them does."""
    rng = np.random.default_rng(12)
    P = rng.exponential(size=(8, 8))
    P /= P.sum(axis=1, keepdims=True)
    for reward in (0.0, 1.0):
        mrp = RewardProcess(P, reward * np.arange(8.0), GAMMA, np.eye(8))
        half = certified(mrp, np.eye(8), 2000, 0).errors(np.eye(8), 0.9)
        assert np.isfinite(half).all() == (reward > 0.0)
        assert np.isinf(half).all() == (reward == 0.0)
