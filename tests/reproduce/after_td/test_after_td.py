"""After the paper: closed forms, the compiled actor-critic, and verdicts that can fail."""

import sys

import gymnasium
import numpy as np
import pytest

from mixfree.chains import two_state
from mixfree.gradients import MLMC, MiniBatch
from mixfree.reproduce.after_td import experiment
from mixfree.reproduce.after_td.control import (
    CONTROLS,
    LAKE_MAP,
    OPEN_MAP,
    Control,
    control_of,
    coordinates,
    grid,
    learning,
)
from mixfree.reproduce.after_td.exact import best_variance, limit, process_of, universal_step
from mixfree.reproduce.after_td.report import (
    AVERAGED,
    BATCH,
    EXTRAPOLATED,
    LONG,
    MAC,
    SINGLE,
    SKIP,
    _tail,
)
from mixfree.reproduce.engine.settings import Settings
from mixfree.td import ActorCritic, RewardProcess


def test_limit_is_the_mean_over_all_paths():
    """The mean of θ over every path of 15 transitions, weighted by its probability, has forgotten
    its start. Catches a limit that is θ* itself, as with independent transitions."""
    process, alpha = process_of("least squares", 0.3), 0.8
    paths = [(s, process.stationary[s], np.zeros(1)) for s in (0, 1)]
    for _ in range(15):
        paths = [
            (t, chance * process.P[s, t], after)
            for s, chance, theta in paths
            for after in [theta + alpha * process.semi_gradient(theta, s, process.r[s], 0)]
            for t in (0, 1)
        ]
    mean = sum(chance * theta for _, chance, theta in paths)
    np.testing.assert_allclose(mean, limit(process, alpha), atol=5e-4)
    assert abs(mean[0] - process.theta_star[0]) > 0.03


def test_independent_rows_have_no_bias():
    process = RewardProcess(two_state(0.5).P, [1.0, 0.0], 0.0, [[1.0], [0.5]])
    np.testing.assert_allclose(limit(process, 0.4), process.theta_star, rtol=1e-12)


def test_best_variance_is_the_sum_of_autocovariances():
    """Lag by lag along a chain whose values the features cannot represent. Catches a sum without
    lags, which is enough where they can, and one with each of the lags once."""
    P = np.array([[0.6, 0.3, 0.1], [0.1, 0.6, 0.3], [0.5, 0.1, 0.4]])
    process = RewardProcess(P, [1.0, -1.0, 2.0], 0.5, [[1.0, 0.0], [0.3, 0.5], [0.0, 0.8]])
    law, rows = process.stationary, process.features
    noise = np.array(
        [
            [process.semi_gradient(process.theta_star, s, process.r[s], t) for t in range(3)]
            for s in range(3)
        ]
    )
    covariance = np.einsum("s,st,sti,stj->ij", law, P, noise, noise)
    alone, power = covariance, np.eye(3)
    for _ in range(100):
        lag = np.einsum("s,st,sti,tu,uv,uvj->ij", law, P, noise, power, P, noise)
        covariance, power = covariance + lag + lag.T, power @ P
    inverse = np.linalg.inv(rows.T @ np.diag(law) @ (rows - process.gamma * P @ rows))

    def trace(middle):
        return np.trace(rows.T @ np.diag(law) @ rows @ inverse @ middle @ inverse.T)

    assert best_variance(process) == pytest.approx(trace(covariance), rel=1e-9)
    assert trace(covariance) != pytest.approx(trace(alone), rel=0.05)


@pytest.mark.parametrize("name", CONTROLS)
def test_best_average_reward_by_value_iteration(name):
    """Relative value iteration, with a chance of a half to stay against periods. Catches a linear
    program over states that no policy reaches, and an end that does not lead to the start."""
    control = control_of(name)
    seen = control.reached
    P, R, values = control.P[seen][:, :, seen], control.R[seen], np.zeros(len(seen))
    for _ in range(20_000):
        ahead = (R + P @ values).max(axis=1)
        gain = ahead - values
        if np.ptp(gain) < 1e-9:
            break
        values = 0.5 * (values + ahead)
        values -= values[0]
    assert control.best == pytest.approx(gain.mean(), rel=1e-5)
    uniform = np.full((control.states, 4), 0.25)
    assert 0.0 < control.average_reward(uniform) < control.best


class Listed:
    """A generator of given numbers."""

    def __init__(self, numbers):
        self.numbers = iter(numbers)

    def random(self):
        return next(self.numbers)


@pytest.mark.parametrize("gradient", [MLMC(None, horizon=32, seed=4), MiniBatch(5)])
def test_the_compiled_actor_critic_is_the_reference(gradient):
    """Catches any difference from ``ActorCritic``: a sign of the window, a step, a draw."""
    control, looks = control_of("frozen lake"), [500, 2000]
    features = coordinates(control)
    found = learning(control, features, gradient, looks, 7, 3.0, 1.0)
    draws = np.random.default_rng(7).random((2000, 2))
    agent = ActorCritic(
        features, 4, alpha=3.0, beta=1.0, gradient=gradient, policy_features=np.eye(16)
    )
    state, expected, acts = 0, [], Listed(draws[:, 0])
    for t in range(2000):
        action = agent.act(state, acts)
        outcome = int(np.searchsorted(control.tables[0][state, action], draws[t, 1], side="right"))
        _, after, reward = control.outcomes[state][action][outcome]
        agent.update(state, action, reward, after)
        state = after
        if t + 1 in looks:
            expected.append(control.average_reward(agent.policy(range(16))))
    assert len(set(expected)) == 2
    assert found == pytest.approx(expected, rel=1e-8)


def test_seasons_change_slowly_and_keep_the_place():
    control = control_of("lake with seasons")
    assert control.chain(np.full((32, 4), 0.25)).mixing_time() > 300
    np.testing.assert_allclose(control.P.sum(axis=2), 1.0)
    assert control.P[0, :, 16:].sum(axis=1) == pytest.approx(1e-3)


def made_up(wrong=()):
    """Rows as the closed forms have them, with two per cent of noise, or wrong in some respect."""
    rows, samples = [], 2_000_000
    for cell in experiment.cells(Settings(samples=samples, seeds=5, first_seed=1000)):
        about = {k: cell[k] for k in ("part", "process", "p", "critic", "seed") if k in cell}
        noise = 1.0 + 0.02 * np.random.default_rng(cell["seed"]).standard_normal()

        def add(about=about, noise=noise, **row):
            rows.append({**about, **row, "value": float(noise * row["value"])})

        if cell["part"] == "error":
            process = process_of(cell["process"], cell["p"])
            alpha = universal_step(process)
            variance = best_variance(process) / _tail(samples)
            once, twice = limit(process, alpha), limit(process, 2.0 * alpha)
            scale = process.error(np.zeros_like(once))
            for name, theta in ((AVERAGED, once), (EXTRAPOLATED, 2 * once - twice), (SKIP, once)):
                factor = 5.0 if "errors five times too large" in wrong else 1.0
                error = (process.error(theta) + variance) / scale
                add(method=name, samples=samples, value=factor * error)
        elif cell["part"] == "bias":
            process = process_of(cell["process"], cell["p"])
            sizes = {a: limit(process, a) - process.theta_star for a in cell["steps"]}
            last = max(sizes)
            for alpha, bias in sizes.items():
                if "independent rows" in wrong:
                    bias = 1e-4 * np.ones_like(bias)
                add(method=AVERAGED, alpha=alpha, value=np.linalg.norm(bias))
                if alpha < last:
                    both = 2.0 * bias - (limit(process, 2.0 * alpha) - process.theta_star)
                    left = bias if "no extrapolation" in wrong else both
                    add(method=EXTRAPOLATED, alpha=alpha, value=np.linalg.norm(left))
        elif cell["part"] == "coverage":
            narrow = "no extrapolation" in wrong
            for name, covered in ((AVERAGED, 0.2), (EXTRAPOLATED, 0.2 if narrow else 0.93)):
                add(method=name, alpha=0.1, samples=1000, stream=0, value=covered)
        else:
            for name in (MAC, SINGLE, BATCH, LONG):
                better = (name == MAC) != ("MLMC hurts" in wrong)
                add(method=name, samples=1000, value=0.1 if better else 0.2)
    return rows


@pytest.mark.parametrize(
    ("wrong", "fails"),
    [
        ((), []),
        (("errors five times too large",), [0, 1]),
        (("no extrapolation",), [3, 6]),
        (("independent rows",), [2, 3, 4, 5]),
        (("MLMC hurts",), [8, 9, 10]),
    ],
)
def test_verdicts_can_fail(wrong, fails):
    """Each wrong implementation fails where it is wrong, and nowhere else."""
    found = experiment.report(made_up(wrong), Settings(samples=2_000_000, seeds=5, first_seed=1000))
    verdicts = [claim.holds for claim in found.claims]
    assert [place for place, holds in enumerate(verdicts) if holds is False] == fails
    assert verdicts.count(True) == len(verdicts) - len(fails)
    assert set(found.figures) == {"after-td-error", "after-td-bias", "after-td-control"}


def test_measured_rows_are_those_of_learners():
    """Averaged TD by hand on the cell's trajectory; catches another step or another seed."""
    cell = {"part": "error", "process": "sticky", "p": 0.05, "samples": 3000, "seed": 2}
    rows = experiment.measure(cell)
    process = process_of("sticky", 0.05)
    lengths = np.diff([0, *experiment.looks_until(3000)]).tolist()
    theta, thetas = np.zeros(2), []
    for piece in process.pieces(lengths, 2):
        for s, r, s_next in zip(piece.states, piece.rewards, piece.next_states, strict=True):
            thetas.append(theta)
            theta = theta + 0.1 / 1.9**2 * process.semi_gradient(theta, s, r, s_next)
    mean = np.mean(thetas[-_tail(3000) :], axis=0)
    (found,) = (r["value"] for r in rows if (r["method"], r["samples"]) == (AVERAGED, 3000))
    assert found == pytest.approx(process.error(mean) / process.error(np.zeros(2)), rel=1e-9)
    assert {r["method"] for r in rows} == {AVERAGED, EXTRAPOLATED, SKIP}


def test_a_control_by_hand():
    """Two states: leaving the first pays 1, so the best is to go to and fro."""
    control = Control([[[(1.0, 1, 1.0)], [(1.0, 0, 0.0)]], [[(1.0, 0, 0.0)], [(1.0, 1, 0.0)]]])
    assert control.best == pytest.approx(0.5)
    assert control.average_reward(np.full((2, 2), 0.5)) == pytest.approx(0.25)


@pytest.mark.parametrize("slippery", [True, False])
@pytest.mark.parametrize("fields", [LAKE_MAP, OPEN_MAP])
def test_grids_are_those_of_gymnasium(fields, slippery):
    """Catches another order of the actions, walls that wrap around, and an end without a start."""
    env = gymnasium.make("FrozenLake-v1", desc=list(fields), is_slippery=slippery)
    for state, choices in enumerate(grid(fields, slippery)):
        for action, found in enumerate(choices):
            listed = env.unwrapped.P[state][action]
            expected = [(p, 0 if end else to, float(reward)) for p, to, reward, end in listed]
            np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_control_needs_no_gymnasium(monkeypatch):
    """Catches ``reproduce all`` stopping halfway where only the command line is installed."""
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    control_of.cache_clear()
    assert {name: control_of(name).states for name in CONTROLS} == dict(
        zip(CONTROLS, (16, 32, 49), strict=True)
    )
