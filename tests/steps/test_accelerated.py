"""Acceleration: the algorithm as the paper writes it, and its contraction at every curvature."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.steps import Accelerated

ALPHA = 0.3  # 1/L


def growth(step, curvature):
    """The largest factor by which one exact step changes (x − x*)² + (6/μ)(f(x_f) − f*)."""
    mu = 1.0 / (ALPHA * step.condition)
    size = np.sqrt([1.0, 3.0 * curvature / mu])
    columns = []
    for x, x_f in np.eye(2) / size:
        state = step.start(np.zeros(1))
        state.x, state.x_f = np.array([x]), np.array([x_f])
        x_g = step.theta * state.x_f + (1.0 - step.theta) * state.x
        wanted = x_g - step.move(state, curvature * x_g, 1, x_g)
        assert wanted == pytest.approx(step.theta * state.x_f + (1.0 - step.theta) * state.x)
        columns.append(size * [state.x[0], state.x_f[0]])
    return np.linalg.norm(np.transpose(columns), 2) ** 2


def worst(step):
    """The same over every curvature from μ to L, over what is stated."""
    curvatures = np.geomspace(1.0 / (ALPHA * step.condition), 1.0 / ALPHA, 40)
    return max(growth(step, each) for each in curvatures) / (1.0 - step.beta / 2.0)


@pytest.mark.parametrize("damping", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("condition", [1.0, 4.0, 100.0, 1e4])
def test_a_step_contracts_as_the_theorem_states(condition, damping):
    """Catches each of β, η, θ and γ changed, as the next test shows."""
    assert worst(Accelerated(ALPHA, condition, damping)) <= 1.0 + 1e-12


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("theta", lambda step: 1.0 - step.theta),
        ("theta", lambda step: 0.9 * step.theta),
        ("eta", lambda step: 1.5 * step.eta),
        ("eta", lambda step: step.damping * step.eta),
        ("beta", lambda step: 3.0 * step.beta),
        ("alpha", lambda step: 6.0 * step.alpha),
    ],
)
def test_the_contraction_is_not_idle(name, wrong):
    step = Accelerated(ALPHA, 100.0, 0.5)
    object.__setattr__(step, name, wrong(step))
    assert worst(step) > 1.0 + 1e-4


def test_the_algorithm_as_it_is_written():
    """RASGD beside Algorithm 1 in a few lines; catches a batch that is summed and not averaged,
    gradients at x or x_f in place of x_g, and a correction beyond the horizon."""
    law = mf.MLMC(None, horizon=4, seed=7, batch=3)
    samples = np.random.default_rng(1).standard_normal((400, 2))

    def gradient(x, z):
        return x * [0.5, 0.02] + np.tanh(x - z) * 0.1

    opt = mf.RASGD([3.0, -2.0], alpha=1.2, condition=40.0, damping=0.6, batch=3, horizon=4, seed=7)
    p, gamma, mu = 0.6, 0.75 * 1.2, 1.0 / (1.2 * 40.0)
    beta = np.sqrt(4 * p**2 * mu * gamma / 3)
    eta = 3 * beta / (2 * p * mu * gamma)
    theta = (p / eta - 1) / (beta * p / eta - 1)
    x = x_f = np.array([3.0, -2.0])
    taken, step, corrected = 0, 0, 0
    while taken + 12 <= 400:
        step += 1
        level = law.level(step)
        x_g = theta * x_f + (1 - theta) * x
        np.testing.assert_allclose(opt.x, x_g, rtol=1e-12)
        window = [gradient(x_g, z) for z in samples[taken : taken + 3 * 2**level]]
        g = np.mean(window[:3], axis=0)
        if 2 <= 2**level <= 4:
            g = g + 2**level * (np.mean(window, axis=0) - np.mean(window[: len(window) // 2], 0))
            corrected += 1
        for z in samples[taken : taken + len(window)]:
            opt.tell(gradient(opt.x, z))
        taken += len(window)
        before, x_f = x_f, x_g - p * gamma * g
        x = eta * x_f + (p - eta) * before + (1 - p) * (1 - beta) * x + (1 - p) * beta * x_g
    assert opt.steps == step > 40 and corrected > 20 and opt.samples == taken


@pytest.mark.parametrize("settings", [{"condition": 1e300}, {"damping": 1e-300}])
def test_the_worst_problems(settings):
    """Catches a division by p² = 0, and a horizon that is refused though nobody gave it."""
    opt = mf.RASGD([1.0], **settings)
    for _ in range(20):
        opt.tell(opt.x)
    assert np.isfinite(opt.x).all()


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"condition must be at least 1, not 0.5"):
        mf.RASGD([0.0], condition=0.5)
    with pytest.raises(ValueError, match="damping must be at most 1, not 2"):
        mf.RASGD([0.0], damping=2.0)
    with pytest.raises(ValueError, match="mirror must be 'euclidean' for rasgd, not 'entropic'"):
        mf.RASGD([0.5, 0.5], domain=mf.Simplex(), mirror="entropic")
    with pytest.raises(ValueError, match="batch must be"):
        mf.RASGD([0.0], batch=0)
