"""Sums, batches and windows of a stream: equal lengths, chunking, merging and saving."""

import copy

import numpy as np
import pytest
from scipy import sparse

from mixfree.linear.exact.blocks import block_rows
from mixfree.linear.exact.squared import SquaredFit
from mixfree.linear.exact.streamsums import most_batches
from mixfree.linear.exact.sums import sums_of
from tests.helpers import assert_same_bits

COLUMNS = 3


def stream(rows, columns=COLUMNS, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, columns)) + offset, rng.normal(size=rows)


def added(x, y, weights=None, cuts=(), **options):
    fit = SquaredFit(x.shape[1], **options)
    w = np.ones(len(y)) if weights is None else weights
    for part in zip(*(np.split(each, cuts) for each in (x, y, w)), strict=True):
        fit.add(*part)
    return fit


def split_of(fit):
    """The sums of all batches, pending rows included."""
    return fit.inference._split


def assert_close(found, wanted):
    for name in ("weight", "mean", "scatter", "cross", "squares"):
        one, other = getattr(found, name), getattr(wanted, name)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("rows", [31, 100, 1000, 8192, 70_000])
def test_there_are_32_to_63_batches_of_equal_length_and_each_is_right(rows):
    x, y = stream(rows)
    split = split_of(added(x, y))
    length, count = split.rows, len(split)
    assert 31 <= count < 64 or length == 1
    assert rows - count * length < max(length, 2)
    for place in (0, count // 2, count - 1):
        own = slice(place * length, (place + 1) * length)
        assert_close(split[place], sums_of(x[own], y[own, None]))


@pytest.mark.parametrize("columns, most", [(100, 64), (300, 32), (600, 16)])
def test_wide_rows_have_fewer_batches(columns, most):
    assert most_batches(columns) == most
    assert most // 2 <= len(split_of(added(*stream(5000, columns)))) < most


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("rows", [2 * block_rows(COLUMNS) + 100, 24 * block_rows(COLUMNS) + 100])
def test_any_chunking_gives_the_same_bits_unlike_sums_by_chunk(rows, offset):
    """Catches blocks that grow with what a chunk brings, and a rule that is not saved."""
    x, y = stream(rows, offset=offset)
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 3, rows).astype(float)
    whole = added(x, y, weights)
    for pieces in (1, 7, 400):
        cuts = np.sort(rng.integers(0, rows + 1, pieces))
        assert_same_bits(added(x, y, weights, cuts).plain(), whole.plain())
    cut = rows - 3 * block_rows(COLUMNS) // 2
    saved = added(x[:cut], y[:cut], weights[:cut])
    saved = SquaredFit(COLUMNS).restored(saved.plain(), "fit")
    saved.add(x[cut:], y[cut:], weights[cut:])
    assert_same_bits(saved.plain(), whole.plain())
    used = weights > 0.0
    left_out = added(x[used], y[used], weights[used])
    assert_same_bits(left_out.plain() | {"samples": rows}, whole.plain())


def test_the_bits_do_not_depend_on_where_or_how_rows_lie_in_memory():
    x, y = stream(block_rows(COLUMNS) + 5)
    room = np.empty(x.size + 1)
    shifted = room[1:].reshape(x.shape)
    shifted[:] = x
    wide = np.zeros((len(x), 7))
    wide[:, 2:5] = x
    whole = added(x, y)
    for same in (shifted, np.asfortranarray(x), wide[:, 2:5], sparse.csr_array(x)):
        fit = SquaredFit(COLUMNS)
        fit.add(same, y)
        assert_same_bits(fit.plain(), whole.plain())


@pytest.mark.parametrize("cuts", [(), np.arange(0, 250_000, 41_000)])
def test_batches_of_several_blocks(cuts):
    """Catches blocks that are left out of a batch, or counted in two, and a batch not saved."""
    x, y = stream(600_000, columns=2, offset=3.0)
    half = added(x[:350_000], y[:350_000], memory="1B")
    half = SquaredFit(2, memory="1B").restored(half.plain(), "fit")
    for rows, targets in zip(np.split(x[350_000:], cuts), np.split(y[350_000:], cuts), strict=True):
        half.add(rows, targets)
    batches = half._sums.batches
    assert batches.length == 8 * block_rows(2) and len(batches) == 9
    for place, batch in enumerate(batches.items):
        own = slice(place * batches.length, (place + 1) * batches.length)
        assert_close(batch, sums_of(x[own], y[own, None]))
    assert_close(half.total, sums_of(x, y[:, None]))


def test_merging_keeps_batches_of_one_length_and_the_total_in_any_order():
    x, y = stream(60_000, offset=2.0)
    cuts = [700, 9000, 30_000, 30_100]
    parts = [added(a, b) for a, b in zip(np.split(x, cuts), np.split(y, cuts), strict=True)]
    whole = added(x, y).total
    for order in ([0, 1, 2, 3, 4], [3, 0, 4, 2, 1]):
        merged = SquaredFit(3)
        for place in order:
            before = parts[place].plain()
            merged.merge(parts[place])
            assert_same_bits(parts[place].plain(), before)
        assert_close(merged.total, whole)
        assert merged.samples == 60_000
        assert split_of(merged).weight.sum() > 0.8 * 60_000
    merged.add(x[:5000], y[:5000])
    assert merged.total.rows == 65_000
    with pytest.raises(ValueError, match="cannot merge 2 columns"):
        merged.merge(SquaredFit(2))


def test_merged_batches_are_those_of_either_stream():
    """Catches batches of different lengths side by side, or joined with those of the other."""
    parts = [stream(3000, seed=1), stream(9000, seed=2)]
    for order in ((0, 1), (1, 0)):
        one, two = (added(*parts[place]) for place in order)
        one.merge(two)
        length, found = one._sums.batches.length, iter(one._sums.batches.items)
        for x, y in (parts[place] for place in order):
            for start in range(0, len(y) - length + 1, length):
                own = slice(start, start + length)
                assert_close(next(found), sums_of(x[own], y[own, None]))
        assert next(found, None) is None


def test_windows_are_spread_evenly_over_the_stream():
    n = 300_000
    fit = SquaredFit(1, memory="1MiB")
    fit.add(np.arange(float(n))[:, None], np.zeros(n))
    windows = fit._windows.all
    starts = np.array([window.rows[0, 0] for window in windows])
    assert 8 <= len(windows) <= 16
    assert len(set(np.diff(starts))) == 1
    assert starts[0] == 0 and starts[-1] > 0.85 * n
    for window in windows[:-1]:
        np.testing.assert_array_equal(np.diff(window.rows[:, 0]), 1.0)
        assert len(window.rows) == fit._windows.length


@pytest.mark.parametrize("place", [0, 8999])
@pytest.mark.parametrize("wrong", [np.nan, -1.1e75])
@pytest.mark.parametrize("where", ["rows", "targets"])
@pytest.mark.parametrize("weight", [None, 1e-70])
def test_values_beyond_the_limit_are_refused_by_name_and_nothing_has_changed(
    place, wrong, where, weight
):
    """Catches a value that a small weight hides from the sums of squares."""
    x, y = stream(9000)
    fit = added(x[:100], y[:100])
    before = copy.deepcopy(fit)
    bad_x, bad_y = x.copy(), y.copy()
    (bad_x[:, 0] if where == "rows" else bad_y)[place] = wrong
    message = rf"{where} must be finite and at most 1e\+75 in size, but a value in column 0 is"
    with pytest.raises(ValueError, match=message):
        fit.successor().add(bad_x, bad_y, None if weight is None else np.full(9000, weight))
    for each in (fit, before):
        each.add(x, y)
    assert_same_bits(fit.plain(), before.plain())


ROWS, TARGETS = np.zeros((4, 3)), np.zeros(4)


@pytest.mark.parametrize(
    "rows, targets, weights, message",
    [
        (np.zeros((4, 2)), TARGETS, None, r"rows must have shape \(n, 3\)"),
        (ROWS, np.zeros((4, 2)), None, "targets must have shape"),
        (ROWS, TARGETS, np.ones(3), "weights must be 4 real"),
        (ROWS, TARGETS, [1, 1, -1, 1], r"weights\[2\] is -1"),
        (ROWS, TARGETS, [1, np.nan, 1, 1], r"weights\[1\] is nan"),
        (ROWS.astype(complex), TARGETS, None, "real numbers"),
    ],
)
def test_wrong_arguments_are_named(rows, targets, weights, message):
    with pytest.raises(ValueError, match=message):
        added(*stream(10)).add(rows, targets, weights)


@pytest.mark.parametrize(
    ("path", "spoil", "message"),
    [
        (("blocks", "rows"), lambda a: a[:-1], "differ in length"),
        (("windows", "closed", "items"), lambda a: a * 99, "fewer than 16 batches"),
    ],
)
def test_a_wrong_state_is_refused(path, spoil, message):
    """Catches, among others, windows that are never thinned out, being too many."""
    fit = added(*stream(20_000))
    state = inner = fit.plain()
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = spoil(inner[path[-1]])
    with pytest.raises(ValueError, match=message):
        fit.restored(state, "fit")


def test_columns_that_are_contiguous_give_the_same_bits_as_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40_000, 7)) + 3.0
    targets = rows @ np.arange(7.0) + rng.normal(size=40_000)
    by_row, by_column = SquaredFit(7), SquaredFit(7)
    by_row.add(rows, targets)
    for part in (slice(0, 1), slice(1, 777), slice(777, 30_000), slice(30_000, None)):
        by_column.add(np.asfortranarray(rows[part]), targets[part])
    one, other = ((fit.weights(), fit.inference.conf_int()) for fit in (by_column, by_row))
    assert_same_bits(dict(enumerate(one)), dict(enumerate(other)))
