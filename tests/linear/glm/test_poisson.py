"""Counts: against scikit-learn, on streams beyond the memory, and beside extreme targets."""

import numpy as np
import pytest
from sklearn.linear_model import PoissonRegressor

from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.losses import Poisson
from mixfree.sklearn import StreamRegressor


def counts(rows=8000, level=1.0, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4)) * [1.0, 30.0, 1.0, 0.1] + [0.0, 500.0, 0.0, 0.0]
    line = x @ [0.5, 0.01, -0.3, 1.0] + level - 5.0
    return x, rng.poisson(np.exp(line)).astype(float)


def mean_loss(weights, x, y):
    return Poisson().value(x @ weights[:-1] + weights[-1], y).mean()


def best(x, y, weights=None):
    mean, size = x.mean(axis=0), x.std(axis=0)
    model = PoissonRegressor(alpha=0.0, solver="newton-cholesky", tol=1e-9 * (1.0 + y.mean()))
    model.fit((x - mean) / size, y, weights)
    return np.append(model.coef_ / size, model.intercept_ - model.coef_ / size @ mean)


@pytest.mark.parametrize("level", [-3.0, 1.0, 14.0])
def test_the_fit_is_that_of_scikit_learn(level):
    """Fails if the search starts at a mean of 1, from which steps to a million are too long."""
    x, y = counts(level=level)
    learner = ExactLearner(Poisson(), 4, l2=None)
    learner.advance(x, y)
    least = mean_loss(best(x, y), x, y)
    np.testing.assert_allclose(mean_loss(learner.weights[0], x, y), least, rtol=1e-9)


def test_beyond_the_memory():
    """Fails without the correction by the sums: the loss is 10⁻³ above its minimum then."""
    x, y = counts(20_000)
    learner = ExactLearner(Poisson(), 4, l2=None, memory=1024)
    learner.advance(x, y)
    above = mean_loss(learner.weights[0], x, y) - mean_loss(best(x, y), x, y)
    assert 0.0 < above < learner.gap.upper < 1e-4


def test_predictions_are_means_and_intervals_follow_their_size():
    """Fails if the logarithm is predicted, or if intervals have one width for all means."""
    parts = []
    for seed in range(4):  # the coverage of one stream has a standard deviation of 0.02
        x, y = counts(12_000, level=2.0, seed=seed)
        model = StreamRegressor("poisson").fit(x[:8000], y[:8000])
        mean, low, high = model.predict(x[8000:], 0.9)
        assert mean.sum() == pytest.approx(y[8000:].sum(), rel=0.03)
        inside = (low <= y[8000:]) & (y[8000:] <= high)
        parts.append([part.mean() for part in np.array_split(inside[np.argsort(mean)], 2)])
    assert (np.abs(np.mean(parts, axis=0) - 0.9) < 0.03).all(), parts
    assert (low >= 0.0).all()
    _, low, high = model.predict(x[:5], 0.9, interval_of="mean")
    assert (low < model.predict(x[:5])).all() and (model.predict(x[:5]) < high).all()


def test_negative_targets_are_refused():
    """Fails if a negative count is learnt."""
    with pytest.raises(ValueError, match="must not be negative, not -1"):
        StreamRegressor("poisson").fit(np.ones((3, 1)), [1.0, -1.0, 2.0])
