"""State features with ‖φ(s)‖ ≤ 1, as Section 5 assumes: rows of a matrix, functions, and bases."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_point, check_positive, check_whole, shown

__all__ = [
    "Features",
    "FourierBasis",
    "RadialBasis",
    "TileCoding",
    "as_features",
    "rescaled",
    "tabular",
]

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
    matrix: Array = _checked_matrix(features)
    largest = float(np.linalg.norm(matrix, axis=1).max())
    return matrix / largest if largest > 0.0 else matrix


def feature_matrix(features: Any, states: int | None = None) -> Any:
    """Check features (real, finite, no norm above 1), and return a copy, in CSR form if sparse."""
    matrix = _checked_matrix(features)
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


def _checked_matrix(features: Any) -> Any:
    given = features if sparse.issparse(features) else np.asarray(features)
    if given.ndim != 2 or 0 in given.shape or given.dtype.kind not in "biuf":
        raise ValueError(
            "features must be a matrix of real numbers with one row per state, "
            f"not shape {given.shape} of {given.dtype}"
        )
    matrix = canonical(given) if sparse.issparse(given) else np.array(given, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(matrix.sum(axis=1))
    for wrong in np.flatnonzero(~finite):
        raise ValueError(f"features must be finite, but those of state {wrong} are not")
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
    if isinstance(features, Rows):
        return features
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
    """A matrix of features, dense or sparse; states are its row numbers, from ``first`` on."""

    def __init__(self, matrix: Any, first: int = 0) -> None:
        self.matrix, self.first = feature_matrix(matrix), first
        self.sparse = sparse.issparse(self.matrix)
        self.states, self.size = self.matrix.shape
        # Looking up rows that are made once takes a fraction of the time of an index.
        self._row: dict[Any, Array] = {} if self.sparse else dict(enumerate(self.matrix, first))

    def row(self, state: Any) -> Array:
        """Return the row of a state; numbers before the first are refused."""
        try:
            return self._row[state]
        except (KeyError, TypeError):
            row: Array = self.rows([state])[0]
            return row

    def indices(self, states: Any) -> Array:
        """Return the row numbers of many states, from 0 on, checked."""
        found, last = np.asarray(states), self.first + self.states - 1
        allowed = f"must be a row number of the features, from {self.first} to {last}"
        if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise ValueError(f"states of shape {found.shape}, {found.dtype}: each {allowed}")
        wrong = (found < self.first) | (found > last)
        if wrong.any():
            raise ValueError(f"state {found[wrong][0]} {allowed}")
        return found.astype(np.int64) - self.first

    def rows(self, states: Any) -> Array:
        """Return the rows of many states."""
        found = self.matrix[self.indices(states)]
        rows: Array = found.toarray() if self.sparse else found
        return rows

    def sparse_rows(self, states: Any) -> Any:
        """Return :meth:`rows` as a CSR array."""
        return sparse.csr_array(self.matrix[self.indices(states)])


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
        row: Array = self._check(self._of(state)[None])[0]
        return row

    def rows(self, states: Sequence[Any]) -> Array:
        """Return the features of many observations."""
        if len(states) == 0:
            return np.zeros((0, self.size))
        many = [self._of(s) for s in states] if self._many is None else self._many(states)
        rows: Array = self._check(np.array(many, dtype=np.float64, order="C"))
        return rows

    def _of(self, state: Any) -> Array:
        """Return a copy of the features, since the function may write the next ones over them."""
        return np.array(self.function(state), dtype=np.float64)

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
            norm = f"norm {square**0.5:.6g}, above 1" if np.isfinite(square) else "no finite norm"
            raise ValueError(f"features of an observation have {norm}: scale them")
        return rows


@dataclass(frozen=True, eq=False)
class Bounds(ABC):
    """The box ``low`` to ``high`` in which observations are expected."""

    low: npt.ArrayLike
    high: npt.ArrayLike

    def __post_init__(self) -> None:
        low, high = check_point(self.low, "low"), check_point(self.high, "high")
        if low.shape != high.shape or not (low < high).all():
            raise ValueError(
                f"low must be below high in every coordinate, but low={self.low!r} and "
                f"high={self.high!r}"
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(np.size(self.low))

    def __call__(self, observation: Any) -> Array:
        """Return φ of one observation."""
        row: Array = self.rows([observation])[0]
        return row

    @abstractmethod
    def rows(self, observations: Any) -> Array:
        """Return φ of many observations, one row each."""

    def unit(self, observations: Any) -> Array:
        """Convert observations to units of the box: 0 at ``low``, 1 at ``high``."""
        try:
            points = np.asarray(observations, dtype=np.float64)
        except (TypeError, ValueError):
            points = np.empty(0)
        if points.ndim != 2 or points.shape[1] != self.dimension:
            raise ValueError(
                f"each observation must be {self.dimension} numbers, not {shown(observations)}"
            )
        for wrong in points[~np.isfinite(points).all(axis=1)]:
            raise ValueError(f"an observation must be finite, not {wrong}")
        low, high = np.asarray(self.low), np.asarray(self.high)
        scaled: Array = (points - low) / (high - low)
        return scaled


@dataclass(frozen=True, eq=False)
class FourierBasis(Bounds):
    """cos(π c·x) for every c in {0, …, order}^k, divided by the square root of their number.

    x is the observation in units of the box. The cosines continue outside the box.

    Examples
    --------
    >>> FourierBasis([0.0], [2.0], order=3)(np.array([1.0])).round(3)
    array([ 0.5,  0. , -0.5, -0. ])
    """

    order: int = 3
    frequencies: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        steps = range(check_whole(self.order, "order") + 1)
        each = np.array(list(product(steps, repeat=self.dimension)), dtype=float)
        object.__setattr__(self, "frequencies", each)

    @property
    def size(self) -> int:
        """(order + 1)^k."""
        return len(self.frequencies)

    def rows(self, observations: Any) -> Array:
        """Return φ of many observations, one row each."""
        waves: Array = np.cos(np.pi * self.unit(observations) @ self.frequencies.T)
        waves /= np.sqrt(self.size)
        return waves


@dataclass(frozen=True, eq=False)
class RadialBasis(Bounds):
    """exp(−‖x − c‖²/2w²) over a grid of centres c, divided by their sum: ‖φ‖ ≤ ‖φ‖₁ = 1.

    x is the observation in units of the box.

    Parameters
    ----------
    low, high
        Range of each coordinate.
    centers
        Centres along each coordinate, from ``low`` to ``high``.
    width
        w, in units of the distance between neighbouring centres.

    Examples
    --------
    >>> RadialBasis([0.0], [1.0], centers=3)(np.array([0.5])).round(3)
    array([0.274, 0.452, 0.274])
    """

    centers: int = 4
    width: float = 1.0
    grid: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.width, "width")
        line = np.linspace(0.0, 1.0, check_whole(self.centers, "centers", least=2))
        object.__setattr__(self, "grid", np.array(list(product(line, repeat=self.dimension))))

    @property
    def size(self) -> int:
        """centers^k."""
        return len(self.grid)

    def rows(self, observations: Any) -> Array:
        """Return φ of many observations, one row each."""
        away = (self.unit(observations)[:, None, :] - self.grid) * ((self.centers - 1) / self.width)
        exponents = -0.5 * np.einsum("ijk,ijk->ij", away, away)
        # Far from all centres every exponential underflows, but their ratios do not.
        grown: Array = np.exp(exponents - exponents.max(axis=1, keepdims=True))
        grown /= grown.sum(axis=1, keepdims=True)
        return grown


@dataclass(frozen=True, eq=False)
class TileCoding(Bounds):
    """1/√tilings at the active tile of each grid and 0 elsewhere, so that ‖φ‖ = 1.

    Each grid has ``tiles`` tiles per coordinate over the box, and one more for the shift. The
    outermost tiles extend to infinity, so that every observation has a tile. Grid i is shifted by
    i/tilings of a tile times 1, 3, 5, … in successive coordinates, which spreads the corners.

    Parameters
    ----------
    low, high
        Range of each coordinate.
    tiles
        Tiles across the box: a number, or one per coordinate; 1 ignores a coordinate.
    tilings
        Number of grids.

    Examples
    --------
    >>> TileCoding([0.0], [1.0], tiles=2, tilings=4)(np.array([0.7])).nonzero()[0]
    array([ 1,  4,  7, 11])
    """

    tiles: int | Sequence[int] = 4
    tilings: int = 8
    grid: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self.tilings, "tilings")
        each = [self.tiles] * self.dimension if np.ndim(self.tiles) == 0 else list(self.tiles)  # type: ignore[arg-type]
        if len(each) != self.dimension:
            raise ValueError(
                f"tiles must be one number, or {self.dimension}, not {shown(self.tiles)}"
            )
        object.__setattr__(self, "grid", np.array([check_whole(n, "tiles") for n in each]))

    @property
    def size(self) -> int:
        """Tiles of all grids together."""
        return self.tilings * math.prod(int(n) for n in self._width)

    @property
    def _width(self) -> Array:
        return np.where(self.grid > 1, self.grid + 1, 1)

    def active(self, observations: Any) -> Array:
        """Return the active tile of each grid, one row per observation."""
        points, width = self.unit(observations), self._width
        turns = np.arange(self.tilings)[:, None] * (1 + 2 * np.arange(self.dimension))
        shifts = turns % self.tilings / self.tilings
        cells = np.floor(points[:, None, :] * self.grid + shifts)
        cells = np.clip(cells, 0, width - 1).astype(np.int64)
        strides = np.append(np.cumprod(width[::-1])[::-1][1:], 1)
        tiles: Array = cells @ strides + np.arange(self.tilings) * math.prod(int(n) for n in width)
        return tiles

    def rows(self, observations: Any) -> Array:
        """Return φ of many observations, one row each."""
        active = self.active(observations)
        rows = np.zeros((len(active), self.size))
        np.put_along_axis(rows, active, 1.0 / math.sqrt(self.tilings), axis=1)
        return rows

    def sparse_rows(self, observations: Any) -> Any:
        """Return :meth:`rows` as a CSR array, which stores only the active tiles."""
        active = self.active(observations)
        values = np.full(active.size, 1.0 / math.sqrt(self.tilings))
        starts = np.arange(0, active.size + 1, self.tilings)
        return sparse.csr_array((values, active.ravel(), starts), shape=(len(active), self.size))
