"""The sums of a stream: against exact arithmetic, for any chunking, merging or saving."""

import copy
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from mixfree.linear.exact.batches import Batches
from mixfree.linear.exact.blocks import block_rows
from tests.helpers import assert_same_bits

COLUMNS = 3


def stream(rows, seed=0, offset=0.0, size=1.0):
    rng = np.random.default_rng(seed)
    x = size * (rng.normal(size=(rows, COLUMNS)) + offset)
    return x, rng.normal(size=(rows, 2)), rng.integers(0, 3, rows).astype(float)


def added(*chunks, targets=2):
    batches = Batches(COLUMNS, targets)
    for chunk in chunks:
        batches.add(*chunk)
    return batches


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
def test_any_chunking_gives_the_same_bits_unlike_sums_by_chunk(offset):
    x, y, w = stream(2 * block_rows(COLUMNS) + 100, offset=offset)
    whole = added((x, y, w))
    rng = np.random.default_rng(1)
    for pieces in (1, 7, 400):
        cuts = np.sort(rng.integers(0, len(x) + 1, pieces))
        parts = zip(*(np.split(each, cuts) for each in (x, y, w)), strict=True)
        assert_same_bits(added(*parts).plain(), whole.plain())


def test_the_bits_do_not_depend_on_where_or_how_rows_lie_in_memory():
    x, y, _ = stream(block_rows(COLUMNS) + 5)
    room = np.empty(x.size + 1)
    shifted = room[1:].reshape(x.shape)
    shifted[:] = x
    wide = np.zeros((len(x), 7))
    wide[:, 2:5] = x
    whole = added((x, y))
    for same in (shifted, np.asfortranarray(x), wide[:, 2:5], sparse.csr_array(x)):
        assert_same_bits(added((same, y)).plain(), whole.plain())
    assert_same_bits(added((x, y, np.ones(len(x)))).plain(), whole.plain())


@pytest.mark.parametrize("offset, tolerance", [(0.0, 1e-15), (1e8, 2e-14)])
def test_sums_against_exact_fractions_offsets_costing_no_digits(offset, tolerance):
    x, y, w = stream(300, offset=offset)
    total = added((x, y, w)).total
    exact = [[Fraction(v) for v in row] for row in np.c_[x, y]]
    weight = [Fraction(v) for v in w]
    means = [sum(q * row[j] for q, row in zip(weight, exact, strict=True)) / sum(weight)
             for j in range(COLUMNS + 2)]  # fmt: skip

    def product(i, j):
        return sum(
            q * (row[i] - means[i]) * (row[j] - means[j])
            for q, row in zip(weight, exact, strict=True)
        )

    squares = [float(product(j, j)) for j in range(COLUMNS + 2)]
    for i in range(COLUMNS):
        for j in range(COLUMNS + 2):
            found = total.scatter[i, j] if j < COLUMNS else total.cross[i, j - COLUMNS]
            error = abs(found - float(product(i, j))) / math.sqrt(squares[i] * squares[j])
            assert error < tolerance, (i, j, error)
    np.testing.assert_allclose(total.mean, [float(m) for m in means], rtol=1e-15, atol=1e-15)


def test_columns_of_extreme_size_lose_nothing():
    x, y, w = stream(5000)
    sizes = 2.0 ** np.array([-240, 240, 0])
    usual, extreme = added((x, y, w)).total, added((x * sizes, y * 2.0**-240, w)).total
    np.testing.assert_array_equal(extreme.scatter / sizes / sizes[:, None], usual.scatter)
    np.testing.assert_allclose(extreme.mean[:3] / sizes, usual.mean[:3], rtol=1e-9)


def test_constant_columns_have_no_spread_at_all():
    x = np.tile([0.1, 1e9 / 3.0, 0.0], (3 * block_rows(COLUMNS) + 7, 1))
    assert not added((x, x[:, :2])).total.scatter.any()


def test_zero_weights_are_rows_left_out():
    x, y, w = stream(1000)
    assert_same_bits(added((x, y, w)).plain(), added((x[w > 0], y[w > 0], w[w > 0])).plain())


@pytest.mark.parametrize("place", [0, 8999])
@pytest.mark.parametrize("wrong", [np.nan, -1.1e75])
@pytest.mark.parametrize("where", ["rows", "targets"])
@pytest.mark.parametrize("weight", [None, 1e-70])
def test_values_beyond_the_limit_are_refused_by_name_and_nothing_has_changed(
    place, wrong, where, weight
):
    """Catches a value that a small weight hides from the sums of squares."""
    x, y, _ = stream(9000)
    batches = added((x[:100], y[:100]))
    before = copy.deepcopy(batches)
    bad_x, bad_y = x.copy(), y.copy()
    (bad_x if where == "rows" else bad_y)[place, 1] = wrong
    message = rf"{where} must be finite and at most 1e\+75 in size, but a value in column 1 is"
    with pytest.raises(ValueError, match=message):
        batches.successor().add(bad_x, bad_y, None if weight is None else np.full(9000, weight))
    assert_same_bits(batches.plain(), before.plain())
    batches.add(x, y)
    before.add(x, y)
    assert_same_bits(batches.plain(), before.plain())


@pytest.mark.parametrize(
    "rows, targets, weights, message",
    [
        (np.zeros((4, 2)), np.zeros((4, 2)), None, r"rows must have shape \(n, 3\)"),
        (np.zeros(3), np.zeros((1, 2)), None, "rows must have shape"),
        (np.zeros((4, 3)), np.zeros(4), None, "targets must have shape"),
        (np.zeros((4, 3)), np.zeros((4, 2)), np.ones(3), "weights must be 4 real"),
        (np.zeros((4, 3)), np.zeros((4, 2)), [1, 1, -1, 1], r"weights\[2\] is -1"),
        (np.zeros((4, 3)), np.zeros((4, 2)), [1, np.nan, 1, 1], r"weights\[1\] is nan"),
        (np.zeros((4, 3)), np.zeros((4, 2)), [1, 1, 1, 1e76], r"weights\[3\] is 1e\+76"),
        (np.zeros((4, 3)), np.zeros((4, 2)), [1e-76, 1, 1, 1], r"weights\[0\] is 1e-76"),
        (np.zeros((4, 3), dtype=complex), np.zeros((4, 2)), None, "real numbers"),
        (np.array([["a"] * 3] * 4), np.zeros((4, 2)), None, "real numbers"),
    ],
)
def test_wrong_arguments_are_named(rows, targets, weights, message):
    batches = added(stream(10)[:2])
    before = copy.deepcopy(batches)
    with pytest.raises(ValueError, match=message):
        batches.add(rows, targets, weights)
    assert_same_bits(batches.plain(), before.plain())


@pytest.mark.parametrize("part, name", [("sums", "scatter"), ("sums", "mean"), ("blocks", "rows")])
def test_a_wrong_state_is_refused_and_nothing_has_changed(part, name):
    batches = added(stream(block_rows(COLUMNS) + 10)[:2])
    before = copy.deepcopy(batches)
    for spoil in (lambda a: a[:-1], lambda a: a * np.nan, lambda a: a.astype(str)):
        state = batches.plain()
        state[part][name] = spoil(state[part][name])
        with pytest.raises(ValueError, match=f"state of the {part} does not fit"):
            batches.restored(state, "batches")
        assert_same_bits(batches.plain(), before.plain())
