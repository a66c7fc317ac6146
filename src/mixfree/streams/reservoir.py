"""A uniform sample of the rows of a stream, in constant memory."""

from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.draws import SAMPLE, key, words

__all__ = ["Reservoir"]

SIZE = 2048  # rows kept unless told otherwise


class Reservoir:
    """Keeps the rows with the smallest random keys; a row's key is drawn from its number.

    Which rows are kept does not depend on how the stream is cut into batches.

    Parameters
    ----------
    size
        How many rows to keep.
    seed
        Seed of the random keys.

    Examples
    --------
    >>> kept = Reservoir(size=2)
    >>> for start in (0, 4, 8):
    ...     kept.add(np.arange(start, start + 4.0)[:, None], np.zeros(4))
    >>> kept.rows.ravel(), kept.seen
    (array([7., 3.]), 12)
    """

    def __init__(self, size: int = SIZE, seed: int = 0) -> None:
        self.size, self.seed, self.seen = size, seed, 0
        self.rows: Array = np.zeros((0, 0))
        self.targets: Array = np.zeros(0)
        self._keys = np.zeros(0, np.uint64)

    def add(self, rows: Array, targets: Array) -> None:
        """Take the next rows of the stream."""
        if self.seen == 0:
            self.rows = self.rows.reshape(0, rows.shape[1])
        numbers = np.arange(self.seen, self.seen + len(rows), dtype=np.uint64)
        self.seen += len(rows)
        own = key(self.seed, SAMPLE)
        high = words(own, numbers).astype(np.uint64)
        limit = self._keys[-1] if self._keys.size == self.size else np.uint64(2**64 - 1)
        low = np.flatnonzero(high <= limit >> 32)
        if low.size:
            keys = (high[low] << 32) | words(own, numbers[low], 1)
            self._keep(keys, rows[low], targets[low])

    def _keep(self, keys: Array, rows: Array, targets: Array) -> None:
        joined = np.concatenate([self._keys, keys])
        best = np.argsort(joined, kind="stable")[: self.size]
        self._keys = joined[best]
        self.rows = np.concatenate([self.rows, rows])[best]
        self.targets = np.concatenate([self.targets, targets])[best]

    def merge(self, other: "Reservoir") -> None:
        """Take the rows of another part of the stream, drawn with another seed.

        Examples
        --------
        >>> kept, other = Reservoir(size=2), Reservoir(size=2, seed=1)
        >>> kept.add(np.arange(4.0)[:, None], np.zeros(4))
        >>> other.add(np.arange(4.0, 8.0)[:, None], np.zeros(4))
        >>> kept.merge(other)
        >>> len(kept.rows), kept.seen
        (2, 8)
        """
        if other.seen == 0:
            return
        self.rows = self.rows.reshape(-1, other.rows.shape[1])
        self.seen += other.seen
        self._keep(other._keys, other.rows, other.targets)

    def state_dict(self) -> dict[str, Any]:
        """Everything, as plain values and arrays."""
        return {
            "size": self.size,
            "seed": self.seed,
            "seen": self.seen,
            "keys": self._keys.copy(),
            "rows": self.rows.copy(),
            "targets": self.targets.copy(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Reservoir":
        """The reservoir that gave ``state``."""
        kept = cls(state["size"], state["seed"])
        kept.seen, kept._keys = state["seen"], state["keys"]
        kept.rows, kept.targets = state["rows"], state["targets"]
        return kept
