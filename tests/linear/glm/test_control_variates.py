"""Control variates: sums in the units of the fit, the best β, and the error from sampling."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import linalg, stats

from mixfree.linear.exact.sums import sums_of
from mixfree.linear.glm import rows as rows_module
from mixfree.linear.glm.control_variates import ERROR_DRAWS, functions
from mixfree.linear.glm.fit import GlmFit
from mixfree.linear.glm.newton import Correction
from mixfree.linear.glm.rows import Kept
from mixfree.linear.losses import Huber, Logistic, Softmax

ROWS, MEMORY = 3000, 1500


def data(loss, rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal([3.0, 0.0], size=(rows, 2))
    scores = np.c_[x, x.sum(axis=1)] + rng.gumbel(size=(rows, 3))
    y = scores.argmax(axis=1).astype(float)
    if loss == Logistic():
        y = np.where(y > 0.0, 1.0, -1.0)
    elif isinstance(loss, Huber):
        y = 5.0 + x[:, 0] + rng.standard_t(2.0, size=rows)
    return x, y, rng.uniform(0.2, 3.0, size=rows)


@pytest.fixture(params=[Logistic(), Softmax(3), Huber(0.7)], ids=str)
def fit(request, monkeypatch):
    monkeypatch.setattr(rows_module, "MAX_SLAB_VALUES", 300)  # several slabs of kept rows
    found = GlmFit(request.param, 2, memory=MEMORY)
    found.add(*data(request.param))
    return found


@pytest.fixture
def solved(fit):
    return fit.solution


def gradients(solved, beta=None):
    """Errors of the gradient that single rows cause: rows × outputs × weights."""
    problem, point = solved
    if beta is not None:
        given = replace(point.objective, correction=Correction(None, None, beta))
        point = replace(point, objective=given)
    x = problem.rows.standardised(problem.rows.sample.rows)
    return problem.controls.residuals(point)[:, :, None] * x[:, None, :]


def test_sums_are_standardised_as_rows_are(solved):
    """Catches sums about another mean, or products without their weight."""
    rows, controls = solved[0].rows, solved[0].controls
    loss = rows.settings.loss
    x, y, weights = data(loss, 50, seed=9)
    before = np.random.default_rng(1).normal(size=(50, loss.outputs))
    kept = Kept(x + 0.5, y, weights, before)
    values = functions(loss, before, y)
    functions_found, moments_found = controls.totals(sums_of(kept.rows, values, weights))
    z = rows.standardised(kept.rows)
    wanted = (controls._functions(kept).reshape(50, -1) * weights[:, None]).T @ z
    np.testing.assert_allclose(functions_found, wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moments_found, (z * weights[:, None]).T @ z, rtol=1e-9, atol=1e-9)


def test_what_is_left_of_slopes_is_what_beta_does_not_explain(solved):
    """Catches functions in another order than their coefficients, and outputs exchanged."""
    problem, point = solved
    kept, loss = problem.rows.sample, problem.rows.settings.loss
    targets, shift = loss.encoded(kept.targets), problem.rows.shift
    slope = loss.derivative(kept.before.squeeze(), kept.targets).reshape(targets.shape)
    known = [targets - shift, kept.before - shift, slope, np.ones_like(slope), point.predictions]
    rest = point.slopes - np.einsum("jnk,kj->nk", known, point.objective.correction.beta)
    rest *= kept.weights[:, None]
    rest -= rest.mean(axis=1, keepdims=True) if loss.outputs > 1 else 0.0
    np.testing.assert_allclose(problem.controls.residuals(point), rest, atol=1e-12)


def test_no_other_beta_leaves_less_variance(solved):
    """Catches weights of rows that are not squared, or a second moment taken for a variance."""
    problem, point = solved
    best = problem.controls.best_beta(point)
    root = np.linalg.cholesky(problem.controls._metric)

    def left(beta):
        each = gradients(solved, beta)
        each = each - each.mean(axis=0)
        return np.sum(linalg.solve_triangular(root, each.reshape(-1, len(root)).T, lower=True) ** 2)

    if len(best) == 1:  # outputs are explained one by one, though their residuals sum to 0
        for j in range(best.shape[1]):
            for move in (-1e-3, 1e-3):
                assert left(best + move * (np.arange(best.shape[1]) == j)) > left(best)


def test_beta_is_that_of_the_minimum(solved):
    """Catches a β chosen where the search began, which explains slopes of other weights."""
    problem, point = solved
    used = point.objective.correction.beta
    assert np.abs(used - problem.controls.best_beta(point)).max() < 1e-3


def test_the_gap_is_half_the_error_in_the_metric_of_the_hessian(fit):
    """Catches a finite stream taken for an infinite one, and variances of signs for normal ones."""
    (problem, point), inference = fit.solution, fit.inference
    errors = np.sqrt(ERROR_DRAWS) * problem.controls.sampling_errors(point)
    spread = (
        np.einsum("bkq,bjr->kqjr", errors, errors) / ERROR_DRAWS * (1 - 1 / problem.rows.factor)
    )
    size = point.theta.size
    moved = point.solve(spread.reshape(size, *point.theta.shape)).reshape(size, size)
    mean, square = np.trace(moved) / 2, np.trace(moved @ moved) / 2
    found = inference.gap
    assert found.estimate == pytest.approx(mean, rel=1e-9)
    # The covariance of 64 draws has larger squares than that of all: about 1/64 of the mean's.
    shape = mean**2 / (square - 2.0 * mean**2 / ERROR_DRAWS)
    least = stats.f.ppf(0.98, 2 * shape, inference._freedom_of(problem.controls.residuals(point)))
    assert found.upper / found.estimate == pytest.approx(least, rel=0.1)
