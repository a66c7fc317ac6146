"""An iterate chosen uniformly at random, for non-convex problems (Corollary 4.4)."""

from dataclasses import dataclass, field

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.draws import RESERVOIR, Key, bits, key
from mixfree.base.state import UnitChange
from mixfree.outputs.average import CountState


@dataclass(slots=True)
class KeptState(CountState):
    """The iterate that is kept."""

    kept: Array = field(default_factory=lambda: np.zeros(0))

    def change_units(self, change: UnitChange) -> None:
        """It is a point."""
        self.kept = change.points(self.kept)


@dataclass(frozen=True)
class RandomIterate:
    """Reservoir sampling: the t-th iterate replaces the one kept with probability 1/t."""

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
