"""Windows of a fixed length: a single sample, the mean of a batch, or every τ-th sample."""

from dataclasses import dataclass

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
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


@dataclass(frozen=True)
class MiniBatch(Window):
    """The mean gradient of ``batch`` consecutive samples."""

    batch: int = 32

    def __post_init__(self) -> None:
        check_whole(self.batch, "batch")

    def length(self, steps: int, samples: int) -> int:
        """Always ``batch`` samples."""
        return self.batch

    def scale(self, length: int) -> float:
        """The mean."""
        return 1.0 / length


@dataclass(frozen=True)
class DataDrop(Window):
    """The gradient of every ``mixing_time``-th sample, for SGD-DD (Nagaraj et al. 2020)."""

    mixing_time: int

    def __post_init__(self) -> None:
        check_whole(self.mixing_time, "mixing_time")

    def length(self, steps: int, samples: int) -> int:
        """One step every ``mixing_time`` samples."""
        return self.mixing_time

    def weight(self, position: int, length: int) -> float:
        """Only the last sample counts: it is the one farthest from the sample before."""
        return 1.0 if position + 1 == length else 0.0
