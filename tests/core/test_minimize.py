"""One call for a whole run."""

from itertools import takewhile

import numba
import numpy as np
import pytest

import mixfree as mf
from mixfree.core.minimize import marks
from tests.helpers import assert_same_bits, assert_states_close, needed

METHODS = list(mf.methods())
TARGET = np.array([0.3, -0.2, 0.1])
STREAM = TARGET + 0.1 * np.random.default_rng(0).standard_normal((2000, 3))


def gradient(x, z):
    return x - z


COMPILED = numba.njit(gradient)


@pytest.mark.parametrize("name", METHODS)
def test_the_compiled_loop_is_the_same_run(name):
    pair = [
        mf.minimize(g, STREAM, np.zeros(3), name, domain=mf.Ball(1.0), **needed(name, 5))
        for g in (gradient, COMPILED)
    ]
    assert_states_close(pair[1].optimizer.state_dict(), pair[0].optimizer.state_dict(), 1e-12)
    np.testing.assert_array_equal(pair[0].history.samples, pair[1].history.samples)
    np.testing.assert_array_equal(pair[0].history.steps, pair[1].history.steps)
    np.testing.assert_allclose(pair[1].history.points, pair[0].history.points, atol=1e-12)


def test_the_compiled_loop_takes_streams_of_numbers_and_float32():
    flat = mf.minimize(COMPILED, STREAM[:, 0].copy(), np.zeros(1), "sgd")
    # Two iterates at the start count 2/2000.
    assert abs(flat.average[0] - TARGET[0]) < 4.0 * 0.1 / np.sqrt(2000) + TARGET[0] / 1000
    single = mf.minimize(COMPILED, STREAM.astype(np.float32), np.zeros(3, np.float32), "mag")
    assert single.x.dtype == np.float32


def test_the_history_is_the_run_cut_short():
    result = mf.minimize(gradient, STREAM, np.zeros(3))
    assert result.history.samples[0] == 1 and result.history.samples[-1] == 2000
    assert (np.diff(result.history.samples) > 0).all()
    for samples, steps, point in zip(
        result.history.samples, result.history.steps, result.history.points, strict=True
    ):
        shorter = mf.minimize(gradient, STREAM[:samples], np.zeros(3))
        assert shorter.steps == steps
        np.testing.assert_array_equal(shorter.average, point)


def test_generators_and_endless_streams():
    def endless():
        while True:
            yield from STREAM

    result = mf.minimize(gradient, endless(), np.zeros(3), max_samples=777)
    assert result.samples == 777
    whole = mf.minimize(gradient, iter(STREAM[:777]), np.zeros(3))
    assert_same_bits(result.optimizer.state_dict(), whole.optimizer.state_dict())


@pytest.mark.parametrize("grad", [gradient, COMPILED])
def test_the_callback_sees_the_marks_and_can_stop(grad):
    seen = []

    def stop_at_50(opt):
        seen.append(opt.samples)
        return opt.samples >= 50

    result = mf.minimize(grad, STREAM, np.zeros(3), callback=stop_at_50)
    assert seen == [*takewhile(lambda mark: mark <= 50, marks())]
    assert result.samples == 50


@pytest.mark.parametrize("grad", [gradient, COMPILED])
def test_bad_streams(grad):
    with pytest.raises(ValueError, match="stream is empty"):
        mf.minimize(grad, np.zeros((0, 3)), np.zeros(3))
    broken = STREAM.copy()
    broken[99, 1] = np.nan
    with pytest.raises(ValueError, match="gradient of sample 100 is not finite"):
        mf.minimize(grad, broken, np.zeros(3))
    wrong = (lambda x, z: z[:2]) if grad is gradient else numba.njit(lambda x, z: z[:2])
    with pytest.raises(ValueError, match=r"shape \(2,\)|must return 3 entries"):
        mf.minimize(wrong, STREAM, np.zeros(3))


def test_bad_arguments():
    for stream, options, message in (
        (iter(()), {}, "stream is empty"),
        (STREAM, {"method": "adam"}, "method must be one of sgd, adagrad"),
        (STREAM, {"max_samples": 0}, "max_samples"),
        (np.array(3.0), {}, "without dimensions"),
    ):
        with pytest.raises(ValueError, match=message):
            mf.minimize(gradient, stream, np.zeros(3), **options)


class Own(mf.Method):
    """AdaGrad-Norm steps on the means of batches."""

    name = "own"

    def __init__(self, x0, *, batch=4, **common):
        super().__init__(x0, mf.gradients.MiniBatch(batch), mf.steps.AdaGradNorm, **common)


def test_a_method_of_ones_own():
    """Catches ``**common`` listed as an option."""
    assert list(Own.options()) == ["batch"]
    with pytest.raises(TypeError, match="own does not take `common`: its options are batch"):
        mf.minimize(gradient, STREAM, np.zeros(3), Own, common=1)
    result = mf.minimize(gradient, STREAM, np.zeros(3), Own, batch=7)
    assert result.steps == 2000 // 7 and result.pending == 2000 % 7


def test_a_compiled_gradient_cannot_move_the_point():
    @numba.njit
    def writing(x, z):
        result = x - z
        x[:] = 99.0
        return result

    kept, found = (mf.minimize(g, STREAM, np.zeros(3)).optimizer for g in (COMPILED, writing))
    assert_same_bits(found.state_dict(), kept.state_dict())


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda x, z: x.nothing, "Unknown attribute 'nothing'"),
        (lambda x, z: (x - z).reshape(3, 1), "No implementation of function"),
        (lambda x: x, "too many positional arguments"),  # Numba does not say of which function
        (lambda x, z, w: x, "missing a required argument: 'w'"),
    ],
)
def test_a_gradient_that_does_not_compile_is_named(wrong, reason):
    kind = r"array\(float64, 1d, C\)"
    with pytest.raises(
        TypeError, match=f"^grad.* for x of type .*{kind} and z of type {kind}: {reason}"
    ):
        mf.minimize(numba.njit(wrong), STREAM, np.zeros(3))
