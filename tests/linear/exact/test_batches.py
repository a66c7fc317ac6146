"""Batches of a stream: equal lengths, totals, chunking, merging and saving."""

import copy

import numpy as np
import pytest

from mixfree.linear.exact.batches import Batches, most_batches
from mixfree.linear.exact.blocks import Blocks, block_rows
from mixfree.linear.exact.sums import sums_of
from tests.helpers import assert_same_bits


def stream(rows, columns=3, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, columns)) + offset, rng.normal(size=rows)


def added(x, y, pieces=1, **options):
    batches = Batches(x.shape[1], **options)
    for rows, targets in zip(np.array_split(x, pieces), np.array_split(y, pieces), strict=True):
        batches.add(rows, targets)
    return batches


@pytest.mark.parametrize("rows", [31, 100, 1000, 8192, 20_000, 70_000])
def test_there_are_32_to_63_batches_of_equal_length_and_each_is_right(rows):
    x, y = stream(rows)
    split = added(x, y).split
    length, count = split.rows, len(split)
    assert 31 <= count < 64 or length == 1
    assert rows - count * length < max(length, 2)
    for place in (0, count // 2, count - 1):
        own = slice(place * length, (place + 1) * length)
        wanted = sums_of(x[own], y[own, None])
        np.testing.assert_allclose(split[place].mean, wanted.mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(split[place].scatter, wanted.scatter, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("columns, most", [(100, 64), (300, 32), (600, 16)])
def test_wide_rows_have_fewer_batches(columns, most):
    assert most_batches(columns) == most
    x, y = stream(5000, columns)
    assert most // 2 <= len(added(x, y).split) < most


def test_long_streams_have_the_same_bits_in_any_chunks():
    """Blocks that grow with what a chunk brings, or that overshoot a batch, would be seen."""
    count = 24 * block_rows(3) + 100
    x, y = stream(count)
    whole = added(x, y)
    for pieces in (7, 1000):
        assert_same_bits(added(x, y, pieces).plain(), whole.plain())
    cut = 21 * block_rows(3) + 7
    saved = Batches(3).restored(added(x[:cut], y[:cut]).plain(), "batches")
    saved.add(x[cut:], y[cut:])
    assert_same_bits(saved.plain(), whole.plain())
    assert whole.rows == count


@pytest.mark.parametrize("pieces", [1, 7])
def test_batches_of_several_blocks(pieces):
    """Catches blocks that are left out of a batch, or counted in two, and a batch not saved."""
    x, y = stream(600_000, columns=2, offset=3.0)
    batches = added(x[:350_000], y[:350_000], memory=1)
    half = Batches(2, memory=1).restored(batches.plain(), "batches")
    for rows, targets in zip(
        np.array_split(x[350_000:], pieces), np.array_split(y[350_000:], pieces), strict=True
    ):
        half.add(rows, targets)
    split = half.split
    assert split.rows == 8 * block_rows(2) and len(split) == 9
    for place in range(9):
        own = slice(place * split.rows, (place + 1) * split.rows)
        wanted = sums_of(x[own], y[own, None])
        np.testing.assert_allclose(split[place].mean, wanted.mean, rtol=1e-9)
        np.testing.assert_allclose(split[place].scatter, wanted.scatter, rtol=1e-9)
        np.testing.assert_allclose(split[place].cross, wanted.cross, rtol=1e-9)
    assert half.total.rows == 600_000
    np.testing.assert_allclose(half.total.mean, [*x.mean(axis=0), y.mean()], rtol=1e-9, atol=1e-12)


def test_merging_keeps_batches_of_one_length_and_the_total_in_any_order():
    x, y = stream(60_000, offset=2.0)
    cuts = [700, 9000, 30_000, 30_100]
    parts = [added(a, b) for a, b in zip(np.split(x, cuts), np.split(y, cuts), strict=True)]
    whole = added(x, y).total
    for order in ([0, 1, 2, 3, 4], [3, 0, 4, 2, 1]):
        merged = Batches(3)
        for place in order:
            merged.merge(parts[place])
        np.testing.assert_allclose(merged.total.scatter, whole.scatter, rtol=1e-12, atol=1e-9)
        np.testing.assert_allclose(merged.total.mean, whole.mean, rtol=1e-12)
        split = merged.split
        assert 16 <= len(split) < 64
        assert merged.rows == 60_000
        assert split.weight.sum() > 0.8 * 60_000
    merged.add(x[:5000], y[:5000])
    assert merged.total.rows == 65_000
    with pytest.raises(ValueError, match="cannot merge 2 columns"):
        merged.merge(Batches(2))


def test_windows_are_spread_evenly_over_the_stream():
    n = 300_000
    batches = Batches(1, memory=1 << 20)
    batches.add(np.arange(float(n))[:, None], np.zeros(n))
    windows = batches.windows.all
    starts = np.array([window.rows[0, 0] for window in windows])
    assert 8 <= len(windows) <= 16
    assert len(set(np.diff(starts))) == 1
    assert starts[0] == 0 and starts[-1] > 0.85 * n
    for window in windows[:-1]:
        np.testing.assert_array_equal(np.diff(window.rows[:, 0]), 1.0)
        assert len(window.rows) == batches.windows.length


def test_a_state_with_too_many_windows_is_refused_and_changes_nothing():
    """Catches windows that are never thinned out because their number has passed the limit."""
    x, y = stream(20_000)
    batches = added(x, y)
    before, state = copy.deepcopy(batches), batches.plain()
    state["windows"]["closed"]["items"] *= 99
    with pytest.raises(ValueError, match="must have fewer than 16 batches"):
        batches.restored(state, "batches")
    assert_same_bits(batches.plain(), before.plain())


def test_a_state_with_a_block_of_pending_rows_is_refused_and_changes_nothing():
    """Catches slices with negative ends, and a division by the rows that a full block lacks."""
    state = {"rows": np.ones((4, 1)), "targets": np.ones((4, 1)), "weights": np.ones(4)}
    damaged = Blocks(1).restored(state, "blocks")
    taken = []
    with pytest.raises(ValueError, match="state is damaged: 4 rows are pending"):
        damaged.cut(
            np.ones((3, 1)), np.ones(3), None, lambda: 4, lambda *block: taken.append(block)
        )
    assert damaged.filled == 4 and not taken
