"""The uniform sample behind one-pass fits."""

import numpy as np
import pytest
from scipy import stats

from mixfree.base import draws
from mixfree.linear.exact.reservoir import Kept, Reservoir, rows_of


def sampled(numbers, size=64, seed=0, chunk=None):
    sample = Reservoir(size, 1, 1)
    first, rest = numbers[:size].astype(float), numbers[size:].astype(float)
    sample.fill(Kept(first[:, None], first, np.ones(size), first[:, None]))
    sample.seed = seed
    sample.draw_keys(first[:, None])
    chunk = chunk or max(len(rest), 1)
    for start in range(0, len(rest), chunk):
        part = rest[start : start + chunk]
        sample.offer(part[:, None], part, None, part[:, None])
    return sample


def kept(sample):
    return sample.rows().targets.astype(int)


def test_every_row_is_kept_equally_often_not_the_first_or_last_more():
    count, runs = 400, 1_000
    hits = np.zeros(count)
    for seed in range(runs):
        hits[kept(sampled(np.arange(count), seed=seed))] += 1
    expected = runs * 64 / count
    # Sampling without replacement makes the statistic a little smaller than χ².
    statistic = np.sum((hits - expected) ** 2 / expected) / (1 - 64 / count)
    assert stats.chi2.sf(statistic, count - 1) > 1e-3
    assert stats.chi2.cdf(statistic, count - 1) > 1e-3


def test_pairs_of_rows_are_kept_independently_of_each_other():
    runs, count = 1_500, 256
    both = sum(
        np.isin([3, 4], kept(sampled(np.arange(count), seed=seed))).all() for seed in range(runs)
    )
    chance = 64 / count * 63 / (count - 1)
    assert abs(both - runs * chance) < 4 * np.sqrt(runs * chance)


@pytest.mark.parametrize("chunk", [1, 7, 100, 5_000])
def test_same_rows_however_the_stream_is_cut(chunk):
    numbers = np.arange(3_000)
    one, two = sampled(numbers), sampled(numbers, chunk=chunk)
    np.testing.assert_array_equal(np.sort(kept(one)), np.sort(kept(two)))


def test_it_keeps_the_least_keys_with_what_belongs_to_them():
    sample = sampled(np.arange(5_000), size=100)
    numbers = np.arange(5_000, dtype=np.uint64)
    high, low = (draws.words(sample._key, numbers, lane).astype(np.uint64) for lane in (0, 1))
    least = np.argsort(high << np.uint64(32) | low, kind="stable")[:100]
    np.testing.assert_array_equal(np.sort(kept(sample)), np.sort(least))
    rows = sample.rows()
    np.testing.assert_array_equal(rows.rows[:, 0], rows.targets)
    np.testing.assert_array_equal(rows.before[:, 0], rows.targets)


def test_merged_samples_are_uniform_over_both_streams_of_any_length():
    runs, hits = 800, np.zeros(900)
    for seed in range(runs):
        one = sampled(np.arange(200), seed=2 * seed)
        one.merge(sampled(np.arange(200, 900), seed=2 * seed + 1))
        assert one.seen == 900
        hits[kept(one)] += 1
    expected = runs * 64 / 900
    assert hits.sum() == runs * 64
    share = hits[:200].sum() / (200 * expected)  # taking half of each would give 2.25
    assert share == pytest.approx(1.0, abs=4 / np.sqrt(200 * expected))


def test_merging_in_any_order_keeps_the_same_rows():
    parts = [np.arange(0, 300), np.arange(300, 400), np.arange(400, 2_000)]
    found = []
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        total = sampled(parts[order[0]], seed=order[0])
        for place in order[1:]:
            total.merge(sampled(parts[place], seed=place))
        found.append(np.sort(kept(total)))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_merged_samples_with_room_keep_all_rows_of_both():
    """Catches keys that are compared where no row has to be left out."""
    parts = []
    for seed in range(3):
        numbers = np.arange(25.0) + 25.0 * seed
        sample = Reservoir(64, 1, 1)
        sample.fill(Kept(numbers[:, None], numbers, np.ones(25), numbers[:, None]))
        sample.seed = seed
        sample.draw_keys(numbers[:, None])
        parts.append(sample)
    keys = np.concatenate([part._keys[:25] for part in parts])
    total = parts[0]
    total.merge(parts[1])
    assert sorted(kept(total)) == list(range(50)) and total.seen == 50
    total.merge(parts[2])
    assert sorted(kept(total)) == sorted(np.argsort(keys)[:64]) and total.seen == 75


def test_memory_in_rows_and_bytes():
    assert rows_of(2048, 7, 1) == 2048
    assert rows_of("1 mb", 10, 1) == int(1e6 / (8 * 14 * 1.125))
    assert rows_of("36MB", 999, 1) >= 3_000
    with pytest.raises(ValueError, match=r"give memory='54MB'"):
        rows_of("32MB", 1_400, 1)
    assert rows_of("54MB", 1_400, 1) >= 4_203
    for wrong in (0, 2.5, "12", "MB", "-1MB", None):
        with pytest.raises(ValueError, match="memory"):
            rows_of(wrong, 10, 1)


def test_a_restored_sample_goes_on_like_the_first():
    sample = sampled(np.arange(700))
    twin = sample.copy()
    more = np.arange(700.0, 2_000.0)
    for each in (sample, twin):
        each.offer(more[:, None], more, None, more[:, None])
    np.testing.assert_equal(twin.plain(), sample.plain())


def test_what_a_successor_stores_does_not_change_its_predecessor():
    """Catches new rows in places of rows that were discarded a moment ago."""
    sample = sampled(np.arange(700))
    before = sample.plain()
    for start in (700.0, 7_000.0):  # the second after an interruption of the first
        successor, more = sample.successor(), np.arange(start, start + 2_000.0)
        for part in np.split(more, 20):
            successor.offer(part[:, None], part, None, part[:, None])
        np.testing.assert_equal(sample.plain(), before)
    assert successor.rows().rows.tolist() == successor.rows().before.tolist()
    assert set(kept(successor)) - set(kept(sample)) <= set(more.astype(int))
