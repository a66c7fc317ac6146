"""The kernel against the reference, step by step."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.linear import advance_linear
from mixfree.losses import Huber, Logistic, Robust, Softmax, Squared, linear_gradient

DIMENSION = 7
SAMPLES = 400
LOSSES = [
    Squared(),
    Logistic(),
    Huber(0.5),
    Robust(-2.0, 0.7),
    Robust(0.0),
    Robust(1.0),
    Softmax(3),
]
METHODS = list(mf.methods())


def options(name):
    return {"mixing_time": 6} if mf.methods()[name].needs_mixing_time else {}


def data(loss, dtype=np.float64, samples=SAMPLES):
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((samples, DIMENSION)).astype(dtype)
    targets = rows @ rng.standard_normal(DIMENSION) + 0.1 * rng.standard_normal(samples)
    if isinstance(loss, Logistic):
        targets = np.sign(targets)
    if isinstance(loss, Softmax):
        targets = np.digitize(targets, [-1.0, 1.0])
    return rows, targets.astype(dtype)


def point(loss, intercept, dtype=np.float64):
    return np.zeros(loss.outputs * (DIMENSION + intercept), dtype)


def tell_all(opt, loss, rows, targets, weights=None, l2=0.0):
    """The reference, and the point after every sample."""
    path = []
    for i, sample in enumerate(zip(rows, targets, strict=True)):
        for row, target in opt.offer(sample):
            factor = 1.0 if weights is None else weights[i]
            gradient = factor * linear_gradient(loss, opt.x, row, target)
            opt.tell(gradient + l2 * opt.x)
        path.append(opt.x)
    return np.array(path)


def assert_same_state(one, other, rtol):
    """All numbers of two state dicts agree."""
    assert one.keys() == other.keys()
    for key, value in one.items():
        if isinstance(value, dict):
            assert_same_state(value, other[key], rtol)
        elif isinstance(value, list):
            assert len(value) == len(other[key])
            for mine, theirs in zip(value, other[key], strict=True):
                np.testing.assert_array_equal(np.hstack(mine), np.hstack(theirs))
        elif isinstance(value, str):
            assert value == other[key]
        else:
            scale = np.max(np.abs(value), initial=1e-300)
            np.testing.assert_allclose(other[key], value, rtol=rtol, atol=rtol * scale, err_msg=key)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_and_loss_step_by_step(name, loss):
    rows, targets = data(loss)
    make = lambda: mf.methods()[name](
        point(loss, 1), domain=mf.Ball(2.0), alpha=0.3, **options(name)
    )  # noqa: E731
    reference, compiled = make(), make()
    path = tell_all(reference, loss, rows, targets)
    for i in range(SAMPLES):
        advance_linear(compiled, loss, rows[i : i + 1], targets[i : i + 1])
        assert np.abs(compiled.x - path[i]).max() <= 1e-12 * np.abs(path[i]).max()
    assert_same_state(reference.state_dict(), compiled.state_dict(), 1e-12)
    np.testing.assert_allclose(compiled.average, reference.average, rtol=1e-12, atol=1e-14)
