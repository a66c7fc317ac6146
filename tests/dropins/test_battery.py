"""One battery for the reference, PyTorch and Optax: the same stream, the same run."""

import sys

import numpy as np
import pytest

from tests.dropins.backends import BACKENDS, SIZE, Reference

LAWS = {
    "truncated": {"levels": 4, "seed": 11},
    "paper": {"levels": 3, "weights": "paper", "seed": 2**40 + 5},
    "horizon": {"levels": None, "horizon": 40, "seed": 2**31 + 7},
    "anytime": {"levels": None, "seed": 2**64 - 1},
}
LADDERS = {
    "plain": {},
    "short blocks": {"block": 8},
    "every step": {"block": 1},
    "fixed scale": {"alpha": 0.3, "block": 16},
    "first given": {"first": 0.1, "block": 3},
}
# A method, and options with which its windows or blocks are short.
METHODS = {"mag": LAWS["truncated"], "mlmc": LAWS["truncated"], "ladder": {"block": 8}}


def stream(samples=300, seed=5, size=SIZE):
    """Gradients, or where they point to, that lean one way for a while, then the other."""
    rng = np.random.default_rng(seed)
    lean = np.repeat(rng.standard_normal((samples // 20, size)), 20, axis=0)
    return lean + 0.3 * rng.standard_normal((samples, size))


def long_stream():
    """Past a ladder's third epoch, with correlation over many blocks; then far away."""
    targets = stream(1_200, seed=6)
    targets[:600] *= 0.1
    targets[900:] += 10.0
    return targets


@pytest.fixture(params=BACKENDS)
def backend(request):
    return BACKENDS[request.param]


@pytest.mark.parametrize(
    ("method", "options"),
    [("mag", {**law, "alpha": 0.7}) for law in LAWS.values()]
    + [("mlmc", law) for law in LAWS.values()]
    + [("ladder", {**form, "output": "weighted"}) for form in LADDERS.values()],
)
def test_same_points_as_the_reference(backend, method, options):
    start = np.linspace(-1.0, 1.0, SIZE)
    opt, reference = (make(method, start, **options) for make in (backend, Reference))
    for target in long_stream():
        # Gradients that do not depend on the point would drive a ladder away exponentially.
        assert opt.tell(opt.x - target) == reference.tell(reference.x - target)
        np.testing.assert_allclose(opt.x, reference.x, rtol=0, atol=1e-10)
    np.testing.assert_allclose(opt.average, reference.average, rtol=0, atol=1e-10)
    assert opt.samples == reference.samples


def test_a_ladder_waits_for_its_first_gradient(backend):
    """Catches epochs without gradients that count as arrivals: rewards of 0 at first."""
    start = np.ones(SIZE)
    opt, reference = (make("ladder", start, block=8) for make in (backend, Reference))
    for target in [start] * 600 + list(stream(100)):
        for each in (opt, reference):
            each.tell(each.x - target)
    np.testing.assert_allclose(opt.x, reference.x, rtol=0, atol=1e-10)
    assert np.abs(opt.x - start).max() > 1e-3


WRONG = {
    "never arrives": ("mixfree.steps.ladder_rule.ends_epoch", lambda step: False),
    "does not see correlation": ("mixfree.steps.ladder_rule.inflation", lambda *_: 1.0),
    "begins elsewhere": ("mixfree.steps.ladder_rule.FIRST_OF_WEIGHTS", 1e-3),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_long_stream_tells_a_wrong_ladder_from_the_reference(wrong, monkeypatch):
    ends = []
    for change in (False, True):
        if change:
            monkeypatch.setattr(*WRONG[wrong])
        opt = Reference("ladder", np.linspace(-1.0, 1.0, SIZE))
        for target in long_stream():
            opt.tell(opt.x - target)
        ends.append(opt.x)
    # The twins are compared to within 1e-10.
    assert np.abs(ends[1] - ends[0]).max() > 1e-3


def test_sketched_ladders_are_the_same(backend, monkeypatch):
    """Coordinates of their own in the sketch or the sample, of a vector in several parts."""
    for module in ("steps.ladder", "torch.ladder", "torch.tensors", "optax.ladder"):
        monkeypatch.setattr(sys.modules[f"mixfree.{module}"], "SAMPLE", 1500)
    size = 3 + 2 * 2000
    opt, reference = (make("ladder", np.zeros(size)) for make in (backend, Reference))
    for target in stream(160, seed=6, size=size):
        opt.tell(opt.x - target)
        reference.tell(reference.x - target)
    assert reference.opt.profile().ratios.max() > 1.5
    np.testing.assert_allclose(opt.x, reference.x, rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_save_and_load_anywhere(backend, method):
    gradients, options = stream(60), METHODS[method]
    whole = backend(method, np.zeros(SIZE), **options)
    for gradient in gradients:
        whole.tell(gradient)
    mid_level = 0
    first = backend(method, np.zeros(SIZE), **options)
    for cut, gradient in enumerate(gradients):
        saved = first.save()
        second = backend(method, np.ones(SIZE), **options)
        second.load(saved)
        moved = [second.tell(g) for g in gradients[cut:]]
        mid_level += not moved[0]
        np.testing.assert_array_equal(second.x, whole.x)
        np.testing.assert_array_equal(second.average, whole.average)
        first.tell(gradient)
    assert method == "ladder" or mid_level > 10


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_a_bad_gradient_changes_nothing(backend, method, bad):
    gradients, options = stream(60), METHODS[method]
    clean, dirty = (backend(method, np.zeros(SIZE), **options) for _ in range(2))
    poison = np.ones(SIZE)
    poison[4] = bad
    for i, gradient in enumerate(gradients):
        assert f"gradient of sample {i + 1} " in dirty.refuse(poison)
        assert dirty.tell(gradient) == clean.tell(gradient)
    assert dirty.samples == clean.samples == 60
    np.testing.assert_array_equal(dirty.x, clean.x)
    np.testing.assert_array_equal(dirty.average, clean.average)


@pytest.mark.parametrize("method", ["mag", "ladder"])
@pytest.mark.parametrize("size", [1e-60, 1e60])
def test_no_square_overflows_or_vanishes(backend, method, size):
    plain, scaled = (backend(method, np.zeros(SIZE), **METHODS[method]) for _ in range(2))
    for target in stream(100):
        plain.tell(plain.x - target)
        scaled.tell((scaled.x - target) * size)
    np.testing.assert_allclose(scaled.x, plain.x, rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_zero_gradients_take_steps_of_zero(backend, method):
    opt = backend(method, np.ones(SIZE), **METHODS[method])
    moved = [opt.tell(np.zeros(SIZE)) for _ in range(20)]
    np.testing.assert_array_equal(opt.x, np.ones(SIZE))
    assert any(moved)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("mag", {"levels": 0}, "levels must be a whole number of at least 1"),
        ("mag", {"levels": 2.5}, "levels must be"),
        ("mag", {"levels": 62}, "at most 61"),
        ("mag", {"weights": "mine"}, "weights must be one of 'exact', 'paper', not 'mine'"),
        ("mag", {"levels": 3, "horizon": 10}, "horizon=10 is for levels=None"),
        ("mag", {"levels": None, "horizon": 0}, "horizon"),
        ("mag", {"seed": -1}, "seed must be a whole number of at least 0"),
        ("mag", {"seed": 2**64}, "seed"),
        ("mag", {"alpha": 0.0}, "alpha must be positive and finite, not 0.0"),
        ("mag", {"output": "best"}, "output must be one of"),
        ("ladder", {"alpha": -1.0}, "alpha must be positive and finite, not -1.0"),
        ("ladder", {"block": 0}, "block must be a whole number of at least 1"),
        ("ladder", {"first": 0.0}, "first must be positive and finite, not 0.0"),
        ("ladder", {"output": "best"}, "output must be one of"),
    ],
)
def test_wrong_arguments_fail_at_construction(backend, method, options, message):
    with pytest.raises(ValueError, match=message):
        backend(method, np.zeros(SIZE), **options)
