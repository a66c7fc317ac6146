"""P-values, joint tests and anytime intervals of exact fits."""

import numpy as np
import pytest
from scipy import signal, stats

from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.losses import Logistic, Squared

RHO = 0.9
STREAMS = 300


def autoregressive(rng, rows, columns):
    noise = rng.normal(size=(rows, columns))
    noise[1:] *= np.sqrt(1.0 - RHO**2)
    return signal.lfilter([1.0], [1.0, -RHO], noise, axis=0)


@pytest.fixture(scope="module")
def p_values():
    """P-values of one weight of 0 and of five, for streams with ρ = 0.9."""
    found = []
    for seed in range(STREAMS):
        rng = np.random.default_rng((seed, 31))
        x, noise = autoregressive(rng, 6000, 6), autoregressive(rng, 6000, 1)[:, 0]
        learner = ExactLearner(Squared(), 6)
        learner.advance(x, x[:, 5] + noise)
        found.append([learner.inference.p_values[0, 0], learner.inference.wald(range(5)).p_value])
    return np.array(found).T


@pytest.mark.parametrize("joint", [0, 1], ids=["one weight", "five weights"])
def test_p_values_are_uniform_under_the_null(p_values, joint):
    """Fails for errors of independent rows, for the normal law, and for χ² instead of F."""
    found = p_values[joint]
    assert stats.kstest(found, "uniform").pvalue > 0.01
    # Three standard errors of the share, and a point since batches are not quite independent.
    assert abs(np.mean(found < 0.05) - 0.05) < 0.01 + 3.0 * np.sqrt(0.05 * 0.95 / STREAMS)


def test_one_weight_has_the_same_p_value_alone_and_jointly():
    """Fails if the joint test has other degrees of freedom than Student's t."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 3))
    learner = ExactLearner(Squared(), 3)
    learner.advance(x, 0.05 * x[:, 0] + rng.normal(size=4000))
    for place in range(4):
        test = learner.inference.wald([place])
        assert test.p_value == pytest.approx(learner.inference.p_values[0, place], rel=1e-9)
        ratio = learner.weights[0, place] / learner.inference.bse[0, place]
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
    learner = ExactLearner(Squared(), 3)
    learner.advance(x[:, [0, 1, 1]], x[:, 0] + rng.normal(size=4000))
    assert learner.inference.wald([0, 1, 2]).weights <= 2


def test_anytime_intervals_hold_whenever_they_are_looked_at():
    """Fails for ordinary intervals: watched so, over a third of the streams leave them."""
    streams, rows = 40, 12_000
    left = np.zeros((2, 3))
    for seed in range(streams):
        rng = np.random.default_rng((seed, 32))
        x, noise = autoregressive(rng, rows, 2), autoregressive(rng, rows, 1)[:, 0]
        learner, out = ExactLearner(Squared(), 2), np.zeros((2, 3), dtype=bool)
        for start in range(0, rows, 200):
            here = slice(start, start + 200)
            learner.advance(x[here], noise[here])
            if start >= 800:
                for kind in (0, 1):
                    ends = learner.inference.conf_int(anytime=bool(kind))[0]
                    out[kind] |= (ends[:, 0] > 0.0) | (ends[:, 1] < 0.0)
        left += out
    ordinary, anytime = left.mean(axis=1) / streams
    assert ordinary > 0.2
    assert anytime < 0.05 + 2.0 * np.sqrt(0.05 * 0.95 / (3 * streams))
