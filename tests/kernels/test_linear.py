"""The kernel against the reference, step by step; the same bits however the rows are cut."""

from itertools import product

import numpy as np
import pytest

import mixfree as mf
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Huber, Logistic, Robust, Softmax, Squared, linear_gradient
from tests.helpers import assert_same_bits, assert_states_close, make, needed

DIMENSION = 7
SAMPLES = 400
LOSSES = [Squared(), Logistic(), Huber(0.5), Robust(-2.0, 0.7), Softmax(3)]
LOSSES[-1:-1] = map(Robust, (0.0, 1.0, 2.0, -np.inf))
METHODS = list(mf.methods())
DOMAINS = {
    "space": (mf.AllSpace(), np.zeros(DIMENSION)),
    "ball": (mf.Ball(0.5), np.zeros(DIMENSION)),
    "centred ball": (mf.Ball(0.4, center=np.full(DIMENSION, 0.2)), np.full(DIMENSION, 0.2)),
}


def data(loss, dtype=np.float64):
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((SAMPLES, DIMENSION)).astype(dtype)
    targets = rows @ rng.standard_normal(DIMENSION) + 0.1 * rng.standard_normal(SAMPLES)
    if isinstance(loss, Logistic):
        targets = np.sign(targets)
    if isinstance(loss, Softmax):
        targets = np.digitize(targets, [-1.0, 1.0])
    return rows, targets.astype(dtype)


def twins(start, loss=None, **given):
    """Run the reference and the kernel over all rows: their states are close."""
    loss = loss or Squared()
    rows, targets = data(loss)
    reference, compiled = start(), start()
    tell_all(reference, loss, rows, targets, **given)
    advance_linear(compiled, loss, rows, targets, **given)
    assert_states_close(compiled.state_dict(), reference.state_dict(), 1e-12)
    return reference


def tell_all(opt, loss, rows, targets, weights=None, l2=0.0):
    """Run the reference; the point after every sample."""
    path = []
    for i, sample in enumerate(zip(rows, targets, strict=True)):
        for row, target in opt.offer(sample):
            gradient = linear_gradient(loss, opt.x, row, target)
            factor = 1.0 if weights is None else weights[i]
            opt.tell(factor * gradient + l2 * opt.x)
        path.append(opt.x)
    return np.array(path)


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        *((name, loss) for name in METHODS for loss in (Squared(), Softmax(3))),
        *((name, loss) for name in ("mag", "ladder") for loss in LOSSES[1:-1]),
    ],
)
def test_every_method_and_loss_step_by_step(name, loss):
    """All methods but the ladder share the code of a loss, which its type chooses."""
    rows, targets = data(loss)
    start = np.zeros(loss.outputs * (DIMENSION + 1))
    reference, compiled = (make(name, start, mf.Ball(2.0), alpha=0.3) for _ in range(2))
    path = tell_all(reference, loss, rows, targets)
    for i in range(SAMPLES):
        advance_linear(compiled, loss, rows[i : i + 1], targets[i : i + 1])
        assert np.abs(compiled.x - path[i]).max() <= 1e-12 * np.abs(path[i]).max()
    assert_states_close(compiled.state_dict(), reference.state_dict(), 1e-12)
    assert reference.steps > 0
    np.testing.assert_allclose(compiled.average, reference.average, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("output", ["average", "weighted", "tail", "last", "random"])
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("name", ["mag", "sgd", "emd", "sgd-rer"])
def test_every_domain_and_output(name, domain, output):
    where, start = DOMAINS[domain]
    reference = twins(lambda: make(name, start, where, alpha=0.2, output=output, seed=5))
    assert not np.array_equal(reference.x, start)


def test_a_law_that_grows_and_predictions_whose_exponentials_overflow():
    twins(lambda: mf.MAG(np.zeros(DIMENSION), seed=3, levels=None))
    start = 1e4 * np.random.default_rng(0).standard_normal(3 * DIMENSION)
    twins(lambda: mf.SGD(start), Softmax(3))


@pytest.mark.parametrize("intercept", [0, 1])
@pytest.mark.parametrize("loss", [Squared(), Softmax(3)], ids=repr)
@pytest.mark.parametrize("name", ["mag", "adagrad"])  # the second uses the square of a gradient
def test_weights_and_ridge(name, loss, intercept):
    weights = np.random.default_rng(1).uniform(0.0, 2.0, SAMPLES)
    start = np.zeros(loss.outputs * (DIMENSION + intercept))
    twins(lambda: make(name, start, alpha=0.3), loss, weights=weights, l2=0.1)


@pytest.mark.parametrize("weighted", [{0}, {1}, {0, 2}, {1, 2}])
@pytest.mark.parametrize("name", ["mag", "sgd-er", "sgd-rer"])
def test_weights_of_some_calls_only(name, weighted):
    """Inside a block too, a sample keeps its weight, and is of weight 1 where none is given."""
    rows, targets = data(Squared())
    cuts = [slice(0, 50), slice(50, 90), slice(90, 330)]
    given = np.random.default_rng(1).uniform(0.0, 2.0, SAMPLES)
    weights = np.ones(SAMPLES)
    cut, whole = (make(name, np.zeros(DIMENSION), mf.Ball(2.0)) for _ in range(2))
    for i, piece in enumerate(cuts):
        if i in weighted:
            weights[piece] = given[piece]
        own = {"weights": given[piece]} if i in weighted else {}
        advance_linear(cut, Squared(), rows[piece], targets[piece], **own)
    advance_linear(whole, Squared(), rows[:330], targets[:330], weights=weights[:330])
    np.testing.assert_array_equal(cut.x, whole.x)
    np.testing.assert_array_equal(cut.average, whole.average)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", METHODS)
def test_any_chunking_and_saving_gives_the_same_bits(name, dtype):
    rows, targets = data(Squared(), dtype)
    start = np.zeros(DIMENSION + 1, dtype)
    whole = make(name, start, mf.Ball(2.0))
    advance_linear(whole, Squared(), rows, targets)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        cuts = np.sort(rng.integers(0, SAMPLES + 1, 30))
        opt = make(name, start, mf.Ball(2.0))
        for piece in np.split(np.arange(SAMPLES), cuts):
            saved = opt.state_dict()
            opt = make(name, start, mf.Ball(2.0))
            opt.load_state_dict(saved)
            advance_linear(opt, Squared(), rows, targets, order=piece)
        assert_same_bits(opt.state_dict(), whole.state_dict())
    assert whole.x.dtype == dtype


@pytest.mark.parametrize("excess", [5e-8, 1e-7, 2e-7])
def test_a_ball_is_left_by_one_rounding_error_however_the_rows_are_cut(excess):
    """Whether a point is outside may not hang on when its norm was last measured."""
    rng, targets = np.random.default_rng(0), np.array([0.001, 50.0], np.float32)
    for dimension in rng.integers(2, 500, 100):
        rows = np.tile(rng.standard_normal(dimension), (2, 1)).astype(np.float32)
        start, alpha = np.zeros(dimension, np.float32), 0.02 / dimension
        free = mf.SGD(start, alpha=alpha)
        advance_linear(free, Squared(), rows, targets)
        radius = np.linalg.norm(free.x.astype(np.float64)) * (1.0 - excess)
        whole, cut = (mf.SGD(start, alpha=alpha, domain=mf.Ball(radius)) for _ in range(2))
        advance_linear(whole, Squared(), rows, targets)
        for i in range(2):
            advance_linear(cut, Squared(), rows[i : i + 1], targets[i : i + 1])
        np.testing.assert_array_equal(cut.x, whole.x)


@pytest.mark.parametrize(
    ("name", "scale", "dtype"),
    [
        *product(["adagrad", "mag"], [1e-60, 1e60], [np.float64]),
        *product(["adagrad", "mag", "ladder"], [5e-23, 1e-15], [np.float32]),
    ],
)
def test_tiny_and_huge_gradients(name, scale, dtype):
    """Whose squares underflow in single precision; a bounded slope leaves the size to the rows."""
    rows, targets = data(Logistic(), dtype)
    rows = (np.sign(rows) * scale).astype(dtype)
    pair = [make(name, np.zeros(DIMENSION, dtype), mf.Ball(2.0)) for _ in range(2)]
    tell_all(pair[0], Logistic(), rows, targets)
    advance_linear(pair[1], Logistic(), rows, targets)
    if dtype == np.float64:
        assert_states_close(pair[1].state_dict(), pair[0].state_dict(), 1e-9)
    np.testing.assert_allclose(pair[1].x, pair[0].x, rtol=1e-4, atol=1e-6)
    assert np.abs(pair[1].x).max() > 1e-3


@pytest.mark.parametrize("bad", [np.nan, -np.inf, 1e300])
@pytest.mark.parametrize("name", METHODS)
def test_a_bad_row_stops_the_run_with_everything_before_it_used(name, bad):
    rows, targets = data(Squared())
    rows[200:230, 3] = bad
    if bad == 1e300:
        targets[200:230] = 1e300
    opt, before = (make(name, np.zeros(DIMENSION), mf.Ball(2.0), alpha=0.3) for _ in range(2))
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="gradient of sample"):
        advance_linear(opt, Squared(), rows, targets)
    if opt.gradient.__class__.__name__.endswith("Replay"):
        assert opt.pending == opt.gradient.block_size  # in the block that holds the row
    else:
        advance_linear(before, Squared(), rows[:200], targets[:200])
        assert_same_bits(opt.state_dict(), before.state_dict())


@pytest.mark.parametrize("name", METHODS)
def test_the_sample_that_is_refused_is_named(name):
    """In the reference and in the kernel, wherever in a block or window it is."""
    options = needed(name, 2)
    used = {tell_all: set(), advance_linear: set()}
    for tell, refused in used.items():
        for bad in (1, 8, 20, 21, 33, 60):
            rows, targets = data(Squared())
            rows[bad - 1, 3] = np.nan
            opt = make(name, np.zeros(DIMENSION), mf.Ball(2.0), **options)
            try:
                tell(opt, Squared(), rows[:66], targets[:66])
            except ValueError as error:
                assert str(error).startswith(f"gradient of sample {bad} is not finite")
                refused.add(bad)
    assert used[tell_all] == used[advance_linear]
    # Reverse replay leaves out the first sample of a block, forward replay what it never draws.
    left_out = {"sgd-rer": {1}, "sgd-er": {20, 21}}.get(name, set())
    assert used[tell_all] == {1, 8, 20, 21, 33, 60} - left_out


@pytest.mark.parametrize(
    ("loss", "bad", "message"),
    [
        (Huber(), np.nan, "gradient of sample 6 is not finite"),
        (Robust(), np.nan, "gradient of sample 6 is not finite"),
        (Logistic(), 0.0, r"targets of the logistic loss must be -1 or \+1, not"),
        (Softmax(3), np.nan, "targets of softmax must be whole numbers from 0 to 2, not"),
    ],
    ids=repr,
)
def test_a_target_that_is_missing_or_of_another_convention_is_never_silent(loss, bad, message):
    rows, targets = data(loss)
    targets[5] = bad
    with pytest.raises(ValueError, match=message):
        advance_linear(mf.SGD(np.zeros(loss.outputs * DIMENSION)), loss, rows, targets)


@pytest.mark.parametrize(
    ("rows", "targets", "extra", "message"),
    [
        (np.zeros(3), np.zeros(3), {}, "rows must be a matrix"),
        (np.zeros((3, DIMENSION)), np.zeros(2), {}, "targets must have shape"),
        (np.zeros((3, 2)), np.zeros(3), {}, "columns need 2, or 3"),
        (np.zeros((3, DIMENSION)), np.zeros(3), {"order": [3]}, "row numbers from 0 to 2"),
        (np.zeros((3, DIMENSION)), np.zeros(3), {"weights": [1.0]}, "weights must have"),
        (np.zeros((3, DIMENSION)), np.zeros(3), {"weights": [1.0, -1.0, 1.0]}, "not negative"),
        (np.zeros((3, DIMENSION)), np.zeros(3), {"order": [True, False, True]}, "row numbers"),
        (np.zeros((3, DIMENSION)), np.zeros(3), {"l2": -1.0}, "l2 must be"),
        (np.zeros((3, DIMENSION), complex), np.zeros(3), {}, "rows must hold real"),
        (np.zeros((3, DIMENSION)), ["a", "b", "c"], {}, "targets must hold real"),
    ],
)
def test_wrong_shapes(rows, targets, extra, message):
    with pytest.raises(ValueError, match=message):
        advance_linear(mf.SGD(np.zeros(DIMENSION)), Squared(), rows, targets, **extra)
