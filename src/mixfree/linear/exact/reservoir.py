"""A uniform sample of a stream's rows, which can be merged with another."""

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mixfree.base import draws
from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_bytes, check_whole
from mixfree.linear.exact.blocks import check_array

FEWEST = 64  # least rows of a sample
PER_COLUMN = 3  # least rows per column: with fewer, kept rows could be fitted perfectly
NONE = np.uint64(2**64 - 1)  # key of a place whose row was discarded
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

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, places: Any) -> "Kept":
        """Return some of the rows: copies for an array of places, views for a slice."""
        return Kept(
            self.rows[places], self.targets[places], self.weights[places], self.before[places]
        )


class Reservoir:
    """Keeps the ``size`` rows with the least keys; a key is 64 random bits for a row's number.

    The kept rows are a uniform sample of all rows, in any order. If two streams have different
    seeds, the rows with the least keys of both are a uniform sample of both. Which rows are kept
    does not depend on the chunking of a stream or on the order of merging.

    Parameters
    ----------
    size
        Number of rows to keep. Up to an eighth more are stored temporarily.
    columns, outputs
        Numbers of features and predictions per row.

    Examples
    --------
    >>> sample = Reservoir(64, 1, 1)
    >>> numbers = np.arange(1000.0)
    >>> sample.fill(Kept(numbers[:64, None], numbers[:64], np.ones(64), np.zeros((64, 1))))
    >>> sample.seed = 7
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
        self._rows = np.empty((0, columns))
        self._targets, self._weights = np.empty(0), np.empty(0)
        self._before = np.empty((0, outputs))
        self._keys = np.empty(0, dtype=np.uint64)
        self._free = np.empty(0, dtype=np.intp)  # places of discarded rows, whose keys are NONE
        self._bar = NONE  # only rows with smaller keys are kept

    @property
    def _limit(self) -> int:
        """Largest number of rows that are stored, temporarily."""
        return self.size + max(self.size // SPARE, FEWEST)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows stored."""
        return 8 * self.stored * (self._rows.shape[1] + self._before.shape[1] + 3)

    @property
    def all(self) -> Kept:
        """Views of all stored rows, including discarded ones until they are replaced."""
        return Kept(self._rows, self._targets, self._weights, self._before).take(
            slice(0, self.stored)
        )

    def fill(self, rows: Kept) -> None:
        """Store rows for which there is room; their keys are drawn later."""
        end = self.stored + len(rows)
        self._make_room(end)
        self._write(slice(self.stored, end), rows)
        self.stored, self.seen, self.drawn = end, self.seen + len(rows), self.drawn + len(rows)

    def expand(self, before: Array) -> None:
        """Set the predictions of all stored rows."""
        self._before[: self.stored] = before

    def draw_keys(self) -> None:
        """Draw the keys of the rows that :meth:`fill` stored, before any row is left out."""
        numbers = np.arange(self.stored, dtype=np.uint64)
        high = draws.words(self._key, numbers).astype(np.uint64) << np.uint64(32)
        self._keys[: self.stored] = high | draws.words(self._key, numbers, 1)

    def offer(self, rows: Array, targets: Array, weights: Array | None, before: Array) -> None:
        """Store those of the next rows whose keys are small enough."""
        first, count = self.drawn, len(targets)
        places, keys = self._below_bar(first, count)
        self.seen, self.drawn = self.seen + count, first + count
        factors = np.broadcast_to(1.0, count) if weights is None else weights
        self._append(Kept(rows, targets, factors, before), keys, places)

    def chosen(self) -> Array:
        """Return the places of the kept rows among the stored rows, in order."""
        if self.stored <= self.size:
            return np.arange(self.stored)
        return np.flatnonzero(self._keys[: self.stored] <= self._largest())

    def _largest(self) -> np.uint64:
        """Return the largest key of the ``size`` kept rows."""
        found: np.uint64 = np.partition(self._keys[: self.stored], self.size - 1)[self.size - 1]
        return found

    def merge(self, other: Self) -> None:
        """Make this the sample of both streams."""
        self.seen += other.seen
        places = other.chosen()
        self._append(other.all, other._keys[places], places)
        self._bar = min(self._bar, other._bar)
        self._sort_out()

    def _append(self, rows: Kept, keys: Array, places: Array) -> None:
        """Store the rows at ``places``, with their keys, where there is room."""
        done = 0
        while done < len(keys):
            if not len(self._free):
                end = min(self.stored + len(keys) - done, self._limit)
                self._make_room(end)
                self._free, self.stored = np.arange(self.stored, end), end
            new, self._free = np.split(self._free, [len(keys) - done])
            now = slice(done, done + len(new))
            self._write(new, rows.take(places[now]))
            self._keys[new] = keys[now]
            done = now.stop
            if not len(self._free) and self.stored == self._limit:
                self._sort_out()

    def _sort_out(self) -> None:
        """Discard all rows except those with the least keys; new rows will take their places."""
        if self.stored <= self.size:
            return
        keys = self._keys[: self.stored]
        self._bar = self._largest()
        self._free = np.flatnonzero(keys > self._bar)
        keys[self._free] = NONE

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

    def _write(self, places: Any, rows: Kept) -> None:
        self._rows[places], self._targets[places] = rows.rows, rows.targets
        self._weights[places], self._before[places] = rows.weights, rows.before

    def _make_room(self, length: int) -> None:
        if length <= len(self._targets):
            return
        # Unwritten room costs no memory, but a second copy of half the rows does.
        length = self._limit if 4 * length > self.size else max(length, 2 * len(self._targets))
        for name in ("_rows", "_targets", "_weights", "_before", "_keys"):
            old = getattr(self, name)
            longer = np.empty((length, *old.shape[1:]), dtype=old.dtype)
            longer[: self.stored] = old[: self.stored]
            setattr(self, name, longer)

    def copy(self) -> Self:
        """Return an independent copy."""
        twin = type(self)(self.size, self._rows.shape[1], self._before.shape[1])
        twin.restore(self.plain())
        return twin

    def plain(self) -> dict[str, Any]:
        """Return the state as numbers and copies of arrays."""
        kept = self.all
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
        rows = check_array(state["rows"], "rows", (stored, self._rows.shape[1]))
        targets = check_array(state["targets"], "targets", (stored,))
        weights = check_array(state["weights"], "weights", (stored,))
        if not (weights > 0.0).all():
            raise ValueError("weights of the state must be positive")
        before = check_array(state["before"], "before", (stored, self._before.shape[1]))
        seen = check_whole(state["seen"], "seen of the state", least=stored)
        drawn = check_whole(state["drawn"], "drawn of the state", least=0, most=seen)
        bar = check_whole(state["bar"], "bar of the state", least=0, most=2**64 - 1)
        seed, keys = state["seed"], np.empty(stored, dtype=np.uint64)
        if seed is not None:
            seed = check_whole(seed, "seed of the state", least=0, most=2**64 - 1)
            keys = np.array(state["keys"])
            if keys.dtype != np.uint64 or keys.shape != (stored,):
                raise ValueError(f"keys of the state must be {stored} numbers of type uint64")
        elif seen != stored:
            raise ValueError("seed of the state is missing")
        free = np.flatnonzero(keys == NONE) if seed is not None else np.empty(0, dtype=np.intp)
        if len(free) > max(stored - self.size, 0):
            raise ValueError(f"keys of the state must be those of {self.size} rows or more")
        self._rows, self._targets, self._weights, self._before = rows, targets, weights, before
        self._keys, self._bar, self.seed = keys, np.uint64(bar), seed
        self._free = free
        self.stored, self.seen, self.drawn = stored, seen, drawn


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
