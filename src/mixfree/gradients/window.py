"""The signed running sum over a window of samples: one loop for all but the replaying methods."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from mixfree.base.arithmetic import Array, State


class Gradient(Protocol):
    """The gradient part: turns samples into directions to step along.

    A part is immutable; what changes during a run is in the ``state`` that :meth:`start` makes.
    """

    def start(self, x0: Array) -> State:
        """State of a run that has seen nothing; it counts the samples in ``samples``."""

    def offer(self, state: State, sample: Any) -> Iterator[Any]:
        """Take one sample of the stream and give the samples whose gradients are wanted now."""

    def add(self, state: State, gradient: Array, steps: int) -> Array | None:
        """Take the gradient of one wanted sample; the direction to step along once it is whole."""

    def iterate(self, state: State, before: Array, after: Array) -> Array | None:
        """The point that a step from ``before`` to ``after`` hands to the output, if any."""

    def pending(self, state: State) -> int:
        """Samples taken that no step has used yet."""

    def number(self, state: State) -> int:
        """Place in the stream (from 1) of the sample whose gradient is wanted next."""


class Window(ABC):
    """A gradient summed over the next few samples, each with its sign or weight.

    The point stays where it is until the window is full, so one buffer of the point's size
    is enough, and each sample costs one gradient.
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

    def start(self, x0: Array) -> State:
        """State of a run that has seen nothing."""
        return {"samples": 0, "seen": 0, "length": 1, "sum": np.zeros_like(x0)}

    def offer(self, state: State, sample: Any) -> Iterator[Any]:
        """Every sample's gradient is wanted at once."""
        yield sample

    def add(self, state: State, gradient: Array, steps: int) -> Array | None:
        """Add one gradient; the whole sum when the window is full."""
        seen, length = state["seen"], state["length"]
        if seen == 0:
            length = state["length"] = self.length(steps, state["samples"])
        state["samples"] += 1
        if length == 1:
            return gradient
        total = state["sum"]
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
            state["seen"] = seen
            return None
        state["seen"] = 0
        return self.scale(length) * total

    def iterate(self, state: State, before: Array, after: Array) -> Array | None:
        """Outputs are made of the points at which gradients were taken: w_1, …, w_T."""
        return before

    def pending(self, state: State) -> int:
        """Samples in the window that is not full yet."""
        return int(state["seen"])

    def number(self, state: State) -> int:
        """The next sample."""
        return int(state["samples"]) + 1
