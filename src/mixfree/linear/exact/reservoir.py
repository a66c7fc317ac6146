"""A uniform sample of a stream's rows, which can be merged with another."""

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mixfree.base import draws
from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_bytes, check_whole
from mixfree.base.interrupts import shallow
from mixfree.linear.exact.blocks import check_array
from mixfree.linear.exact.mapping import ColumnMap

FEWEST = 64  # least rows of a sample
PER_COLUMN = 3  # least rows per column: with fewer, kept rows could be fitted perfectly
NONE = np.uint64(2**64 - 1)  # the largest key
PIECE_VALUES = 1 << 16  # values that are copied at a time
SPARE = 8  # one more row per SPARE rows is stored, so that rows are rarely discarded


def rows_of(memory: int | str, columns: int, outputs: int) -> int:
    """Convert ``memory``, a number of rows or bytes such as "32MB", to a number of rows.

    Examples
    --------
    >>> rows_of(2048, 10, 1), rows_of("32MB", 96, 1)
    (2048, 35555)
    """
    least = max(FEWEST, PER_COLUMN * (columns + 1))
    each = 8 * (columns + outputs + 3) * (1 + 1 / SPARE)
    if not isinstance(memory, str):
        return check_whole(memory, "memory", least=least)
    rows = int(check_bytes(memory, "memory", "a number of rows or bytes") / each)
    if rows < least:
        raise ValueError(
            f"memory={memory!r} holds {rows:,} rows, but {columns:,} columns need {least:,}: "
            f"give memory='{-int(-least * each // 1e6)}MB'"
        )
    return rows


@dataclass(slots=True)
class Kept:
    """Rows with their targets, their weights, and their predictions at arrival."""

    rows: Array
    targets: Array
    weights: Array
    before: Array

    @classmethod
    def room(cls, length: int, columns: int, outputs: int) -> "Kept":
        """Return unwritten room for so many rows, which takes no memory yet."""
        empty = np.empty
        return cls(empty((length, columns)), empty(length), empty(length), empty((length, outputs)))

    def __len__(self) -> int:
        return len(self.targets)

    def write(self, places: Any, rows: "Kept") -> None:
        """Copy rows to the given places."""
        self.rows[places], self.targets[places] = rows.rows, rows.targets
        self.weights[places], self.before[places] = rows.weights, rows.before

    def take(self, places: Any) -> "Kept":
        """Return some of the rows: copies for an array of places, views for a slice."""
        return Kept(
            self.rows[places], self.targets[places], self.weights[places], self.before[places]
        )

    @property
    def pieces(self) -> "list[Kept]":
        """Views of a few rows each."""
        length = PIECE_VALUES // (self.rows.shape[1] + 1) or 1
        return [self.take(slice(start, start + length)) for start in range(0, len(self), length)]


class Reservoir:
    """Keeps the ``size`` rows with the least keys; a key is 64 random bits for a row's number.

    The kept rows are a uniform sample of all rows, in any order. If two streams have different
    seeds, the rows with the least keys of both are a uniform sample of both. Which rows are kept
    does not depend on the chunking of a stream or on the order of merging.

    Parameters
    ----------
    size
        Number of rows to keep. Up to an eighth more are stored temporarily, and, until a call of
        the owner has ended, the rows that were stored before it.
    columns, outputs
        Numbers of features and predictions per row.

    Examples
    --------
    >>> sample = Reservoir(64, 1, 1)
    >>> numbers = np.arange(1000.0)
    >>> sample.fill(Kept(numbers[:64, None], numbers[:64], np.ones(64), np.zeros((64, 1))))
    >>> sample.seed = 7
    >>> sample.draw_keys(np.zeros((64, 1)))
    >>> sample.offer(numbers[64:, None], numbers[64:], None, np.zeros((936, 1)))
    >>> len(sample.chosen()), sample.seen
    (64, 1000)
    """

    def __init__(self, size: int, columns: int, outputs: int) -> None:
        self.size = check_whole(size, "size", least=FEWEST)
        self.seen = 0  # rows of all merged streams
        self.drawn = 0  # rows of this stream, whose keys come from its seed
        self.stored = 0
        self.seed: int | None = None  # unknown until a key is needed
        self._shape = columns, outputs
        self._room = Kept.room(0, columns, outputs)
        # Where each stored row is in the room, and its key, in the order of arrival.
        self._places, self._keys = np.empty(0, dtype=np.intp), np.empty(0, dtype=np.uint64)
        self._free = np.empty(0, dtype=np.intp)  # places where the next rows go
        self._shown: Array | slice = slice(0)  # places that the predecessor uses
        self._bar = NONE  # only rows with smaller keys are kept

    @property
    def _limit(self) -> int:
        """Largest number of rows that are stored, temporarily."""
        return self.size + max(self.size // SPARE, FEWEST)

    def successor(self) -> Self:
        """Return a copy that shares all rows; only one of the two may be continued.

        It writes new rows where this sample has none, and lists them behind its lists.
        """
        twin = shallow(self)
        twin._shown = self._used
        return twin

    @property
    def _used(self) -> Array | slice:
        """Places of the stored rows: the first ones until keys are drawn."""
        return slice(self.stored) if self.seed is None else self._places[: self.stored]

    def rows(self, stride: int = 1) -> Kept:
        """Return the kept rows in the order of arrival, or one of every ``stride`` of them."""
        if self.seed is None:  # nothing has been discarded
            return self._room.take(slice(0, self.stored, stride))
        return self._room.take(self._places[self.chosen()[::stride]])

    def fill(self, rows: Kept) -> None:
        """Store rows for which there is room; their keys are drawn later."""
        end = self.stored + len(rows)
        if end > len(self._room):
            # Unwritten room costs no memory, but a second copy of half the rows does.
            all_at_once = 4 * end > self.size
            self._grow(2 * self._limit if all_at_once else max(end, 2 * len(self._room)))
        self._room.write(slice(self.stored, end), rows)
        self.stored, self.seen, self.drawn = end, self.seen + len(rows), self.drawn + len(rows)

    def draw_keys(self, before: Array) -> None:
        """Draw the keys of all rows before any is left out, and set their predictions."""
        numbers = np.arange(self.stored, dtype=np.uint64)
        high = draws.words(self._key, numbers).astype(np.uint64) << np.uint64(32)
        self._list(np.arange(self.stored), high | draws.words(self._key, numbers, 1))
        if len(self._room) < 2 * self._limit:
            self._grow(2 * self._limit)
        self._room = replace(self._room, before=np.empty((2 * self._limit, before.shape[1])))
        self._room.before[: self.stored] = before

    def offer(self, rows: Array, targets: Array, weights: Array | None, before: Array) -> None:
        """Store those of the next rows whose keys are small enough."""
        first, count = self.drawn, len(targets)
        places, keys = self._below_bar(first, count)
        self.seen, self.drawn = self.seen + count, first + count
        factors = np.broadcast_to(1.0, count) if weights is None else weights
        self._append(Kept(rows, targets, factors, before).take(places), keys)

    def chosen(self) -> Array:
        """Return the numbers of the kept rows among the stored rows, in order."""
        if self.stored <= self.size:
            return np.arange(self.stored)
        keys = self._keys[: self.stored]
        largest = np.partition(keys, self.size - 1)[self.size - 1]
        return np.flatnonzero(keys <= largest)[: self.size]

    def merge(self, other: Self) -> None:
        """Make this the sample of both streams."""
        self.seen += other.seen
        self._append(other.rows(), other._keys[other.chosen()])
        self._bar = min(self._bar, other._bar)
        self._sort_out()

    def _append(self, rows: Kept, keys: Array) -> None:
        """Store rows with their keys."""
        done = 0
        while done < len(keys):
            now = slice(done, done + self._limit - self.stored)
            new, self._free = np.split(self._free, [len(keys[now])])
            self._room.write(new, rows.take(now))
            end = self.stored + len(new)
            self._places[self.stored : end], self._keys[self.stored : end] = new, keys[now]
            self.stored, done = end, now.stop
            if self.stored == self._limit:
                self._sort_out()

    def _sort_out(self) -> None:
        """Discard all rows except those with the least keys; new rows will take their places."""
        if self.stored <= self.size:
            return
        kept = self.chosen()
        self._bar = self._keys[kept].max()
        self._list(self._places[kept], self._keys[kept])

    def _list(self, places: Array, keys: Array) -> None:
        """List the stored rows, with room for more, and find places that nobody uses."""
        self.stored = len(keys)
        self._places = np.append(places, np.empty(self._limit - len(keys), dtype=np.intp))
        self._keys = np.append(keys, np.empty(self._limit - len(keys), dtype=np.uint64))
        used = np.zeros(2 * self._limit, dtype=bool)
        used[places] = used[self._shown] = True
        self._free = np.flatnonzero(~used)

    def _below_bar(self, first: int, count: int) -> tuple[Array, Array]:
        """Return the places of the next rows whose keys are below the bar, and the keys.

        Half of a key decides for nearly all rows.
        """
        few = first + count < 1 << 32  # half as many bits take half as long
        numbers = np.arange(first, first + count, dtype=np.uint32 if few else np.uint64)
        high = draws.words(self._key, numbers)
        places = np.flatnonzero(high <= np.uint32(int(self._bar) >> 32))
        keys = high[places].astype(np.uint64) << np.uint64(32)
        keys |= draws.words(self._key, numbers[places], 1)
        below = keys < self._bar
        return places[below], keys[below]

    @property
    def _key(self) -> draws.Key:
        assert self.seed is not None
        return _key_of(self.seed)

    def _grow(self, length: int) -> None:
        room = Kept.room(length, *self._shape)
        room.write(slice(0, self.stored), self._room.take(slice(0, self.stored)))
        self._room = room

    def copy(self) -> Self:
        """Return an independent copy."""
        twin = type(self)(self.size, *self._shape)
        twin.restore(self.plain())
        return twin

    def mapped(self, change: ColumnMap, size: int) -> Self:
        """Return the sample, or the least ``size`` keys of it, with mapped columns."""
        twin, state = type(self)(size, change.after, self._shape[1]), self.plain()
        if self.stored > size:
            kept = np.sort(np.argsort(state["keys"], kind="stable")[:size])
            state["bar"] = int(state["keys"][kept].max())
            for name in ("rows", "targets", "weights", "before", "keys"):
                state[name] = state[name][kept]
        twin.restore(state | {"rows": change.rows(state["rows"])})
        return twin

    def __reduce__(self) -> Any:
        return _restored, (self.size, *self._shape, self.plain())  # without unused room

    def plain(self) -> dict[str, Any]:
        """Return the state as numbers and copies of arrays."""
        kept = self._room.take(self._used)
        return {
            "rows": kept.rows.copy(),
            "targets": kept.targets.copy(),
            "weights": kept.weights.copy(),
            "before": kept.before.copy(),
            "keys": self._keys[: self.stored].copy() if self.seed is not None else None,
            "seed": self.seed,
            "seen": self.seen,
            "drawn": self.drawn,
            "bar": int(self._bar),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that :meth:`plain` returned; an error changes nothing."""
        stored = len(np.atleast_1d(state["targets"]))
        check_whole(stored, "rows kept by the state", least=0, most=self._limit)
        rows = check_array(state["rows"], "rows", (stored, self._shape[0]))
        targets = check_array(state["targets"], "targets", (stored,))
        weights = check_array(state["weights"], "weights", (stored,))
        if not (weights > 0.0).all():
            raise ValueError("weights of the state must be positive")
        before = check_array(state["before"], "before", (stored, self._shape[1]))
        seen = check_whole(state["seen"], "seen of the state", least=stored)
        drawn = check_whole(state["drawn"], "drawn of the state", least=0, most=seen)
        bar = check_whole(state["bar"], "bar of the state", least=0, most=2**64 - 1)
        seed, keys = state["seed"], np.empty(0, dtype=np.uint64)
        if seed is not None:
            seed = check_whole(seed, "seed of the state", least=0, most=2**64 - 1)
            keys = np.array(state["keys"])
            if keys.dtype != np.uint64 or keys.shape != (stored,):
                raise ValueError(f"keys of the state must be {stored} numbers of type uint64")
        elif seen != stored:
            raise ValueError("seed of the state is missing")
        self._room, self.stored = Kept(rows, targets, weights, before), stored
        self._shown = slice(0)
        if seed is not None:
            self._grow(2 * self._limit)
            self._list(np.arange(stored), keys)
        self._bar, self.seed, self.seen, self.drawn = np.uint64(bar), seed, seen, drawn
        if stored == self._limit:
            self._sort_out()


def _restored(size: int, columns: int, outputs: int, state: dict[str, Any]) -> Reservoir:
    found = Reservoir(size, columns, outputs)
    found.restore(state)
    return found


@functools.lru_cache(maxsize=64)
def _key_of(seed: int) -> draws.Key:
    return draws.key(seed, draws.RESERVOIR)


def stream_seed(seed: int, kept: Kept) -> int:
    """Return a seed that two streams share only if they begin with the same rows.

    With a common seed, merging would keep rows with the same numbers from both streams.
    """
    found = hashlib.blake2b(seed.to_bytes(8, "little"), digest_size=8)
    for array in (kept.rows, kept.targets):
        found.update(array[:FEWEST].astype("<f8").tobytes())
    return int.from_bytes(found.digest(), "little")
