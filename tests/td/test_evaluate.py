"""Whole evaluations against exact answers."""

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TransformObservation, TransformReward

from mixfree.td import RewardProcess, TileCoding, evaluate_policy, rescaled


@pytest.fixture(scope="module")
def lake():
    env = gymnasium.make("FrozenLake-v1")
    found = evaluate_policy(env, "uniform", gamma=0.9, samples=150_000, radius=1.0, seed=3)
    return RewardProcess.from_gymnasium(env, "uniform", gamma=0.9), found


@pytest.mark.parametrize("options", [{}, {"lam": 0.7}, {"radius": 1.0}])
def test_frozen_lake_within_its_interval(lake, options):
    """Caught: a default that averages iterates, or a θ that is not the learner's."""
    exact, found = lake
    seen, truth = exact.visited, exact.values[exact.visited]
    if "radius" not in options:
        env = gymnasium.make("FrozenLake-v1")
        found = evaluate_policy(env, samples=40_000, seed=3, **options)
        assert found.learner.method == "lstd" and found.remark == ""
        for theta in (found.learner.theta, found.history.points[-1]):
            np.testing.assert_array_equal(found.theta, theta)
        # Over seeds 0 to 7 the root mean square of the largest error is 0.11 of the largest value.
        assert np.abs(found.values(seen) - truth).max() < 3.0 * 0.11 * truth.max()
    low, high = found.interval(seen)
    assert ((low <= truth) & (truth <= high)).all(), (low, high)
    np.testing.assert_allclose(found.values(seen), (low + high) / 2.0)
    assert (high - low).max() < 0.3


def test_evaluation_says_what_it_saw(lake):
    _, found = lake
    assert found.learner.method == "mag"
    assert found.samples == found.learner.samples == found.history.samples[-1] == 150_000
    np.testing.assert_array_equal(found.history.points[-1], found.learner.average)
    # Uniform episodes on the 4×4 lake last 7.7 steps on average.
    assert 150_000 / 9 < found.episodes < 150_000 / 7
    assert 1.0 < found.autocorrelation.value < 10.0
    narrow, wide = found.interval([14], level=0.5), found.interval([14], level=0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


@pytest.mark.parametrize(
    ("env", "options", "message"),
    [
        ("CartPole-v1", {}, "give features"),
        ("CartPole-v1", {"features": np.eye(4)}, "observations are of Box"),
        ("FrozenLake-v1", {"features": np.eye(15)}, "one row per state, but there are 15"),
        ("FrozenLake-v1", {"features": TileCoding([0.0] * 2, [1.0] * 2)}, "must be 2 numbers"),
        ("FrozenLake-v1", {"output": "last"}, "output must be 'average'"),
        ("FrozenLake-v1", {"method": "magic"}, "method must be one of 'lstd', "),
        ("FrozenLake-v1", {"method": "lstd", "output": "average"}, "`output` is not an option"),
    ],
)
def test_wrong_arguments_are_named(env, options, message):
    with pytest.raises(ValueError, match=message):
        evaluate_policy(gymnasium.make(env), **{"samples": 300, **options})


def test_wrong_environments_are_named():
    """Catches traces that follow interleaved trajectories."""
    with pytest.raises(ValueError, match="env must be a Gymnasium environment"):
        evaluate_policy("FrozenLake-v1")
    env = gymnasium.make_vec("FrozenLake-v1", num_envs=2, vectorization_mode="sync")
    with pytest.raises(ValueError, match="lam must be 0 with a vector environment"):
        evaluate_policy(env, lam=0.5)
    env.close()


def test_too_many_pairs_of_features_are_not_held():
    """More than a thousand dense features: the matrices of 16 batches would take 130 MB."""
    features = rescaled(np.random.default_rng(0).standard_normal((16, 1001)))
    lake = gymnasium.make("FrozenLake-v1")
    found = evaluate_policy(lake, features=features, samples=300, method="ladder")
    assert found.certificate is None
    with pytest.raises(ValueError, match="are not kept for 1,001 features"):
        found.interval([0])


@pytest.mark.parametrize(("reward", "method"), [(0.0, "lstd"), (1.0, "lstd"), (1.0, "ladder")])
def test_a_state_that_was_never_seen_is_unknown(reward, method):
    """Always left on the lake: the column of the goal is out of reach, and only it.

    Nor is a value known of which nothing was seen to vary: the goal's is the lake's only reward.
    """
    lake = TransformReward(gymnasium.make("FrozenLake-v1"), lambda found: found + reward)
    found = evaluate_policy(lake, np.zeros(16, int), samples=2000, method=method)
    low, high = found.interval([0, 4, 15])
    assert np.isfinite([*low[:2], *high[:2]]).all() == (reward > 0.0)
    assert (low[2], high[2]) == (-np.inf, np.inf)
    assert found.batches_met([0, 15]).tolist() == [62, 0]


@pytest.mark.parametrize("features", [None, np.eye(16)])
def test_states_may_be_numbered_from_any_number(features):
    lake = gymnasium.make("FrozenLake-v1")
    states = gymnasium.spaces.Discrete(16, start=-3)
    shifted = TransformObservation(lake, lambda state: state - 3, states)
    found = [evaluate_policy(env, samples=2000, features=features) for env in (lake, shifted)]
    values = [each.values(np.arange(16) + at) for each, at in zip(found, (0, -3), strict=True)]
    np.testing.assert_array_equal(*values)
    with pytest.raises(ValueError, match=r"state 13 must be .* from -3 to 12"):
        found[1].values([13])


def test_states_of_several_numbers_have_features_from_a_function():
    """Catches the first number of a space that has several."""
    states = gymnasium.spaces.MultiDiscrete([4, 4])
    lake = TransformObservation(gymnasium.make("FrozenLake-v1"), lambda s: divmod(s, 4), states)
    given = {"features": lambda s: np.eye(16)[4 * s[0] + s[1]], "size": 16}
    assert evaluate_policy(lake, samples=300, **given).theta.shape == (16,)


def test_the_interval_counts_what_a_ridge_has_moved():
    env = gymnasium.make("FrozenLake-v1")
    plain = evaluate_policy(env, samples=20_000)
    ridge = evaluate_policy(env, samples=20_000, l2=1.0)
    states = [10, 13, 14]
    assert (ridge.values(states) < 0.5 * plain.values(states)).all()
    (_, high), (low, top) = ridge.interval(states), plain.interval(states)
    moved = plain.values(states) - ridge.values(states)
    np.testing.assert_allclose(high - ridge.values(states), moved + (top - low) / 2.0)


def test_what_cannot_be_answered_is_named(lake):
    """Catches a level in per cent, and an interval where earlier transitions are forgotten."""
    for level in (0.0, 95):
        with pytest.raises(ValueError, match=f"level must be between 0 and 1, not {level}"):
            lake[1].interval([0], level)
    found = evaluate_policy(gymnasium.make("FrozenLake-v1"), samples=2000, half_life=500.0)
    with pytest.raises(ValueError, match="half_life=None"):
        found.interval([0])
