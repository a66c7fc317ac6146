"""Least squares in one pass: the sums of a stream, the fit to them, and its intervals."""

from collections.abc import Sequence
from functools import cached_property
from typing import Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_bytes, check_not_negative
from mixfree.base.state import shallow
from mixfree.linear.exact.blocks import Chunk, Fit, block_lengths
from mixfree.linear.exact.inference import Inference
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.solve import Solution, solve
from mixfree.linear.exact.streamsums import StreamSums
from mixfree.linear.exact.sums import Sums, sums_of
from mixfree.linear.exact.windows import Windows

ROUNDING = 1e-10  # relative size of an error that may be due to the rounding of its sums
WINDOWS_SHARE = 8  # the windows of rows take 1/WINDOWS_SHARE of the memory


class SquaredFit(Fit):
    """Fits a linear model with the squared loss to a stream, exactly and in any order.

    Offsets of the columns cost no digits, and one that varies by less than 1e-75 counts as
    constant. The memory is for the sums and rows behind the intervals.
    """

    saved = ("samples", "_blocks", "_sums", "_windows")
    order = "K"  # products have the same bits

    def __init__(
        self, columns: int, *, intercept: bool = True, l2: float = 0.0, memory: str = "32MB"
    ) -> None:
        super().__init__(columns)
        self.l2, self.intercept = check_not_negative(l2, "l2"), bool(intercept)
        self._memory = int(check_bytes(memory, "memory"))
        self._sums = self._no_sums(columns)
        self._windows = Windows(columns, memory=self._memory // WINDOWS_SHARE)

    @cached_property
    def total(self) -> Sums:
        """The sums of all rows."""
        total = self._sums.total
        if not self._filled:
            return total
        return total.joined(sums_of(*self._waiting, before=self._sums.last))

    @cached_property
    def solution(self) -> Solution:
        """The fit to all rows so far."""
        return self._fitted(self.total)

    @cached_property
    def inference(self) -> Inference:
        """Intervals and the correlation profile of the fit."""
        # A short stream has batches as well, since all its rows are pending.
        sums, windows = self._complete(self._sums.rows == 0)
        fit = self.total, self.solution
        return Inference(sums.batches, windows.all, *fit, intercept=self.intercept)

    def _no_sums(self, columns: int) -> StreamSums:
        """Return sums of no rows; not few rows per batch, since a batch has columns² sums."""
        expected = max(block_lengths(columns)[0], 4 * columns)
        return StreamSums(columns, 1, expected, memory=self._memory)

    def _complete(self, short: bool = False) -> tuple[StreamSums, Windows]:
        """Return sums and windows with the pending rows; with short batches for these alone."""
        sums, windows = shallow(self._sums), shallow(self._windows)
        if self._filled:
            if short:
                sums = StreamSums(self.columns, 1, self._filled, memory=self._memory)
            windows.take(sums.rows, *self._waiting)
            sums.add(*self._waiting)
        return sums, windows

    def weights(self) -> Array:
        """Return one row, in the units of the rows; an intercept is last."""
        return self.solution.weights

    def rough_weights(self) -> Array:
        """Return weights that predict alike."""
        return self._fitted(self.total, rough=True).weights

    def _fitted(self, sums: Sums, rough: bool = False) -> Solution:
        return solve(sums, l2=self.l2, intercept=self.intercept, rough=rough)

    def mean_squares(self, weights: Array) -> tuple[float, float] | None:
        """Return the mean squared errors of any weights and of the targets' mean, over all rows.

        None if rounding errors of the sums hide the error.
        """
        return self._errors(self.total, weights)

    def solved(self, changes: Sequence[ColumnMap]) -> list[tuple[Array, float]]:
        """Return the weights of mapped columns and their mean squared error, per map.

        The error is 0 if rounding errors of the sums hide it.
        """
        total, found = self.total, []
        for sums in (total.mapped(change) for change in changes):
            weights = self._fitted(sums).weights
            errors = self._errors(sums, weights)
            found.append((weights, 0.0 if errors is None else errors[0]))
        return found

    def _errors(self, sums: Sums, weights: Array) -> tuple[float, float] | None:
        with np.errstate(all="ignore"):  # a result that is not finite is unknown
            slopes = weights[0, : len(sums.scatter)]
            level = weights[0] @ np.append(sums.mean[:-1], [1.0] * self.intercept) - sums.mean[-1]
            offset, spread = sums.weight * level**2, sums.squares[0]
            explained = 2.0 * slopes @ sums.cross[:, 0] - slopes @ sums.scatter @ slopes
            error = spread - explained + offset
            size = (np.abs(slopes) @ np.sqrt(np.diagonal(sums.scatter))) ** 2 + spread + offset
            found = np.array([error, spread]) / sums.weight
        known = error > ROUNDING * size and np.isfinite(found).all()
        return (float(found[0]), float(found[1])) if known else None

    def _take(self, rows: Array, targets: Array, weights: Array | None) -> None:
        self._sums, self._windows = shallow(self._sums), shallow(self._windows)
        self._windows.take(self._sums.rows, rows, targets, weights)
        self._sums.add(rows, targets, weights)

    def merge(self, other: Self) -> None:
        """Add all rows of ``other``, as if they followed; ``other`` is unchanged."""
        if self.columns != other.columns:
            raise ValueError(f"cannot merge {other.columns} columns into {self.columns} columns")
        (sums, windows), (more, others) = self._complete(), other._complete()
        sums.merge(more)
        windows.merge(others, sums.rows)
        self._sums, self._windows = sums, windows
        self._blocks, self.samples = Chunk.nothing(self.columns), self.samples + other.samples
        self._forget()

    def mapped(self, change: ColumnMap) -> Self:
        """Return a fit to the same rows with mapped columns; both may be continued."""
        fit = self._mapped(change)
        fit._sums = self._sums.mapped(change)
        if not self._sums.rows:
            fit._sums = fit._no_sums(change.after)
        fit._windows = self._windows.mapped(change, self._memory // WINDOWS_SHARE)
        return fit
