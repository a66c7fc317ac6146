"""The base class of features of continuous observations: the range of each coordinate."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_point


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
