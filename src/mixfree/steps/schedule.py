"""Steps that depend only on the step count: constant, inverse square root and inverse."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_positive
from mixfree.base.state import Stateless


class Step(Protocol):
    """The step part: how far along the direction. Immutable; the state is separate."""

    def start(self, x0: Array) -> Any:
        """State of a run that has taken no step."""

    def move(self, state: Any, direction: Array, step: int, x: Array) -> Array:
        """The displacement η_t g_t from ``x`` at the ``step``-th step (from 1); subtract it."""


@dataclass(frozen=True)
class Constant:
    """η_t = α.

    Examples
    --------
    >>> import numpy as np
    >>> Constant(0.5).move(Stateless(), np.array([2.0]), step=7, x=np.zeros(1))
    array([1.])
    """

    alpha: float
    power: ClassVar[float] = 0.0  # of 1/t

    def __post_init__(self) -> None:
        check_positive(self.alpha, "alpha")

    def start(self, x0: Array) -> Stateless:
        """Nothing to remember."""
        return Stateless()

    def move(self, state: Stateless, direction: Array, step: int, x: Array) -> Array:
        """η_t g_t."""
        size: float = self.alpha / step**self.power
        return size * direction


@dataclass(frozen=True)
class InverseSqrt(Constant):
    """η_t = α/√t, where t counts steps; see :class:`Constant`."""

    power = 0.5


@dataclass(frozen=True)
class Inverse(Constant):
    """η_t = α/t, where t counts steps; see :class:`Constant`."""

    power = 1.0
