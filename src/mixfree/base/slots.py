"""A uniform sample of fixed size whose samples have slots: Algorithm R (Vitter 1985)."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.draws import Key, below, below_each
from mixfree.base.sample import check_kept
from mixfree.base.state import State, UnitChange


def slots_of(key: Key, size: int, first: int, count: int) -> Array:
    """The slots of the next samples; those whose slot is not below ``size`` are not kept.

    The slot of sample n, counted from 0, is n while there is room, and then uniform on 0, …, n.
    """
    numbers = np.arange(first, first + count, dtype=np.uint64)
    drawn = below_each(key, numbers, numbers + np.uint64(1))
    return np.where(numbers < size, numbers, drawn).astype(np.int64)


@dataclass(slots=True)
class Slots(State):
    """Samples of any type, each in the slot that :func:`slots_of` gives until another replaces it.

    Samples that are alike are kept as arrays, one per entry of a tuple; others as objects.
    """

    size: int
    key: Key
    seen: int = 0
    numbers: Array = field(default_factory=lambda: np.zeros(0, np.int64))  # positions, from 1
    columns: list[Array] = field(default_factory=list)  # one entry per slot in each

    saved: ClassVar[tuple[str, ...]] = ("seen", "numbers", "columns")
    grows: ClassVar[tuple[str, ...]] = ("numbers",)

    @property
    def filled(self) -> int:
        """Number of samples kept."""
        return min(self.seen, self.size)

    def sample(self, slot: int) -> Any:
        """The sample in a slot."""
        found = (column[slot] for column in self.columns)
        entries = tuple(each.copy() if isinstance(each, np.ndarray) else each for each in found)
        return entries if len(entries) > 1 else entries[0]

    def keep(self, sample: Any) -> None:
        """Offer one sample."""
        slot = self.seen if self.seen < self.size else below(self.key, self.seen, self.seen + 1)
        if slot < self.size:
            self.store(self._entries(sample), np.zeros(1, int), np.array([slot]))
        else:
            self.seen += 1

    def _entries(self, sample: Any) -> list[Array]:
        several = type(sample) is tuple and len(sample) > 1
        found = [_entry(each) for each in (sample if several else (sample,))]
        if self.columns and _kinds(found) != _kinds(self.columns):
            if len(self.columns) > 1 or self.columns[0].dtype != object:
                self.columns = [np.fromiter(map(self.sample, range(len(self.numbers))), object)]
            found = [np.fromiter([deepcopy(sample)], object)]
        return found

    def store(self, columns: list[Array], order: Array, slots: Array) -> None:
        """Store the next samples, at positions ``order`` of the columns, in the slots they have."""
        kept = np.flatnonzero(slots < self.size)
        numbers, self.seen = self.seen + 1 + kept, self.seen + len(slots)
        if not len(kept):
            return
        self.columns = self.columns or [column[:0] for column in columns]
        if (length := len(self.numbers)) < self.filled:
            more = min(max(self.filled, 2 * length, 64), self.size) - length
            self.numbers, *self.columns = (_longer(a, more) for a in (self.numbers, *self.columns))
        for mine, new in zip(self.columns, columns, strict=True):
            mine[slots[kept]] = new[order[kept]]  # where a slot comes twice, the last stays
        self.numbers[slots[kept]] = numbers

    def plain(self) -> dict[str, Any]:
        """The kept samples with their positions."""
        found, kept = State.plain(self), self.filled
        columns = [column[:kept] for column in found["columns"]]
        return found | {"numbers": found["numbers"][:kept], "columns": columns}

    def check(self, what: str) -> None:
        """The number of samples kept is the number seen, up to the size."""
        check_kept(self.filled, self.numbers, self.columns, what)

    def change_units(self, change: UnitChange) -> None:
        """Convert the kept samples to new units."""
        old = [column[: self.filled] for column in self.columns]
        for mine, new in zip(old, change.samples(old) if old else (), strict=True):
            mine[:] = new


def _longer(array: Array, more: int) -> Array:
    return np.concatenate([array, np.zeros((more, *array.shape[1:]), array.dtype)])


def _kinds(columns: list[Array]) -> list[Any]:
    return [(column.dtype, column.shape[1:]) for column in columns]


def _entry(value: Any) -> Array:
    """An entry of a sample as an array of one."""
    array = np.asarray(value) if isinstance(value, np.ndarray | np.generic | float | int) else None
    if array is not None and array.dtype.kind in "biuf":
        return array[None]
    return np.fromiter([deepcopy(value)], object)
