"""A uniform sample of the rows of a stream, in constant memory."""

import numpy as np

from mixfree.base.arithmetic import Array, State
from mixfree.base.draws import SAMPLE, key, words

SIZE = 2048


class UniformSample:
    """Keeps the rows with the smallest marks; a row's mark is a draw for its number.

    Which rows are kept does not depend on how the stream is cut.

    Parameters
    ----------
    size
        Rows to keep.
    seed
        Of the marks.

    Examples
    --------
    >>> sample = UniformSample(size=2)
    >>> for start in (0, 4, 8):
    ...     sample.add(np.arange(start, start + 4.0)[:, None], np.zeros(4))
    >>> sample.rows.ravel(), sample.seen
    (array([7., 3.]), 12)
    """

    def __init__(self, size: int = SIZE, seed: int = 0) -> None:
        self.size, self.seed, self.seen = size, seed, 0
        self._marks = np.zeros(0, np.uint64)
        self._rows: Array | None = None
        self._targets: Array | None = None

    @property
    def rows(self) -> Array:
        """The rows kept."""
        return np.zeros((0, 0)) if self._rows is None else self._rows

    @property
    def targets(self) -> Array:
        """Their targets."""
        return np.zeros(0) if self._targets is None else self._targets

    def add(self, rows: Array, targets: Array) -> None:
        """Take the next rows."""
        numbers = np.arange(self.seen, self.seen + len(rows), dtype=np.uint64)
        self.seen += len(rows)
        own = key(self.seed, SAMPLE)
        high = words(own, numbers).astype(np.uint64)
        limit = self._marks[-1] if self._marks.size == self.size else np.uint64(2**64 - 1)
        low = np.flatnonzero(high <= limit >> 32)
        marks = (high[low] << 32) | words(own, numbers[low], 1)
        if self._rows is None or self._targets is None:
            self._rows, self._targets = rows[:0].copy(), targets[:0].copy()
        if low.size:
            joined = np.concatenate([self._marks, marks])
            best = np.argsort(joined, kind="stable")[: self.size]
            self._marks = joined[best]
            self._rows = np.concatenate([self._rows, rows[low]])[best]
            self._targets = np.concatenate([self._targets, targets[low]])[best]

    def state_dict(self) -> State:
        """Everything, as plain values and arrays."""
        texts = self.targets.dtype.kind == "U"
        return {
            "size": self.size,
            "seed": self.seed,
            "seen": self.seen,
            "marks": self._marks.copy(),
            "rows": self.rows.copy(),
            "targets": self.targets.tolist() if texts else self.targets.copy(),
        }

    @classmethod
    def from_state(cls, state: State) -> "UniformSample":
        """The sample that gave ``state``."""
        sample = cls(state["size"], state["seed"])
        sample.seen, sample._marks = state["seen"], state["marks"]
        if sample.seen:
            sample._rows, sample._targets = state["rows"], np.array(state["targets"])
        return sample
