"""The uniform sample: uniform, the same however cut, exact when merged."""

import numpy as np
import pytest
from scipy import stats

from mixfree.base.sample import UniformSample, _keys
from tests.helpers import assert_same_bits

SIZE, COUNT, SEEDS, BINS = 40, 1000, 250, 20


def fits(counts, expected):
    """Chi-square of counts of draws without replacement, whose variance is a little smaller."""
    found = ((counts - expected) ** 2 / expected).sum()
    bound = stats.chi2.ppf(0.999, len(counts) - 1)
    assert found < bound, f"chi-square {found:.1f}, at most {bound:.1f}"


def test_a_merged_sample_is_one_of_both_streams():
    """Caught: too many old samples, or as many from each stream, whatever their lengths."""
    counts, first = np.zeros(BINS), 700
    for seed in range(SEEDS):
        one, other = UniformSample(SIZE, 2 * seed), UniformSample(SIZE, 2 * seed + 1)
        one.offer([np.arange(first)])
        other.offer([np.arange(first, COUNT)])
        one.merge(other)
        assert (one.column(0) + 1 == one.numbers).all()
        assert one.seen == COUNT
        counts += np.bincount(one.column(0) * BINS // COUNT, minlength=BINS)
    fits(counts, SEEDS * SIZE / BINS)
    with pytest.raises(ValueError, match="different seeds"):
        one.merge(one.copy())


@pytest.mark.parametrize("cuts", [(1,), (39, 40, 41), (500,), tuple(range(1, 300))])
def test_the_same_is_kept_however_the_stream_is_cut(cuts):
    whole, cut = UniformSample(SIZE, 3), UniformSample(SIZE, 3)
    values = np.random.default_rng(0).standard_normal(COUNT)
    whole.offer([values])
    for piece in np.split(values, cuts):
        cut = UniformSample(SIZE, 3).restored(cut.plain(), "sample")
        cut.offer([piece])
    assert_same_bits(cut.plain(), whole.plain())


def test_one_by_one_as_all_at_once():
    """Caught: a quick way for single samples that draws other keys."""
    values = np.random.default_rng(0).standard_normal((COUNT, 3))
    whole, single = UniformSample(SIZE, 4), UniformSample(SIZE, 4)
    whole.offer([values])
    kept = [single.keep(value) for value in values]
    assert_same_bits(single.plain(), whole.plain())
    assert sum(kept) > SIZE
    assert np.array_equal(single.sample(3), values[single.numbers[3] - 1])


def test_a_copy_and_its_original_go_on_by_themselves():
    """Caught: arrays that stay shared when one of the two changes."""
    one = UniformSample(SIZE, 5)
    one.offer([np.arange(100)])
    before, copy = one.plain(), one.copy()
    one.offer([np.arange(100, 2000)])
    assert_same_bits(copy.plain(), before)
    copy.offer([np.arange(100, 2000)])
    assert_same_bits(copy.plain(), one.plain())


@pytest.mark.parametrize(
    "samples",
    [
        [{"a": 1}, {"b": 2}, {"c": 3}],
        ["one", "two", "three"],
        [(np.zeros(2), 1.0), (np.ones(3), 2.0), (np.ones(2), 3.0)],
        [1, 2.5, None],
        [(1, "a"), (2, "b"), (3, "c")],
        [np.ones(2), (np.ones(2),), 3],
    ],
)
def test_samples_of_any_kind_come_back_as_they_were(samples):
    """Caught: values cast to the type of the first, or rows of another length cut short."""
    kept = UniformSample(8)
    for sample in samples:
        kept.keep(sample)
    for slot, sample in enumerate(samples):
        np.testing.assert_equal(kept.sample(slot), sample)


@pytest.mark.parametrize(
    ("name", "value"),
    [("seen", 5000), ("seen", -1), ("keys", np.zeros(3)), ("columns", [np.full(40, np.nan)])],
)
def test_a_damaged_state_is_refused(name, value):
    sample = UniformSample(SIZE)
    sample.offer([np.arange(60.0)])
    state = sample.plain() | {name: value}
    if name == "seen" and value > 0:
        state["keys"] = state["keys"][:-1]
    with pytest.raises(ValueError, match="state of the sample"):
        UniformSample(SIZE).restored(state, "sample")


@pytest.mark.parametrize(("more", "kept"), [(-1, False), (0, False), (1, True)])
def test_keys_are_compared_to_their_last_bit(more, kept):
    """Catches a comparison of the first 32 bits alone, in which one of 2³² samples is misplaced."""
    one, many = UniformSample(1, 0), UniformSample(1, 0)
    drawn = UniformSample(2, 0)
    drawn.offer([np.arange(2.0)])
    for sample in (one, many):
        sample.offer([np.arange(1.0)])
        sample.keys[0] = int(drawn.keys[1]) + more
    assert one.keep(1.0) is kept
    many.offer([np.array([1.0])])
    for sample in (one, many):
        assert sample.seen == 2
        assert sample.column(0).tolist() == [float(kept)]


@pytest.mark.parametrize("at_once", [False, True])
def test_the_least_keys_are_kept_with_what_belongs_to_them(at_once):
    """Caught: rows beside the targets of others; a smaller sample that is not part of a larger."""
    sample, numbers = UniformSample(100, 7), np.arange(5000)
    for piece in np.split(numbers, [64, 700, 2000]):
        sample.offer([np.repeat(piece[:, None], 2, axis=1), piece], at_once)
    keys = _keys(sample._key, numbers.astype(np.uint64))
    for each, size in ((sample, 100), (sample.shrunk(30), 30)):
        assert set(each.column(1)) == set(np.argsort(keys)[:size])
        assert (each.column(0) == each.column(1)[:, None]).all()
        assert (np.diff(each.column(1)[each.order]) > 0).all()


def test_merging_in_any_order_keeps_the_same_and_goes_on_as_one():
    """Caught: keys compared where nothing has to be left out, drawn anew, or left behind."""
    parts, found = np.split(np.arange(2000), [20, 40, 400]), []
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)):
        total = None
        for place in order:
            part = UniformSample(64, place)
            for value in parts[place]:
                part.keep(value)
            if total is None:
                total = part
            else:
                total.merge(part)
            if total.seen <= 64:
                assert total.filled == total.seen
        found.append(set(total.column(0)))
        twin, more = total.copy(), np.arange(2000, 7000)
        twin.offer([more])
        for value in more:
            total.keep(value)
        assert_same_bits(total.plain(), twin.plain())
        assert total.filled == 64 == len(np.unique(total.column(0)))
        assert order != (0, 1, 2, 3) or (total.column(0) + 1 == total.numbers).all()
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("count", [3, 700])  # beside the columns, and too many for that
def test_what_a_successor_keeps_does_not_change_its_predecessor(count):
    """Caught: samples in slots that the predecessor still shows; late ones that are lost."""
    whole, sample = UniformSample(SIZE, 6), UniformSample(SIZE, 6)
    for each in (whole, sample):
        each.offer([np.arange(100.0), np.arange(100)])
    for first in range(100, 2000, count):
        before, piece = sample.plain(), np.arange(first, min(first + count, 2000))
        failed, after = sample.successor(), sample.successor()
        failed.offer([piece - 5000.0, piece - 5000])
        after.offer([piece * 1.0, piece])
        whole.offer([piece * 1.0, piece])
        if first % 7 == 0:
            assert_same_bits(after.plain(), whole.plain())
        assert_same_bits(sample.plain(), before)
        sample = after
    assert_same_bits(sample.plain(), whole.plain())
