"""An iterate chosen uniformly at random, for non-convex problems (Corollary 4.4)."""

from dataclasses import dataclass, field

from mixfree.base.arithmetic import Array, State
from mixfree.base.draws import RESERVOIR, Key, bits, key


@dataclass(frozen=True)
class RandomIterate:
    """Reservoir sampling: the t-th iterate replaces the one kept with probability 1/t."""

    seed: int = 0
    key: Key = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", key(self.seed, RESERVOIR))

    def start(self, x0: Array) -> State:
        """The start is kept until there is an iterate."""
        return {"count": 0, "kept": x0.copy()}

    def add(self, state: State, iterate: Array) -> None:
        """Keep this iterate instead, with probability 1/t."""
        count = state["count"] = state["count"] + 1
        if bits(self.key, count) <= (2**64 - 1) // count:
            state["kept"] = iterate.copy()

    def point(self, state: State, x: Array) -> Array:
        """The iterate kept."""
        return state["kept"].copy()
