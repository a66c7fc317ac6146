"""Outputs against their definitions."""

import numpy as np
import pytest
from scipy import stats

from mixfree.outputs import OUTPUTS, Average, Last, RandomIterate, TailAverage, WeightedAverage

ITERATES = np.random.default_rng(0).standard_normal((130, 3))


def feed(output, count):
    state = output.start(np.zeros(3))
    for iterate in ITERATES[:count]:
        output.add(state, iterate)
    return output.point(state, np.full(3, 9.0))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 100])
def test_against_the_definition(count):
    w = ITERATES[:count]
    np.testing.assert_allclose(feed(Average(), count), w.mean(axis=0), rtol=1e-12)
    weighted = np.average(w, axis=0, weights=np.arange(1, count + 1))
    np.testing.assert_allclose(feed(WeightedAverage(), count), weighted, rtol=1e-12)
    begun = 2 ** int(np.log2(count))
    tail = w[max(0, begun // 2 - 1) :]
    np.testing.assert_allclose(feed(TailAverage(), count), tail.mean(axis=0), rtol=1e-12)
    assert len(tail) >= count / 2
    assert count < 4 or len(tail) <= 0.75 * count + 1
    np.testing.assert_array_equal(feed(Last(), count), np.full(3, 9.0))
    assert any(np.array_equal(feed(RandomIterate(), count), iterate) for iterate in w)


def test_the_random_iterate_is_uniform():
    count, seeds = 8, 8000
    kept = np.zeros(count)
    for seed in range(seeds):
        output = RandomIterate(seed)
        state = output.start(np.zeros(1))
        for i in range(count):
            output.add(state, np.array([float(i)]))
        kept[int(state.kept[0])] += 1
    result = stats.chisquare(kept)
    assert result.pvalue > 1e-3, kept


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_output_is_the_point_at_first_and_a_copy_in_its_precision(name):
    output = OUTPUTS[name]()
    x = np.zeros(2, np.float32)
    state = output.start(x)
    np.testing.assert_array_equal(output.point(state, x + 1.0), x if name == "random" else x + 1.0)
    output.add(state, x)
    point = output.point(state, x)
    assert point.dtype == np.float32
    point += 1.0
    np.testing.assert_array_equal(output.point(state, x), 0.0)


def test_the_weighted_average_of_single_precision_is_summed_in_double():
    # A product in single precision has an error of 1e-8 per iterate that the sum keeps.
    iterates = np.random.default_rng(0).uniform(1.0, 2.0, (2000, 1)).astype(np.float32)
    output = WeightedAverage()
    state = output.start(iterates[0])
    for iterate in iterates:
        output.add(state, iterate)
    weights = np.arange(1.0, 2001.0)
    np.testing.assert_allclose(state.sum, weights @ iterates.astype(np.float64), rtol=1e-14)
