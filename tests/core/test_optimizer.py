"""The loop: chunks, saving, bad gradients, counters."""

import tracemalloc

import numpy as np
import pytest

import mixfree as mf
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Squared
from mixfree.streams.fit import model_file as models
from tests.helpers import assert_same_bits, make, run, run_python

METHODS = list(mf.methods())
SIZE = 4


def stream(count=300, dtype=np.float64):
    return np.random.default_rng(3).standard_normal((count, SIZE)).astype(dtype)


@pytest.mark.parametrize(
    ("name", "output"),
    [*((name, None) for name in METHODS), *(("mag", output) for output in mf.outputs.OUTPUTS)],
)
def test_saving_and_loading_at_every_sample_gives_the_same_bits(name, output):
    samples = stream(150)
    whole = run(make(name, np.zeros(SIZE), mf.Ball(3.0), output=output), samples)
    cut = make(name, np.zeros(SIZE), mf.Ball(3.0), output=output)
    for sample in samples:
        saved = cut.state_dict()
        cut = make(name, np.zeros(SIZE), mf.Ball(3.0), output=output)
        cut.load_state_dict(saved)
        run(cut, [sample])
    assert_same_bits(cut.state_dict(), whole.state_dict())
    assert whole.samples == 150


@pytest.mark.parametrize("name", METHODS)
def test_a_saved_state_is_a_copy(name):
    opt = run(make(name, np.zeros(SIZE)), stream(100))
    saved = opt.state_dict()
    frozen = opt.state_dict()
    run(opt, stream(100))
    assert_same_bits(saved, frozen)
    opt.load_state_dict(saved)
    run(opt, stream(100))
    assert_same_bits(saved, frozen)


@pytest.mark.parametrize("bad", [np.nan, -np.inf, 1e76])
@pytest.mark.parametrize("name", METHODS)
def test_a_bad_gradient_changes_nothing(name, bad):
    opt = make(name, np.zeros(SIZE), mf.Ball(3.0))
    run(opt, (np.full(SIZE, number) for number in range(1, 66)))
    number = 66
    if isinstance(opt.gradient, mf.gradients.Replay):
        while (due := next(opt.offer(np.full(SIZE, opt.samples + 1)), None)) is None:
            pass
        number = due[0]
    before = opt.state_dict()
    gradient = np.ones(SIZE)
    gradient[1:3] = bad
    with pytest.raises(ValueError, match=f"gradient of sample {number} is not finite"):
        opt.tell(gradient)
    assert_same_bits(opt.state_dict(), before)


def test_wrong_gradients():
    opt = mf.MAG(np.zeros(4))
    for gradient, message in (
        (np.zeros(3), r"shape \(3,\), the point has \(4,\)"),
        (np.zeros(4, complex), "real numbers, not complex"),
    ):
        with pytest.raises(ValueError, match=message):
            opt.tell(gradient)
    assert opt.samples == 0


@pytest.mark.parametrize(
    ("x0", "message"),
    [
        ([], "at least one entry"),
        (0.0, "vector"),
        ([0.0, np.inf], r"x0\[1\] is inf"),
        (np.zeros(2, complex), "complex128"),
        ([3.0, 0.0], "x0 is outside the domain"),
    ],
)
def test_wrong_starts(x0, message):
    with pytest.raises(ValueError, match=message):
        mf.MAG(x0, domain=mf.Ball(1.0))


def test_a_start_on_the_border_is_inside():
    x0 = np.random.default_rng(0).standard_normal(50)
    x0 /= np.linalg.norm(x0)
    for start in (x0, x0.astype(np.float32)):
        assert np.array_equal(mf.MAG(start, domain=mf.Ball(1.0)).x, start)


def test_other_number_types_are_taken():
    opt = mf.SGD([1, 2, 3])
    assert opt.x.dtype == np.float64
    assert opt.tell([1, 0, 0])
    assert opt.tell(np.ones(3, np.float32))
    single = mf.SGD(np.zeros(3, np.float32))
    single.tell(np.ones(3))
    assert single.x.dtype == single.average.dtype == np.float32


@pytest.mark.parametrize("name", METHODS)
def test_more_than_two_to_the_31_samples(name):
    """Counters go on past 32 bits, in the reference and in the kernel."""
    rows = stream(140)
    pair = []
    for _ in range(2):
        opt = make(name, np.zeros(SIZE), mf.Ball(3.0))
        state = opt.state_dict()
        state["steps"] = state["output"]["count"] = 2**33 + 5
        state["gradient"]["samples"] = (2**34 // 66) * 66
        opt.load_state_dict(state)
        pair.append(opt)
    for sample in zip(rows, np.ones(140), strict=True):
        for row, target in pair[0].offer(sample):
            pair[0].tell((row @ pair[0].x - target) * row)
    advance_linear(pair[1], Squared(), rows, np.ones(140))
    assert pair[0].samples == pair[1].samples == (2**34 // 66) * 66 + 140
    assert pair[0].steps == pair[1].steps > 2**33
    np.testing.assert_allclose(pair[1].x, pair[0].x, rtol=1e-12)


def test_points_and_gradients_are_their_owners():
    x0, g = np.zeros(3), np.ones(3)
    opt = mf.MAG(x0)
    kept = opt.x
    for _ in range(50):
        opt.tell(g)
    np.testing.assert_array_equal([x0, kept, g], [[0.0] * 3, [0.0] * 3, [1.0] * 3])
    with pytest.raises(ValueError, match="read-only"):
        opt.x[0] = 5.0
    x0 += 1.0  # stays writable


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.update(format=99), "format 99"),
        (lambda s: s.update(method="sgd"), "method 'sgd'"),
        (lambda s: s["settings"]["gradient"].update(levels=6), "other settings: .*'levels': 6"),
        (lambda s: s["settings"].update(more={}), r"other settings: more \{\}"),
        (lambda s: s.update(settings=None), "settings of the state must be a mapping"),
        (lambda s: s.update(x=np.zeros(7)), r"x is float64 of shape \(7,\)"),
        (lambda s: s.update(x=np.full(SIZE, np.nan)), "not finite"),
        (lambda s: s.update(steps=-1), "steps is -1"),
        (lambda s: s.update(gradient=None), "must be a mapping"),
        (lambda s: s.update(extra=1), "entries"),
        (lambda s: s["gradient"].pop("sum"), "state of the gradient"),
        (lambda s: s["output"].update(count="many"), "output.*count"),
    ],
)
def test_foreign_states_are_refused(change, message):
    opt = run(mf.MAG(np.zeros(SIZE)), stream(50))
    before = opt.state_dict()
    state = opt.state_dict()
    change(state)
    with pytest.raises(ValueError, match=message):
        opt.load_state_dict(state)
    assert_same_bits(opt.state_dict(), before)


def test_states_of_a_domain_survive_a_file_and_of_another_are_refused(tmp_path):
    """Catches settings compared by name only, and arrays left out of them."""
    domains = (mf.Box([-1.0, -np.inf, 0.0, 0.0], [1.0, 0.5, np.inf, k]) for k in (1.0, 2.0))
    mine, theirs = (mf.SGD(np.zeros(SIZE), domain=box, alpha=1.0) for box in domains)
    models.save(tmp_path / "state", run(theirs, stream(20)).state_dict())
    state = models.load(tmp_path / "state")
    assert_same_bits(state, theirs.state_dict())
    theirs.load_state_dict(state)
    with pytest.raises(ValueError, match=r"domain .*'high'"):
        mine.load_state_dict(state)


def test_memory_of_mag_does_not_grow():
    """O(d): a thousand dimensions cost a few vectors, whatever the number of samples."""
    size = 100_000
    g = np.ones(size)
    tracemalloc.start()
    opt = mf.MAG(np.zeros(size))
    peaks = []
    for count in (10, 200):
        tracemalloc.reset_peak()
        for _ in range(count):
            opt.tell(g)
        peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    assert max(peaks) < 8 * 8 * size
    assert peaks[1] < 1.5 * peaks[0]


def test_import_is_light():
    heavy = ["numba", "sklearn", "scipy", "torch", "jax", "matplotlib", "pandas", "rich"]
    code = f"import sys, mixfree; print([m for m in {heavy} if m in sys.modules])"
    assert run_python("-c", code).stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "path", "spoil", "message"),
    [
        ("sgd-er", ("gradient", "turn"), lambda turn: -1, "turn is -1"),
        ("sgd-rer", ("gradient", "samples"), lambda count: 3, "7 of 3 samples in the block"),
        ("ladder", ("step", "totals"), lambda totals: -totals, "a sum of squares is negative"),
        ("ladder", ("step", "squares"), lambda squares: -squares, "a sum of squares is negative"),
        ("ladder", ("step", "kappa"), lambda kappa: 0.5, "its scale is not positive"),
    ],
)
def test_a_state_whose_numbers_contradict_each_other_is_refused(name, path, spoil, message):
    """Catches a root of a negative number, or a level without its half, at a later sample."""
    options = {"block": 2} if name == "ladder" else {}
    opt = run(make(name, np.zeros(SIZE), **options), stream(7))
    state, kept = opt.state_dict(), opt.state_dict()
    part, entry = path
    state[part][entry] = spoil(state[part][entry])
    with pytest.raises(ValueError, match=f"does not fit: .*{message}"):
        opt.load_state_dict(state)
    assert_same_bits(opt.state_dict(), kept)


@pytest.mark.parametrize("name", ["sgd-er", "sgd-rer"])
def test_a_replay_that_was_left_is_finished_before_other_samples(name):
    """Catches a block that the compiled run replays again, or leaves half replayed."""
    opt = make(name, np.zeros(SIZE), buffer=3, gap=0)
    rows = stream(9)
    for position, row in enumerate(rows[:3]):
        assert opt.number == position + 1
        for due in opt.offer(row):
            opt.tell(opt.x - due)
            break
    with pytest.raises(RuntimeError, match="replay is not finished: tell its gradients first"):
        advance_linear(opt, Squared(), rows[3:], np.ones(6))
    assert (opt.samples, opt.steps) == (3, 1)
