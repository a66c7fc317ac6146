"""Acceleration without strong convexity: its bound at every curvature, and the steps by hand."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.steps import AcceleratedConvex, Constant

ALPHA = 0.3  # 1/L
CURVATURES = np.geomspace(1e-6, 1.0, 60) / ALPHA


def worst(step, growing=None, steps=400):
    """The largest 2 β_t γ_t (f(x_f) − f*)/‖x¹ − x*‖² of exact runs over all curvatures."""
    x = np.ones(CURVATURES.size)
    state, found = step.start(x), 0.0
    for t in range(1, steps + 1):
        x = x - step.move(state, CURVATURES * x, t, x)
        shrunk = 1.0 if growing is None or t <= growing else (growing / t) ** 1.5
        scale = (t + 1) / 2 * ALPHA * (t + 1) / 4 * shrunk  # β_t γ_t
        found = max(found, float((scale * CURVATURES * getattr(state, "x_f", x) ** 2).max()))
    return found


@pytest.mark.parametrize("growing", [None, 1, 30])
def test_the_bound_holds_at_every_curvature(growing):
    """Catches each of the changes of the next test."""
    assert worst(AcceleratedConvex(ALPHA, growing), growing) <= 1.0 + 1e-12


@pytest.mark.parametrize(
    "wrong",
    [
        Constant(ALPHA),  # descent without acceleration
        AcceleratedConvex(ALPHA / 10.0, None),  # steps that are too short
        AcceleratedConvex(5.0 * ALPHA, None),  # and too long
        AcceleratedConvex(ALPHA, 30),  # steps that fall, where the bound is for growing ones
    ],
)
def test_the_bound_is_not_idle(wrong):
    with np.errstate(over="ignore", invalid="ignore"):
        assert not worst(wrong) <= 1.01


def test_the_algorithm_as_it_is_written():
    """AC-SA beside the preset in a few lines; catches gradients at x or x_f in place of x_g, β_t of
    the wrong step, and a batch that is summed and not averaged."""
    law = mf.MLMC(None, horizon=4, seed=7, batch=3)
    samples = np.random.default_rng(1).standard_normal((400, 2))

    def gradient(x, z):
        return x * [0.5, 0.0] + np.tanh(x - z) * 0.1

    opt = mf.ACSA([3.0, -2.0], alpha=1.2, growing=20, batch=3, horizon=4, seed=7)
    x = x_f = np.array([3.0, -2.0])
    taken, t = 0, 0
    while taken + 12 <= 400:
        t += 1
        beta, gamma = (t + 1) / 2, 1.2 * (t + 1) / 4 * min(1.0, (20 / t) ** 1.5)
        x_g = x / beta + (1 - 1 / beta) * x_f
        np.testing.assert_allclose(opt.x, x_g, rtol=1e-12)
        level = law.level(t)
        window = [gradient(x_g, z) for z in samples[taken : taken + 3 * 2**level]]
        g = np.mean(window[:3], axis=0)
        if 2 <= 2**level <= 4:
            g = g + 2**level * (np.mean(window, axis=0) - np.mean(window[: len(window) // 2], 0))
        for z in samples[taken : taken + len(window)]:
            opt.tell(gradient(opt.x, z))
        taken += len(window)
        x = x - gamma * g
        x_f = x / beta + (1 - 1 / beta) * x_f
    assert opt.steps == t > 40 and opt.samples == taken


def test_noise_does_not_grow_for_ever():
    """Catches steps that grow without end, whose error does not fall: the last line is one."""

    def error(seed, growing, steps):
        rng = np.random.default_rng(seed)
        opt = mf.ACSA(np.zeros(10), growing=growing, alpha=1.0)
        while opt.steps < steps:
            opt.tell(opt.x + rng.standard_normal(10))
        return float(np.sum(opt.average**2))

    short, long = (np.mean([error(s, 10, n) for s in range(10)]) for n in (100, 3000))
    assert long < short / 2
    assert np.mean([error(s, None, 3000) for s in range(10)]) > short


def test_wrong_arguments():
    with pytest.raises(ValueError, match="growing must be a whole number"):
        mf.ACSA([0.0], growing=0)
    with pytest.raises(ValueError, match="mirror must be 'euclidean' for ac-sa, not 'entropic'"):
        mf.ACSA([0.5, 0.5], domain=mf.Simplex(), mirror="entropic")


@pytest.mark.parametrize("name", ["rasgd", "ac-sa", "reg", "sgd-rer"])
def test_a_run_that_diverges_names_a_scale_that_does_not(name):
    """Catches an error that leaves the reader to guess. With what it says to type the run ends
    nearer to the minimum, which is near the origin, than it began, at a distance of 2.2."""
    rows = 30.0 * np.random.default_rng(0).standard_normal((4000, 5))
    make, options = mf.methods()[name], {"mixing_time": 1} if name == "sgd-rer" else {}

    def end(**more):
        opt = make(np.ones(5), **options, **more)
        for row in rows:
            for due in opt.offer(row):
                opt.tell(due * (due @ opt.x - 1.0))
        return opt.x

    with pytest.raises(ValueError, match=f"^{name} has diverged by sample") as raised:
        end()
    said = str(raised.value)
    assert "\n" not in said
    assert np.linalg.norm(end(alpha=float(said.split("type alpha=")[1].split()[0]))) < 2.0
