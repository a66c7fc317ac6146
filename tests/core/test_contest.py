"""The fit to kept samples: its correction, when it is chosen, and what minimize makes of it."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.core import contest as contests
from mixfree.core.contest import Contest
from mixfree.core.user_objective import UserObjective
from tests.helpers import assert_same_bits

DIMENSION = 2
FIRST = np.full(DIMENSION, 100.0)  # an output that is worse than every fit


def loss(x, z):
    return 0.5 * float(((x - z) ** 2).sum())


def grad(x, z):
    return x - z


def contest(grad=grad, loss=loss, **settings):
    return Contest(np.zeros(DIMENSION), UserObjective(grad, loss), **settings)


def learn(found, samples, grad=grad):
    for sample in samples:
        found.see(sample, grad)
    return found


def samples_of(count, seed=5):
    """Samples that move away, so that no part of them is like the whole."""
    rng = np.random.default_rng(seed)
    return np.linspace(0.0, 9.0, count)[:, None] + rng.standard_normal((count, DIMENSION))


@pytest.fixture
def small(monkeypatch):
    """A memory of 64 samples."""
    monkeypatch.setattr(contests, "MEMORY", 64)


def test_the_fit_is_that_of_all_samples_while_all_are_kept():
    samples = samples_of(500)
    choice, point = learn(contest(), samples).choose(FIRST)
    np.testing.assert_allclose(point, samples.mean(axis=0), rtol=1e-9)
    assert choice.fitted
    assert choice.gain > choice.error == 0.0  # all samples judge
    assert (choice.memory, choice.judges, choice.samples) == (500, 500, 500)
    assert "the fit to 500 of 500 samples" in str(choice)


def test_the_fit_is_corrected_by_the_samples_that_were_not_kept(small):
    """Caught: the minimum of the kept samples, a sum that forgets what was before the anchor.

    The loss is quadratic with one Hessian for all samples, for which the correction is exact.
    """
    samples = samples_of(1000)
    found = learn(contest(), samples)
    choice, point = found.choose(FIRST)
    kept = np.array([found.memory.sample(slot) for slot in range(64)])
    assert np.abs(kept.mean(axis=0) - samples.mean(axis=0)).max() > 1e-2
    np.testing.assert_allclose(point, samples.mean(axis=0), rtol=1e-9)
    assert choice.fitted
    assert (choice.memory, choice.samples) == (64, 1000)


def test_the_gain_is_that_over_all_samples(small, monkeypatch):
    """Caught: a comparison with the noise of the few samples that judge, a wrong sign."""
    monkeypatch.setattr(contests, "JUDGING", 32)
    samples = samples_of(1000)
    choice, point = learn(contest(), samples).choose(FIRST)
    losses = [np.mean([loss(x, z) for z in samples]) for x in (FIRST, point)]
    assert choice.judges == 32
    assert abs(choice.gain - (losses[0] - losses[1])) < 1e-6 * choice.gain


def test_a_fit_that_is_worse_is_not_chosen(small, monkeypatch):
    """Caught: a fit that is returned unseen."""
    samples = samples_of(1000)
    best, found = samples.mean(axis=0), learn(contest(), samples)
    monkeypatch.setattr(found, "_path", lambda start, *others: [start, best + 1e-3])
    choice, point = found.choose(best)
    assert not choice.fitted
    np.testing.assert_allclose(choice.gain, -1e-6, rtol=1e-6)
    assert point.tobytes() == best.tobytes()
    assert "the output of the run" in str(choice)


def test_arrays_and_single_samples_are_taken_alike(small):
    """Caught: an anchor that moves where a chunk ends; samples counted twice or not at all."""
    samples, one, other = samples_of(1000), contest(), contest()
    learn(one, samples)

    def add(start):
        def of(x, now, out):
            for sample in samples[start:][now]:
                out += x - sample

        return of

    for start, stop in ((0, 1), (1, 63), (63, 64), (64, 500), (500, 1000)):
        saved = other.state_dict()
        other = contest()
        other.load_state_dict(saved)
        other.choose(FIRST)  # asking on the way must not change anything
        other.offer([samples[start:stop]], add(start))
    assert_same_bits(one.state_dict(), other.state_dict())
    for mine, theirs in zip(one.choose(FIRST), other.choose(FIRST), strict=True):
        assert np.array_equal(mine, theirs)


def test_the_answer_follows_new_samples():
    """Caught: an answer that stays after more samples came."""
    found = learn(contest(), samples_of(100))
    before = found.choose(FIRST)
    assert found.choose(FIRST) is before
    learn(found, samples_of(1))
    assert found.choose(FIRST)[0].samples == 101


def test_too_few_samples():
    """Caught: a fit to fewer than ten samples per coordinate."""
    assert learn(contest(), samples_of(31)).choose(FIRST)[0].judges == 0
    wide = Contest(np.zeros(100), UserObjective(grad, lambda x, z: 1 / 0))
    learn(wide, np.zeros((999, 100)))
    assert not wide.choose(np.ones(100))[0].fitted


def test_a_memory_too_small_for_the_coordinates_is_fitted_in_part(monkeypatch):
    """Caught: the minimum of a sample that does not determine it; a tilt along which it falls."""
    for name in ("BYTES", "LARGE"):
        monkeypatch.setattr(contests, name, 8 * 50 * 41)
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((3000, 40))
    truth = rng.standard_normal(40)
    stream = np.column_stack([rows, rows @ truth + rng.standard_normal(3000)])

    def slope(x, z):
        return (x @ z[:40] - z[40]) * z[:40]

    found = Contest(
        np.zeros(40), UserObjective(slope, lambda x, z: 0.5 * (x @ z[:40] - z[40]) ** 2), values=41
    )
    for row in stream:
        found.see(row, slope)
    assert found.memory.size == 50
    choice, point = found.choose(np.zeros(40))
    errors = [np.mean((rows @ (x - truth)) ** 2) for x in (np.zeros(40), point)]
    assert choice.fitted
    assert errors[1] < 0.8 * errors[0]
    assert not found._total.any()  # no gradients at anchors


def test_a_domain_and_a_penalty_are_part_of_the_fit():
    """Caught: a fit outside the domain, or without the penalty."""
    samples = samples_of(500)
    domain = mf.Ball(1.0).bind(DIMENSION)
    _, inside = learn(contest(), samples).choose(np.zeros(DIMENSION), domain.project)
    assert np.isclose(np.linalg.norm(inside), 1.0)
    _, shrunk = learn(contest(), samples).choose(FIRST, penalty=lambda x: (0.5 * float(x @ x), x))
    np.testing.assert_allclose(shrunk, samples.mean(axis=0) / 2.0, rtol=1e-9)


def test_a_fit_that_fails_is_not_chosen(small):
    """Caught: NaN, which is neither above nor below anything; an error that ends the run."""

    def nowhere(x, z):
        return np.full(DIMENSION, np.nan)

    def fails(x, z):
        raise ArithmeticError("no gradient there")

    for bad in (nowhere, fails):
        for count in (50, 1000):
            found = learn(contest(bad), samples_of(count), bad)
            choice, point = found.choose(FIRST)
            assert not choice.fitted
            assert point.tobytes() == FIRST.tobytes()
    found = learn(contest(loss=lambda x, z: np.nan if x is not FIRST else 0.0), samples_of(50))
    assert not found.choose(FIRST)[0].fitted


def test_a_damaged_state_is_refused():
    state = learn(contest(), samples_of(40)).state_dict()
    with pytest.raises(ValueError, match="anchor must have shape"):
        contest().load_state_dict(state | {"anchor": np.zeros(3)})
    with pytest.raises(ValueError, match="different streams"):
        contest().load_state_dict(state | {"judges": learn(contest(), [])._judges.plain()})


def test_huge_losses_are_compared():
    """Caught: squares that overflow, whose mean error hides that the output has diverged."""
    one, other = np.array([1e250, 3e250, 2e250]), np.ones(3)
    gain, error = contests._difference(one, other)
    np.testing.assert_allclose((gain, error), (2e250, 1e250 / 3**0.5))
    infinite = np.array([1.0, np.inf, np.nan])
    assert contests._difference(infinite, other) == (np.inf, 0.0)
    assert contests._difference(other, infinite) == (-np.inf, 0.0)
    assert contests._difference(infinite, infinite) == (-np.inf, 0.0)  # the output stays


def test_minimize_says_what_it_needs():
    samples = samples_of(2000)
    settings = {"method": "ladder", "x0": np.zeros(DIMENSION)}
    with pytest.raises(ValueError, match="give `loss`"):
        mf.minimize(grad, samples, memory="auto", **settings)
    with pytest.raises(ValueError, match="memory must be a whole number"):
        mf.minimize(grad, samples, memory="many", **settings)
    with pytest.raises(ValueError, match="`draws` needs a number"):
        mf.minimize(grad, samples, loss=loss, draws=2, **settings)
    assert mf.minimize(grad, samples, **settings).choice is None
    assert mf.minimize(grad, samples, memory=0, loss=loss, **settings).choice is None


def test_minimize_runs_the_method_and_returns_the_fit():
    """Caught: samples that are kept and not learnt from; a fit that continues the run."""
    samples = samples_of(2000)
    settings = {"method": "ladder", "x0": np.zeros(DIMENSION)}
    found = mf.minimize(grad, samples, loss=loss, **settings)
    without = mf.minimize(grad, samples, memory=0, **settings)
    assert found.choice.fitted
    assert found.samples == found.history.samples[-1] == 2000
    np.testing.assert_allclose(found.average, samples.mean(axis=0), rtol=1e-8)
    assert_same_bits(found.optimizer.state_dict(), without.optimizer.state_dict())
    assert found.history.points.tobytes() == without.history.points.tobytes()


def test_a_compiled_gradient_gives_the_same_fit(small):
    """Caught: a twin that adds the gradients of kept samples to the sum, or of none."""
    from numba import njit

    samples = samples_of(1000)
    settings = {"method": "ladder", "x0": np.zeros(DIMENSION), "loss": loss}
    reference = mf.minimize(grad, samples, **settings)
    compiled = mf.minimize(njit(grad), samples, **settings)
    assert compiled.choice.fitted
    assert compiled.choice.memory == 64
    np.testing.assert_allclose(compiled.average, reference.average, rtol=1e-9)
    np.testing.assert_allclose(compiled.average, samples.mean(axis=0), rtol=1e-9)
