"""A uniform sample of the rows of a stream, in constant memory."""

import copy
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.draws import SAMPLE
from mixfree.base.sample import UniformSample
from mixfree.base.state import loading

__all__ = ["Reservoir"]

SIZE = 2048  # default number of rows kept


class Reservoir:
    """A uniform sample of rows with their targets: see :class:`UniformSample`.

    Parameters
    ----------
    size
        Number of rows to keep.
    seed
        Seed of the random keys.

    Examples
    --------
    >>> kept = Reservoir(size=2)
    >>> for start in (0, 4, 8):
    ...     kept.add(np.arange(start, start + 4.0)[:, None], np.zeros(4))
    >>> kept.rows.ravel(), kept.seen
    (array([3., 7.]), 12)
    """

    def __init__(self, size: int = SIZE, seed: int = 0) -> None:
        self._sample = UniformSample(size, seed, SAMPLE)

    @property
    def seen(self) -> int:
        """Number of rows so far."""
        return self._sample.seen

    @property
    def seed(self) -> int:
        """Seed of the random keys."""
        return self._sample.seed

    @property
    def rows(self) -> Array:
        """The rows kept, in the order of the stream."""
        return self._sample.column(0)[self._sample.order] if self.seen else np.zeros((0, 0))

    @property
    def targets(self) -> Array:
        """The targets of the rows kept."""
        return self._sample.column(1)[self._sample.order] if self.seen else np.zeros(0)

    def add(self, rows: Array, targets: Array) -> None:
        """Offer the next rows of the stream; more columns than before were 0 in rows before."""
        kept = self._sample.columns
        if kept and kept[0].shape[1] < rows.shape[1]:
            more = np.zeros((len(kept[0]), rows.shape[1] - kept[0].shape[1]))
            kept[0] = np.hstack([kept[0], more])
        self._sample.offer([rows, targets], at_once=True)

    def mapped(self, matrix: Any) -> "Reservoir":
        """Return the sample of ``z @ matrix`` for all rows z; last columns of zeros may lack."""
        found = copy.copy(self)
        found._sample = self._sample.copy()
        kept = found._sample.columns
        if kept:
            kept[0] = np.asarray(kept[0] @ matrix[: kept[0].shape[1]])
        return found

    def merge(self, other: "Reservoir") -> None:
        """Merge the sample of another part of the stream, drawn with another seed.

        Examples
        --------
        >>> kept, other = Reservoir(size=2), Reservoir(size=2, seed=1)
        >>> kept.add(np.arange(4.0)[:, None], np.zeros(4))
        >>> other.add(np.arange(4.0, 8.0)[:, None], np.zeros(4))
        >>> kept.merge(other)
        >>> len(kept.rows), kept.seen
        (2, 8)
        """
        self._sample.merge(other._sample)

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state as plain values and arrays."""
        sample = self._sample
        return {"size": sample.size, "seed": sample.seed, **sample.plain()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Reservoir":
        """Rebuild the reservoir that gave ``state``; raise ValueError if the state is invalid."""
        with loading("reservoir"):
            seed = check_whole(state["seed"], "seed of the state", least=0, most=2**64 - 1)
            kept, plain = cls(state["size"], seed), dict(state)
            del plain["size"], plain["seed"]
            kept._sample = kept._sample.restored(plain, "reservoir")
            shapes = [each.shape for each in kept._sample.columns]
            doubles = all(each.dtype == np.float64 for each in kept._sample.columns)
            if shapes and not (doubles and [len(shape) for shape in shapes] == [2, 1]):
                raise ValueError("state of the reservoir is invalid: it has no rows and targets")
        return kept

    def check_columns(self, columns: int) -> None:
        """Raise ValueError if rows have too many columns."""
        if self.seen and self.rows.shape[1] > columns:
            raise ValueError(f"state of the reservoir is invalid: rows must have {columns} values")
