"""How the scale follows the run."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.steps import Distance


@pytest.mark.parametrize("per_coordinate", [True, False])
def test_gain_is_the_sum_of_its_definition(per_coordinate):
    """Σ λ g·(o − x) is found at the end of a block from its sums alone."""
    rng = np.random.default_rng(1)
    distance = Distance(first=4.0)  # enough from the start, so that no step is cut short
    opt = mf.Ladder(np.ones(4), block=8, per_coordinate=per_coordinate, distance=distance)
    gain, pull = 0.0, np.zeros(4)
    for _ in range(120):  # before the first change of origin
        state = opt.state_dict()["step"]["distance"]
        g = opt.x - 3.0 + 0.1 * rng.standard_normal(4)
        gain += state["lam"] * g @ (state["origin"] - opt.x)
        pull += state["lam"] * g
        opt.tell(g)
    assert opt.state_dict()["step"]["distance"]["numerator"] == pytest.approx(gain, rel=1e-9)
    np.testing.assert_allclose(
        opt.state_dict()["step"]["distance"]["weighted_sum"], pull, rtol=1e-9
    )


@pytest.mark.parametrize("per_coordinate", [True, False])
@pytest.mark.parametrize("far", [1e-3, 1.0, 1e3])
def test_the_bound_is_one_and_is_nearly_reached(far, per_coordinate):
    """On a convex function without noise r̄ ends between the distance's tenth and three times it."""
    target = far * np.array([1.0, -0.5, 0.25])
    opt = mf.Ladder(np.zeros(3), per_coordinate=per_coordinate)
    for _ in range(127):
        opt.tell(opt.x - target)
    distance = np.abs(target).max() if per_coordinate else np.linalg.norm(target)
    assert 0.1 * distance < opt.state_dict()["step"]["distance"]["rbar"][0] <= 3.0 * distance


def test_the_scale_shrinks_after_arrival():
    """The noise is small beside the way that was gone, and r̄ forgets the way."""
    rng = np.random.default_rng(2)
    opt = mf.Ladder(np.zeros(3))
    steps, way = 5000, 0.0
    for t in range(1, steps + 1):
        if np.abs(opt.x - 100.0).max() > 1.0:
            way += t * 100.0
        opt.tell(opt.x - 100.0 + 0.1 * rng.standard_normal(3))
    state = opt.state_dict()["step"]["distance"]
    assert state["rbar"][0] < 0.1 * state["lam"]
    # Weights t, of which the sum is steps²/2: the noise of a weighted mean, and the way there.
    error, transient = 0.1 * np.sqrt(4.0 / 3.0 / steps), way / (0.5 * steps**2)
    assert transient < 2.0 * error
    np.testing.assert_allclose(opt.average, 100.0, atol=4.0 * error + transient)


@pytest.mark.parametrize("per_coordinate", [True, False])
def test_after_an_arrival_the_bound_counts_once(per_coordinate):
    """From then on r̄ is a bound from below on the way that is left, without noise."""
    opt = mf.Ladder(np.zeros(3), per_coordinate=per_coordinate)
    for target in (np.ones(3), -np.ones(3)):
        for _ in range(4000):
            opt.tell(opt.x - target)
    distance = 2.0 if per_coordinate else 2.0 * np.sqrt(3.0)
    assert 0.1 * distance < opt.state_dict()["step"]["distance"]["rbar"][0] <= distance


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="first must be positive"):
        Distance(first=-1.0)


def test_an_epoch_without_gradients_is_no_arrival():
    """Catches a scale that shrinks before the first gradient, as at rewards of 0."""
    opt = mf.Ladder([0.0])
    before = opt.state_dict()["step"]["distance"]
    for _ in range(1024):
        opt.tell([0.0])
    after = opt.state_dict()["step"]["distance"]
    assert (after["rbar"] == before["rbar"]).all()
    assert after["margin"] == before["margin"]
