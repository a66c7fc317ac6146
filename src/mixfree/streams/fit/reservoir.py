"""A uniform sample of the rows of a stream, in constant memory."""

import zlib
from typing import Any, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.draws import SAMPLE, key
from mixfree.base.sample import UniformSample

SIZE = 2048  # default number of rows kept


class Reservoir(UniformSample):
    """A uniform sample of rows with their targets.

    Their files and places in these decide which rows are kept, so that neither the order of the
    files nor their division among workers does.
    """

    def __init__(self, size: int = SIZE, seed: int = 0) -> None:
        super().__init__(size, seed, SAMPLE)

    @property
    def rows(self) -> Array:
        """The rows kept."""
        return self.columns[0] if self.seen else np.zeros((0, 0))

    @property
    def targets(self) -> Array:
        """The targets of the rows kept."""
        return self.columns[1] if self.seen else np.zeros(0)

    def add(self, rows: Any, targets: Array, file: str, places: Array) -> None:
        """Offer rows with their places in a file; more columns than before were 0 before."""
        newest = self._late[-1][1] if self._late else self._columns
        if newest and (more := rows.shape[1] - newest[0].shape[1]) > 0:
            self.transform(lambda kept: np.pad(kept, ((0, 0), (0, more))))
        self._key = key(self.seed ^ zlib.crc32(file.encode()), SAMPLE)
        self.offer([rows, targets], places)

    def mapped(self, matrix: Any) -> Self:
        """Return the sample of ``z @ matrix`` for all rows z; last columns of zeros may lack."""
        found = self.copy()
        found.transform(lambda rows: np.asarray(rows @ matrix[: rows.shape[1]]))
        return found

    def check(self, what: str) -> None:
        """Rows and targets are kept."""
        super().check(what)
        kinds = [(each.dtype.name, each.ndim) for each in self.columns]
        if kinds not in ([], [("float64", 2), ("float64", 1)]):
            raise ValueError(f"state of the {what} is invalid: it has no rows and targets")
