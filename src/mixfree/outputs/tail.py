"""The average of the later iterates, without knowing when the run ends."""

from dataclasses import dataclass, field

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.state import UnitChange
from mixfree.outputs.average import SumState


@dataclass(slots=True)
class TailState(SumState):
    """The sum since the last power of two, and the one before it."""

    before: Array = field(default_factory=lambda: np.zeros(0))

    def change_units(self, change: UnitChange) -> None:
        """Both are sums of points."""
        self.sum, self.before = change.points(self.sum), change.points(self.before)


@dataclass(frozen=True)
class TailAverage:
    """The mean of the last half to three quarters of the iterates.

    A new sum begins at every power of two and the one before is kept, so after t iterates
    with 2^k ≤ t < 2^(k+1) the output is the mean of the iterates from 2^(k−1) on: two vectors,
    no horizon.

    Examples
    --------
    >>> output = TailAverage()
    >>> state = output.start(np.zeros(1))
    >>> for w in (10.0, 1.0, 2.0, 3.0, 4.0):
    ...     output.add(state, np.array([w]))
    >>> output.point(state, np.array([9.0]))
    array([2.5])
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
