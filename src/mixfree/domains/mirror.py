"""Mirror maps: x⁺ = argmin ⟨ηg, x⟩ + D_ψ(x, x_t) over the domain."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from mixfree.base.arithmetic import Array

if TYPE_CHECKING:
    from mixfree.domains.sets import Domain


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
    >>> from mixfree.domains import Simplex
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
