"""The course of a run: its output on a logarithmic grid of sample counts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array

PER_DECADE = 20


@dataclass(repr=False)
class History:
    """Sample counts, step counts and output points, one row per mark of the grid.

    Examples
    --------
    >>> import mixfree as mf
    >>> result = mf.minimize(lambda x, z: x - z, np.ones(100), [0.0], method="adagrad")
    >>> result.history.samples[:3], result.history.points.shape
    (array([1, 2, 3]), (30, 1))
    """

    _samples: list[int] = field(default_factory=list)
    _steps: list[int] = field(default_factory=list)
    _points: list[Array] = field(default_factory=list)

    def record(self, opt: Any) -> None:
        """Add a row, unless there is one for this sample count."""
        if not self._samples or self._samples[-1] != opt.samples:
            self._samples.append(opt.samples)
            self._steps.append(opt.steps)
            self._points.append(opt.average)

    def __repr__(self) -> str:
        last = f", the last after {self._samples[-1]:,} samples" if self._samples else ""
        return f"<History: {len(self._samples)} marks{last}>"

    @property
    def samples(self) -> Array:
        """Samples observed."""
        return np.array(self._samples, dtype=np.int64)

    @property
    def steps(self) -> Array:
        """Steps taken."""
        return np.array(self._steps, dtype=np.int64)

    @property
    def points(self) -> Array:
        """Output points, one row each."""
        return np.array(self._points)


def marks(after: int = 0) -> Iterator[int]:
    """Sample counts of the grid above ``after``: twenty per decade, whole and distinct.

    Examples
    --------
    >>> from itertools import islice
    >>> list(islice(marks(), 12))
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13]
    """
    k = 0
    while True:
        mark = round(10.0 ** (k / PER_DECADE))
        k += 1
        if mark > after:
            after = mark
            yield mark


def follow(
    opt: Any,
    advance: Callable[[int, int], bool | None],
    total: float,
    each: Callable[[Any, bool], bool | None] | None = None,
    chunk: int = 1 << 17,
    first: int = 0,
) -> History:
    """Call ``advance(start, stop)`` for ``total`` samples, or until it returns False.

    ``opt`` is an optimiser, or anything else with samples, steps and an average. Every mark of the
    grid from ``first`` on is recorded.
    ``each(run, at_mark)`` is called at every mark and after every ``chunk``; the run stops when
    it returns True.
    """
    before, done = opt.samples, 0
    history, grid = History(), marks(max(before, first - 1))
    mark = next(grid)
    while done < total:
        stop = int(min(total, mark - before, done + chunk))
        if advance(done, stop) is False:
            break
        done = stop
        at_mark = before + done == mark
        if at_mark:
            history.record(opt)
            mark = next(grid)
        if each is not None and each(opt, at_mark):
            break
    history.record(opt)
    return history
