"""Boxes: bounds on each coordinate."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array, norm
from mixfree.domains.mirror import Euclidean, Mirror


@dataclass(frozen=True, eq=False)
class Box:
    """{x : low ≤ x ≤ high}; each bound is a number or a vector and may be infinite.

    Examples
    --------
    >>> Box(0.0, 1.0).project(np.array([-1.0, 0.5, 2.0]))
    array([0. , 0.5, 1. ])
    """

    low: npt.ArrayLike
    high: npt.ArrayLike
    mirror: ClassVar[Mirror] = Euclidean()

    def __post_init__(self) -> None:
        low, high = (np.array(bound, dtype=np.float64) for bound in (self.low, self.high))
        if low.ndim > 1 or high.ndim > 1:
            raise ValueError(
                f"low and high must be numbers or vectors, not {low.shape}, {high.shape}"
            )
        try:
            low, high = np.broadcast_arrays(low, high)
        except ValueError as error:
            raise ValueError(
                f"low and high differ in length: {low.shape} and {high.shape}"
            ) from error
        if not (low <= high).all():
            raise ValueError(f"low must not exceed high, but low={self.low!r}, high={self.high!r}")
        for name, side in (("low", low), ("high", high)):
            side.flags.writeable = False
            object.__setattr__(self, name, side)

    @property
    def diameter(self) -> float:
        """Length of the diagonal."""
        if np.ndim(self.low) == 0:
            raise ValueError("a box with scalar bounds has no diameter before bind(size)")
        with np.errstate(over="ignore"):
            return norm(np.asarray(self.high) - np.asarray(self.low))

    def project(self, x: Array) -> Array:
        """Clip each coordinate."""
        return np.clip(x, self.low, self.high).astype(x.dtype, copy=False)

    def bind(self, size: int) -> "Box":
        """Scalar bounds hold for every coordinate; vector bounds fix the dimension."""
        if np.ndim(self.low) == 1 and np.size(self.low) != size:
            raise ValueError(f"low and high have {np.size(self.low)} entries, the point has {size}")
        return Box(np.broadcast_to(self.low, size), np.broadcast_to(self.high, size))
