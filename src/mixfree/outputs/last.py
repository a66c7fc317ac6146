"""The point itself."""

from dataclasses import dataclass

from mixfree.base.arithmetic import Array
from mixfree.outputs.average import CountState


@dataclass(frozen=True)
class Last:
    """Where the run is now."""

    def start(self, x0: Array) -> CountState:
        """Only the number of iterates."""
        return CountState()

    def add(self, state: CountState, iterate: Array) -> None:
        """Nothing to keep."""
        state.count += 1

    def point(self, state: CountState, x: Array) -> Array:
        """The point itself."""
        return x.copy()
