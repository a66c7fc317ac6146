"""Sums of a stream for control variates: merging, tiny values, and damaged states."""

import numpy as np
import pytest

from mixfree.linear.exact.streamsums import StreamSums
from mixfree.linear.exact.sums import sums_of


def data(rows, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 2)) + 1.0, rng.normal(size=(3, rows))


def added(x, functions, expected=0):
    sums = StreamSums(2, 3, expected=expected)
    sums.add(x, functions, None)
    return sums


def assert_close(found, x, functions):
    wanted = sums_of(x, functions.T.copy())
    assert found.rows == wanted.rows
    for name in ("weight", "mean", "scatter", "cross", "squares"):
        one, other = getattr(found, name), getattr(wanted, name)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("expected", [(0, 0), (0, 5000), (9000, 0)])
def test_merged_batches_have_one_length_and_rows_of_one_stream(expected, order):
    """Catches batches of different lengths side by side, or joined with those of the other."""
    parts = [data(1000, 1), data(3000, 2)]
    sums = [added(*part, rows) for part, rows in zip(parts, expected, strict=True)]
    one, two = (sums[place] for place in order)
    before = two.plain()
    one.merge(two)
    np.testing.assert_equal(two.plain(), before)
    x, functions = (np.concatenate([parts[p][i] for p in order], axis=i) for i in (0, 1))
    assert_close(one.total, x, functions)
    length, closed = one.batches.length, iter(one.batches.items)
    for place in order:
        rows, values = parts[place]
        for start in range(0, len(rows) - length + 1, length):
            own = slice(start, start + length)
            assert_close(next(closed), rows[own], values[:, own])
    assert next(closed, None) is None
    one.add(*data(500, 3), None)
    assert one.rows == 4500


def test_a_state_with_too_many_batches_is_refused():
    sums = added(*data(1000))
    before, state = sums.plain(), sums.plain()
    state["batches"]["items"] = state["batches"]["items"][:1] * 64
    with pytest.raises(ValueError, match="fewer than 64 batches, not 64"):
        sums.restored(state, "sums")
    np.testing.assert_equal(sums.plain(), before)
