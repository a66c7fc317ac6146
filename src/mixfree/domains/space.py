"""The protocol of domains, and the unbounded domain."""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

from mixfree.base.arithmetic import Array
from mixfree.domains.mirror import Euclidean, Mirror


class Domain(Protocol):
    """The domain part: a closed convex set with its projection."""

    @property
    def diameter(self) -> float:
        """D, the largest distance between two of its points; infinite if it has no bounds."""

    @property
    def mirror(self) -> Mirror:
        """The mirror map that suits the set, used by EMD."""

    def project(self, x: Array) -> Array:
        """The nearest point of the set; ``x`` itself if it is inside."""

    def bind(self, size: int) -> "Domain":
        """The set in ``size`` dimensions; ValueError if its dimension differs."""


@dataclass(frozen=True)
class AllSpace:
    """No constraint.

    Examples
    --------
    >>> AllSpace().diameter
    inf
    """

    diameter = math.inf
    mirror: ClassVar[Mirror] = Euclidean()

    def project(self, x: Array) -> Array:
        """Every point is inside."""
        return x

    def bind(self, size: int) -> "AllSpace":
        """Any dimension is allowed."""
        return self
