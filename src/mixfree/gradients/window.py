"""Weighted sums over windows of samples, and those of a fixed length."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.state import State


class Gradient(Protocol):
    """The gradient part: turns samples into directions to step along.

    A part is immutable; what changes during a run is in the state, which counts ``samples``.
    """

    def start(self, x0: Array) -> Any:
        """State of a run that has seen nothing."""

    def offer(self, state: Any, sample: Any) -> Iterator[Any]:
        """Take one sample of the stream; yield the samples whose gradients are due now."""

    def add(self, state: Any, gradient: Array, steps: int) -> Array | None:
        """Take the gradient of one due sample; return the direction once it is complete."""

    def iterate(self, state: Any, before: Array, after: Array) -> Array | None:
        """The point that a step from ``before`` to ``after`` passes to the output, if any."""

    def pending(self, state: Any) -> int:
        """Samples taken that no step has used yet."""

    def number(self, state: Any) -> int:
        """Position in the stream, from 1, of the sample whose gradient is due next."""


@dataclass(slots=True)
class WindowState(State):
    """Samples so far, and the window that is being summed."""

    sum: Array
    samples: int = 0
    seen: int = 0  # samples in the window so far
    length: int = 1  # samples that fill the window

    units: ClassVar[Mapping[str, str]] = {"sum": "gradients"}

    def check(self, what: str) -> None:
        """A window is never more than full."""
        if not (self.seen <= self.samples and self.seen < self.length):
            raise ValueError(
                f"state of the {what} does not fit: {self.seen} of {self.length} samples in the "
                f"window, {self.samples} in all"
            )


class Window(ABC):
    """A gradient summed over the next few samples, each with its sign or weight.

    The point does not move until the window is full: one buffer of the point's size suffices.
    """

    @abstractmethod
    def length(self, steps: int, samples: int) -> int:
        """Length of the window that opens after ``steps`` steps and ``samples`` samples."""

    def weight(self, position: int, length: int) -> float:
        """Weight of the sample at ``position`` (from 0) in the sum over a window."""
        return 1.0

    def scale(self, length: int) -> float:
        """Factor of the whole sum."""
        return 1.0

    def start(self, x0: Array) -> WindowState:
        """State of a run that has seen nothing."""
        return WindowState(np.zeros_like(x0))

    def offer(self, state: WindowState, sample: Any) -> Iterator[Any]:
        """Yield the sample itself: its gradient is due at once."""
        yield sample

    def add(self, state: WindowState, gradient: Array, steps: int) -> Array | None:
        """Add one gradient; return the sum when the window is full."""
        seen, length = state.seen, state.length
        if seen == 0:
            length = self.length(steps, state.samples)
            if length.__class__ is not int or length < 1:
                length = check_whole(length, f"length of {type(self).__name__}")
            state.length = length
        state.samples += 1
        if length == 1:
            return gradient
        total = state.sum
        weight = self.weight(seen, length)
        if seen == 0:
            np.multiply(gradient, weight, out=total)
        elif weight == 1.0:
            total += gradient
        elif weight == -1.0:
            total -= gradient
        elif weight != 0.0:
            total += weight * gradient
        seen += 1
        if seen < length:
            state.seen = seen
            return None
        state.seen = 0
        return self.scale(length) * total

    def iterate(self, state: WindowState, before: Array, after: Array) -> Array | None:
        """The output uses the points at which gradients were evaluated: w_1, …, w_T."""
        return before

    def pending(self, state: WindowState) -> int:
        """Samples in the window that is not full yet."""
        return state.seen

    def number(self, state: WindowState) -> int:
        """The next sample."""
        return state.samples + 1


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
