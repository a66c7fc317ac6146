"""Windows of consecutive rows, spread evenly over a stream of any length."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.interrupts import shallow
from mixfree.linear.exact.blocks import check_array
from mixfree.linear.exact.mapping import ColumnMap

MOST = 16  # windows at which every second window is dropped
LONGEST, SHORTEST = 4096, 16  # rows per window


class Window(NamedTuple):
    """Consecutive rows with their targets and weights."""

    rows: Array
    targets: Array
    weights: Array


class Windows:
    """Keeps 8 to 16 windows of as many rows as fit in memory; all rows of short streams.

    Parameters
    ----------
    columns, targets
        Numbers of features and targets per row.
    memory
        Bytes for all windows.
    """

    def __init__(self, columns: int, targets: int, *, memory: int) -> None:
        self._shape = columns, targets
        fit = memory // (8 * MOST * (columns + targets + 1))
        self.length = min(max(1 << fit.bit_length() >> 1, SHORTEST), LONGEST)
        self.closed: tuple[Window, ...] = ()
        self._pieces: tuple[Window, ...] = ()  # of the window being filled
        self._filled = 0
        self._start, self._stride = 0, self.length

    @property
    def all(self) -> tuple[Window, ...]:
        """All windows, including the one being filled."""
        return (*self.closed, self._open) if self._filled else self.closed

    @property
    def _open(self) -> Window:
        if len(self._pieces) == 1:
            return self._pieces[0]
        columns, targets = self._shape
        nothing = Window(np.empty((0, columns)), np.empty((0, targets)), np.empty(0))
        parts = zip(nothing, *self._pieces, strict=True)
        return Window(*(np.concatenate(part) for part in parts))

    def take(self, first: int, rows: Array, targets: Array, weights: Array | None) -> None:
        """Keep those rows that belong to a window; the first has number ``first``."""
        end = first + len(rows)
        while self._start + self._filled < end:
            begin = self._start + self._filled - first
            piece = slice(begin, begin + self.length - self._filled)
            kept = rows[piece].copy()
            factors = np.ones(len(kept)) if weights is None else weights[piece].copy()
            self._pieces = (*self._pieces, Window(kept, targets[piece].copy(), factors))
            self._filled += len(kept)
            if self._filled < self.length:
                break
            self.closed = (*self.closed, self._open)
            self._pieces, self._filled = (), 0
            self._start += self._stride
            if len(self.closed) == MOST:
                # The last window goes too, so that windows stay one stride apart.
                self.closed, self._stride = self.closed[::2], 2 * self._stride

    def merge(self, other: Self, rows: int) -> None:
        """Add the windows of ``other``; the next window begins after ``rows`` rows of both."""
        self.closed = self.all + other.all
        self._stride = max(self._stride, other._stride)
        self._thin_out()
        self._pieces, self._filled, self._start = (), 0, rows

    def mapped(self, change: ColumnMap, memory: int) -> Self:
        """Return the same windows with mapped columns: shorter ones if the columns are more."""
        twin = type(self)(change.after, self._shape[1], memory=memory)
        everything = self._stride <= self.length  # no rows between windows were left out
        for window in self.closed:
            twin.closed += _cut(_mapped(window, change), twin.length, everything)
        twin._stride = twin.length if everything else max(self._stride, twin.length)
        twin._thin_out()
        twin._start = self._start
        if self._filled:
            twin.take(self._start, *_mapped(self._open, change))
        return twin

    def _thin_out(self) -> None:
        """Drop every second window while there are too many."""
        while len(self.closed) >= MOST:
            self.closed, self._stride = self.closed[::2], 2 * self._stride

    def copy(self) -> Self:
        """Return an independent copy; it shares windows, which are never changed in place."""
        return shallow(self)

    def plain(self) -> dict[str, Any]:
        """Return the state as numbers and copies of arrays."""
        return {
            "windows": [{k: v.copy() for k, v in w._asdict().items()} for w in self.closed],
            "open": {k: v.copy() for k, v in self._open._asdict().items()},
            "start": self._start,
            "stride": self._stride,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that :meth:`plain` returned; an error changes nothing."""
        closed = tuple(self._restored(window) for window in state["windows"])
        pending = self._restored(state["open"])
        if len(closed) >= MOST or any(len(each.rows) > self.length for each in (*closed, pending)):
            raise ValueError(
                f"the state must have fewer than {MOST} windows of at most {self.length} rows"
            )
        start = check_whole(state["start"], "start of the state", least=0)
        stride = check_whole(state["stride"], "stride of the state", least=self.length)
        self.closed, self._start, self._stride = closed, start, stride
        self._filled = len(pending.rows)
        self._pieces = (pending,) if self._filled else ()

    def _restored(self, state: Mapping[str, Any]) -> Window:
        columns, targets = self._shape
        n = len(state["weights"])
        return Window(
            check_array(state["rows"], "rows", (n, columns)),
            check_array(state["targets"], "targets", (n, targets)),
            check_array(state["weights"], "weights", (n,)),
        )


def _mapped(window: Window, change: ColumnMap) -> Window:
    return window._replace(rows=change.rows(window.rows))


def _cut(window: Window, length: int, everything: bool) -> tuple[Window, ...]:
    """Return the pieces of a window that are not longer than ``length``, or the first alone."""
    starts = range(0, len(window.weights), length) if everything else (0,)
    return tuple(Window(*(part[start : start + length] for part in window)) for start in starts)
