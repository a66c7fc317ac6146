"""Averages of all iterates, summed in double precision for every dtype of the point."""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.state import State, UnitChange


class Output(Protocol):
    """The output part: combines the iterates into one point. Immutable; the state is separate."""

    def start(self, x0: Array) -> Any:
        """State of a run that has no iterates yet; it counts them in ``count``."""

    def add(self, state: Any, iterate: Array) -> None:
        """Take the next iterate."""

    def point(self, state: Any, x: Array) -> Array:
        """The output; ``x``, the present point, while there are no iterates."""


@dataclass(slots=True)
class CountState(State):
    """The number of iterates."""

    count: int = 0

    def check(self, what: str) -> None:
        """A count is not negative."""
        if self.count < 0:
            raise ValueError(f"state of the {what} does not fit: count is {self.count}")


@dataclass(slots=True)
class SumState(CountState):
    """A sum of iterates, in double precision."""

    sum: Array = field(default_factory=lambda: np.zeros(0))

    def change_units(self, change: UnitChange) -> None:
        """The sum is one of points."""
        self.sum = change.points(self.sum)


@dataclass(frozen=True)
class Average:
    """w̄_t = (1/t) Σ_{k≤t} w_k, as Algorithm 1 returns it.

    Examples
    --------
    >>> output = Average()
    >>> state = output.start(np.zeros(1))
    >>> for w in (0.0, 1.0, 5.0):
    ...     output.add(state, np.array([w]))
    >>> output.point(state, np.array([9.0]))
    array([2.])
    """

    def start(self, x0: Array) -> SumState:
        """Sum of nothing."""
        return SumState(0, np.zeros(x0.size))

    def add(self, state: SumState, iterate: Array) -> None:
        """Σ w_k."""
        state.count += 1
        state.sum += iterate

    def point(self, state: SumState, x: Array) -> Array:
        """The mean so far."""
        count = state.count
        return (state.sum / count).astype(x.dtype) if count else x.copy()


@dataclass(frozen=True)
class WeightedAverage(Average):
    """The average with weights proportional to t: early iterates fade without a horizon.

    Examples
    --------
    >>> output = WeightedAverage()
    >>> state = output.start(np.zeros(1))
    >>> for w in (0.0, 3.0):
    ...     output.add(state, np.array([w]))
    >>> output.point(state, np.array([9.0]))
    array([2.])
    """

    def add(self, state: SumState, iterate: Array) -> None:
        """Σ k w_k."""
        state.count += 1
        # A product in single precision would lose the digits that the sum keeps.
        state.sum += np.multiply(float(state.count), iterate, dtype=np.float64)

    def point(self, state: SumState, x: Array) -> Array:
        """Divided by Σ k = t(t+1)/2."""
        count = state.count
        return (state.sum / (0.5 * count * (count + 1))).astype(x.dtype) if count else x.copy()
