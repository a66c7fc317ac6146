"""The point itself."""

from dataclasses import dataclass

from mixfree.base.arithmetic import Array, State


@dataclass(frozen=True)
class Last:
    """Where the run is now."""

    def start(self, x0: Array) -> State:
        """Only the number of iterates."""
        return {"count": 0}

    def add(self, state: State, iterate: Array) -> None:
        """Nothing to keep."""
        state["count"] += 1

    def point(self, state: State, x: Array) -> Array:
        """The point itself."""
        return x.copy()
