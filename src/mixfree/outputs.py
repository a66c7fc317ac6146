"""The output part: which point is returned, an average of the iterates or one of them.

Averages are summed in double precision for every dtype of the point.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.draws import RESERVOIR, Key, bits, key
from mixfree.base.state import State

__all__ = [
    "OUTPUTS",
    "Average",
    "Last",
    "Output",
    "RandomIterate",
    "TailAverage",
    "WeightedAverage",
]


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

    count: int


@dataclass(slots=True)
class SumState(CountState):
    """A sum of iterates, in double precision."""

    sum: Array

    units: ClassVar[Mapping[str, str]] = {"sum": "points"}


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
    """The average with weights proportional to t: early iterates fade without a horizon."""

    def add(self, state: SumState, iterate: Array) -> None:
        """Σ k w_k."""
        state.count += 1
        # A product in single precision would lose the digits that the sum keeps.
        state.sum += np.multiply(float(state.count), iterate, dtype=np.float64)

    def point(self, state: SumState, x: Array) -> Array:
        """Divided by Σ k = t(t+1)/2."""
        count = state.count
        return (state.sum / (0.5 * count * (count + 1))).astype(x.dtype) if count else x.copy()


@dataclass(slots=True)
class TailState(SumState):
    """The sum since the last power of two, and the one before it."""

    before: Array

    units: ClassVar[Mapping[str, str]] = {"sum": "points", "before": "points"}


@dataclass(frozen=True)
class TailAverage:
    """The mean of the last half to three quarters of the iterates.

    A new sum begins at every power of two and the one before is kept, so after t iterates
    with 2^k ≤ t < 2^(k+1) the output is the mean of the iterates from 2^(k−1) on: two vectors,
    no horizon.
    """

    def start(self, x0: Array) -> TailState:
        """Sums of nothing."""
        return TailState(0, np.zeros(x0.size), np.zeros(x0.size))

    def add(self, state: TailState, iterate: Array) -> None:
        """Add to the newest sum, beginning a new one at every power of two."""
        state.count += 1
        if state.count & (state.count - 1) == 0:
            state.sum, state.before = state.before, state.sum
            state.sum[:] = 0.0
        state.sum += iterate

    def point(self, state: TailState, x: Array) -> Array:
        """Both sums together, divided by their number of iterates."""
        count = state.count
        if count == 0:
            return x.copy()
        left_out = (1 << (count.bit_length() - 1)) // 2 - 1 if count > 1 else 0
        return ((state.before + state.sum) / (count - left_out)).astype(x.dtype)


@dataclass(frozen=True)
class Last:
    """Where the run is now."""

    def start(self, x0: Array) -> CountState:
        """Only the number of iterates."""
        return CountState(0)

    def add(self, state: CountState, iterate: Array) -> None:
        """Nothing to keep."""
        state.count += 1

    def point(self, state: CountState, x: Array) -> Array:
        """The point itself."""
        return x.copy()


@dataclass(slots=True)
class KeptState(CountState):
    """The iterate that is kept."""

    kept: Array

    units: ClassVar[Mapping[str, str]] = {"kept": "points"}


@dataclass(frozen=True)
class RandomIterate:
    """An iterate drawn uniformly, for non-convex problems (Corollary 4.4).

    By reservoir sampling: the t-th iterate replaces the one kept with probability 1/t.
    """

    seed: int = 0
    key: Key = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", key(self.seed, RESERVOIR))

    def start(self, x0: Array) -> KeptState:
        """The start is kept until there is an iterate."""
        return KeptState(0, x0.copy())

    def add(self, state: KeptState, iterate: Array) -> None:
        """Keep this iterate instead, with probability 1/t."""
        state.count += 1
        if bits(self.key, state.count) <= (2**64 - 1) // state.count:
            state.kept = iterate.copy()

    def point(self, state: KeptState, x: Array) -> Array:
        """The iterate kept."""
        return state.kept.copy()


OUTPUTS: dict[str, Callable[..., Output]] = {
    "average": Average,
    "weighted": WeightedAverage,
    "tail": TailAverage,
    "last": Last,
    "random": RandomIterate,
}
