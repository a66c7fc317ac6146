"""Plan which samples of a stream a memory keeps and draws.

:mod:`mixfree.torch.memory` moves tensors by these plans, and :mod:`mixfree.optax.memory` does
the same in compiled code. Random numbers depend only on the seed and the sample's number, so that
the batches do not matter.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.draws import RESERVOIR, SAMPLE, Key, below, below_each, bits, key
from mixfree.base.slots import slots_of
from mixfree.base.state import State

LARGEST_CAPACITY = 2**31 - 1


class Keys(NamedTuple):
    """Random keys: which samples are kept, and which are drawn."""

    keep: Key
    draw: Key


def keys_of(seed: int, stream: int = 0) -> Keys:
    """Return the keys of a seed; every ``stream`` number has its own draws.

    Examples
    --------
    >>> keys_of(0) == keys_of(0, stream=0) != keys_of(0, stream=1)
    True
    """
    if stream:
        # Counters from 2^63 on, since smaller ones are sample numbers.
        seed = bits(key(seed, RESERVOIR), (1 << 63) + stream)
    return Keys(key(seed, RESERVOIR), key(seed, SAMPLE))


def check_batch(fresh: Mapping[str, Any], kept: Mapping[str, Any]) -> int:
    """Return the number of rows of a batch, which its arrays share and which are as before.

    Examples
    --------
    >>> check_batch({"x": np.zeros((3, 2)), "y": np.zeros(3)}, {})
    3
    """
    counts = {tuple(rows.shape[:1]) for rows in fresh.values()}
    if len(counts) != 1 or counts == {()}:
        shapes = [tuple(rows.shape) for rows in fresh.values()]
        raise ValueError(f"a batch must have the same number of rows throughout, not {shapes}")
    now, before = (
        {name: f"{rows.dtype} of shape {tuple(rows.shape[1:])}" for name, rows in each.items()}
        for each in (fresh, kept)
    )
    if kept and now != before:
        raise ValueError(f"rows of a batch must be {before} as before, not {now}")
    return int(counts.pop()[0])


class Plan(NamedTuple):
    """Where the rows of a batch are stored, and what is drawn."""

    places: Array  # places of the memory to write to, each once
    rows: Array  # row of the batch for each of these places
    drawn: Array  # place of each draw, ``draws`` per row, in the memory before the batch
    fresh: Array  # row of the batch to draw instead, or −1


@dataclass(slots=True)
class Uniform(State):
    """Keeps every sample so far with the same probability: Algorithm R (Vitter 1985)."""

    seen: int = 0

    def take(self, keep: Key, capacity: int, count: int, labels: Array | None = None) -> Array:
        """Return the next samples' places; samples with a place beyond the capacity are dropped."""
        places = slots_of(keep, capacity, self.seen, count)
        self.seen += count
        return places


@dataclass(slots=True)
class Balanced(State):
    """Divides the memory evenly among classes, each with its own uniform sample.

    Class-balancing reservoir sampling (Chrysakis and Moens 2020): a sample of a class that was
    never among the largest replaces one of the largest class; a class that once was among the
    largest continues with Algorithm R.
    """

    seen: int = 0
    classes: Array = field(
        default_factory=lambda: np.zeros(0, np.int64)
    )  # labels in order of arrival
    counts: Array = field(default_factory=lambda: np.zeros(0, np.int64))  # samples of each so far
    was_largest: Array = field(default_factory=lambda: np.zeros(0, bool))
    kept: Array = field(default_factory=lambda: np.zeros(0, np.int64))  # class at each place

    grows: ClassVar[tuple[str, ...]] = ("classes", "counts", "was_largest", "kept")

    def check(self, what: str) -> None:
        """Check that counts add up, and that no class has more places than samples."""
        number = len(self.classes)
        fits = (
            number == len(self.counts) == len(self.was_largest)
            and self.seen == self.counts.sum() >= len(self.kept)
            and bool(np.isin(self.kept, np.arange(number)).all())
            and bool((np.bincount(self.kept, minlength=number) <= self.counts).all())
        )
        if not fits:
            raise ValueError(f"state of the {what} does not fit: its counts do not add up")

    def take(self, keep: Key, capacity: int, count: int, labels: Array | None = None) -> Array:
        """Return the next samples' places; samples with a place beyond the capacity are dropped."""
        assert labels is not None
        return np.array([self._place(keep, capacity, int(label)) for label in labels], np.int64)

    def _place(self, keep: Key, capacity: int, label: int) -> int:
        mine = self._class_of(label)
        number, self.seen = self.seen, self.seen + 1
        self.counts[mine] += 1
        if len(self.kept) < capacity:
            self.kept = np.append(self.kept, mine)
            return len(self.kept) - 1
        sizes = np.bincount(self.kept, minlength=len(self.classes))
        self.was_largest |= sizes == sizes.max()
        loses = mine if self.was_largest[mine] else int(sizes.argmax())
        limit = self.counts[mine] if self.was_largest[mine] else sizes[loses]
        nth = below(keep, number, int(limit))
        if nth >= sizes[loses]:
            return capacity
        place = int(np.flatnonzero(self.kept == loses)[nth])
        self.kept[place] = mine
        return place

    def _class_of(self, label: int) -> int:
        found = np.flatnonzero(self.classes == label)
        if len(found):
            return int(found[0])
        self.classes, self.counts = np.append(self.classes, label), np.append(self.counts, 0)
        self.was_largest = np.append(self.was_largest, False)
        return len(self.classes) - 1


def plan(keys: Keys, capacity: int, draws: int, first: int, places: Array) -> Plan:
    """Plan where the rows of a batch are stored, and what is drawn after each of them.

    Parameters
    ----------
    keys, capacity, draws
        Settings of the memory.
    first
        Number of samples before the batch.
    places
        Place of each row, as returned by ``take``.

    Examples
    --------
    >>> keys = keys_of(0)
    >>> plan(keys, 4, 2, 0, Uniform().take(keys.keep, 4, 3))
    Plan(places=array([0, 1, 2]), rows=array([0, 1, 2]), drawn=array([0, 0, 1, 1, 0, 0]), \
fresh=array([0, 0, 1, 1, 0, 0]))
    """
    count = len(places)
    numbers = np.arange(first, first + count, dtype=np.uint64)[:, None]
    lanes = 2 * np.arange(draws, dtype=np.uint64)
    stored = np.minimum(numbers + np.uint64(1), np.uint64(capacity))
    drawn = below_each(keys.draw, numbers, stored, lanes).astype(np.int64).ravel()
    kept = np.flatnonzero(places < capacity)
    # Rows with the same place are neighbours here, in order: the last row stays, and a draw
    # finds the last row up to its own.
    order = kept[np.argsort(places[kept], kind="stable")]
    stamps = places[order] * count + order
    asked = drawn * count + np.repeat(np.arange(count), draws)
    before = np.searchsorted(stamps, asked, side="right") - 1
    row = order[before] if len(order) else np.full(len(drawn), -1)
    from_batch = (before >= 0) & (places[row] == drawn)
    last = np.append(np.diff(places[order]) > 0, True)[: len(order)]
    return Plan(places[order[last]], order[last], drawn, np.where(from_batch, row, -1))
