"""Losses: derivatives against differences, limits, extremes."""

import numpy as np
import pytest

from mixfree.linear.losses import (
    Huber,
    Logistic,
    Poisson,
    Robust,
    Softmax,
    Squared,
    linear_gradient,
    predictions,
)

SCALAR = [
    Squared(),
    Logistic(),
    Huber(0.7),
    Robust(-2.0, 0.5),
    Robust(0.0, 2.0),
    Robust(1.0),
    Robust(2.0),
    Robust(-np.inf),
    Poisson(),
]


@pytest.mark.parametrize("loss", SCALAR, ids=repr)
def test_derivatives_against_differences(loss):
    rng = np.random.default_rng(0)
    p = 3.0 * rng.standard_normal(500)
    t = (
        np.sign(rng.standard_normal(500))
        if isinstance(loss, Logistic)
        else np.abs(rng.standard_normal(500)) * 2.0
    )
    h = 1e-5
    slope = (loss.value(p + h, t) - loss.value(p - h, t)) / (2 * h)
    np.testing.assert_allclose(loss.derivative(p, t), slope, atol=1e-7)
    assert (loss.value(p, t) >= 0).all()
    if isinstance(loss, Squared):  # has no curvature: its fit needs none
        return
    values, slopes, curvatures = loss.at(p[:, None], t)
    np.testing.assert_allclose(values, loss.value(p, t), rtol=1e-12)
    np.testing.assert_allclose(slopes[:, 0], loss.derivative(p, t), rtol=1e-12, atol=1e-14)
    bend = (loss.derivative(p + 1e-6, t) - loss.derivative(p - 1e-6, t)) / 2e-6
    np.testing.assert_allclose(curvatures[:, 0], bend, rtol=1e-6, atol=1e-7)


def test_softmax_derivatives_against_differences():
    rng = np.random.default_rng(1)
    loss, p, t = Softmax(4), rng.standard_normal((20, 4)), rng.integers(0, 4, 20)
    values, slopes, shares = loss.at(p, t.astype(float))
    np.testing.assert_allclose(values, loss.value(p, t), rtol=1e-12)
    np.testing.assert_allclose(slopes, loss.derivative(p, t), atol=1e-14)
    np.testing.assert_allclose(shares - np.eye(4)[t], slopes, atol=1e-14)
    for k in range(4):
        h = np.zeros(4)
        h[k] = 1e-5
        slope = (loss.value(p + h, t) - loss.value(p - h, t)) / 2e-5
        np.testing.assert_allclose(loss.derivative(p, t)[:, k], slope, atol=1e-8)


def test_softmax_of_two_classes_is_logistic():
    z = np.linspace(-30, 30, 13)
    both = np.stack([np.zeros_like(z), z], axis=1)
    np.testing.assert_allclose(Softmax(2).value(both, np.ones(13)), Logistic().value(z, 1.0))


def test_robust_limits_and_bounds():
    r = np.linspace(-5, 5, 101)
    np.testing.assert_allclose(Robust(2.0).value(r, 0), 0.5 * r**2)
    np.testing.assert_allclose(Robust(2.0 - 1e-7).value(r, 0), 0.5 * r**2, atol=1e-4)
    np.testing.assert_allclose(Robust(1e-9).value(r, 0), Robust(0.0).value(r, 0), atol=1e-6)
    np.testing.assert_allclose(Robust(-1e7).value(r, 0), Robust(-np.inf).value(r, 0), atol=1e-5)
    assert Robust(-2.0).value(1e9, 0) <= 2.0  # |a − 2|/|a|
    np.testing.assert_allclose(Robust(1.0).value(r, 0), np.sqrt(r**2 + 1) - 1)


@pytest.mark.parametrize("loss", [Squared(), Softmax(3)], ids=repr)
@pytest.mark.parametrize("intercept", [0, 1])
def test_linear_gradient_against_differences(loss, intercept):
    rng = np.random.default_rng(2)
    row, target = rng.standard_normal(4), 1.0
    x = rng.standard_normal(loss.outputs * (4 + intercept))

    def value(x):
        return loss.value(predictions(x, row, loss.outputs), target) + 0.5 * 0.3 * x @ x

    slope = [(value(x + h) - value(x - h)) / 2e-6 for h in 1e-6 * np.eye(x.size)]
    np.testing.assert_allclose(linear_gradient(loss, x, row, target, l2=0.3), slope, atol=1e-7)


@pytest.mark.parametrize(
    "make",
    [lambda: Huber(0.0), lambda: Robust(3.0), lambda: Robust(scale=-1.0), lambda: Softmax(1)],
)
def test_wrong_arguments(make):
    with pytest.raises(ValueError, match="must be"):
        make()
