"""Sparse rows of features: the results of dense ones, in bounded memory, all or nothing."""

import gymnasium
import numpy as np
import pytest

from mixfree.td import TDLearner, TileCoding, evaluate_policy
from mixfree.td.learner import MAX_DENSE, PIECE

GAMMA = 0.9
TILES = TileCoding([0.0, 0.0], [1.0, 1.0], tiles=15, tilings=8)  # 2,048 features


class Recorded:
    """Tiles with rows of one kind, and how many observations were asked for at a time."""

    size = TILES.size

    def __init__(self, kind):
        self.most = 0
        setattr(self, kind, lambda states: self.recorded(getattr(TILES, kind), states))

    def recorded(self, rows, observations):
        self.most = max(self.most, len(observations))
        return rows(observations)

    def __call__(self, observation):
        raise AssertionError("one by one")


def walk(count, seed=0):
    """A walk in a square, which sometimes ends or jumps."""
    rng = np.random.default_rng(seed)
    points = 1.0 - np.abs(np.cumsum(rng.normal(scale=0.05, size=(count + 1, 2)), axis=0) % 2 - 1.0)
    after, jump = points[1:].copy(), rng.random(count) < 0.02
    after[jump] = 1.0 - after[jump]
    return points[:-1], rng.normal(size=count), after, rng.random(count) < 0.02


@pytest.mark.parametrize("options", [{}, {"lam": 0.7, "l2": 0.01}])
def test_same_bits_as_dense_rows_in_bounded_memory(options):
    """A dense table of 9,000 transitions fails, and so does one sparse array of all."""
    path = walk(9000)
    for kind, most in (("sparse_rows", PIECE), ("rows", MAX_DENSE // TILES.size)):
        tiles = Recorded(kind)
        found = TDLearner(tiles, GAMMA, method="lstd", **options)
        found.update_many(*path)
        assert 0 < tiles.most <= most
        mixed, again = (TDLearner(TILES, GAMMA, method="lstd", **options) for _ in range(2))
        for transition in zip(*(part[:300] for part in path), strict=True):
            mixed.update(*transition)
        mixed.update_many(*(list(part[300:5000]) for part in path))
        again.load_state_dict(mixed.state_dict())
        again.update_many(*(part[5000:] for part in path))
        np.testing.assert_array_equal(again.theta, found.theta)


@pytest.mark.parametrize("method", ["lstd", "ladder"])
def test_a_bad_observation_late_in_the_arrays_changes_nothing(method):
    """Earlier pieces have been used by then; half a run would go on with other bits."""
    path = walk(6000)
    options = {"lam": 0.7} if method == "lstd" else {}
    found, whole = (TDLearner(TILES, GAMMA, method=method, **options) for _ in range(2))
    whole.update_many(*path)
    if method == "lstd":  # with transitions that wait to be summed
        for transition in zip(*(part[:100] for part in path), strict=True):
            found.update(*transition)
    else:
        found.update_many(*(part[:100] for part in path))
    for part, wrong in ((0, np.nan), (1, np.inf), (2, np.inf)):
        bad = [each[100:].copy() for each in path]
        bad[3][-1], bad[part][-1] = False, wrong
        with pytest.raises(ValueError, match="must be finite"):
            found.update_many(*bad)
        assert found.samples == 100
    found.update_many(*(part[100:] for part in path))
    np.testing.assert_array_equal(found.average, whole.average)


def test_a_whole_evaluation_without_dense_rows():
    """Values differ by rounding, since sums are in another order."""
    tiles = Recorded("sparse_rows")
    env = gymnasium.make("MountainCar-v0")
    found = evaluate_policy(env, features=tiles, lam=0.5, samples=3000, method="lstd")
    states = np.array([[0.5, 0.0], [0.55, 0.005], [0.9, 0.06]])
    np.testing.assert_allclose(found.values(states), TILES.rows(states) @ found.theta, rtol=1e-12)
    assert found.batches_met(states).shape == found.interval(states)[0].shape == (3,)
