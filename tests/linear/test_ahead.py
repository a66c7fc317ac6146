"""Intervals of new rows: coverage, chunks, merges, bad rows."""

import numpy as np
import pytest
from scipy import signal

from mixfree.linear.ahead import KEPT, Ahead
from mixfree.linear.exact.blocks import PARTS
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.losses import Logistic, Softmax, Squared
from mixfree.sklearn import StreamClassifier, StreamRegressor


def drifting(rows=12_000, seed=0):
    """Correlated errors whose size triples, and a weight that turns."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2))
    time = np.arange(rows) / rows
    noise = signal.lfilter([1.0], [1.0, -0.8], rng.normal(size=rows)) * (1.0 + 2.0 * time)
    return x, x[:, 0] * np.cos(3.0 * time) + noise


@pytest.mark.parametrize("half_life", [None, "auto"])
def test_long_run_coverage_under_drift(half_life):
    """Fails for quantiles of all errors so far (79 %), and for errors of the fit itself."""
    x, y = drifting()
    learner = ExactLearner(Squared(), 2, half_life=half_life, looks_ahead=True)
    inside = []
    for start in range(0, len(y), 50):
        here = slice(start, start + 50)
        if start >= 1000:
            low, high = learner.ahead.ends(learner.loss, learner.predict(x[here]), 0.9)
            inside.append((low <= y[here]) & (y[here] <= high))
        learner.advance(x[here], y[here])
    assert abs(np.mean(inside) - 0.9) < 0.015


def test_errors_are_followed_after_a_stretch_without_any():
    """Fails for steps proportional to the width alone: limits of 0 stayed 0 for 1,500 rows."""
    rng = np.random.default_rng(0)
    errors = np.where(np.arange(6000) < 3000, 0.0, rng.normal(size=6000))
    ahead, inside = Ahead.begin(1, 1, True, PARTS), []
    for new in errors.reshape(-1, 50):
        low, high = ahead.ends(Squared(), np.zeros(1), 0.9)
        inside.append((low <= new) & (new <= high))
        ahead.keep(np.zeros(50), new)
    assert np.mean(inside[64:80]) > 0.8
    assert abs(np.mean(inside[80:]) - 0.9) < 0.02


def test_sets_of_classes_cover_and_are_never_empty():
    """Fails for sets of all classes above a fixed probability."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(8000, 2))
    y = (x @ [[1.0, 0.0, -1.0], [0.5, -0.5, 0.0]] + rng.gumbel(size=(8000, 3))).argmax(axis=1)
    model = StreamClassifier().fit(x[:6000], y[:6000])
    sets = model.predict_set(x[6000:], 0.8)
    assert sets.any(axis=1).all()
    assert abs(sets[np.arange(2000), y[6000:]].mean() - 0.8) < 0.035
    assert sets.sum() < model.predict_set(x[6000:], 0.95).sum()


def test_calibrated_probabilities_have_a_smaller_loss_where_weights_are_too_sure():
    """Fails if log-odds are multiplied by more than 1, or by 1."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(600, 60))
    y = rng.random(600) < 1.0 / (1.0 + np.exp(-x[:, 0]))
    model = StreamClassifier().fit(x, y)
    new = rng.normal(size=(4000, 60))
    happens = rng.random(4000) < 1.0 / (1.0 + np.exp(-new[:, 0]))

    def loss(**options):
        chosen = model.predict_proba(new, **options)[np.arange(4000), happens.astype(int)]
        return -np.log(chosen).mean()

    assert loss(calibrated=True) < 0.97 * loss()


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Softmax(3)])
def test_the_same_bits_whatever_the_chunks(loss):
    """Fails if windows begin where a chunk does, or if zero weights shift them."""
    rng = np.random.default_rng(1)
    x, weights = rng.normal(size=(9000, 2)), rng.integers(0, 3, size=9000).astype(float)
    y = {1: np.sign(x[:, 0] + rng.normal(size=9000)), 3: rng.integers(0, 3, size=9000) * 1.0}
    states = []
    for step in (9000, 1711, 64, 1):
        learner = ExactLearner(loss, 2, l2=None, looks_ahead=True)
        for start in range(0, 9000, step):
            here = slice(start, start + step)
            learner.advance(x[here], y[loss.outputs][here], weights[here])
        states.append(learner.state_dict()["ahead"])
    for state in states[1:]:
        for name, value in state.items():
            np.testing.assert_array_equal(value, states[0][name], err_msg=name)
    assert len(states[0]["tests"]) == KEPT


def test_merged_and_saved():
    """Fails if a merge forgets the errors of one part, or a state those of the stream."""
    x, y = drifting(4000)
    one, two = StreamRegressor().fit(x[:3000], y[:3000]), StreamRegressor().fit(x[3000:], y[3000:])
    last = two.learner_.ahead.tests.copy()
    ahead = one.merge(two).learner_.ahead
    assert ahead.rows == 4000
    np.testing.assert_array_equal(ahead.tests[-len(last) :], last)
    again = StreamRegressor().load_state_dict(one.state_dict())
    one.partial_fit(x[:500], y[:500])
    again.partial_fit(x[:500], y[:500])
    for mine, other in zip(one.predict(x, 0.9), again.predict(x, 0.9), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_few_predictions_make_intervals_infinite():
    """Fails if the largest of a few errors is taken for the quantile."""
    ahead = Ahead.begin(1, 1, True, PARTS)
    ahead.keep(np.zeros(18), np.arange(18.0))
    assert np.isinf(ahead.ends(Squared(), np.zeros(1), 0.9)[1])
    ahead.keep(np.zeros(1), np.array([18.0]))
    assert np.isfinite(ahead.ends(Squared(), np.zeros(1), 0.9)[1])


def test_a_long_chunk_is_tested_at_its_end_only():
    """Fails if windows that would be forgotten are predicted: they double the time of a fit."""
    ahead = Ahead.begin(1, 1, True, PARTS)
    windows = ahead.windows(1_000_000)
    assert windows[0][2] and sum(renewed for _, _, renewed in windows) <= 4
    assert KEPT <= sum(stop - start for start, stop, _ in windows) <= 2 * KEPT


@pytest.mark.parametrize("step", [1, 500])
def test_rows_of_weight_zero_may_hold_anything(step):
    """Fails if their predictions are kept: NaN, with which a saved state is refused."""
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(500, 2)), np.ones(500)
    y, weights[[0, 200, 499]] = x[:, 0].copy(), 0.0
    x[weights == 0.0] = y[weights == 0.0] = np.nan
    learner = ExactLearner(Squared(), 2, looks_ahead=True)
    for here in (slice(start, start + step) for start in range(0, 500, step)):
        learner.advance(x[here], y[here], weights[here])
    again = ExactLearner(Squared(), 2, looks_ahead=True)
    again.load_state_dict(learner.state_dict())
    assert np.isfinite(again.ahead.tests).all() and len(again.ahead.tests) > 0


def test_intervals_of_skewed_errors_cover_other_rows_too():
    """Fails for steps in proportion to the width alone: coverage is 5 points more or less."""
    rng, covered = np.random.default_rng(0), []
    for _ in range(40):
        ahead = Ahead.begin(1, 1, True, PARTS)
        ahead.keep(np.zeros(KEPT), rng.exponential(size=KEPT))
        low, high = ahead.ends(Squared(), np.zeros(1), 0.9)
        covered.append(np.exp(-np.maximum(low, 0.0)) - np.exp(-high))
    assert abs(np.mean(covered) - 0.9) < 0.015 and np.std(covered) < 0.03
