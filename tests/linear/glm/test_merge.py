"""Merged fits of other losses than the squared one: every row counts once, whoever kept it."""

import numpy as np
import pytest

from mixfree.linear.glm.fit import GlmFit
from mixfree.linear.losses import Logistic
from tests.helpers import assert_same_bits

MEMORY = 256


def data(rows, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)) + seed
    return x, np.sign(x[:, 0] - seed + rng.logistic(size=rows)), rng.uniform(0.5, 2.0, size=rows)


def fitted(*parts):
    fit = GlmFit(Logistic(), 2, memory=MEMORY)
    for part in parts:
        fit.add(*part)
    return fit


@pytest.mark.parametrize("rows", [(100, 120), (100, 2001), (2001, 100), (2001, 1003), (200, 200)])
def test_all_rows_of_both_are_in_the_sums_and_the_other_is_unchanged(rows):
    """Catches rows that are dropped, counted twice, or lose their weights; and old answers."""
    one, two = (data(count, seed) for seed, count in enumerate(rows))
    fit, other = fitted(one), fitted(two)
    before, asked, first = other.plain(), fit.weights(), fit.inference
    fit.merge(other)
    assert_same_bits(other.plain(), before)
    assert fit.samples == sum(rows)
    assert fit.inference is not first and not np.allclose(fit.weights(), asked)
    x, _, weights = (np.concatenate(both) for both in zip(one, two, strict=True))
    if fit.complete:
        np.testing.assert_array_equal(fit.weights(), fitted(one, two).weights())
        return
    whole = fit.copy()
    whole._flush()
    assert whole._sample.seen == whole._sums.rows == sum(rows)
    total = whole._sums.total
    assert total.weight == pytest.approx(weights.sum())
    np.testing.assert_allclose(total.mean[:2], np.average(x, axis=0, weights=weights))
    kept = whole._rows()
    assert set(zip(*kept.rows.T, kept.weights, strict=True)) <= set(zip(*x.T, weights, strict=True))


def test_what_was_merged_once_is_not_merged_again():
    one, two, three = (fitted(data(1000, seed)) for seed in range(3))
    one.merge(two)
    one.merge(three)
    with pytest.raises(ValueError, match="begin with the same rows"):
        one.merge(two)
