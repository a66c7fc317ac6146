"""Windows of consecutive rows, spread evenly over a stream of any length."""

from dataclasses import replace
from typing import Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.equal_batches import EqualBatches
from mixfree.base.state import State
from mixfree.linear.exact.blocks import Chunk
from mixfree.linear.exact.mapping import ColumnMap

MAX_WINDOWS = 16  # at which every second window is dropped
MIN_LENGTH, MAX_LENGTH = 16, 4096  # rows per window


class Windows(State):
    """Keeps 8 to 16 windows of as many rows as fit in memory; all rows of short streams."""

    saved = ("closed", "open", "start")

    def __init__(self, columns: int, *, memory: int) -> None:
        fit = memory // (8 * MAX_WINDOWS * (columns + 2))
        self.length = min(max(1 << fit.bit_length() >> 1, MIN_LENGTH), MAX_LENGTH)
        self.open, self.start = Chunk.nothing(columns), 0  # the window being filled, its first row
        # The full windows, one per closed.length rows.
        self.closed = EqualBatches(self.open, _first, MAX_WINDOWS, self.length)

    @property
    def all(self) -> tuple[Chunk, ...]:
        """All windows, including the one being filled."""
        return (*self.closed.items, self.open) if len(self.open) else self.closed.items

    def take(self, first: int, rows: Array, targets: Array, weights: Array | None) -> None:
        """Keep those rows that belong to a window; the first has number ``first``."""
        given = Chunk(rows, targets, np.ones(len(rows)) if weights is None else weights)
        while (begin := self.start + len(self.open) - first) < len(rows):
            piece = given.part(begin, begin + self.length - len(self.open))
            self.open = self.open.followed(piece)
            if len(self.open) == self.length:
                self.start += self.closed.length
                self.closed = self.closed.added(self.open)
                self.open = self.closed.nothing

    def merge(self, other: Self, rows: int) -> None:
        """Add the windows of ``other``; the next window begins after ``rows`` rows of both."""
        length = max(self.closed.length, other.closed.length)
        both = self.all + other.all
        self.closed = replace(self.closed, length=length, items=()).added(*both)
        self.open, self.start = self.closed.nothing, rows

    def mapped(self, change: ColumnMap, memory: int) -> Self:
        """Return the same windows with mapped columns: shorter ones if the columns are more."""
        found = type(self)(change.after, memory=memory)
        closed = (each.mapped(change).part(0, found.length) for each in self.closed.items)
        length = max(self.closed.length, found.length)
        found.closed = replace(found.closed, length=length).added(*closed)
        found.start, rest = self.start, self.open.mapped(change)
        found.take(self.start, rest.rows, rest.targets, rest.weights)
        return found


def _first(one: Chunk, other: Chunk) -> Chunk:
    """Keep one of two neighbours, so that windows stay evenly apart."""
    return one
