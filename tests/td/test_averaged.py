"""Averaged TD: computed by hand, and the inequality behind its step size."""

import numpy as np
import pytest

from mixfree.td import RewardProcess, TDLearner, rescaled

GAMMA = 0.8


def process():
    rng = np.random.default_rng(6)
    P = rng.exponential(size=(5, 5))
    features = rescaled(rng.standard_normal((5, 3)))
    return RewardProcess(
        P / P.sum(axis=1, keepdims=True), 9 * rng.standard_normal(5), GAMMA, features
    )


@pytest.mark.parametrize("gap", [1, 3])
def test_it_is_the_equation(gap):
    """Catches a decaying step, an average over all iterates, another of the ``gap`` transitions
    and a projection: ‖θ‖ grows beyond the ball in which projected TD of radius 1 would stay."""
    mrp = process()
    path = mrp.simulate(600, seed=1)
    alpha, theta, thetas = (1.0 - GAMMA) / (1.0 + GAMMA) ** 2, np.zeros(3), []
    for i in range(gap - 1, 600, gap):
        thetas.append(theta)
        ahead = path.states[i], path.rewards[i], path.next_states[i]
        theta = theta + alpha * mrp.semi_gradient(theta, *ahead)
    found = TDLearner(mrp.features, GAMMA, method="averaged-td", gap=gap)
    found.update_many(*path)
    first = 2 ** (len(thetas).bit_length() - 2) - 1
    np.testing.assert_allclose(found.theta, theta, rtol=1e-9)
    np.testing.assert_allclose(found.average, np.mean(thetas[first:], axis=0), rtol=1e-9)
    assert np.linalg.norm(theta) > 1.0
    assert (found.steps, found.samples) == (600 // gap, 600)


def test_the_step_makes_the_mean_square_shrink_most():
    """For any θ the mean of ‖(I − αA)θ‖² is below its bound, of which this α is the minimum.

    Catches (1−γ)/(1+γ) and any other step: some multiple of it would have a better bound."""
    rng, mrp = np.random.default_rng(0), process()

    def bracket(alpha):
        return 2.0 * alpha * (1.0 - GAMMA) - alpha**2 * (1.0 + GAMMA) ** 2

    learner = TDLearner(mrp.features, GAMMA, method="averaged-td")
    alpha = learner.optimizer.step.alpha
    assert bracket(alpha) == max(bracket(alpha * k) for k in (0.5, 0.9, 1.0, 1.1, 2.0))
    for theta in rng.standard_normal((20, 3)):
        mean = sum(
            mrp.stationary[s]
            * mrp.P[s, t]
            * np.sum((theta - alpha * mrp.features[s] * (change @ theta)) ** 2)
            for s in range(5)
            for t in range(5)
            for change in [mrp.features[s] - GAMMA * mrp.features[t]]
        )
        square = mrp.stationary @ (mrp.features @ theta) ** 2
        assert mean <= theta @ theta - bracket(alpha) * square + 1e-12


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="gap must be a whole number of at least 1, not 0"):
        TDLearner(np.eye(2), GAMMA, method="averaged-td", gap=0)
    with pytest.raises(ValueError, match="averaged-td does not take `step_size`"):
        TDLearner(np.eye(2), GAMMA, method="averaged-td", step_size=0.1)
