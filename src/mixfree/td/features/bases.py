"""Features of continuous observations: cosines, radial functions and tiles."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_point, check_positive, check_whole, shown


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
            try:
                first = observations[0]
            except (TypeError, LookupError):
                first = observations
            raise ValueError(f"an observation must be {self.dimension} numbers, not {first!r}")
        if not np.isfinite(points).all():
            wrong = points[~np.isfinite(points).all(axis=1)][0]
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
        object.__setattr__(
            self, "frequencies", np.array(list(product(steps, repeat=self.dimension)), dtype=float)
        )

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
