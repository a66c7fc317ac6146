"""Look up features: rows of a matrix, or a function of the observation."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.td.features.table import ROUNDING, feature_matrix


class Features(Protocol):
    """Features of states, of a fixed size."""

    size: int

    def row(self, state: Any) -> Array:
        """Return φ(s), checked."""

    def rows(self, states: Any) -> Array:
        """Return φ of many states, one row each, checked."""


def as_features(features: Any, size: int | None = None) -> Features:
    """Make features from a matrix, or from a function with the attribute ``size``."""
    if not callable(features):
        return Rows(features)
    found = getattr(features, "size", None) if size is None else size
    if found is None:
        raise ValueError(
            f"the number of features of {features!r} is not known: give size=…, or a function "
            "with an attribute size"
        )
    return Mapped(features, check_whole(found, "size"))


class Rows:
    """A matrix of features; states are its row numbers."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = feature_matrix(matrix)
        self.states, self.size = self.matrix.shape
        self._row: dict[Any, Array] = dict(enumerate(self.matrix))

    def row(self, state: Any) -> Array:
        """Return the row of a state; negative numbers are refused."""
        try:
            return self._row[state]
        except (KeyError, TypeError):
            raise ValueError(f"state {state!r} {self._allowed}") from None

    def indices(self, states: Any) -> Array:
        """Return the row numbers of many states, checked."""
        found = np.asarray(states)
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise ValueError(f"states of shape {found.shape}, {found.dtype}: each {self._allowed}")
        if found.size and not (found.min() >= 0 and found.max() < self.states):
            wrong = found[(found < 0) | (found >= self.states)][0]
            raise ValueError(f"state {wrong} {self._allowed}")
        return found.astype(np.int64)

    def rows(self, states: Any) -> Array:
        """Return the rows of many states."""
        return self.matrix[self.indices(states)]

    @property
    def _allowed(self) -> str:
        return f"must be a row number of the features, from 0 to {self.states - 1}"


class Mapped:
    """A function from an observation to its features, with an optional method ``rows`` for many."""

    def __init__(self, function: Callable[[Any], Any], size: int) -> None:
        self.function = function
        self.size = size
        self._many = getattr(function, "rows", None)

    def row(self, state: Any) -> Array:
        """Return the features of one observation."""
        row: Array = self._check(np.asarray(self.function(state), dtype=np.float64)[None])[0]
        return row

    def rows(self, states: Sequence[Any]) -> Array:
        """Return the features of many observations."""
        if len(states) == 0:
            return np.zeros((0, self.size))
        many = [self.function(s) for s in states] if self._many is None else self._many(states)
        return self._check(np.ascontiguousarray(many, dtype=np.float64))

    def _check(self, rows: Array) -> Array:
        if rows.shape[1:] != (self.size,):
            raise ValueError(
                f"features must be {self.size} numbers per observation, not shape {rows.shape[1:]}"
            )
        square = float(np.einsum("ij,ij->i", rows, rows).max())
        if not square <= (1.0 + ROUNDING) ** 2:
            problem = (
                f"norm {square**0.5:.6g}, above 1" if np.isfinite(square) else "no finite norm"
            )
            raise ValueError(f"features of an observation have {problem}: scale them")
        return rows
