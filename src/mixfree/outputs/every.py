"""All outputs among which ``memory="auto"`` chooses, from one run."""

from dataclasses import dataclass, field

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.state import UnitChange
from mixfree.outputs.average import SumState, WeightedAverage


@dataclass(slots=True)
class EveryState(SumState):
    """The weighted sum, and its values at the last two powers of two."""

    before: Array = field(default_factory=lambda: np.zeros(0))
    older: Array = field(default_factory=lambda: np.zeros(0))

    def change_units(self, change: UnitChange) -> None:
        """All are sums of points."""
        for name in ("sum", "before", "older"):
            setattr(self, name, change.points(getattr(self, name)))


@dataclass(frozen=True)
class EveryOutput(WeightedAverage):
    """The weighted average; :meth:`points` also returns its tail and the last point.

    The tail is the sum Σ k w_k minus its value at a power of two, and so contains the last half
    to three quarters of the iterates.

    Examples
    --------
    >>> output = EveryOutput()
    >>> state = output.start(np.zeros(1))
    >>> for w in (0.0, 3.0, 5.0, 5.0):
    ...     output.add(state, np.array([w]))
    >>> {name: round(x.item(), 2) for name, x in output.points(state, np.array([6.0])).items()}
    {'weighted': 4.1, 'tail': 4.56, 'last': 6.0}
    """

    def start(self, x0: Array) -> EveryState:
        """Sums of nothing."""
        return EveryState(0, *(np.zeros(x0.size) for _ in range(3)))

    def add(self, state: SumState, iterate: Array) -> None:
        """Σ k w_k, with its values at powers of two."""
        count = state.count + 1
        if count & (count - 1) == 0 and isinstance(state, EveryState):
            state.before, state.older = state.sum.copy(), state.before
        super().add(state, iterate)

    def points(self, state: EveryState, x: Array) -> dict[str, Array]:
        """Each output by its name."""
        count = state.count
        first = (1 << count.bit_length()) // 4 - 1 if count > 1 else 0
        tail = x.copy()
        if count:
            weight = 0.5 * (count * (count + 1) - first * (first + 1))
            tail = ((state.sum - state.older) / weight).astype(x.dtype)
        return {"weighted": self.point(state, x), "tail": tail, "last": x.copy()}
