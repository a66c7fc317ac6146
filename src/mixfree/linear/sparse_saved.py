"""The saved form of the ladder's state over sparse rows, and what is checked when it is loaded."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import MOST_COUNTED
from mixfree.base.state import State
from mixfree.kernels import sparse_ladder as lazy
from mixfree.kernels.ladder import EPOCH, MARGIN, PEAK, SHRINK
from mixfree.kernels.run import STEPS


@dataclass(slots=True)
class SavedSparseLadder(State):
    """The fields of a :class:`mixfree.linear.sparse_ladder.SparseLadderState` as plain arrays."""

    counts: Array
    numbers: Array
    rates: Array
    origin: Array
    earlier: Array
    before: Array
    kept: Array
    cells: Array
    last: Array
    due: Array
    several: Array
    above: Array
    waits: Array
    depth: Array
    first: Array
    count: Array
    halves: Array
    over: Array

    grows: ClassVar[tuple[str, ...]] = ("halves", "over")  # one row per level in use

    def check(self, what: str) -> None:
        """Check the numbers of levels and the ranges of all numbers."""
        most, marked = int(self.counts[STEPS]).bit_length(), np.zeros_like(self.waits)
        for j in range(most):
            marked += self.waits >> j & 1
        end = self.first.astype(np.int64) + self.count
        has = (self.first >= 0) & (self.count >= 0) & ((end <= most) | (self.count == 0))
        waits = (self.waits >= 0) & (self.waits >> most == 0) & (marked == self.depth)
        flags = (self.several == 0) | (self.several == 1)
        own = int(self.depth.sum()) == len(self.halves) and int(self.count.sum()) == len(self.over)
        if not (has.all() and waits.all() and flags.all() and own):
            raise ValueError(
                f"state of the {what} does not fit: its numbers of levels contradict each other"
            )
        blocks = (self.last >= -1) & (self.last <= self.counts[STEPS])
        scales = self.rates[[SHRINK, PEAK, lazy.RBAR, EPOCH, MARGIN]] > 0.0
        counted = (self.counts >= 0).all() and (self.counts < MOST_COUNTED).all()
        if not (blocks.all() and scales.all() and counted):
            raise ValueError(f"state of the {what} does not fit: its counts contradict each other")
        squares = (self.cells[:, lazy.TOTAL], self.above, self.due)
        if any((square < 0.0).any() for square in squares):
            raise ValueError(f"state of the {what} does not fit: a sum of squares is negative")
