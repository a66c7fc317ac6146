"""AdaGrad-Norm: one step size, from the norms of all gradients so far."""

import math
from dataclasses import dataclass

import numpy as np

from mixfree.base.arithmetic import Array, norm
from mixfree.base.checks import check_positive
from mixfree.base.state import State


@dataclass(slots=True)
class RootState(State):
    """√Σ‖g‖², which cannot overflow where the sum would."""

    root: float = 0.0

    def check(self, what: str) -> None:
        """A root is not negative."""
        if self.root < 0.0:
            raise ValueError(f"state of the {what} does not fit: root is {self.root}")


@dataclass(frozen=True)
class AdaGradNorm:
    r"""Eq. (9): :math:`\eta_t = \alpha / \sqrt{\sum_{k \le t} \|g_k\|^2}`.

    The root itself is carried, by ``hypot``, so that no square can overflow. A gradient of zero
    takes a step of zero; there is no epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> step = AdaGradNorm(alpha=1.0)
    >>> state = step.start(np.zeros(2))
    >>> step.move(state, np.array([3.0, 4.0]), step=1, x=np.zeros(2))
    array([0.6, 0.8])
    """

    alpha: float

    def __post_init__(self) -> None:
        check_positive(self.alpha, "alpha")

    def start(self, x0: Array) -> RootState:
        """No gradient seen."""
        return RootState()

    def move(self, state: RootState, direction: Array, step: int, x: Array) -> Array:
        """α g_t/√Σ‖g‖²."""
        root = state.root = math.hypot(state.root, self.size(direction))
        if root == 0.0:
            return direction
        return self.alpha * (direction / root)

    size = staticmethod(norm)  # ‖g‖, the Euclidean norm


@dataclass(frozen=True)
class AdaGradMax(AdaGradNorm):
    r"""The same with :math:`\|g\|_\infty`, the norm that belongs to the entropic mirror map.

    The entropy is strongly convex in the ℓ₁ norm, so it is the largest entry of a gradient that
    decides how far an entropic step may go; the Euclidean norm is up to √d times as large.

    Examples
    --------
    >>> AdaGradMax(alpha=1.0).size(np.array([2.0, -4.0]))
    4.0
    """

    @staticmethod
    def size(direction: Array) -> float:
        """‖g‖_∞, the largest entry."""
        return float(np.abs(direction).max())
