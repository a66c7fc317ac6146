"""Extragradient: the algorithm as the paper writes it, in both geometries."""

import numpy as np
import pytest

import mixfree as mf


def euclidean(x, displacement):
    return mf.Simplex().project(x - displacement)


def entropic(x, displacement):
    moved = x * np.exp(-displacement)
    return moved / moved.sum()


@pytest.mark.parametrize(("mirror", "move"), [("euclidean", euclidean), ("entropic", entropic)])
def test_the_algorithm_as_it_is_written(mirror, move):
    """REG beside its few lines; catches a second step from the half point instead of x^k, the
    correction at the half step, a batch that is summed, and an average over the whole points."""
    law = mf.MLMC(None, horizon=4, seed=5, batch=2)
    rng = np.random.default_rng(2)
    payoffs = rng.standard_normal((300, 3, 3))
    payoffs -= payoffs.transpose(0, 2, 1)
    x = np.array([0.2, 0.3, 0.5])
    opt = mf.REG(x, domain=mf.Simplex(), alpha=0.4, batch=2, horizon=4, mirror=mirror, seed=5)
    taken, pairs, halves = 0, 0, []
    while taken + 10 <= 300:
        pairs += 1
        half = move(x, 0.4 * np.mean([a @ x for a in payoffs[taken : taken + 2]], axis=0))
        level = law.level(2 * pairs)
        window = [a @ half for a in payoffs[taken + 2 : taken + 2 + 2 * 2**level]]
        g = np.mean(window[:2], axis=0)
        if level:
            g = g + 2**level * (np.mean(window, axis=0) - np.mean(window[: len(window) // 2], 0))
        x = move(x, 0.4 * g)
        for a in payoffs[taken : taken + 2 + len(window)]:
            opt.tell(a @ opt.x)
        taken += 2 + len(window)
        halves.append(half)
        np.testing.assert_allclose(opt.x, x, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(opt.average, np.mean(halves, axis=0), rtol=1e-10)
    assert opt.steps == 2 * pairs > 40 and opt.samples == taken


def test_descent_goes_round_and_extragradient_does_not():
    """On xy; catches steps that are not in pairs."""
    ends = []
    for opt in (mf.REG([1.0, 0.0], alpha=0.3), mf.EMD([1.0, 0.0], mixing_time=1, alpha=0.3)):
        for _ in range(3000):
            opt.tell([opt.x[1], -opt.x[0]])
        ends.append(np.linalg.norm(opt.x))
    assert ends[0] < 1e-6 and ends[1] > 1.0


def test_samples_per_step_are_those_expected():
    """A pair has B samples and then 2^J B; catches the correction at half steps, 0.4 more."""
    opt = mf.REG([0.0], batch=2, horizon=8, seed=3)
    for _ in range(60_000):
        opt.tell([0.0])
    found = opt.samples / opt.steps
    # B(2^J − 1)/2 with P(J) = 2^−J up to 3 has a variance of about 3; of 15,000 pairs.
    assert abs(found - opt.gradient.expected_samples) < 4.0 * np.sqrt(3.0 / 8_000)
    assert opt.gradient.expected_samples == pytest.approx(
        0.5 * 2 * (1 + mf.MLMC(None, horizon=8).expected_samples)
    )
