"""Rows with codes have the sums of the matrix that they stand for."""

import numpy as np
import pytest

from mixfree.linear.exact.coded import Coded
from mixfree.linear.exact.sums import Sums, sums_of


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_sums_are_those_of_the_matrix(offset):
    """Catches a table that counts pairs twice, a column in a wrong place, and lost digits."""
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.choice([0, 2, 9], 500), rng.choice([4, 5, 7, 9], 500)])
    numbers, targets = offset + rng.normal(size=(500, 3)), rng.normal(size=(500, 1))
    places = [np.array([0, 2, 9]), np.array([4, 5, 7, 9])]  # column 8 is 0
    listed = [where.searchsorted(each) for where, each in zip(places, codes.T, strict=True)]
    rows = Coded([*numbers.T], np.array([1, 3, 6]), listed, places, 9)
    dense = np.asarray(rows)
    assert dense.shape == rows.shape == (500, 9)
    np.testing.assert_array_equal(dense[:, [1, 3, 6]], numbers)
    chosen = np.eye(10)[codes].sum(axis=1)
    np.testing.assert_array_equal(dense[:, [0, 2, 4, 5, 7, 8]], chosen[:, [0, 2, 4, 5, 7, 8]])
    before = Sums.nothing(9, 1)
    for part in (slice(0, 200), slice(200, 500)):
        found = rows[part].sums(targets[part], before)
        expected = sums_of(dense[part], targets[part])
        for mine, its in zip(found._arrays, expected._arrays, strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-9, atol=1e-7)
        before = found


def test_columns_that_rows_do_not_have_are_0_wherever_they_are_written():
    """Catches gaps of later batches counted from what happened to be in memory."""
    rows = Coded([np.arange(3.0)], np.array([1]), [], [], 3)
    found = np.full((3, 4), 7.0)
    rows.write(found)
    np.testing.assert_array_equal(found[:, :3], np.asarray(rows))
