"""Uniform samples: uniform, the same however cut, exact when merged."""

import numpy as np
import pytest
from scipy import stats

from mixfree.base.draws import KEPT, key
from mixfree.base.sample import UniformSample, keys_of
from mixfree.base.slots import Slots, slots_of
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
        assert one.seen == COUNT and (np.diff(one.columns[0]) > 0).all()
        counts += np.bincount(one.columns[0] * BINS // COUNT, minlength=BINS)
    fits(counts, SEEDS * SIZE / BINS)
    with pytest.raises(ValueError, match="same rows"):
        one.merge(one.copy())


def test_algorithm_r_is_uniform():
    counts = np.zeros(BINS)
    for seed in range(SEEDS):
        slots, kept = slots_of(key(seed, KEPT), SIZE, 0, COUNT), np.full(SIZE, -1)
        for number in np.flatnonzero(slots < SIZE):
            kept[slots[number]] = number
        counts += np.bincount(kept * BINS // COUNT, minlength=BINS)
    fits(counts, SEEDS * SIZE / BINS)


@pytest.mark.parametrize("cuts", [(1,), (39, 40, 41), (500,), tuple(range(1, 300))])
def test_the_same_is_kept_however_the_stream_is_cut(cuts):
    """Caught: also arrays that a copy shares with its original when one of the two changes."""
    whole, cut = UniformSample(SIZE, 3), UniformSample(SIZE, 3)
    values = np.random.default_rng(0).standard_normal(COUNT)
    whole.offer([values])
    for piece in np.split(values, cuts):
        before, failed = cut.plain(), cut.copy()
        failed.offer([piece - 5.0])
        assert_same_bits(cut.plain(), before)
        cut = UniformSample(SIZE, 3).restored(before, "sample") if len(piece) % 2 else cut.copy()
        cut.offer([piece])
    assert_same_bits(cut.plain(), whole.plain())


def test_slots_of_samples_one_by_one_and_all_at_once():
    """Caught: a quick way for single samples that draws other slots."""
    values = np.random.default_rng(0).standard_normal((COUNT, 3))
    whole, single = Slots(SIZE, key(4, KEPT)), Slots(SIZE, key(4, KEPT))
    slots = slots_of(whole.key, SIZE, 0, COUNT)
    for part in (slice(0, 30), slice(30, 500), slice(500, COUNT)):
        whole.store([values], np.arange(COUNT)[part], slots[part])
    for value in values:
        single.keep(value)
    assert_same_bits(single.plain(), whole.plain())
    assert np.array_equal(single.sample(3), values[single.numbers[3] - 1])


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
    kept = Slots(8, key(0, KEPT))
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


@pytest.mark.parametrize(("more", "kept"), [(-1, False), (1, True)])
def test_keys_are_compared_to_their_last_bit(more, kept):
    """Catches a comparison of the first 32 bits alone, in which one of 2³² samples is misplaced."""
    sample, numbers = UniformSample(1, 0), np.arange(2, dtype=np.uint64)
    state = {"seen": 1, "keys": keys_of(sample._key, numbers)[1:] + np.uint64(more % 2**64)}
    sample = sample.restored(state | {"columns": [np.zeros(1)]}, "sample")
    sample.offer([np.ones(1)])
    assert sample.seen == 2 and sample.columns[0].tolist() == [float(kept)]


def test_the_least_keys_are_kept_with_what_belongs_to_them():
    """Caught: rows beside the targets of others; a smaller sample that is not part of a larger."""
    sample, numbers = UniformSample(100, 7), np.arange(5000)
    for piece in np.split(numbers, [64, 700, 2000]):
        sample.offer([np.repeat(piece[:, None], 2, axis=1), piece])
    keys = keys_of(sample._key, numbers.astype(np.uint64))
    for each, size in ((sample, 100), (sample.shrunk(30), 30)):
        assert each.columns[1].tolist() == sorted(np.argsort(keys)[:size])
        assert (each.columns[0] == each.columns[1][:, None]).all()


def test_merging_in_any_order_keeps_the_same_and_goes_on_as_one():
    """Caught: keys compared where nothing has to be left out, drawn anew, or left behind."""
    parts, found = np.split(np.arange(2000), [20, 40, 400]), []
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)):
        total = None
        for place in order:
            part = UniformSample(64, place)
            part.offer([parts[place]])
            if total is None:
                total = part
            else:
                total.merge(part)
            assert len(total.columns[0]) == total.filled
        found.append(set(total.columns[0]))
        twin, more = total.copy(), np.arange(2000, 7000)
        twin.offer([more])
        for value in more:
            total.offer([value[None]])
        assert_same_bits(total.plain(), twin.plain())
        assert total.filled == 64 == len(np.unique(total.columns[0]))
    assert found[0] == found[1] == found[2]
