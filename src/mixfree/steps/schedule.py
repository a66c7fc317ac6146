"""Steps that depend only on the step count: constant, inverse square root and inverse."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

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

    def __post_init__(self) -> None:
        check_positive(self.alpha, "alpha")

    def start(self, x0: Array) -> Stateless:
        """Nothing to remember."""
        return Stateless()

    def move(self, state: Stateless, direction: Array, step: int, x: Array) -> Array:
        """α g_t."""
        return self.alpha * direction


@dataclass(frozen=True)
class InverseSqrt(Constant):
    """η_t = α/√t, where t counts steps.

    Examples
    --------
    >>> import numpy as np
    >>> InverseSqrt(1.0).move(Stateless(), np.array([2.0]), step=4, x=np.zeros(1))
    array([1.])
    """

    def move(self, state: Stateless, direction: Array, step: int, x: Array) -> Array:
        """α g_t/√t."""
        return self.alpha / math.sqrt(step) * direction


@dataclass(frozen=True)
class Inverse(Constant):
    """η_t = α/t, where t counts steps.

    Examples
    --------
    >>> import numpy as np
    >>> Inverse(1.0).move(Stateless(), np.array([2.0]), step=4, x=np.zeros(1))
    array([0.5])
    """

    def move(self, state: Stateless, direction: Array, step: int, x: Array) -> Array:
        """α g_t/t."""
        return self.alpha / step * direction
