"""A uniform sample of fixed size of a stream; two of them can be merged."""

from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from typing import Any, ClassVar, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.draws import KEPT, Key, key, word, words
from mixfree.base.state import State, UnitChange

LATE_SHARE = 8  # a successor keeps up to size/LATE_SHARE samples beside the columns


@dataclass(slots=True)
class UniformSample(State):
    """Keep the ``size`` samples with the smallest keys, where a key is 64 random bits.

    A key depends only on seed, purpose (:mod:`mixfree.base.draws`) and the position in the stream,
    so the same samples are kept however the stream is cut into chunks, and they are a uniform
    sample of it. Two samples with different seeds are merged by keeping the smallest keys of both.
    A sample stays in its slot until a later one replaces it.

    Examples
    --------
    >>> kept = UniformSample(2)
    >>> for first in (0, 4, 8):
    ...     kept.offer([np.arange(first, first + 4.0)])
    >>> kept.column(0), kept.seen
    (array([2., 6.]), 12)
    """

    size: int
    seed: int = 0
    purpose: int = KEPT
    seen: int = 0
    keys: Array = field(default_factory=lambda: np.zeros(0, np.uint64))
    numbers: Array = field(default_factory=lambda: np.zeros(0, np.int64))  # places, from 1
    columns: list[Array] = field(default_factory=list)  # one entry per slot in each
    tuples: bool = False  # whether a sample is a tuple, with one column per entry
    # Samples of a successor that are not in the columns yet, which are its predecessor's.
    _late: list[tuple[Array, list[Array]]] | None = field(default=None, repr=False)
    _key: Key = field(init=False, repr=False)

    grows: ClassVar[tuple[str, ...]] = ("keys", "numbers")

    def __post_init__(self) -> None:
        check_whole(self.size, "size", most=2**31)
        self._key = key(self.seed, self.purpose)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The fields to save; the others are arguments or can be recomputed."""
        return "seen", "keys", "numbers", "columns", "tuples"

    @property
    def filled(self) -> int:
        """Number of samples kept."""
        return min(self.seen, self.size)

    def column(self, place: int) -> Array:
        """The kept entries of one column, as a view."""
        self._settle()
        return self.columns[place][: self.filled]

    def taken(self, slots: Array) -> list[Array]:
        """Copies of the samples in some slots, one array per column."""
        self._settle()
        return [column[slots] for column in self.columns]

    @property
    def order(self) -> Array:
        """The slots in the order in which their samples arrived."""
        return np.argsort(self.numbers[: self.filled])

    def offer(self, columns: Sequence[Array], at_once: bool = False) -> None:
        """Offer the next samples; each column has one entry per sample.

        ``at_once`` takes less time if many are kept, but which slot a sample is in then depends on
        how many are offered at a time.
        """
        self.store(columns, *self.place(len(columns[0]), at_once))

    def place(self, count: int, at_once: bool = False) -> tuple[Array, Array]:
        """Draw the keys of the next samples; return the positions of those kept and their slots.

        Half of a key decides for nearly all samples.
        """
        self.keys, self.numbers = self.keys.copy(), self.numbers.copy()  # copies may share them
        first, free = self.seen, min(self.size - self.filled, count)
        counters = np.arange(first, first + count, dtype=np.uint64)
        places, slots = np.arange(free), np.arange(self.filled, self.filled + free)
        drawn = _keys(self._key, counters[:free])
        if free < count:
            kept = np.append(self.keys[: self.filled], drawn)
            high = words(self._key, counters[free:])
            low = free + np.flatnonzero(high <= np.uint32(kept.max() >> np.uint64(32)))
            new = _keys(self._key, counters[low])
            taken = (_replaced_at_once if at_once else _replaced)(kept, new)
            stays = taken >= 0
            places, slots = np.append(places, low[stays]), np.append(slots, taken[stays])
            drawn = np.append(drawn, new[stays])
        self._make_room(min(first + free, self.size))
        # Where a slot comes twice, the last stays.
        self.keys[slots], self.numbers[slots] = drawn, first + 1 + places
        self.seen = first + count
        return places, slots

    def store(self, columns: Sequence[Array], places: Array, slots: Array) -> None:
        """Keep the samples at ``places`` of the columns in the slots that :meth:`place` gave."""
        if not places.size:
            return
        if not self.columns:
            self.columns, self._late = [np.zeros((0, *c.shape[1:]), c.dtype) for c in columns], None
            self.tuples = len(columns) > 1
        if self._late is not None and len(self.keys) <= len(self.columns[0]):
            self._late.append((slots, [column[places] for column in columns]))
            if sum(len(each) for each, _ in self._late) * LATE_SHARE > self.size:
                self._settle()
            return
        self._settle()
        self._lengthen_columns()
        for mine, theirs in zip(self.columns, columns, strict=True):
            mine[slots] = theirs[places]  # where a slot comes twice, the last stays

    def keep(self, sample: Any) -> bool:
        """Offer one sample of any type; return whether it is kept."""
        slot = self._place_one()
        if slot is None:
            return False
        several = type(sample) is tuple
        entries = [_entry(each) for each in (sample if several else (sample,))]
        if not self.columns:
            self.columns, self.tuples = [entry[:0] for entry in entries], several
        elif (self.tuples, _kinds(self.columns)) != (several, _kinds(entries)):
            self._as_objects()
            entries = [_object(sample)]
        self._lengthen_columns()
        for mine, entry in zip(self.columns, entries, strict=True):
            mine[slot] = entry[0]
        return True

    def _place_one(self) -> int | None:
        """As :meth:`place` for one sample: its slot, or None if it is not kept."""
        slot, self.seen = self.seen, self.seen + 1
        drawn = word(self._key, slot) << 32 | word(self._key, slot, 1)
        if slot >= self.size:
            slot = int(self.keys.argmax())
            if drawn >= int(self.keys[slot]):
                return None
        self._make_room(slot + 1)
        self.keys[slot], self.numbers[slot] = drawn, self.seen
        return slot

    def sample(self, slot: int) -> Any:
        """The sample in a slot."""
        found = (column[slot] for column in self.columns)
        entries = tuple(each.copy() if isinstance(each, np.ndarray) else each for each in found)
        return entries if self.tuples else entries[0]

    def merge(self, other: Self) -> None:
        """Become the sample of both streams, this one first; with one seed it is not uniform."""
        alike = (self.seed, self.purpose) == (other.seed, other.purpose)
        if alike and self.seen and other.seen:
            raise ValueError(
                f"samples to merge must have different seeds, but both have {self.seed}"
            )
        if self.size != other.size:
            raise ValueError(f"samples to merge must be of one size, not {self.size}, {other.size}")
        keys = np.append(self.keys[: self.filled], other.keys[: other.filled])
        numbers = np.append(self.numbers[: self.filled], other.numbers[: other.filled] + self.seen)
        columns = [
            np.concatenate([each.column(place) for each in (self, other) if each.filled])
            for place in range(len(self.columns or other.columns))
        ]
        self._take(keys, numbers, columns)
        self.tuples = self.tuples or other.tuples
        self.seen += other.seen

    def shrunk(self, size: int) -> Self:
        """Return the sample of a smaller size that would have been kept of the same stream."""
        twin, kept = copy(self), [self.column(place) for place in range(len(self.columns))]
        twin.size = min(size, self.size)
        twin._take(self.keys[: self.filled], self.numbers[: self.filled], kept)
        return twin

    def _take(self, keys: Array, numbers: Array, columns: list[Array]) -> None:
        """Keep those of the given samples that have the smallest keys."""
        best = np.argsort(keys, kind="stable")[: self.size]
        self.keys, self.numbers = keys[best], numbers[best]
        self.columns = [column[best] for column in columns]
        self._late = None

    def plain(self) -> dict[str, Any]:
        """The kept samples with their keys and positions, as arrays."""
        return {
            "seen": self.seen,
            "keys": self.keys[: self.filled].copy(),
            "numbers": self.numbers[: self.filled].copy(),
            "columns": [deepcopy(self.column(place)) for place in range(len(self.columns))],
            "tuples": self.tuples,
        }

    def check(self, what: str) -> None:
        """The number of samples kept is the number seen, up to the size."""
        self._late = None
        kept = [self.keys, self.numbers, *self.columns]
        lengths = {(self.filled,), *(np.shape(each)[:1] for each in kept)}
        if self.seen < 0 or len(lengths) > 1 or bool(self.columns) != (self.filled > 0):
            raise ValueError(
                f"state of the {what} does not fit: it must keep {self.filled} samples"
            )
        if any(c.dtype.kind == "f" and not np.isfinite(c).all() for c in self.columns):
            raise ValueError(f"state of the {what} does not fit: a sample is not finite")

    def successor(self) -> Self:
        """A copy that shares all arrays and changes none; only one of the two may be continued.

        Samples that the copy keeps are written to the columns when it has a successor itself, at
        which time nobody else uses them, or to new columns if they are read before.
        """
        self._settle(self.columns)
        twin = copy(self)
        twin.columns, twin._late = list(self.columns), []
        return twin

    def _settle(self, columns: list[Array] | None = None) -> None:
        """Write late samples to the given columns, by default to new ones."""
        if self._late:
            self.columns = [c.copy() for c in self.columns] if columns is None else columns
            for slots, entries in self._late:
                for mine, theirs in zip(self.columns, entries, strict=True):
                    mine[slots] = theirs  # where a slot comes twice, the last stays
            self._late = None

    def change_units(self, change: UnitChange) -> None:
        """Convert the kept samples to new units."""
        old = [self.column(place) for place in range(len(self.columns))]
        for mine, new in zip(old, change.samples(old) if old else (), strict=True):
            mine[:] = new

    def _make_room(self, filled: int) -> None:
        if filled > len(self.keys):
            room = min(max(filled, 2 * len(self.keys), 64), self.size)
            self.keys, self.numbers = _longer(self.keys, room), _longer(self.numbers, room)

    def _lengthen_columns(self) -> None:
        if len(self.keys) > len(self.columns[0]):
            self.columns = [_longer(column, len(self.keys)) for column in self.columns]
            self._late = None

    def _as_objects(self) -> None:
        """Convert to one column of objects, for samples of several types."""
        if not self.tuples and self.columns[0].dtype == object:
            return
        whole = np.empty(len(self.columns[0]), object)
        for slot in range(min(self.filled, len(whole))):
            whole[slot] = self.sample(slot)
        self.columns, self.tuples = [whole], False


def _replaced(kept: Array, new: Array) -> Array:
    """For each new key in turn, the slot of the largest kept key if that is larger, else −1."""
    most = max(1, min(len(new), len(kept)))
    largest = np.argpartition(kept, -most)[-most:]  # only these may be replaced
    heap = [(-int(kept[slot]), slot) for slot in largest.tolist()]
    heapify(heap)
    slots = np.full(len(new), -1)
    for place, drawn in enumerate(new.tolist()):
        if drawn < -heap[0][0]:
            slots[place] = heap[0][1]
            heapreplace(heap, (-drawn, heap[0][1]))
    return slots


def _replaced_at_once(kept: Array, new: Array) -> Array:
    """The slots of new keys that are among the smallest, −1 for others."""
    slots, most = np.full(len(new), -1), min(len(new), len(kept))
    # Keys are uniform, so that few kept ones are so large that they may be replaced.
    high = np.flatnonzero(kept > kept.max() * (1.0 - 2.0 * most / len(kept)))
    high = high if len(high) >= most else np.arange(len(kept))
    keys = np.append(kept[high], new)
    largest = np.argpartition(keys, len(high) - 1)[len(high) :]
    stays = np.ones(len(new), dtype=bool)
    stays[largest[largest >= len(high)] - len(high)] = False
    slots[stays] = high[largest[largest < len(high)]]
    return slots


def _keys(key: Key, counters: Array) -> Array:
    return words(key, counters).astype(np.uint64) << np.uint64(32) | words(key, counters, 1)


def _longer(array: Array, room: int) -> Array:
    found = np.zeros((room, *array.shape[1:]), array.dtype)
    found[: len(array)] = array
    return found


def _kinds(columns: list[Array]) -> list[Any]:
    return [(column.dtype, column.shape[1:]) for column in columns]


def _entry(value: Any) -> Array:
    """An entry of a sample as an array of one."""
    array = np.asarray(value) if isinstance(value, np.ndarray | np.generic | float | int) else None
    return array[None] if array is not None and array.dtype.kind in "biuf" else _object(value)


def _object(value: Any) -> Array:
    found = np.empty(1, object)
    found[0] = deepcopy(value)
    return found
