"""Tile coding: several shifted grids, one active tile in each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole, shown
from mixfree.td.features.space import Bounds


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
