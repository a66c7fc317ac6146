"""Memory in front of every method: what a step sees, what is kept, what is refused."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.core.methods import start_method
from tests.helpers import assert_same_bits, make, run

SIZE, DIMENSION = 20, 3
METHODS = [name for name in mf.methods() if name not in ("sgd-er", "sgd-rer")]


def remembering(name, draws=2, **options):
    opt = make(name, np.zeros(DIMENSION), mf.Ball(3.0), **options)
    opt.remember(SIZE, draws, seed=1)
    return opt


def stream(count=120):
    return np.random.default_rng(3).standard_normal((count, DIMENSION))


@pytest.mark.parametrize("name", METHODS)
def test_saving_and_loading_at_every_sample_gives_the_same_bits(name):
    samples = stream()
    whole, cut = run(remembering(name), samples), remembering(name)
    for sample in samples:
        saved = cut.state_dict()
        cut = remembering(name)
        cut.load_state_dict(saved)
        run(cut, [sample])
    assert_same_bits(cut.state_dict(), whole.state_dict())
    assert whole.samples == len(samples)


def test_a_run_is_saved_between_a_sample_and_its_draws():
    """Caught: a sample that is lost, or a sum that begins anew."""
    whole, cut = remembering("sgd"), remembering("sgd")
    for opt in (whole, cut):
        run(opt, stream(50))
    told = [whole.tell(whole.x - due) for due in whole.offer(np.ones(DIMENSION))]
    for due in cut.offer(np.ones(DIMENSION)):
        cut.tell(cut.x - due)
        break
    resumed = remembering("sgd")
    resumed.load_state_dict(cut.state_dict())
    for due in resumed.gradient.due(resumed._run.gradient):
        resumed.tell(resumed.x - due)
    assert told == [False, False, True]
    assert_same_bits(resumed.state_dict(), whole.state_dict())


def test_a_step_is_along_the_mean_of_a_sample_and_its_draws():
    """Caught: a sum for a mean, a draw at another point, a step for each draw, also in windows."""
    opt = remembering("sgd", draws=3)
    run(opt, stream(30))
    x, due = opt.x, []
    for sample in opt.offer(np.full(DIMENSION, 9.0)):
        assert np.array_equal(opt.x, x)
        due.append(np.array(sample))
        opt.tell(opt.x - sample)
    assert np.array_equal(due[0], np.full(DIMENSION, 9.0))
    mean = x - np.mean(due, axis=0)
    moved = x - opt.domain.diameter / np.sqrt(2.0) / np.sqrt(opt.steps) * mean
    np.testing.assert_allclose(opt.x, opt.domain.project(moved), rtol=1e-12)
    window = start_method("minibatch", np.zeros(DIMENSION), {"batch": 4}, memory=SIZE, draws=2)
    run(window, stream(12))
    assert (window.samples, window.steps) == (12, 3)


def test_the_memory_has_the_seed_of_the_method():
    """Catches replicates that differ in their levels but share the draws from the memory."""
    ends = []
    for seed, own in ((1, None), (7, None), (7, 7), (7, 1)):
        opt = mf.SGD(np.zeros(DIMENSION), seed=seed)
        opt.remember(SIZE, **({} if own is None else {"seed": own}))
        ends.append(run(opt, stream()).x)
    assert (ends[1] == ends[2]).all() and (ends[0] == ends[3]).all()
    assert (ends[0] != ends[1]).any()


def test_draws_are_of_all_the_past():
    """Caught: draws from the newest samples, or always from the same slot."""
    opt = make("sgd", [0.0])
    opt.remember(50, draws=4)
    drawn = []
    for number in range(2000):
        due = []
        for sample in opt.offer(float(number)):
            due.append(sample)
            opt.tell([0.0])
        drawn += [each / (number + 1) for each in due[1:]]
    # Uniform on [0, 1): 8,000 draws of about 50 · (1 + log(2000/50)) samples that were ever kept.
    assert abs(np.mean(drawn) - 0.5) < 4.0 * np.sqrt(1.0 / 12.0 / 230.0)
    assert len(set(drawn)) > 5000


def test_a_bad_sample_is_not_kept():
    """Caught: a sample whose own gradient is refused, drawn again and again."""
    opt = run(remembering("ladder"), stream(5))
    before = opt.state_dict()
    bad = np.full(DIMENSION, np.nan)
    with pytest.raises(ValueError, match="gradient of sample 6 is not finite"):
        run(opt, [bad])
    run(opt, [np.ones(DIMENSION)])
    other = remembering("ladder")
    other.load_state_dict(before)
    run(other, [np.ones(DIMENSION)])
    assert_same_bits(opt.state_dict(), other.state_dict())


def test_what_does_not_go_with_memory_is_refused():
    opt = remembering("mag")
    with pytest.raises(RuntimeError, match="needs the samples and not just their gradients"):
        opt.tell(np.zeros(DIMENSION))
    with pytest.raises(RuntimeError, match="was not told"):
        list(opt.offer(np.zeros(DIMENSION)))
    for name in ("sgd-er", "sgd-rer"):
        with pytest.raises(ValueError, match=f"memory does not go with {name}"):
            make(name, [0.0]).remember(10)
    with pytest.raises(ValueError, match="before the first sample"):
        run(make("sgd", np.zeros(DIMENSION)), stream(1)).remember(10)
    for wrong in ({"size": 0}, {"size": 2.5}, {"size": 10, "draws": 0}):
        with pytest.raises(ValueError, match="must be a whole number"):
            make("sgd", [0.0]).remember(**wrong)
    with pytest.raises(RuntimeError, match="draws are not finished"):
        opt.tell(-next(opt.offer(np.zeros(DIMENSION))))
        opt.offer(np.zeros(DIMENSION))
