"""Steps: the regret bound of AdaGrad-Norm (Lemma 3.2) and the step-sum lemma (Lemma 4.2)."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mixfree as mf
from mixfree.steps import AdaGradNorm, Constant, Inverse, InverseSqrt

sizes = st.lists(st.floats(0.0, 1e12) | st.sampled_from([0.0, 1e-300, 1e-8]), min_size=1)


@given(a=sizes)
@settings(max_examples=300, deadline=None)
def test_step_sum_lemma(a):
    """Σ a_i/√(Σ_{j≤i} a_j) ≤ 2√Σ a_i, with a_i = ‖g_i‖²: Σ η_i‖g_i‖² as the part computes it."""
    step = AdaGradNorm(1.0)
    state = step.start(np.zeros(1))
    total = 0.0
    for t, square in enumerate(a, start=1):
        g = np.array([np.sqrt(square)])
        total += float(step.move(state, g, t, g) @ g)
    assert total <= 2.0 * np.sqrt(sum(a)) * (1 + 1e-9)


DOMAINS = {"ball": mf.Ball(1.3), "box": mf.Box(-0.4, 0.9), "simplex": mf.Simplex(2.0)}


def adversary(kind, rng, x, t):
    if kind == "random":
        return rng.standard_normal(4)
    if kind == "heavy":
        return rng.standard_normal(4) * rng.pareto(0.7)
    if kind == "steady":
        return np.array([1.0, -2.0, 0.5, 0.0])
    if kind == "away":  # always against the point
        return -np.sign(x) + 0.1
    if kind == "outward":
        return 0.3 * np.sign(x) + 0.01 * rng.standard_normal(4)
    if kind == "spike":
        return np.ones(4) * (1e6 if t == 50 else 1e-6)
    return np.array([1.0, -1.0, 0.0, 0.0]) * (-1) ** t


def regret_and_bound(opt, domain, gradient):
    """Σ g_t·(w_t − w*) for the best w* of the domain after 200 steps, and D√(2Σ‖g_t‖²)."""
    gradients, linear = [], 0.0
    for t in range(200):
        g = gradient(opt.x, t)
        linear += g @ opt.x
        gradients.append(g)
        opt.tell(g)
    total = np.sum(gradients, axis=0)
    best = domain.project(-1e9 * total / np.linalg.norm(total)) if total.any() else opt.x
    return linear - total @ best, domain.diameter * np.sqrt(2 * np.sum(np.square(gradients)))


@pytest.mark.parametrize("kind", ["random", "heavy", "steady", "away", "spike", "alternating"])
@pytest.mark.parametrize("place", DOMAINS)
def test_regret_bound(place, kind):
    """It holds for every w* of the domain, with the default α = D/√2."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        domain = DOMAINS[place].bind(4)
        opt = mf.AdaGrad(domain.project(rng.standard_normal(4)), domain=domain)
        assert opt.step.alpha == pytest.approx(domain.diameter / np.sqrt(2))
        regret, bound = regret_and_bound(opt, domain, partial(adversary, kind, rng))
        assert regret <= bound * (1 + 1e-9)


def test_the_regret_bound_is_not_idle():
    """A step three times too long breaks it, so the test above can fail."""
    broken, ball = 0, mf.Ball(1.3)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        opt = mf.AdaGrad(np.full(4, 0.65), domain=ball, alpha=3 * 2.6 / np.sqrt(2))
        regret, bound = regret_and_bound(opt, ball, partial(adversary, "outward", rng))
        broken += regret > bound
    assert broken > 0


def test_entropic_mag_in_a_few_lines():
    """w ∝ w exp(−α g/√Σ‖g‖²_∞), α = √(log d); catches the Euclidean norm and α = D/√2."""
    law, size = mf.MLMC(3, seed=4), 50
    gradients = np.random.default_rng(8).standard_normal((300, size))
    opt = mf.MAG(np.full(size, 1 / size), domain=mf.Simplex(), mirror="entropic", levels=3, seed=4)
    w, squares, used, points = np.full(size, 1 / size), 0.0, 0, []
    for step in range(1, 30):
        window = gradients[used : used + 2 ** law.level(step)]
        half = len(window) // 2
        g = window[0] + law.coefficients[law.level(step) - 1] * (
            window.mean(axis=0) - window[:half].mean(axis=0)
        )
        for each in window:
            opt.tell(each)
        used += len(window)
        points.append(w)
        squares += np.abs(g).max() ** 2
        w = w * np.exp(-np.sqrt(np.log(size) / squares) * g)
        w /= w.sum()
        np.testing.assert_allclose(opt.x, w, rtol=1e-10)
    np.testing.assert_allclose(opt.average, np.mean(points, axis=0), rtol=1e-10)


def test_schedules():
    g = np.array([2.0, -1.0])
    np.testing.assert_allclose(Constant(0.3).move({}, g, 9, g), 0.3 * g)
    np.testing.assert_allclose(InverseSqrt(0.3).move({}, g, 9, g), 0.1 * g)
    np.testing.assert_allclose(Inverse(0.9).move({}, g, 9, g), 0.1 * g)


@pytest.mark.parametrize("scale", [5e-324, 1e-200, 1.0, 1e200])
def test_adagrad_steps_do_not_depend_on_the_gradients_scale(scale):
    step = AdaGradNorm(1.0)
    state = step.start(np.zeros(2))
    moved = [step.move(state, np.array([3.0, 4.0]) * scale, t, np.zeros(2)) for t in (1, 2)]
    shape = np.array([3.0, 4.0]) * (1.0 if scale > 1e-300 else scale / 5e-324)
    shape /= np.linalg.norm(shape)
    close = 1e-9 if scale > 1e-300 else 0.3
    np.testing.assert_allclose(moved[0], shape, rtol=close)
    np.testing.assert_allclose(moved[1], moved[0] / np.sqrt(2), rtol=close)


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.nan, np.inf, "1", None, 1j])
def test_wrong_scale(alpha):
    for part in (Constant, InverseSqrt, AdaGradNorm):
        with pytest.raises(ValueError, match="alpha must be"):
            part(alpha)
