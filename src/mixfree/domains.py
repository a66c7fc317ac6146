"""The domain part: the feasible set, and the geometry of a step.

A mirror map moves a point by x⁺ = argmin ⟨ηg, x⟩ + D_ψ(x, x_t) over the domain.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array, norm
from mixfree.base.checks import check_point, check_positive

__all__ = ["AllSpace", "Ball", "Box", "Domain", "Entropic", "Euclidean", "Mirror", "Simplex"]


class Mirror(Protocol):
    """The geometry of a step."""

    name: ClassVar[str]

    def move(self, x: Array, displacement: Array, domain: "Domain") -> Array:
        """The point after a step with displacement ηg."""

    def dual(self, x: Array) -> Array:
        """∇ψ(x), in which displacements are additive."""


@dataclass(frozen=True)
class Euclidean:
    """ψ = ½‖x‖²: subtract, then project."""

    name: ClassVar[str] = "euclidean"

    def move(self, x: Array, displacement: Array, domain: "Domain") -> Array:
        """Π(x − ηg)."""
        return domain.project(x - displacement)

    def dual(self, x: Array) -> Array:
        """The point itself."""
        return x


@dataclass(frozen=True)
class Entropic:
    """ψ = Σ x log x on the simplex: multiply by exp(−ηg), then normalise.

    Examples
    --------
    >>> Entropic().move(np.array([0.5, 0.5]), np.array([0.0, np.log(3.0)]), Simplex())
    array([0.75, 0.25])
    """

    name: ClassVar[str] = "entropic"

    def move(self, x: Array, displacement: Array, domain: "Domain") -> Array:
        """x exp(−ηg), scaled back to the sum it had."""
        grown = x * np.exp(displacement.min() - displacement)
        moved = grown * (x.sum() / grown.sum())
        # An entry that underflows to zero could never come back.
        positive: Array = np.maximum(moved, np.finfo(x.dtype).tiny)
        return positive

    def dual(self, x: Array) -> Array:
        """log x, up to a constant."""
        logarithm: Array = np.log(x)
        return logarithm


class Domain(Protocol):
    """The domain part: a closed convex set with its projection."""

    @property
    def diameter(self) -> float:
        """D of Assumption 2.2, the largest distance between two points; infinite without bounds."""

    @property
    def mirror(self) -> Mirror:
        """The mirror map that suits the set, used by EMD."""
        return Euclidean()

    def project(self, x: Array) -> Array:
        """The nearest point of the set; ``x`` itself if it is inside."""

    def bind(self, size: int) -> Self:
        """The set in ``size`` dimensions; ValueError if its dimension differs."""
        return self


@dataclass(frozen=True)
class AllSpace(Domain):
    """No constraint.

    Examples
    --------
    >>> AllSpace().diameter
    inf
    """

    diameter = math.inf

    def project(self, x: Array) -> Array:
        """Every point is inside."""
        return x


@dataclass(frozen=True, eq=False)
class Ball(Domain):
    """{x : ‖x − center‖ ≤ radius}; the center is the origin unless given.

    Examples
    --------
    >>> Ball(1.0).project(np.array([0.0, 4.0]))
    array([0., 1.])
    >>> Ball(1.0).diameter
    2.0
    """

    radius: float
    center: Array | None = None

    def __post_init__(self) -> None:
        check_positive(self.radius, "radius")
        if self.center is not None:
            object.__setattr__(self, "center", check_point(self.center, "center"))

    @property
    def diameter(self) -> float:
        """Twice the radius."""
        return 2.0 * self.radius

    def project(self, x: Array) -> Array:
        """Pull back along the ray from the center."""
        if self.center is None:
            distance = norm(x)
            return x if distance <= self.radius else x * (self.radius / distance)
        center = self.center.astype(x.dtype, copy=False)
        distance = norm(x - center)
        return x if distance <= self.radius else center + (x - center) * (self.radius / distance)

    def bind(self, size: int) -> Self:
        """A center fixes the dimension."""
        if self.center is not None and self.center.size != size:
            raise ValueError(f"center has {self.center.size} entries, but the point has {size}")
        return self


@dataclass(frozen=True, eq=False)
class Box(Domain):
    """{x : low ≤ x ≤ high}; each bound is a number or a vector and may be infinite.

    Examples
    --------
    >>> Box(0.0, 1.0).project(np.array([-1.0, 0.5, 2.0]))
    array([0. , 0.5, 1. ])
    """

    low: npt.ArrayLike
    high: npt.ArrayLike

    def __post_init__(self) -> None:
        low, high = (np.array(bound, dtype=np.float64) for bound in (self.low, self.high))
        if low.ndim > 1 or high.ndim > 1:
            raise ValueError(
                f"low and high must be numbers or vectors, not {low.shape}, {high.shape}"
            )
        if low.ndim == high.ndim == 1 and low.shape != high.shape:
            raise ValueError(f"low and high differ in length: {low.shape} and {high.shape}")
        low, high = np.broadcast_arrays(low, high)
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

    def bind(self, size: int) -> Self:
        """Scalar bounds hold for every coordinate; vector bounds fix the dimension."""
        if np.ndim(self.low) == 1 and np.size(self.low) != size:
            raise ValueError(f"low and high have {np.size(self.low)} entries, the point has {size}")
        return type(self)(np.broadcast_to(self.low, size), np.broadcast_to(self.high, size))


@dataclass(frozen=True)
class Simplex(Domain):
    """{x ≥ 0 : Σx = total}.

    Examples
    --------
    >>> Simplex().project(np.array([1.0, 0.5, -1.0]))
    array([0.75, 0.25, 0.  ])
    """

    total: float = 1.0
    mirror = Entropic()

    def __post_init__(self) -> None:
        check_positive(self.total, "total")

    @property
    def diameter(self) -> float:
        """Distance between two corners."""
        return math.sqrt(2.0) * self.total

    def project(self, x: Array) -> Array:
        """Subtract the one threshold that makes the positive part sum to the total."""
        if x.min() >= 0.0 and abs(float(x.sum()) - self.total) <= 1e-15 * self.total:
            return x
        x = x - x.max()  # a shift does not change the projection, but avoids loss of digits
        descending = np.sort(x)[::-1]
        thresholds = (np.cumsum(descending) - self.total) / np.arange(1, x.size + 1)
        kept = int(np.count_nonzero(descending > thresholds))
        projected: Array = np.maximum(x - thresholds[kept - 1], 0.0)
        return projected
