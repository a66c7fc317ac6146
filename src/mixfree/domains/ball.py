"""The Euclidean ball."""

from dataclasses import dataclass, field
from typing import ClassVar

from mixfree.base.arithmetic import MOST, Array, inner, norm
from mixfree.base.checks import check_point, check_positive
from mixfree.domains.mirror import Euclidean, Mirror


@dataclass(frozen=True, eq=False)
class Ball:
    """{x : ‖x − center‖ ≤ radius}; the center is the origin unless given.

    Examples
    --------
    >>> import numpy as np
    >>> Ball(1.0).project(np.array([0.0, 4.0]))
    array([0., 1.])
    >>> Ball(1.0).diameter
    2.0
    """

    radius: float
    center: Array | None = None
    mirror: ClassVar[Mirror] = Euclidean()
    _surely_inside: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_positive(self.radius, "radius")
        # A first look that costs one dot product; the norm itself decides near the border.
        object.__setattr__(self, "_surely_inside", min(0.999 * self.radius * self.radius, MOST))
        if self.center is not None:
            object.__setattr__(self, "center", check_point(self.center, "center"))

    @property
    def diameter(self) -> float:
        """Twice the radius."""
        return 2.0 * self.radius

    def project(self, x: Array) -> Array:
        """Pull back along the ray from the center."""
        if self.center is None:
            if 0.0 < float(inner(x, x)) < self._surely_inside:
                return x
            distance = norm(x)
            return x if distance <= self.radius else x * (self.radius / distance)
        center = self.center.astype(x.dtype, copy=False)
        distance = norm(x - center)
        return x if distance <= self.radius else center + (x - center) * (self.radius / distance)

    def bind(self, size: int) -> "Ball":
        """A center fixes the dimension."""
        if self.center is not None and self.center.size != size:
            raise ValueError(f"center has {self.center.size} entries, but the point has {size}")
        return self
