"""The descent: exact minima, few gradients, bad gradients."""

import numpy as np

from mixfree.core.finish import descent


def quadratic(size=20, condition=1e4, seed=0):
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.standard_normal((size, size)))
    hessian = (turn * np.logspace(0.0, -np.log10(condition), size)) @ turn.T
    return hessian, rng.standard_normal(size)


def counted(gradient):
    calls = []

    def count(x):
        calls.append(x)
        return gradient(x)

    return count, calls


def test_a_quadratic_is_minimised_with_few_gradients_in_any_units():
    """Caught: the wrong order of the two loops, a first step that depends on the units."""
    hessian, solution = quadratic()
    for unit in (1e-8, 1.0, 1e8):
        gradient, calls = counted(lambda x, unit=unit: unit * (hessian @ (x - solution)))
        found = descent(gradient, np.zeros(20), 96, least=0.0)[-1]
        away, start = found - solution, solution
        assert away @ hessian @ away < 1e-9 * (start @ hessian @ start)
        assert len(calls) <= 96


def test_it_ends_where_there_is_nothing_to_gain():
    """Caught: passes over the samples that change only the last digits."""
    gradient, calls = counted(lambda x: x - 3.0)
    found = descent(gradient, np.zeros(4), 96)[-1]
    np.testing.assert_allclose(found, 3.0, rtol=1e-12)
    assert len(calls) < 6
    gradient, calls = counted(np.zeros_like)
    assert len(descent(gradient, np.ones(4), 96)) == len(calls) == 1


def test_a_steep_loss_is_followed_to_its_minimum():
    """Caught: a trial point where the loss overflows, taken or fatal."""
    with np.errstate(over="ignore"):
        path = descent(lambda x: np.exp(2000.0 * x) - 1e4, np.full(2, -1.0), 96)
    np.testing.assert_allclose(path[-1], np.log(1e4) / 2000.0, rtol=1e-5)


def test_a_gradient_that_is_not_finite_ends_the_path():
    assert len(descent(lambda x: x * np.nan, np.ones(2), 50)) == 1
    path = descent(lambda x: np.where(x < 1.0, -1.0, np.nan), np.zeros(2), 50)
    assert all(np.isfinite(point).all() for point in path)


def test_a_search_that_runs_out_of_gradients_takes_no_point_that_is_worse():
    """Caught: the last point tried, far beyond the minimum or where nothing is finite."""
    beyond = descent(lambda x: 1e6 * (x - 1e-9), np.zeros(1), 2)
    nowhere = descent(lambda x: np.where(x < 1e-9, -1.0, np.nan), np.zeros(1), 2)
    assert beyond == nowhere == [np.zeros(1)]
    path = descent(lambda x: 1e6 * (x - 1e-9), np.zeros(1), 20)
    np.testing.assert_allclose(path[-1], 1e-9, rtol=1e-6)
