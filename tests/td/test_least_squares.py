"""Least-squares TD behind the learner: fixed points, episodes, truncations, states, errors."""

import numpy as np
import pytest
import scipy.sparse

from mixfree.td import RewardProcess, TDLearner, rescaled
from tests.td.helpers import random_path

GAMMA = 0.8


def features(states=5, size=3, seed=1):
    return rescaled(np.random.default_rng(seed).standard_normal((states, size)))


def by_hand(phi, path, lam, l2=0.0):
    """The sums of the fixed point, one transition at a time, with the cuts known."""
    size = phi.shape[1]
    matrix, vector, trace = l2 * len(path[0]) * np.eye(size), np.zeros(size), np.zeros(size)
    before = None
    for s, r, after, terminated in zip(*path, strict=True):
        trace = GAMMA * lam * (trace if before == s else 0.0) + phi[s]
        matrix += np.outer(trace, phi[s] - (0.0 if terminated else GAMMA) * phi[after])
        vector += trace * r
        before = None if terminated else after
    return np.linalg.solve(matrix, vector)


@pytest.mark.parametrize("lam", [0.0, 0.6, 1.0])
def test_no_trace_goes_over_the_end_of_an_episode_or_a_cut(lam):
    """Nor does a terminal transition bootstrap; traces over cuts would move θ by over 0.01."""
    phi, path = features(), random_path()
    learner = TDLearner(phi, GAMMA, lam=lam, l2=0.01)
    learner.update_many(*path)
    wanted = by_hand(phi, path, lam, 0.01)
    np.testing.assert_allclose(learner.theta, wanted, rtol=1e-9)
    assert learner.samples == 1100
    if lam == 0.6:
        goes_on = path[0], path[1], np.append(path[0][1:], 0), path[3]
        assert np.abs(by_hand(phi, goes_on, lam, 0.01) - wanted).max() > 0.01


@pytest.mark.parametrize("options", [{}, {"lam": 0.7}, {"lam": 0.7, "half_life": 50.0, "l2": 0.01}])
def test_one_by_one_in_pieces_and_saved_at_any_transition_give_the_same_bits(options):
    phi, path = features(), random_path()
    whole = TDLearner(phi, GAMMA, **options)
    whole.update_many(*path)
    single, pieces = (TDLearner(phi, GAMMA, **options) for _ in range(2))
    for t, transition in enumerate(zip(*path, strict=True)):
        single.update(*transition)
        pieces.update_many(*(part[t : t + 1] for part in path))
        if t % 50 == 0:
            assert pieces.value(0) == single.value(0)
    for way in (single, pieces):
        np.testing.assert_array_equal(way.theta, whole.theta)
        if "half_life" not in options:
            errors = (each.engine.without_ridge().errors(phi) for each in (way, whole))
            np.testing.assert_array_equal(*errors)
    for cut in [0, 1, 300, *(np.flatnonzero(path[3])[:3] + 1)]:
        head, tail = (TDLearner(phi, GAMMA, **options) for _ in range(2))
        for transition in zip(*(part[:cut] for part in path), strict=True):
            head.update(*transition)
        tail.load_state_dict(head.state_dict())
        tail.update_many(*(part[cut:] for part in path))
        np.testing.assert_array_equal(tail.theta, whole.theta)
        assert tail.samples == 1100


def test_states_of_others_are_refused():
    mine = TDLearner(np.eye(2), GAMMA, lam=0.5)
    mine.update(0, 1.0, 1, False)
    theta = mine.theta
    for state, message in (
        (TDLearner(np.eye(2), GAMMA, method="ladder").state_dict(), "must have method='lstd', not"),
        (TDLearner(np.eye(2), GAMMA, lam=0.4).state_dict(), "state must have settings="),
        ([mine.state_dict()], "state must be a mapping, not list"),
    ):
        with pytest.raises(ValueError, match=message):
            mine.load_state_dict(state)
    np.testing.assert_array_equal(mine.theta, theta)


@pytest.mark.parametrize(
    ("size", "options", "method"),
    [
        (1000, {}, "lstd"),
        (1001, {}, "ladder"),
        (2, {"radius": 2.0}, "mag"),
        (2, {"block": 3}, "ladder"),
        (2, {"lam": 0.0}, "lstd"),
    ],
)
def test_least_squares_is_the_default_where_it_fits(size, options, method):
    assert TDLearner(lambda s: np.zeros(size), GAMMA, size=size, **options).method == method
    many = TDLearner(scipy.sparse.eye_array(1500), GAMMA)
    assert many.method == "lstd"
    with pytest.raises(AttributeError, match="lstd has no optimiser"):
        _ = many.optimizer


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 1001, "method": "lstd", "half_life": 9.0}, "half_life needs at most 1,000 feat"),
        ({"size": 1001, "lam": 0.5}, "`lam` needs `method='lstd'`, which takes up to 1,000"),
        ({"method": "lstd", "radius": 1.0}, "`radius` is not an option of lstd"),
        ({"method": "ladder", "l2": 0.1}, "`l2` needs `method='lstd'`"),
        ({"lam": -0.1}, "lam must be"),
        ({"l2": np.nan}, "l2 must be"),
        ({"half_life": 0.0}, "half_life must be"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        TDLearner(lambda s: np.zeros(2), GAMMA, **{"size": 2, **options})


def test_a_direction_that_was_not_met_has_no_interval():
    """Whatever the basis: no feature is zero, and the trajectory never enters state 7."""
    mrp = RewardProcess(np.full((7, 7), 1.0 / 7.0), np.arange(7.0), GAMMA, np.eye(7))
    phi = rescaled(np.random.default_rng(11).standard_normal((8, 8)))
    learner = TDLearner(phi, GAMMA)
    learner.update_many(*mrp.simulate(2000, seed=0))
    half = learner.engine.without_ridge().errors(phi, 0.9)
    assert np.isfinite(half[:7]).all()
    assert np.isinf(half[7])


@pytest.mark.parametrize("lam", [0.0, 0.8])
def test_intervals_hold_for_all_states_together(lam):
    """Of a table, whose fixed point is the same for every λ; at the level of one state 70 would."""
    rng = np.random.default_rng(9)
    P = rng.exponential(size=(8, 8))
    mrp = RewardProcess(P / P.sum(axis=1, keepdims=True), rng.normal(size=8), GAMMA, np.eye(8))
    held = 0
    for seed in range(100):
        learner = TDLearner(np.eye(8), GAMMA, lam=lam)
        learner.update_many(*mrp.simulate(3000, seed=seed))
        half = learner.engine.without_ridge().errors(np.eye(8), 0.9)
        held += bool((np.abs(learner.theta - mrp.theta_star) <= half).all())
    # At least nine in ten should hold: three standard errors below is 0.81.
    assert held >= 81
    assert (half < 0.3).all()


def test_a_trajectory_too_short_beside_its_mixing_time_says_so():
    """Two groups of states that share a feature: the batches know which group they were in."""
    rewards, phi = [1.0, 0.0], np.ones((2, 1))
    for leave, remark in ((0.001, True), (0.5, False)):
        P = [[1.0 - leave, leave], [leave, 1.0 - leave]]
        mrp = RewardProcess(P, rewards, GAMMA, phi)
        learner = TDLearner(phi, GAMMA)
        learner.update_many(*mrp.simulate(6000, seed=1))
        assert ("too narrow" in learner.engine.without_ridge().remark) == remark
