"""Intervals for other losses than the squared one: coverage, correlation, undetermined weights."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import stats

from benchmarks.intervals import best_weights, sandwich_errors, stream
from mixfree.linear.glm.control_variates import ControlVariates
from mixfree.linear.glm.fit import GlmFit
from mixfree.linear.losses import Huber, Logistic, Robust, Softmax


def inferred(loss, x, y, **options):
    fit = GlmFit(loss, x.shape[1], **options)
    fit.add(x, y)
    return fit.inference


def logistic(rows=6000, seed=0):
    return stream("logit", rows, 0.0, seed)


@pytest.mark.parametrize("model", ["logit", "probit"])
@pytest.mark.parametrize("memory", [512, 8000])
def test_coverage_where_intervals_that_take_rows_for_independent_fail(model, memory):
    """Shares of intervals that hold the truth: of weights, of means, and with independent rows."""
    rng, truth = np.random.default_rng(1), np.array(best_weights(model))
    hits, streams = np.zeros(3), 40
    for seed in range(streams):
        x, y = stream(model, 5000, 0.9, seed)
        inference = inferred(Logistic(), x, y, memory=memory)
        low, high = inference.conf_int()[0].T
        found = 0.5 * (low + high)
        naive = 1.96 * sandwich_errors(Logistic(), found, x, y)
        at = rng.normal(size=(4, 3))
        apart = np.abs(np.c_[at, np.ones(4)] @ (found - truth))
        mean = apart <= inference.quantile(0.05) * inference.mean_error(at)[:, 0]
        held = (low <= truth) & (truth <= high)
        hits += held.mean(), mean.mean(), np.mean(np.abs(found - truth) <= naive)
    weights, means, independent = hits / streams
    error = math.sqrt(0.95 * 0.05 / (streams * 4))
    assert 0.94 - 3.0 * error <= weights <= 0.95 + 3.0 * error, (weights, error)
    assert means >= 0.94 - 6.0 * error, (means, error)  # four rows of one fit are not independent
    assert independent < 0.95 - 5.0 * error, (independent, error)


def test_the_choice_of_the_kept_rows_is_part_of_the_error(monkeypatch):
    """64 of 20,000 rows are kept: the batches alone do not know how far off that makes the fit."""

    def held(seed):
        rng = np.random.default_rng(seed)
        x, truth = rng.normal(size=(20_000, 2)), np.array([10.0, -5.0])
        y = np.sign(x @ truth + rng.logistic(size=20_000))
        low, high = inferred(Logistic(), x, y, memory=64).conf_int()[0, :2].T
        return np.mean((low <= truth) & (truth <= high))

    error = math.sqrt(0.95 * 0.05 / (60 * 2))
    assert np.mean([held(seed) for seed in range(60)]) >= 0.95 - 4.0 * error
    monkeypatch.setattr(ControlVariates, "sampling_errors", lambda _, at: 0.0 * at.theta[None])
    assert np.mean([held(seed) for seed in range(60)]) < 0.95 - 5.0 * error


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3), Huber(0.7), Robust(-2.0, 1.5)], ids=str)
@pytest.mark.parametrize("memory", [800, 100_000])
def test_rows_that_are_repeated_do_not_shrink_intervals_and_are_not_counted(loss, memory):
    """Errors that take rows for independent would be √20 too small."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(3000, 3))
    if loss.outputs == 3:
        y = (x + rng.gumbel(size=x.shape)).argmax(axis=1).astype(float)
    else:
        y = x @ [1.0, -0.5, 0.0] + rng.logistic(size=3000)
    y = np.where(y > 0.0, 1.0, -1.0) if loss == Logistic() else y
    once = inferred(loss, x, y, memory=memory)
    often = inferred(loss, np.repeat(x, 20, axis=0), np.repeat(y, 20), memory=memory)
    assert np.mean(often.bse / once.bse) == pytest.approx(1.0, abs=0.2)
    # The spread of 46 batches in four directions or more has a relative error of 10 %.
    assert once.effective_rows == pytest.approx(3000, rel=0.35)
    assert often.effective_rows == pytest.approx(3000, rel=0.35)
    assert once.remark == often.remark == ""


@pytest.mark.parametrize(
    ("options", "late"),
    [({}, 1.0), ({"l2": 0.3}, 9.0), ({"intercept": False}, 1.0)],
)
def test_errors_and_profile_are_those_of_the_rows_scores_at_the_weights_of_the_end(options, late):
    """Scores without the penalty, or of weights before the end, do not sum to 0.

    Late rows of another weight: the penalty is shared out by weight, not by batch.
    """
    x, y = stream("logit", 2000, 0.9, 4)
    each = np.repeat([1.0, late], 1000)
    fit = GlmFit(Logistic(), 3, **options)
    fit.add(x, y, each)
    inference = fit.inference
    weights = inference.conf_int()[0].mean(axis=1)
    z = np.c_[x, np.ones(2000)] if options.get("intercept", True) else x
    chance = 1.0 / (1.0 + np.exp(-z @ weights))
    score = each[:, None] * z * (chance - (y > 0.0))[:, None]
    penalty = -score.sum(axis=0) / each.sum()  # of a row, at the minimum
    score += each[:, None] * penalty
    ridge = np.array([*np.full(3, penalty[0] / weights[0]), 0.0])[: len(weights)]
    hessian = (z * (each * chance * (1.0 - chance))[:, None]).T @ z + each.sum() * np.diag(ridge)
    inverse = np.linalg.inv(hessian)
    sums = {n: score[: 2000 // n * n].reshape(-1, n, len(weights)).sum(axis=1) for n in (1, 4, 32)}
    size = {n: np.einsum("bi,ij,bj->", s, inverse, s) / len(s) / n for n, s in sums.items()}
    found = dict(zip(inference.profile.lengths, inference.profile.ratios, strict=True))
    assert found[4] == pytest.approx(size[4] / size[1] / (1 - 4 / 2000), rel=1e-3)
    assert found[32] == pytest.approx(size[32] / size[1] / (1 - 32 / 2000), rel=1e-2)
    moved = sums[32] @ inverse
    freedom = 62 / 61 * each.sum() / each[:1984].sum() * 1999 / (2000 - len(weights))
    freedom *= 1.0 + 2.0 * inference.correlation
    assert inference.correlation > 0.0
    errors = np.sqrt(np.sum(moved**2, axis=0) * freedom)
    np.testing.assert_allclose(inference.bse[0], errors, rtol=1e-2)


@pytest.mark.parametrize("loss", [Huber, partial(Robust, -2.0)])
def test_units_and_offsets_do_not_change_what_is_known(loss):
    x, y = stream("linear", 3000, 0.9, 4)
    size = np.array([1e-70, 1e70, 7.0])
    one = inferred(loss(0.7), x, y)
    other = inferred(loss(0.7e50), x * size, 1e50 * y)
    np.testing.assert_allclose(other.bse[0, :3] * size / 1e50, one.bse[0, :3], rtol=1e-4)
    np.testing.assert_allclose(other.mean_error(x * size) / 1e50, one.mean_error(x), rtol=1e-4)
    assert other.effective_rows == pytest.approx(one.effective_rows, rel=1e-4)


@pytest.mark.parametrize("memory", [300, 4000])
@pytest.mark.parametrize("l2", [None, 0.0])
def test_classes_that_can_be_separated_have_no_intervals(memory, l2):
    """A sandwich at the weights where the fit happens to end would be finite, and narrow."""
    x, _ = logistic(3000)
    y = np.where(x[:, 0] > 0.0, 1.0, -1.0)
    inference = inferred(Logistic(), x + np.outer(y, [1.0, 0.0, 0.0]), y, memory=memory, l2=l2)
    assert np.isinf(inference.bse[0, [0, 3]]).all()
    assert np.isinf(inference.mean_error(np.array([[2.0, 0.0, 0.0]]))).all()
    assert "classes can be separated" in inference.remark and "`l2=0.001`" in inference.remark
    given = inferred(Logistic(), x, y, memory=memory, l2=1e-3)
    assert np.isfinite(given.bse).all() and given.remark == ""


@pytest.mark.parametrize(("memory", "seed"), [(4000, 0), (300, 0), (300, 1), (300, 3)])
def test_one_column_that_separates_some_rows_leaves_the_others_their_intervals(memory, seed):
    """Sums of rows left out, known up to chance, would end its weight at some finite value."""
    x, y = logistic(3000)
    flag = np.random.default_rng(5).random(3000) < 0.1
    given = np.c_[x, flag], np.where(flag, 1.0, y)
    inference = inferred(Logistic(), *given, memory=memory, seed=seed)
    assert np.isinf(inference.bse[0]).tolist() == [False, False, False, True, False]
    assert inference.remark.startswith("1 of 5 weights have no interval")


def test_columns_that_repeat_others_have_no_interval_but_predictions_do():
    x, y = logistic(3000)
    rows = np.c_[x, x[:, 0], np.full(3000, 7.0)]
    inference = inferred(Logistic(), rows, y)
    assert np.isinf(inference.bse[0]).tolist() == [True, False, False, True, True, False]
    plain = inferred(Logistic(), x, y)
    np.testing.assert_allclose(inference.mean_error(rows[:9]), plain.mean_error(x[:9]), rtol=1e-2)


def test_a_class_that_can_be_told_from_all_others_leaves_no_output_certain():
    """Weights of softmax sum to 0: where one output's are open, so are the others'."""
    x, y = logistic(3000)
    y = np.where(x[:, 1] > 1.0, 2.0, y > 0.0)
    bse = inferred(Softmax(3), x, y).bse
    assert np.isinf(bse[:, [1, 3]]).all()


def test_too_few_rows_have_unbounded_intervals_and_a_remark():
    x, y = logistic()
    for rows in (0, 5):
        inference = inferred(Logistic(), x[:rows], y[:rows])
        assert np.isinf(inference.bse).all() and np.isinf(inference.mean_error(x[:2])).all()
        assert math.isnan(inference.effective_rows)
        said = f"no intervals: {rows} rows make {rows} batches, and 8 are needed"
        assert inference.remark == said


def test_independent_rows_have_the_errors_of_the_sandwich():
    """Fails for batch means, whose errors differ by a tenth; all texts have an interval."""
    rng = np.random.default_rng(3)
    texts = [rng.integers(0, kinds, size=4000) for kinds in (3, 4, 6)]
    x = np.column_stack([text == kind for text in texts for kind in range(1, text.max() + 1)]) * 1.0
    line = x @ rng.normal(size=x.shape[1]) * 0.5
    y = np.where(line + rng.logistic(size=4000) > 0.0, 1.0, -1.0)
    found = inferred(Logistic(), x, y)
    errors = sandwich_errors(Logistic(), found.conf_int()[0].mean(axis=1), x, y)
    np.testing.assert_allclose(found.bse[0], errors, rtol=0.01)
    assert "sandwich" in found.assumed
    # That no correlation was found does not rule it out: Student's t is that of the 62 batches.
    assert found.quantile(0.05) == pytest.approx(stats.t.ppf(0.975, 61), rel=1e-12)
    # The covariance has as many terms as rows: with 61, tests of many weights would find nothing.
    assert found.wald(range(10)).freedom == 3990


def test_a_single_correlated_column_is_noticed_among_many():
    """Fails if only the mean correlation of all weights is looked at."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(4000, 30))
    slow = np.repeat(rng.normal(size=80), 50)
    x[:, 0] = slow
    noise = np.repeat(rng.normal(size=80), 50) + rng.logistic(size=4000)
    found = inferred(Logistic(), x, np.where(noise > 0.0, 1.0, -1.0))
    assert "batch means" in found.assumed
