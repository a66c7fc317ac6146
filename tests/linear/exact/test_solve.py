"""Least squares from sums, against lstsq on standardised columns, Ridge and optimality."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from mixfree.linear.exact.solve import solve
from mixfree.linear.exact.sums import Sums, sums_of


def fitted(x, y, weights=None, **options):
    return solve(sums_of(x, np.asarray(y).reshape(len(x), -1), weights), **options)


def standardised_lstsq(x, y):
    """Predictions of numpy.linalg.lstsq on standardised columns with an intercept."""
    size = np.ptp(x, axis=0)
    z = (x - x[0]) / np.where(size > 0.0, size, 1.0)
    z = z - z.mean(axis=0)
    z = z / np.where(z.std(axis=0) > 0.0, z.std(axis=0), 1.0)
    z = np.c_[z, np.ones(len(z))]
    weights = np.linalg.lstsq(z, y, rcond=1e-7)[0]
    return z @ weights, np.linalg.matrix_rank(z, tol=1e-7 * np.linalg.norm(z, 2)) - 1


def problem(rows, columns, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns)) @ rng.normal(size=(columns, columns))
    return x, x @ rng.normal(size=columns) + rng.normal(size=rows), rng


def hostile(name, rows=400, seed=0):
    x, y, rng = problem(rows, 6, seed)
    match name:
        case "offset":
            x += 1e7
        case "constant":
            x[:, 2] = 0.1
            x[:, 4] = 0.0
        case "duplicate":
            x[:, 3] = -2.0 * x[:, 1]
        case "sum":
            x[:, 5] = x[:, :5].sum(axis=1)
        case "nearly collinear":
            x[:, 5] = x[:, 0] + 1e-4 * rng.normal(size=rows)
        case "sizes":
            x *= 10.0 ** np.array([-70, 70, -20, 0, 50, 3])
        case "target":
            y = y * 1e70
        case "few rows":
            x, y = x[:4], y[:4]
        case "one row":
            x, y = x[:1], y[:1]
        case "late":
            x[:390, 1] = 0.0
    return x, y


CASES = ["plain", "offset", "constant", "duplicate", "sum", "nearly collinear", "sizes", "target"]
CASES += ["few rows", "one row", "late"]


@pytest.mark.parametrize("name", CASES)
def test_hostile_columns_are_fitted_as_well_as_by_lstsq(name):
    x, y = hostile(name)
    found = fitted(x, y)
    predicted = x @ found.weights[0, :-1] + found.weights[0, -1]
    wanted, rank = standardised_lstsq(x, y)
    size = max(float(np.abs(y - y.mean()).max()), 1e-300)
    # Offsets of 1e7 cost a prediction w·x seven digits, however good the weights are.
    np.testing.assert_allclose(predicted / size, wanted / size, rtol=0, atol=1e-7)
    assert found.rank == rank


def test_least_norm_in_standardised_columns_shares_a_duplicate():
    x, y, _ = problem(300, 2, 0)
    alone = fitted(x, y).weights[0]
    twice = fitted(np.c_[x, 8.0 * x[:, 1]], y).weights[0]
    np.testing.assert_allclose(twice, [alone[0], alone[1] / 2, alone[1] / 16, alone[2]], rtol=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
def test_ridge_is_that_of_scikit_learn_with_a_free_intercept(intercept):
    x, y, _ = problem(200, 5, 2)
    x += 3.0
    both = np.c_[y, y**2]
    ridge = Ridge(alpha=0.3 * 200, fit_intercept=intercept).fit(x, both)
    found = fitted(x, both, l2=0.3, intercept=intercept).weights
    np.testing.assert_allclose(found[:, :5], ridge.coef_, rtol=1e-9)
    if intercept:
        np.testing.assert_allclose(found[:, 5], ridge.intercept_, rtol=1e-9)


def test_how_near_collinear_columns_may_be_is_as_documented():
    rng = np.random.default_rng(4)
    a, noise = rng.normal(size=(2, 20_000))
    y = 2.0 * a + rng.normal(size=20_000)
    ranks = [fitted(np.c_[a, a + e * noise], y).rank for e in (1e-5, 2e-6, 2e-7, 1e-9, 0.0)]
    assert ranks == [2, 2, 1, 1, 1]


def test_nothing_to_learn_from():
    assert not solve(Sums.nothing(3, 1)).weights.any()
    assert fitted(np.zeros((5, 0)), np.arange(5.0)).weights.tolist() == [[2.0]]
