"""Control variates: sums in the units of the fit, the best β, and the error from sampling."""

import numpy as np
import pytest
from scipy import linalg

from mixfree.linear.exact.sums import sums_of
from mixfree.linear.glm import control_variates
from mixfree.linear.glm import rows as rows_module
from mixfree.linear.glm.control_variates import ERROR_DRAWS, _signs, functions
from mixfree.linear.glm.fit import GlmFit
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
def solved(request, monkeypatch):
    monkeypatch.setattr(rows_module, "MAX_SLAB_VALUES", 300)  # several slabs of kept rows
    fit = GlmFit(request.param, 2, memory=MEMORY)
    fit.add(*data(request.param))
    return fit._solved()


def unexplained(solved, beta=None):
    """Kept rows, and the slopes of their weighted losses that β does not explain."""
    problem, point = solved
    kept, theta = problem.rows.sample, point.theta
    x, targets = problem.rows.standardised(kept.rows), problem.rows.targets(kept)
    basis, slope = problem.controls._slopes(point.objective, kept, x, targets, theta)
    rest = slope - np.einsum("njk,kj->nk", basis, point.objective.beta if beta is None else beta)
    return x, rest * kept.weights[:, None]


def gradients(solved):
    """Errors of the gradient that single rows cause, in the unit of the stream's mean."""
    problem, point = solved
    x, rest = unexplained(solved)
    if rest.shape[1] > 1:
        rest -= rest.mean(axis=1, keepdims=True)
    free = len(x) - point.objective.beta.shape[1] - 2 * x.shape[1]
    scale = problem.rows.factor / problem.rows.weight * np.sqrt(len(x) / free)
    each = rest[:, :, None] * x[:, None, :]
    return x, rest, scale * (each - each.mean(axis=0))


def test_sums_are_standardised_as_rows_are(solved):
    """Catches sums about another mean, or products without their weight."""
    rows, controls = solved[0].rows, solved[0].controls
    loss = rows.settings.loss
    x, y, weights = data(loss, 50, seed=9)
    before = np.random.default_rng(1).normal(size=(50, loss.outputs))
    kept = Kept(x + 0.5, y, weights, before)
    values = np.ascontiguousarray(functions(loss, before, y).T)
    functions_found, moments_found = controls.totals(sums_of(kept.rows, values, weights))
    z = rows.standardised(kept.rows)
    wanted = (controls._functions(kept).reshape(50, -1) * weights[:, None]).T @ z
    np.testing.assert_allclose(functions_found, wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moments_found, (z * weights[:, None]).T @ z, rtol=1e-9, atol=1e-9)


def test_no_other_beta_leaves_less_variance(solved):
    """Catches weights of rows that are not squared, or a second moment taken for a variance."""
    problem, point = solved
    best = problem.controls.best_beta(point.objective, point.theta)
    root = np.linalg.cholesky(problem.controls._metric)

    def left(beta, output):
        x, rest = unexplained(solved, beta)
        white = linalg.solve_triangular(root, x.T, lower=True).T * rest[:, [output]]
        return (white - white.mean(axis=0)).ravel()

    for k in range(len(best)):
        none = left(0.0 * best, k)
        each = [none - left(np.where(np.arange(best.shape[1]) == j, 1.0, 0.0 * best), k)
                for j in range(best.shape[1])]  # fmt: skip
        least = none - np.column_stack(each) @ np.linalg.lstsq(np.column_stack(each), none)[0]
        assert np.sum(left(best, k) ** 2) <= (1.0 + 1e-5) * np.sum(least**2)


def test_beta_is_chosen_by_rows_of_the_whole_sample(monkeypatch):
    """Catches a choice by the first rows alone, which here leaves far more of the slopes."""
    monkeypatch.setattr(control_variates, "MAX_BETA_ROWS", 300)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 2)) * np.repeat([[0.2], [3.0]], 2000, axis=0)
    y = np.where(x @ [1.5, -1.0] + rng.logistic(size=4000) > 0.0, 1.0, -1.0)
    fit = GlmFit(Logistic(), 2, memory=MEMORY)
    fit.add(x, y)
    problem, point = fit._solved()
    some = problem.controls.best_beta(point.objective, point.theta)
    monkeypatch.setattr(control_variates, "MAX_BETA_ROWS", MEMORY)
    best = problem.controls.best_beta(point.objective, point.theta)
    whole = np.sum(unexplained((problem, point), best)[1] ** 2)
    assert np.sum(unexplained((problem, point), some)[1] ** 2) < 1.3 * whole


def test_cumulants_are_those_of_the_gradients_error(solved):
    """Catches a finite stream taken for an infinite one, and powers of eigenvalues."""
    problem, point = solved
    x, rest, errors = gradients(solved)
    errors = errors.reshape(len(x), -1)
    shape = (-1, *point.theta.shape)
    spread = (1.0 - 1.0 / problem.rows.factor) * errors.T @ errors
    moved = point.solve(spread.reshape(shape))
    eigenvalues = np.linalg.eigvals(moved.reshape(len(spread), -1)).real
    mean, variance, third, freedom = problem.controls.excess_loss(point)
    white = linalg.solve_triangular(point.metric, x.T, lower=True)
    each = np.sum(white**2, axis=0) * np.sum(rest**2, axis=1)
    assert freedom == pytest.approx(2.0 * len(each) * each.mean() ** 2 / each.var(), rel=1e-6)
    wanted = [np.sum(eigenvalues**power) / share for power, share in ((1, 2), (2, 2), (3, 1))]
    if len(point.theta) == 1:
        assert [mean, variance, third] == pytest.approx(wanted, rel=1e-6, abs=0.0)
    else:
        assert mean == pytest.approx(wanted[0], abs=4.0 * np.sqrt(variance / ERROR_DRAWS))
        assert third == pytest.approx(2.0 * variance**2 / mean, rel=1e-9, abs=0.0)


def test_random_gradients_are_the_same_however_rows_are_cut(solved):
    """Catches signs that repeat from slab to slab, and gradients that are not centred."""
    problem, point = solved
    _, _, errors = gradients(solved)
    wanted = np.einsum("nd,nkq->dkq", _signs(0, len(errors)), errors) / np.sqrt(ERROR_DRAWS)
    found = problem.controls.sampling_errors(point)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9 * np.abs(found).max())
