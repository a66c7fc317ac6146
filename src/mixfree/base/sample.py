"""A uniform sample of fixed size of a stream; two of them can be merged."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.draws import KEPT, Key, key, words
from mixfree.base.state import State

SPARE = 8  # up to size/SPARE more samples are stored before those with the largest keys are dropped


@dataclass(slots=True)
class UniformSample(State):
    """Keep the ``size`` samples with the smallest keys, where a key is 64 random bits.

    A key depends only on seed, purpose (:mod:`mixfree.base.draws`) and the position in the stream,
    so the same samples are kept however the stream is cut into chunks, and they are a uniform
    sample of it, in order of arrival. Two samples are merged by keeping the smallest keys of both.
    Copies share all arrays, since none is written to.
    """

    size: int
    seed: int = 0
    purpose: int = KEPT
    seen: int = 0
    _keys: Array = field(default_factory=lambda: np.zeros(0, np.uint64))
    _columns: list[Array] = field(default_factory=list)  # one entry per key in each
    # Keys and columns of later samples, which are kept if their keys are small enough.
    _late: list[tuple[Array, list[Array]]] = field(default_factory=list, repr=False)
    _largest: int = field(default=2**64 - 1, repr=False)  # samples with larger keys are not kept
    _key: Key = field(init=False, repr=False)

    saved: ClassVar[tuple[str, ...]] = ("seen", "_keys", "_columns")
    grows: ClassVar[tuple[str, ...]] = ("_keys",)

    def __post_init__(self) -> None:
        check_whole(self.size, "size", most=2**31)
        self._key = key(self.seed, self.purpose)

    def __deepcopy__(self, memo: Any) -> Self:
        return copy(self)

    @property
    def filled(self) -> int:
        """Number of samples kept."""
        return min(self.seen, self.size)

    @property
    def columns(self) -> list[Array]:
        """The kept samples in order of arrival, one array per column; they must not be changed."""
        self._settle()
        return self._columns

    def offer(self, columns: Sequence[Array], counters: Array | None = None) -> None:
        """Offer the next samples; each column has one entry per sample.

        ``counters`` replace their positions in the stream, as what decides which are kept.
        """
        if counters is None:
            counters = np.arange(self.seen, self.seen + len(columns[0]), dtype=np.uint64)
        self.seen += len(counters)
        # Half of a key decides for nearly all samples.
        places = np.flatnonzero(words(self._key, counters) <= np.uint32(self._largest >> 32))
        keys = keys_of(self._key, counters[places])
        small = _smallest(keys, self.size)
        places = places[small]
        self._add(keys[small], [column[places] for column in columns])

    def _add(self, keys: Array, columns: list[Array]) -> None:
        if len(keys):
            self._late = [*self._late, (keys, columns)]
            stored = len(self._keys) + sum(len(each) for each, _ in self._late)
            if stored > self.size + self.size // SPARE:
                self._settle()

    def _settle(self) -> None:
        """Drop all samples but those with the smallest keys."""
        parts = [each for each in ((self._keys, self._columns), *self._late) if len(each[0])]
        if self._late or len(self._keys) > self.size:
            keys = np.concatenate([each for each, _ in parts])
            small = _smallest(keys, self.size)
            cuts = np.cumsum([len(each) for each, _ in parts])[:-1]
            few = [np.flatnonzero(each) for each in np.split(small, cuts)]
            whole = zip(*(columns for _, columns in parts), strict=True)
            self._keys, self._late = keys[small], []
            self._columns = [_joined(arrays, few) for arrays in whole]
        if len(self._keys) == self.size:
            self._largest = int(self._keys.max())

    def merge(self, other: Self) -> None:
        """Become the sample of both streams, this one first; they must not share keys."""
        if self.size != other.size:
            raise ValueError(f"samples to merge must be of one size, not {self.size}, {other.size}")
        columns = other.columns
        self._settle()
        if np.isin(self._keys, other._keys).any():
            raise ValueError("both streams have the same rows: fit one of them with another seed")
        self._add(other._keys, columns)
        self.seen += other.seen

    def shrunk(self, size: int) -> Self:
        """Return the sample of a smaller size that would have been kept of the same stream."""
        smaller = copy(self)
        smaller.size = min(size, self.size)
        smaller._settle()
        return smaller

    def transform(self, function: Callable[[Array], Array]) -> None:
        """Replace the first column by a function of it."""
        if self.columns:
            self._columns = [function(self._columns[0]), *self._columns[1:]]

    def plain(self) -> dict[str, Any]:
        """The kept samples and their keys."""
        self._settle()
        return State.plain(self)

    def check(self, what: str) -> None:
        """The number of samples kept is the number seen, up to the size."""
        self._late, self._largest = [], 2**64 - 1
        check_kept(self.filled, self._keys, self._columns, what)
        self._settle()


def check_kept(count: int, keys: Array, columns: list[Array], what: str) -> None:
    """Raise ValueError unless a state has ``count`` samples, all of them finite."""
    lengths = {(count,), *(np.shape(each)[:1] for each in (keys, *columns))}
    if len(lengths) > 1 or bool(columns) != (count > 0):
        raise ValueError(f"state of the {what} does not fit: it must keep {count} samples")
    if any(c.dtype.kind == "f" and not np.isfinite(c).all() for c in columns):
        raise ValueError(f"state of the {what} does not fit: a sample is not finite")


def keys_of(key: Key, counters: Array) -> Array:
    """The keys of samples, from their positions in the stream."""
    return words(key, counters).astype(np.uint64) << np.uint64(32) | words(key, counters, 1)


def _joined(arrays: Sequence[Array], places: Sequence[Array]) -> Array:
    """Return some entries of each array one after another, by one copy."""
    ends = np.cumsum([len(each) for each in places])
    found = np.empty_like(arrays[0], shape=(ends[-1], *arrays[0].shape[1:]), order="C")
    for array, few, end in zip(arrays, places, ends, strict=True):
        np.take(array, few, axis=0, out=found[end - len(few) : end], mode="clip")
    return found


def _smallest(keys: Array, size: int) -> Array:
    """Whether each key is one of the ``size`` smallest."""
    if len(keys) <= size:
        return np.ones(len(keys), bool)
    found: Array = keys < np.partition(keys, size)[size]
    return found
