"""Intervals from batch means: coverage, profile, tests, and when they cannot be trusted."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from mixfree.linear.exact.batch_means import neighbours
from mixfree.linear.exact.squared import SquaredFit
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.losses import Logistic

COLUMNS = 3
RHO, STREAMS = 0.9, 300


def autoregressive(rng, rows, rho, columns=None):
    """A stationary AR(1) process of variance 1."""
    shape = (rows + 2000,) if columns is None else (rows + 2000, columns)
    noise = rng.normal(size=shape) * math.sqrt(1.0 - rho * rho)
    return lfilter([1.0], [1.0, -rho], noise, axis=0)[2000:]


def stream(rng, rows, rho):
    x = autoregressive(rng, rows, rho, COLUMNS)
    weights = np.array([1.0, -0.5, 0.0, 0.5])
    return x, x @ weights[:-1] + weights[-1] + autoregressive(rng, rows, rho), weights


def inferred(x, y, weights=None, intercept=True, **options):
    fit = SquaredFit(x.shape[1], intercept=intercept, **options)
    fit.add(x, y, weights)
    return fit.inference, fit.solution


@pytest.mark.parametrize("rho, least", [(0.5, 0.95), (0.9, 0.93), (0.98, 0.91)])
def test_coverage_where_intervals_that_take_rows_for_independent_fail(rho, least):
    """Shares of intervals that hold the truth: of weights, of means, and with independent rows."""
    rng, hits, streams, rows = np.random.default_rng(1), np.zeros(3), 60, 20_000
    for _ in range(streams):
        x, y, truth = stream(rng, rows, rho)
        inference, solution = inferred(x, y)
        low, high = inference.conf_int()[0].T
        found = solution.weights[0]
        z = np.c_[x, np.ones(rows)]
        variance = np.mean((y - z @ found) ** 2)
        naive = 1.96 * np.sqrt(np.diag(np.linalg.inv(z.T @ z)) * variance)
        at = rng.normal(size=(4, COLUMNS))
        off = np.abs(at @ (found - truth)[:-1] + (found - truth)[-1])
        mean = off <= inference.quantile(0.05) * inference.mean_error(at)[:, 0]
        inside = (low <= truth) & (truth <= high)
        hits += [np.mean(inside), np.mean(mean), np.mean(np.abs(found - truth) <= naive)]
    weights, means, independent = hits / streams
    error = math.sqrt(0.95 * 0.05 / (streams * (COLUMNS + 1)))
    assert weights >= least - 3.0 * error, (weights, error)
    assert weights <= 0.95 + 3.0 * error, (weights, error)
    assert means >= least - 6.0 * error, (means, error)  # four rows of one fit are not independent
    assert independent < 0.95 - 5.0 * error, (independent, error)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("options", [{}, {"l2": 0.3}])
def test_scores_are_those_of_the_rows_at_the_weights_of_the_end(intercept, options):
    """Catches rows without their weights, and what crosses the borders of batches being lost."""
    rng = np.random.default_rng(3)
    x = autoregressive(rng, 3000, 0.98, 2) + np.array([0.0, 5.0])
    y, each = x @ [1.0, 2.0] + autoregressive(rng, 3000, 0.98), rng.uniform(0.5, 2.0, 3000)
    inference, solution = inferred(x, y, each, intercept=intercept, **options)
    w, b = solution.weights[0, :2], solution.weights[0, 2] if intercept else 0.0
    batches = inference._split
    n, length = len(batches), batches.rows
    z = x - np.average(x, axis=0, weights=each) if intercept else x
    score = each[:, None] * (z * (y - x @ w - b)[:, None] - solution.penalty * w)
    score = score[: n * length].reshape(n, length, 2).sum(axis=1)
    hessian = z.T @ (each[:, None] * z) + each.sum() * solution.penalty * np.eye(2)
    changes = np.linalg.solve(hessian, score.T)
    covered = each[: n * length].sum() / each.sum()
    freedom = n / (n - 1) / covered * 2999 / (3000 - 2 - intercept)
    shared = 1.0 + 2.0 * max(inference.correlation, 0.0)
    assert shared > 1.05
    wanted = np.sqrt((changes**2).sum(axis=1) * freedom * shared)
    np.testing.assert_allclose(inference.bse[0, :2], wanted, rtol=1e-6)


def test_the_profile_is_that_of_the_scores_and_agrees_with_the_intervals():
    rng = np.random.default_rng(5)
    x, y, _ = stream(rng, 100_000, 0.9)
    inference, _ = inferred(x, y)
    profile = inference.profile
    found = dict(zip(profile.lengths.tolist(), profile.ratios.tolist(), strict=True))
    rho = 0.81  # of the scores; that of the intercept has 0.9 and is one of four
    for length in (2, 8, 64):
        k = np.arange(1, length)
        wanted = [1.0 + 2.0 * np.sum((1.0 - k / length) * r**k) for r in (rho, rho, rho, 0.9)]
        assert found[length] == pytest.approx(np.mean(wanted), rel=0.15)
    assert found[1] == pytest.approx(1.0, rel=1e-3)
    at_batches = found[inference._split.rows]
    shared = 1.0 + 2.0 * max(inference.correlation, 0.0)
    assert inference.effective_rows == pytest.approx(100_000 / at_batches / shared)
    assert at_batches == pytest.approx(np.mean([9.5, 9.5, 9.5, 19.0]), rel=0.3)


def test_parts_that_are_merged_keep_the_profile_of_their_rows():
    """Catches a merge that drops windows which are not full: short parts then had no profile."""
    x, y, _ = stream(np.random.default_rng(4), 3000, 0.9)
    whole, *parts = (SquaredFit(x.shape[1]) for _ in range(4))
    whole.add(x, y)
    for part, at in zip(parts, range(0, 3000, 1000), strict=True):
        part.add(x[at : at + 1000], y[at : at + 1000])
    merged = parts[0]
    merged.merge(parts[1])
    merged.merge(parts[2])
    assert sum(map(len, merged.inference._windows)) == 3000
    found, expected = merged.inference.profile, whole.inference.profile
    short = found.lengths <= 8  # blocks that three parts divide as one stream does
    np.testing.assert_allclose(found.ratios[short], expected.ratios[: short.sum()], rtol=1e-9)
    assert found.ratios.max() > 5.0


def test_a_stream_too_short_beside_its_correlation_says_so():
    rng = np.random.default_rng(7)
    flagged = [inferred(*stream(rng, 2000, 0.98)[:2])[0].correlated for _ in range(40)]
    assert np.mean(flagged) > 0.8
    calm = [inferred(*stream(rng, 20_000, 0.9)[:2])[0].correlated for _ in range(40)]
    assert np.mean(calm) < 0.1
    inference, _ = inferred(*stream(rng, 2000, 0.99)[:2])
    assert "errors are alike for longer than" in inference.remark


def test_a_constant_column_has_no_interval_but_predictions_do():
    rng = np.random.default_rng(9)
    x, y, _ = stream(rng, 3000, 0.5)
    x[:, 1] = 7.0
    inference, _ = inferred(x, y)
    assert np.isinf(inference.bse[0, 1])
    assert np.isfinite(inference.bse[0, [0, 2, 3]]).all()
    assert np.isfinite(inference.mean_error(x[:3])).all()


@pytest.mark.parametrize(("groups", "rows"), [(60, 6_000), (20, 1_000)])
def test_texts_that_occur_in_one_stretch_have_intervals_that_hold(groups, rows):
    """Catches the spread of batches alone: the fit makes their scores 0, and a third hold."""
    rng = np.random.default_rng(0)
    text = np.repeat(np.arange(groups), rows // groups)
    x = np.c_[text[:, None] == np.arange(1, groups), rng.normal(size=rows)].astype(float)
    hits = []
    for _ in range(10):
        inference, _ = inferred(x, x @ np.ones(groups) + rng.normal(size=rows))
        low, high = inference.conf_int()[0, :-2].T
        hits.append((low <= 1.0) & (high >= 1.0))
    assert np.mean(hits) > 0.89
    assert inference.effective_rows <= rows
    assert neighbours(1e-200 * np.eye(9)) == (0.0, False)  # not a division by an underflow
    assert "assume errors of equal variance: their columns vary in fewer than 5" in inference.remark


def test_quantiles_have_one_degree_of_freedom_less_than_batches():
    inference, _ = inferred(*stream(np.random.default_rng(0), 500, 0.0)[:2])
    batches = len(inference._scores)
    assert batches < 64
    assert inference.quantile(0.05) == pytest.approx(stats.t.ppf(0.975, batches - 1), rel=1e-12)
    x = np.random.default_rng(0).normal(size=(33, 30))  # 29 columns fit 30 rows without errors
    few = [inferred(x[:rows, 1:], x[:rows, :1])[0] for rows in (33, 30)]
    assert few[0].quantile(0.05) == pytest.approx(stats.t.ppf(0.975, 3), rel=1e-12)
    assert np.isinf(few[1].bse).all() and "30 weights fit 30 rows without errors" in few[1].remark
    with pytest.raises(ValueError, match="alpha must be between 0 and 1"):
        inference.conf_int(1.0)


def test_a_column_of_a_single_batch_has_the_error_of_its_own_rows():
    """Its scores are 0, and all of its variance is missing from the batches.

    Catches a variance without the factor 1/(1 − 1/5), or without the correlation of the errors.
    """
    x, y = np.zeros((4096, 1)), autoregressive(np.random.default_rng(0), 4096, 0.9)
    x[:8, 0] = np.tile([1.0, -1.0], 4)
    inference, solution = inferred(x, y)
    variance = np.sum((y - np.c_[x, np.ones(4096)] @ solution.weights[0]) ** 2) / 4094
    assert inference.effective_rows < 1000
    wanted = math.sqrt(variance / 8 * 4096 / inference.effective_rows)
    assert inference.bse[0, 0] == pytest.approx(wanted, rel=1e-6)


@pytest.fixture(scope="module")
def p_values():
    """P-values of one weight of 0 and of five, for streams with ρ = 0.9."""
    found = []
    for seed in range(STREAMS):
        rng = np.random.default_rng((seed, 31))
        x, noise = autoregressive(rng, 6000, RHO, 6), autoregressive(rng, 6000, RHO)
        inference, _ = inferred(x, x[:, 5] + noise)
        found.append([inference.p_values[0, 0], inference.wald(range(5)).p_value])
    return np.array(found).T


@pytest.mark.parametrize("joint", [0, 1], ids=["one weight", "five weights"])
def test_p_values_are_uniform_under_the_null(p_values, joint):
    """Fails for errors of independent rows, and for χ² instead of F.

    The normal law is too close to be told by 300 streams: the next test and that of quantiles do.
    """
    found = p_values[joint]
    assert stats.kstest(found, "uniform").pvalue > 0.01
    # Three standard errors of the share, and a point since batches are not quite independent.
    assert abs(np.mean(found < 0.05) - 0.05) < 0.01 + 3.0 * np.sqrt(0.05 * 0.95 / STREAMS)


def test_one_weight_has_the_same_p_value_alone_and_jointly():
    """Fails if the joint test has other degrees of freedom than Student's t."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 3))
    inference, solution = inferred(x, 0.05 * x[:, 0] + rng.normal(size=4000))
    for place in range(4):
        test = inference.wald([place])
        assert test.p_value == pytest.approx(inference.p_values[0, place], rel=1e-9)
        ratio = solution.weights[0, place] / inference.bse[0, place]
        assert test.statistic == pytest.approx(ratio**2, rel=1e-9)


def test_joint_tests_do_not_depend_on_the_basis():
    """Fails if covariances of weights are left out: only then a mixture of columns changes it."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 2)) @ [[1.0, 0.9], [0.0, 0.3]]
    y = np.where(0.2 * x[:, 1] + rng.logistic(size=4000) > 0.0, 1.0, -1.0)
    found = []
    for matrix in (np.eye(2), np.array([[3.0, 1.0], [-2.0, 5.0]])):
        learner = ExactLearner(Logistic(), 2, l2=None)
        learner.advance(x @ matrix, y)
        found.append(learner.inference.wald([0, 1]).statistic)
    assert found[0] == pytest.approx(found[1], rel=1e-4)


def test_a_repeated_column_is_not_counted():
    """Fails if a singular covariance is inverted."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(4000, 2))
    inference, _ = inferred(x[:, [0, 1, 1]], x[:, 0] + rng.normal(size=4000))
    assert inference.wald([0, 1, 2]).weights <= 2


def test_anytime_intervals_hold_whenever_they_are_looked_at():
    """Fails for ordinary intervals: watched so, over a third of the streams leave them."""
    streams, rows = 40, 12_000
    left = np.zeros((2, 3))
    for seed in range(streams):
        rng = np.random.default_rng((seed, 32))
        x, noise = autoregressive(rng, rows, RHO, 2), autoregressive(rng, rows, RHO)
        fit, out = SquaredFit(2), np.zeros((2, 3), dtype=bool)
        for start in range(0, rows, 200):
            here = slice(start, start + 200)
            fit.add(x[here], noise[here])
            if start >= 800:
                for kind in (0, 1):
                    ends = fit.inference.conf_int(anytime=bool(kind))[0]
                    out[kind] |= (ends[:, 0] > 0.0) | (ends[:, 1] < 0.0)
        left += out
    ordinary, anytime = left.mean(axis=1) / streams
    assert ordinary > 0.2
    assert anytime < 0.05 + 2.0 * np.sqrt(0.05 * 0.95 / (3 * streams))


@pytest.mark.parametrize("seed", range(4))
def test_a_burst_of_large_errors_is_not_taken_for_correlation(seed):
    """Catches single rows measured on the kept windows alone: 3,400 to 160,000 effective rows.

    Nearly all of the variance is in two or three batches, with 100 weights: a relative standard
    error of about √(2/2/100) = 10 %, and four of them are allowed.
    """
    rng = np.random.default_rng(seed)
    rows, start = rng.normal(size=(40_000, 100)), rng.integers(39_000)
    noise = rng.normal(size=40_000)
    noise[start : start + 1000] *= 20.0
    found, _ = inferred(rows, rows[:, 0] + noise)
    assert abs(40_000 / found.effective_rows - 1.0) < 0.4
