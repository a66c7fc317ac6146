"""Memory compiled: the same as the reference, however cut, and when a gradient is refused."""

import numba
import numpy as np
import pytest

import mixfree as mf
from mixfree.core.methods import start_method
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Squared
from tests.helpers import assert_same_bits, assert_states_close

ROWS, COLUMNS, SIZE = 400, 4, 30


class Reference(Squared):
    """The loss without a kernel."""


def data(dtype=np.float64):
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((ROWS, COLUMNS)).astype(dtype)
    noise = rng.standard_normal(ROWS).astype(dtype)
    return rows, rows @ np.arange(1.0, COLUMNS + 1).astype(dtype) + noise, rng.random(ROWS) + 0.5


def start(name="ladder", draws=2, dtype=np.float64, **options):
    settings = {"memory": SIZE, "draws": draws, "seed": 4}
    return start_method(name, np.zeros(COLUMNS + 1, dtype), options, **settings)


@pytest.mark.parametrize(
    ("name", "draws", "options", "dtype"),
    [
        ("ladder", 1, {}, np.float64),
        ("ladder", 3, {"block": 4}, np.float64),
        ("mag", 2, {"levels": 3}, np.float64),
        ("adagrad", 2, {}, np.float32),
    ],
)
def test_as_the_reference(name, draws, options, dtype):
    """Caught: other draws, other slots, or a draw of what a slot held before or after."""
    twin, reference = (start(name, draws, dtype, **options) for _ in range(2))
    rows, targets, weights = data(dtype)
    advance_linear(twin, Squared(), rows, targets, weights=weights)
    advance_linear(reference, Reference(), rows, targets, weights=weights)
    close = 1e-9 if dtype == np.float64 else 1e-4
    assert_states_close(twin.state_dict(), reference.state_dict(), close)
    kept = reference.state_dict()["gradient"]["sample"]["columns"]
    assert [column.dtype for column in kept] == [dtype, dtype, np.float64]
    assert reference.x.dtype == dtype


def test_the_same_bits_however_cut():
    """Caught: draws that depend on where a chunk begins; weights given to some chunks only."""
    rows, targets, weights = data()
    weights[:100] = weights[237:] = 1.0
    whole, cut = start(), start()
    advance_linear(whole, Squared(), rows, targets, weights=weights)
    for piece in np.split(np.arange(ROWS), [1, 2, 30, 31, 100, 237]):
        saved = cut.state_dict()
        cut = start()
        cut.load_state_dict(saved)
        given = weights[piece] if piece[0] == 100 else None
        advance_linear(cut, Squared(), rows[piece], targets[piece], weights=given)
    assert_same_bits(cut.state_dict(), whole.state_dict())


def refused(sample, rows, targets):
    """The kernel and the reference after both have refused the gradient of a sample."""
    twin, reference = start(), start()
    for opt, loss in ((twin, Squared()), (reference, Reference())):
        with pytest.raises(ValueError, match=f"gradient of sample {sample} is not finite"):
            advance_linear(opt, loss, rows, targets)
    return twin, reference


@pytest.mark.parametrize("bad", [0, 7, 250])
def test_a_refused_gradient_leaves_the_state_of_the_reference(bad):
    """Caught: rows after a bad one, or the bad one itself, in the memory."""
    rows, targets, _ = data()
    targets[bad] = np.inf
    twin, reference = refused(bad + 1, rows, targets)
    reference._run.gradient.waiting = []  # the reference still holds it, for another attempt
    if bad:
        assert_states_close(twin.state_dict(), reference.state_dict(), 1e-9)
    assert twin.samples == bad


def test_a_sample_whose_draw_is_refused_is_kept():
    """The first row has no gradient at 0, and one beyond the limit anywhere else."""
    rows, targets, _ = data()
    rows[0], targets[0] = 1e60, 0.0
    twin, reference = refused(1, rows, targets)
    assert twin.samples == reference.samples > 1
    assert_states_close(twin.state_dict(), reference.state_dict(), 1e-9)


def test_a_compiled_gradient_of_the_user():
    """Caught: samples of what is kept that the user's function does not get."""

    def grad(x, z):
        return x - z

    stream = np.random.default_rng(2).standard_normal((ROWS, 2))
    settings = {"method": "adagrad", "memory": SIZE, "draws": 2}
    one = mf.minimize(grad, stream, np.zeros(2), **settings)
    other = mf.minimize(numba.njit(grad), stream, np.zeros(2), **settings)
    np.testing.assert_allclose(other.average, one.average, rtol=1e-12)
    assert other.optimizer.gradient.size == SIZE
