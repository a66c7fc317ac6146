"""Look up features: rows of a matrix, or a function of the observation."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole

ROUNDING = 1e-9  # tolerance of norms at most 1


def tabular(states: int) -> Array:
    """Return the identity: one feature per state, so that θ is the table of values.

    Examples
    --------
    >>> tabular(2)
    array([[1., 0.],
           [0., 1.]])
    """
    return np.eye(check_whole(states, "states"))


def rescaled(features: npt.ArrayLike) -> Array:
    """Divide a matrix by its largest row norm: the same span, and no norm above 1.

    Examples
    --------
    >>> rescaled([[3.0, 4.0], [0.0, 2.5]])
    array([[0.6, 0.8],
           [0. , 0.5]])
    """
    matrix: Array = _finite_matrix(features)
    largest = float(np.linalg.norm(matrix, axis=1).max())
    return matrix / largest if largest > 0.0 else matrix


def feature_matrix(features: Any, states: int | None = None) -> Any:
    """Check features (real, finite, no norm above 1), and return a copy, in CSR form if sparse."""
    matrix = _finite_matrix(features)
    if states is not None and matrix.shape[0] != states:
        raise ValueError(
            f"features must have one row for each of the {states} states, not {matrix.shape[0]}"
        )
    norms = (sparse.linalg.norm if sparse.issparse(matrix) else np.linalg.norm)(matrix, axis=1)
    worst = int(norms.argmax())
    if norms[worst] > 1.0 + ROUNDING:
        raise ValueError(
            f"features of state {worst} have norm {norms[worst]:.6g}, above 1: "
            "scale them, for instance with mixfree.td.rescaled(features)"
        )
    return matrix


def canonical(rows: Any) -> Any:
    """Return a CSR copy with sorted indices and without zeros, as a dense matrix would give."""
    found = sparse.csr_array(rows, dtype=np.float64, copy=True)
    found.sum_duplicates()
    found.eliminate_zeros()
    return found


def _finite_matrix(features: Any) -> Any:
    given = features if sparse.issparse(features) else np.asarray(features)
    if given.ndim != 2 or 0 in given.shape or given.dtype.kind not in "biuf":
        raise ValueError(
            "features must be a matrix of real numbers with one row per state, "
            f"not shape {given.shape} of {given.dtype}"
        )
    matrix = canonical(given) if sparse.issparse(given) else np.array(given, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(matrix.sum(axis=1))
    if not finite.all():
        raise ValueError(
            f"features must be finite, but those of state {int(np.argmin(finite))} are not"
        )
    return matrix


class Features(Protocol):
    """Features of states, of a fixed size."""

    size: int
    sparse: bool  # whether sparse rows are found without dense ones

    def row(self, state: Any) -> Array:
        """Return φ(s), checked."""

    def rows(self, states: Any) -> Array:
        """Return φ of many states, one row each, checked."""

    def sparse_rows(self, states: Any) -> Any:
        """Return :meth:`rows` as a CSR array."""


def as_features(features: Any, size: int | None = None) -> Features:
    """Make features from a matrix, or from a function with the attribute ``size``."""
    if sparse.issparse(features) or not callable(features):
        return Rows(features)
    found = getattr(features, "size", None) if size is None else size
    if found is None:
        raise ValueError(
            f"the number of features of {features!r} is not known: give size=…, or a function "
            "with an attribute size"
        )
    return Mapped(features, check_whole(found, "size"))


class Rows:
    """A matrix of features, dense or sparse; states are its row numbers."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = feature_matrix(matrix)
        self.sparse = sparse.issparse(self.matrix)
        self.states, self.size = self.matrix.shape
        # Looking up rows that are made once takes a fraction of the time of an index.
        self._row: dict[Any, Array] = {} if self.sparse else dict(enumerate(self.matrix))

    def row(self, state: Any) -> Array:
        """Return the row of a state; negative numbers are refused."""
        if self.sparse:
            row: Array = self.rows([state])[0]
            return row
        try:
            return self._row[state]
        except (KeyError, TypeError):
            raise ValueError(f"state {state!r} {self._allowed}") from None

    def indices(self, states: Any) -> Array:
        """Return the row numbers of many states, checked."""
        found = np.asarray(states)
        if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise ValueError(f"states of shape {found.shape}, {found.dtype}: each {self._allowed}")
        if found.size and not (found.min() >= 0 and found.max() < self.states):
            wrong = found[(found < 0) | (found >= self.states)][0]
            raise ValueError(f"state {wrong} {self._allowed}")
        return found.astype(np.int64)

    def rows(self, states: Any) -> Array:
        """Return the rows of many states."""
        found = self.matrix[self.indices(states)]
        rows: Array = found.toarray() if self.sparse else found
        return rows

    def sparse_rows(self, states: Any) -> Any:
        """Return :meth:`rows` as a CSR array."""
        return sparse.csr_array(self.matrix[self.indices(states)])

    @property
    def _allowed(self) -> str:
        return f"must be a row number of the features, from 0 to {self.states - 1}"


class Mapped:
    """A function from an observation to its features.

    Its optional methods ``rows`` and ``sparse_rows`` return those of many observations, as a matrix
    and as a CSR array.
    """

    def __init__(self, function: Callable[[Any], Any], size: int) -> None:
        self.function = function
        self.size = size
        self._many = getattr(function, "rows", None)
        self._sparse = getattr(function, "sparse_rows", None)
        self.sparse = self._sparse is not None

    def row(self, state: Any) -> Array:
        """Return the features of one observation."""
        row: Array = self._check(np.asarray(self.function(state), dtype=np.float64)[None])[0]
        return row

    def rows(self, states: Sequence[Any]) -> Array:
        """Return the features of many observations."""
        if len(states) == 0:
            return np.zeros((0, self.size))
        many = [self.function(s) for s in states] if self._many is None else self._many(states)
        rows: Array = self._check(np.ascontiguousarray(many, dtype=np.float64))
        return rows

    def sparse_rows(self, states: Sequence[Any]) -> Any:
        """Return :meth:`rows` as a CSR array."""
        if self._sparse is None or len(states) == 0:
            return sparse.csr_array(self.rows(states))
        return self._check(canonical(self._sparse(states)))

    def _check(self, rows: Any) -> Any:
        if rows.shape[1:] != (self.size,):
            raise ValueError(
                f"features must be {self.size} numbers per observation, not shape {rows.shape[1:]}"
            )
        dense = isinstance(rows, np.ndarray)
        squares = np.einsum("ij,ij->i", rows, rows) if dense else rows.multiply(rows).sum(axis=1)
        square = float(squares.max())
        if not square <= (1.0 + ROUNDING) ** 2:
            problem = (
                f"norm {square**0.5:.6g}, above 1" if np.isfinite(square) else "no finite norm"
            )
            raise ValueError(f"features of an observation have {problem}: scale them")
        return rows
