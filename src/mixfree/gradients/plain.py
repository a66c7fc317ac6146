"""One sample, one gradient."""

from dataclasses import dataclass

from mixfree.base.arithmetic import Array
from mixfree.gradients.window import Window, WindowState


@dataclass(frozen=True)
class Plain(Window):
    """The gradient of the next sample: g_t = ∇f(w_t; z_t)."""

    def length(self, steps: int, samples: int) -> int:
        """Always one sample."""
        return 1

    def add(self, state: WindowState, gradient: Array, steps: int) -> Array:
        """Each gradient is a direction by itself."""
        state.samples += 1
        return gradient
