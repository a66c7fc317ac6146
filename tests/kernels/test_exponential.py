"""The kernels' exponential, against one with at least eleven more binary digits."""

import math
from decimal import Decimal

import numba
import numpy as np
import pytest

from mixfree.kernels.exponential import exponential

LARGEST = np.log(np.finfo(np.float64).max)
RANGES = {
    "all numbers": (-746.0, LARGEST),
    "too small for all digits": (-746.0, -708.0),
    "around zero": (-1.0, 1.0),
    "close to zero": (-1e-9, 1e-9),
    "at the ends of the quick part": (699.9, 700.1),
}


@numba.njit
def each(values):
    out = np.empty(values.size)
    for i in range(values.size):
        out[i] = exponential(values[i])
    return out


def units_in_the_last_place(values):
    """The largest error."""
    if np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant:
        truth = np.exp(values.astype(np.longdouble))
        return np.max(np.abs(each(values) - truth) / np.spacing(truth.astype(np.float64)))
    few = values[::25]  # where a long double is a double: decimal numbers take long
    truths = [Decimal(value).exp() for value in few.tolist()]
    return max(
        abs(Decimal(found) - truth) / Decimal(math.ulp(float(truth)))
        for found, truth in zip(each(few).tolist(), truths, strict=True)
    )


@pytest.mark.parametrize("name", RANGES)
def test_within_one_unit_in_the_last_place(name):
    values = np.random.default_rng(0).uniform(*RANGES[name], 500_000)
    assert units_in_the_last_place(values) < 1.0


def test_where_the_table_changes():
    borders = (np.arange(-100_000, 100_000) + 0.5) * np.log(2.0) / 128
    for values in (borders, np.nextafter(borders, np.inf), np.nextafter(borders, -np.inf)):
        assert units_in_the_last_place(values) < 1.0


def test_beyond_all_numbers():
    values = np.array([0.0, -0.0, 5e-324, -5e-324, np.inf, -np.inf, 710.0, -746.0, 1e300, -1e300])
    assert each(values).tolist() == [1.0, 1.0, 1.0, 1.0, np.inf, 0.0, np.inf, 0.0, np.inf, 0.0]
    assert np.isnan(each(np.array([np.nan]))[0])


def test_single_precision_is_rounded_once():
    values = np.linspace(-80.0, 80.0, 10_001).astype(np.float32)
    assert np.array_equal(each(values), each(values.astype(np.float64)))
