"""Fixed points, semi-gradients and the key inequality, exactly."""

import gymnasium
import numpy as np
import pytest

from mixfree.td import RewardProcess, rescaled

PROCESSES = 200


def random_process(seed):
    """A process of up to 12 states, every other one with episodes that end."""
    rng = np.random.default_rng([seed, 5])
    n, d = int(rng.integers(2, 13)), int(rng.integers(1, 5))
    P = rng.exponential(size=(n, n))
    P /= P.sum(axis=1, keepdims=True)
    rewards, start = rng.standard_normal((n, n)), None
    if seed % 2:
        P *= rng.uniform(0.5, 1.0, size=(n, 1))
        rewards, start = rng.standard_normal(n), rng.dirichlet(np.ones(n))
    features = rescaled(rng.standard_normal((n, min(d, n))))
    return RewardProcess(P, rewards, float(rng.uniform(0.0, 0.99)), features, start=start), rng


@pytest.fixture(scope="module")
def processes():
    return [random_process(seed) for seed in range(PROCESSES)]


def observed(process):
    """Every transition with its probability in the steady state, the ends included."""
    n = len(process.P)
    for s in range(n):
        for t in range(n):
            reward = process.rewards[s] if process.rewards.ndim == 1 else process.rewards[s, t]
            yield process.stationary[s] * process.P[s, t], s, reward, t, False
        yield process.stationary[s] * process.ending[s], s, process.r[s], s, True


def test_mean_semi_gradient_is_the_mean_over_transitions_and_0_at_the_fixed_point(processes):
    for process, rng in processes:
        theta = rng.standard_normal(process.features.shape[1])
        mean = sum(p * process.semi_gradient(theta, *z) for p, *z in observed(process))
        np.testing.assert_allclose(process.mean_semi_gradient(theta), mean, rtol=0, atol=1e-13)
        size = np.abs(process.theta_star).max() + 1.0
        assert np.abs(process.mean_semi_gradient(process.theta_star)).max() <= 1e-12 * size


def test_key_inequality(processes):
    """Lemma 5.1: ḡ(θ)ᵀ(θ* − θ) ≥ (1 − γ)‖V_θ* − V_θ‖²_M."""
    for process, rng in processes:
        for scale in (1e-3, 1.0, 1e3):
            theta = scale * rng.standard_normal(process.features.shape[1])
            gain = process.mean_semi_gradient(theta) @ (process.theta_star - theta)
            error = process.error(theta)
            assert gain >= (1.0 - process.gamma) * error - 1e-9 * abs(gain)


def test_values_solve_the_bellman_equation_and_weights_are_stationary(processes):
    for process, _ in processes:
        bellman = process.r + process.gamma * process.P @ process.values
        np.testing.assert_allclose(process.values, bellman, rtol=0, atol=1e-10)
        flow = process.stationary @ process.P
        if process.start is not None:
            flow += (process.stationary @ process.ending) * process.start
        np.testing.assert_allclose(flow, process.stationary, rtol=0, atol=1e-14)


def test_errors_are_weighted_squares():
    process = RewardProcess([[0.75, 0.25], [0.75, 0.25]], [1.0, 0.0], 0.5, [[1.0], [0.5]])
    theta = process.theta_star + 2.0
    assert process.error(theta) == pytest.approx(0.75 * 4.0 + 0.25 * 1.0)
    away = process.values - process.features @ theta
    assert process.value_error(theta) == pytest.approx(0.75 * away[0] ** 2 + 0.25 * away[1] ** 2)


def test_pieces_follow_each_other():
    """Each begins where the one before ended, or with a new episode where one ended there."""
    process, _ = random_process(3)
    lengths = [1, 1, 2, 3] * 100 + [5000]
    pieces = [*process.pieces(lengths, seed=2)]
    assert [len(piece.states) for piece in pieces] == lengths
    whole = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
    states, _, next_states, terminated = whole
    assert terminated[: sum(lengths[:-1])].any()
    going_on = ~terminated[:-1]
    np.testing.assert_array_equal(next_states[:-1][going_on], states[1:][going_on])
    assert process.start[states[1:][~going_on]].all()


def test_simulated_frequencies_match():
    process, _ = random_process(3)
    samples = 200_000
    path = process.simulate(samples, seed=1)
    assert all(len(part) == samples for part in path)
    for probability, s, reward, t, ends in observed(process):
        hit = (path.states == s) & (path.terminated == ends)
        if not ends:
            hit &= path.next_states == t
        assert np.all(path.rewards[hit] == reward)
        # Restarts decorrelate within a few steps: five times the independent error is ample.
        error = np.sqrt(probability * (1.0 - probability) / samples)
        assert abs(hit.mean() - probability) <= 5.0 * error + 1e-9


GOOD = np.zeros((3, 2, 3))
GOOD[0, 0, 1] = GOOD[0, 1, 2] = GOOD[1, :, 0] = GOOD[2, :, 2] = 1.0
REWARDS = np.array([[1.0, 5.0], [0.0, 0.0], [0.0, 0.0]])


def of_mdp(**change):
    given = {"P": GOOD, "R": REWARDS, "policy": "uniform", "terminal": [2], "start": [1, 0, 0]}
    return RewardProcess.from_mdp(**{**given, **change}, gamma=0.5, features=np.eye(3))


def test_mdp_and_terminal_states():
    # V(0) = ½(1 + ½V(1)) + ½·5 and V(1) = ½V(0).
    for policy in ("uniform", [[0.5, 0.5]] * 3):
        np.testing.assert_allclose(of_mdp(policy=policy).values, [24.0 / 7.0, 12.0 / 7.0, 0.0])


def test_an_environment_must_publish_its_distributions():
    for name, message in (("P", "its transitions"), ("initial_state_distrib", "its first state")):
        env = gymnasium.make("FrozenLake-v1")
        delattr(env.unwrapped, name)
        with pytest.raises(ValueError, match=f"does not publish.*{message}"):
            RewardProcess.from_gymnasium(env, gamma=0.5)


def process(**change):
    good = {"P": [[0.5, 0.5], [0.5, 0.5]], "r": [0.0, 1.0], "gamma": 0.9, "features": np.eye(2)}
    return RewardProcess(**{**good, **change})


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (process, {"gamma": 1.0}, r"gamma must be in \[0, 1\), not 1.0"),
        (process, {"P": [[1.5, -0.5], [0.5, 0.5]]}, r"row 0 is \[ 1.5 -0.5\]"),
        (process, {"P": [[0.5, 0.4], [0.5, 0.5]]}, "give start"),
        (process, {"P": [[0.5, 0.5]]}, "P must be a square matrix"),
        (process, {"r": [1.0]}, "r must have shape"),
        (process, {"r": [1.0, np.inf]}, r"r\[1\] is inf"),
        (process, {"features": np.eye(3)}, "one row for each of the 2 states, not 3"),
        (process, {"start": [0.7, 0.7]}, "start must be 2 probabilities"),
        (of_mdp, {"P": np.eye(3)}, r"P must have shape \(states, actions, states\), not \(3, 3\)"),
        (of_mdp, {"R": np.zeros(3)}, r"R must have shape \(3, 2\) or \(3, 2, 3\), not \(3,\)"),
        (of_mdp, {"R": np.ones((3, 2))}, "terminal state 2 has an outgoing reward"),
        (of_mdp, {"terminal": [False, False, True]}, "terminal must hold states from 0 to 2"),
    ],
)
def test_wrong_arguments_are_named(make, change, message):
    """Catches a mask of terminal states that is read as numbers of other states."""
    with pytest.raises(ValueError, match=message):
        make(**change)
