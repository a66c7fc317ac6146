"""The level law and the estimator, exactly and not by sampling (Lemma 3.1)."""

import numpy as np
import pytest
from scipy import stats

import mixfree as mf


def estimate(law, gradients, level):
    """The estimator as Eq. (6) writes it, from the means of the first samples."""
    mean = lambda j: gradients[: 2**j].mean(axis=0)  # noqa: E731
    if level == 0:
        return mean(0)
    return mean(0) + law.coefficients[level - 1] * (mean(level) - mean(level - 1))


def running_sum(law, gradients, length):
    """The same from the signed running sum."""
    weights = [law.weight(i, length) for i in range(length)]
    return law.scale(length) * (np.array(weights) @ gradients[:length])


@pytest.mark.parametrize("levels", [1, 5, 12])
def test_coefficients_undo_the_probabilities_and_the_papers_are_too_large(levels):
    """The paper's by the truncated mass."""
    for weights, product in (("exact", 1.0), ("paper", 1.0 / (1.0 - 2.0**-levels))):
        law = mf.MLMC(levels, weights)
        np.testing.assert_allclose(law.probabilities * law.coefficients, product, rtol=1e-12)
        np.testing.assert_allclose(law.probabilities.sum(), 1.0, rtol=1e-12)
        expected = np.sum(law.probabilities * 2.0**law.support)
        np.testing.assert_allclose(law.expected_samples, expected, rtol=1e-12)


@pytest.mark.parametrize("law", [mf.MLMC(5), mf.MLMC(5, "paper"), mf.MLMC(None, horizon=40)])
def test_the_running_sum_is_the_estimator(law):
    gradients = np.random.default_rng(0).standard_normal((64, 3))
    for level in law.support:
        np.testing.assert_allclose(
            running_sum(law, gradients, 2**level), estimate(law, gradients, level), rtol=1e-12
        )


@pytest.mark.parametrize(("levels", "horizon"), [*((None, n) for n in (1, 7, 8, 9, 1024)), (5, 32)])
def test_mean_over_levels_is_the_mean_of_the_largest_window(levels, horizon):
    law = mf.MLMC(levels=levels, horizon=None if levels else horizon)
    gradients = np.random.default_rng(horizon).standard_normal((horizon, 4))
    largest = int(np.log2(horizon))
    assert len(law.support) == largest
    beyond = 1.0 - law.probabilities.sum()
    mean = beyond * running_sum(law, gradients, 1)
    for level, probability in zip(law.support, law.probabilities, strict=True):
        mean = mean + probability * running_sum(law, gradients, 2**level)
    np.testing.assert_allclose(mean, gradients[: 2**largest].mean(axis=0), rtol=1e-12, atol=1e-14)
    if not levels:
        expected = 1 + sum(2.0**-j * (2**j - 1) for j in range(1, largest + 1))
        np.testing.assert_allclose(law.expected_samples, expected, rtol=1e-14)


def test_the_anytime_law_is_capped_by_the_samples_seen():
    law = mf.MLMC(levels=None, seed=4)
    assert law.level(1, samples=0) == 0
    for samples in (1, 2, 5, 64, 1000):
        drawn = [law.level(t, samples) for t in range(3000)]
        same = law.at(samples)
        assert drawn == [same.level(t, samples) for t in range(3000)]
        assert max(drawn) == len(same.support)
    with pytest.raises(ValueError, match="grows with the samples"):
        _ = law.probabilities


@pytest.mark.parametrize("levels", [None, 5])
def test_the_drawn_levels_have_their_probabilities(levels):
    draws = 1_000_000
    law = mf.MLMC(levels=levels, horizon=None if levels else 2**40, seed=2022)
    zeros = _zeros(law.key, 1000)  # by a twin, which is a hundred times faster
    assert [law.level(t) for t in range(1, 1001)] == list(1 + (zeros % levels if levels else zeros))
    drawn = 1 + _zeros(law.key, draws) % (levels or 64)
    largest = levels or 15
    counts = np.bincount(np.minimum(drawn, largest), minlength=largest + 1)[1:]
    expected = law.probabilities[:largest].copy()
    expected[-1] = 1.0 - expected[:-1].sum()
    result = stats.chisquare(counts, draws * expected)
    assert result.pvalue > 1e-3 if largest > 1 else counts[0] == draws, result


def test_levels_of_other_steps_and_of_other_seeds_are_independent():
    one, other = (np.minimum(_zeros(mf.MLMC(seed=seed).key, 1_000_000), 5) for seed in (7, 8))
    for pair in ((one[:-1], one[1:]), (one, other)):
        assert stats.chi2_contingency(stats.contingency.crosstab(*pair).count).pvalue > 1e-3


def _zeros(key, draws):
    import numba

    from mixfree.kernels.draws import trailing_zeros

    @numba.njit
    def many(first, second, draws):
        out = np.empty(draws, np.int64)
        for t in range(draws):
            out[t] = trailing_zeros(first, second, t + 1)
        return out

    return many(*key, draws)
