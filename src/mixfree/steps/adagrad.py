"""AdaGrad-Norm: one step size, from the norms of all gradients so far."""

import math
from dataclasses import dataclass

from mixfree.base.arithmetic import Array, norm
from mixfree.base.checks import check_positive
from mixfree.base.state import State

_MOST = 3e38  # largest factor that single precision can hold


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
        root = state.root = math.hypot(state.root, norm(direction))
        if root == 0.0:
            return direction
        size = self.alpha / root
        return size * direction if size < _MOST else self.alpha * (direction / root)
