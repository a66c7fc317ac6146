"""MAC: computed by hand from whole batches, and bad input."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.gradients import ForwardReplay, MiniBatch, Plain
from mixfree.td import ActorCritic


def trajectory(count, states=4, actions=3):
    rng = np.random.default_rng(5)
    visited = rng.integers(states, size=count + 1)
    return visited, rng.integers(actions, size=count), rng.standard_normal(count)


def combined(gradients, kind, level):
    """One direction from the gradients of a window, by the definition of the estimator."""
    if kind != "mlmc" or level == 0:
        return np.mean(gradients, axis=0)
    fine, coarse = np.mean(gradients, axis=0), np.mean(gradients[: len(gradients) // 2], axis=0)
    return gradients[0] + 2.0**level * (fine - coarse)


def by_hand(kind, features, policy_features, radius, count):
    """η, ω and θ after whole windows, from their equations."""
    visited, acted, rewards = trajectory(count)
    law = mf.MLMC(None, horizon=8, seed=2)
    eta, omega, theta, squares = 0.0, np.zeros(2), np.zeros((3, 4)), 0.0
    t = step = 0
    while True:
        step += 1
        level = law.level(step) if kind == "mlmc" else 0
        length = {"mlmc": 2**level, "single": 1, "batch": 5}[kind]
        if t + length > count:
            return eta, omega, theta, t
        f, g, h = [], [], []
        for i in range(t, t + length):
            s, s_next, a, r = visited[i], visited[i + 1], acted[i], rewards[i]
            delta = r - eta + (features[s_next] - features[s]) @ omega
            logits = theta @ policy_features[s]
            policy = np.exp(logits) / np.exp(logits).sum()
            f.append(eta - r)
            g.append(-delta * features[s])
            h.append(delta * np.outer(np.eye(3)[a] - policy, policy_features[s]))
        up = combined(h, kind, level)
        squares += np.sum(up**2)
        eta = eta - 0.7 / np.sqrt(step) * combined(f, kind, level)
        omega = omega - 0.7 / np.sqrt(step) * combined(g, kind, level)
        omega = omega / max(1.0, np.linalg.norm(omega) / radius)
        theta = theta + 1.5 / np.sqrt(squares) * up
        t += length


@pytest.mark.parametrize("kind", ["mlmc", "single", "batch"])
def test_it_is_the_equation(kind):
    """Catches a critic that moves before the actor's TD error is taken, levels that differ between
    the three, MLMC for the actor alone, and descent instead of ascent."""
    features = np.array([[0.9, 0.1], [0.0, 0.8], [-0.5, 0.5], [0.3, -0.3]])
    gradient = {"mlmc": mf.MLMC(None, horizon=8, seed=2), "single": Plain(), "batch": MiniBatch(5)}
    agent = ActorCritic(
        features,
        3,
        alpha=1.5,
        beta=0.7,
        radius=1.0,
        gradient=gradient[kind],
        policy_features=np.eye(4),
    )
    eta, omega, theta, used = by_hand(kind, features, np.eye(4), 1.0, 400)
    visited, acted, rewards = trajectory(400)
    moves = [agent.update(visited[i], acted[i], rewards[i], visited[i + 1]) for i in range(used)]
    assert moves[-1] and sum(moves) == agent.actor.steps
    assert agent.average_reward == pytest.approx(eta, rel=1e-9)
    np.testing.assert_allclose(agent.critic.x, omega, rtol=1e-9)
    np.testing.assert_allclose(agent.actor.x.reshape(3, 4), theta, rtol=1e-9)
    assert np.linalg.norm(omega) <= 1.0 + 1e-12
    np.testing.assert_allclose(agent.policy(range(4)).sum(axis=1), 1.0)
    assert agent.value(2) == pytest.approx(features[2] @ omega)


def test_actions_are_drawn_from_the_policy():
    """Within four standard errors; catches a draw that ignores the policy's last action."""
    agent = ActorCritic(np.eye(2), 3, gradient=Plain())
    agent.actor.tell(np.array([0.0, 0.0, -2.0, 0.0, -1.0, 0.0]))
    policy, rng = agent.probabilities(0), np.random.default_rng(0)
    drawn = np.bincount([agent.act(0, rng) for _ in range(4000)], minlength=3) / 4000
    assert policy.max() > 0.4
    np.testing.assert_allclose(drawn, policy, atol=4.0 * np.sqrt(0.25 / 4000))


def test_mistakes_are_named_and_change_nothing():
    agent = ActorCritic(np.eye(2), 2)
    agent.update(0, 1, 1.0, 1)
    before = agent.samples, agent.average_reward, agent.actor.state_dict()
    for arguments, message in (
        ((0, 2, 1.0, 1), "a must be a whole number of at least 0, at most 1, not 2"),
        ((0, 0.5, 1.0, 1), "a must be a whole number"),
        ((0, 1, np.nan, 1), "transition 2 must be finite"),
        ((0, 1, 1.0, 5), "state 5 must be a row number"),
    ):
        with pytest.raises(ValueError, match=message):
            agent.update(*arguments)
    after = agent.samples, agent.average_reward, agent.actor.state_dict()
    assert str(after) == str(before)
    with pytest.raises(ValueError, match="actions must be a whole number of at least 2"):
        ActorCritic(np.eye(2), 1)
    for gradient in ("mlmc", ForwardReplay(2)):
        with pytest.raises(ValueError, match="gradient must be one such as"):
            ActorCritic(np.eye(2), 2, gradient=gradient)
