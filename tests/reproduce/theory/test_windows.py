import numpy as np
import pytest

from mixfree.linear.losses import Squared, linear_gradient
from mixfree.reproduce.paper.problem import Regression
from mixfree.reproduce.theory.measures import Windows

PROBLEM = Regression.draw(seed=2, per_state=6, dimension=3)


def test_gradients_are_those_of_the_loss():
    expected = [
        linear_gradient(Squared(), np.zeros(3), *sample)
        for sample in zip(PROBLEM.rows, PROBLEM.targets, strict=True)
    ]
    np.testing.assert_allclose(Windows(PROBLEM, 0.1).gradients, expected)


def test_means_of_doubling_windows():
    windows = Windows(PROBLEM, 0.3)
    means = windows.doubling_means(np.random.default_rng(1), windows=5, levels=4)
    rng = np.random.default_rng(1)
    for found in means:
        rows = windows.rows(rng, 1, 16)[0]
        for level in range(5):
            expected = windows.gradients[rows[: 1 << level]].mean(axis=0)
            np.testing.assert_allclose(found[level], expected, atol=1e-14)


def test_windows_begin_one_step_after_state_0():
    first = Windows(PROBLEM, 0.1).rows(np.random.default_rng(0), 10_000, 1)[:, 0] // 6
    assert abs(first.mean() - 0.1) < 5 * (0.09 / 10_000) ** 0.5


@pytest.mark.parametrize("p", [0.5, 0.1, 0.01, 0.9])
@pytest.mark.parametrize("length", [1, 2, 64])
def test_bias_is_that_of_the_chains_powers(p, length):
    windows = Windows(PROBLEM, p)
    transition = np.array([[1 - p, p], [p, 1 - p]])
    law = np.mean([np.linalg.matrix_power(transition, i)[0] for i in range(1, length + 1)], axis=0)
    off = law @ windows.state_gradients() - windows.gradients.mean(axis=0)
    assert abs(windows.offset(length)) == pytest.approx(np.linalg.norm(off), abs=1e-14)
    first, second = windows.state_gradients()
    along = (first - second) / np.linalg.norm(first - second)
    assert windows.offset(length) == pytest.approx(along @ off, abs=1e-14)
