r"""Intervals of a least-squares fit, from the sums of its batches.

With :math:`\hat w` the fit of all rows and :math:`g_b` the sum of the scores
:math:`x_i (y_i - \hat w^\top x_i)` of batch b, the sandwich

.. math:: \operatorname{Var} \hat w \approx S^{-1}
          \Big( (1 + 2r) \frac{n}{n-1} \sum_{b=1}^n g_b g_b^\top \Big) S^{-1}

is valid for rows correlated over any time shorter than a batch, and for misspecified models.
Student's t with n − 1 degrees of freedom gives the intervals. The correlation r of neighbouring
batches, if positive, accounts for correlation across their borders. Where a column varies in a few
batches only, such as a text that occurs in one stretch, the spread of batches says little, and the
variance of the errors takes its place.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.equal_batches import EqualBatches
from mixfree.linear.exact.batch_means import BatchMeans, BlockSquares, Levels
from mixfree.linear.exact.blocks import Chunk
from mixfree.linear.exact.solve import Solution, inverse_times
from mixfree.linear.exact.sums import Sums, stacked

TINY = np.finfo(np.float64).tiny
MIN_VARYING = 5  # batches in which a column must vary for the spread of its scores to be known


class Inference(BatchMeans):
    """Intervals of a least-squares fit from the batches of its stream, and windows of its rows."""

    def __init__(
        self,
        batches: EqualBatches[Sums],
        windows: Sequence[Chunk],
        sums: Sums,
        solution: Solution,
        *,
        intercept: bool = True,
    ) -> None:
        split = stacked(batches.items) if len(batches) else stacked([batches.nothing])[:0]
        self._split = split if intercept else split.about_zero()
        self._columns = len(sums.scatter)
        deviation = np.where(solution.deviation > 0.0, solution.deviation, 1.0)
        size, unit = np.split(deviation, [self._columns])
        lost, penalised = solution.rank + intercept, bool(solution.penalty > 0.0)
        super().__init__(solution.weights, sums.rows, batches.length, size, unit, lost, penalised)
        self._solution, self._intercept = solution, intercept
        self._windows = windows
        self._sums = sums if intercept else sums.about_zero()
        self._constant = solution.deviation[: self._columns] == 0.0
        self._slopes = solution.weights[:, : self._columns] * size / unit[:, None]
        # The penalty's part in the score of a row of weight 1.
        self._ridge = solution.penalty * self._slopes / size / size

    @cached_property
    def _scores(self) -> Array:
        """Sums of scores of the columns and of the level, the value at the columns' means.

        Shape: batches × targets × (columns + 1). Without intercept, the level's scores are 0.
        """
        batches, columns, x, y = self._split, self._columns, self._size, self._unit
        weight = batches.weight[:, None]
        move = (batches.mean - self._sums.mean) / np.append(x, y)
        aside, above = move[:, :columns], move[:, columns:]
        level = weight * (above - aside @ self._slopes.T) * float(self._intercept)
        score = batches.cross.swapaxes(1, 2) / x / y[:, None]
        score -= (self._slopes / x) @ batches.scatter / x
        score += level[:, :, None] * aside[:, None, :]
        score -= weight[:, :, None] * self._ridge
        return np.concatenate([score, level[:, :, None]], axis=2)

    def _whitened(self, scores: Array) -> Array:
        """Return the changes of weights and level that scores cause, times the total weight."""
        shape = scores.shape
        flat = scores.reshape(-1, shape[-1]).copy()
        if self._columns:
            fit, right = self._solution, np.ascontiguousarray(flat[:, :-1].T)
            flat[:, :-1] = inverse_times(fit.scale, fit.factor, fit.values, right).T
        return flat.reshape(shape)

    @cached_property
    def _changes(self) -> Array:
        """The change of standardised weights and level by each batch."""
        covered = self._split.weight.sum() / self._sums.weight
        factor = np.sqrt(self._spread_factor(covered))
        return np.asarray(factor * self._whitened(self._scores) / self._sums.weight)

    def _standardised(self, rows: Array) -> Array:
        aside = (rows - self._sums.mean[: self._columns]) / self._size
        aside[:, self._constant] = 0.0
        return np.column_stack([aside, np.full(len(rows), float(self._intercept))])

    @property
    def remark(self) -> str:
        """A sentence on why the intervals cannot be trusted; empty if there is no known reason."""
        found = super().remark
        few = 0 if found else int(self._in_few_batches.sum())
        if not few:
            return found
        return (
            f"intervals of {few} of {self._weights.size} weights assume errors of equal variance: "
            f"{'their columns vary' if few > 1 else 'its column varies'} in fewer than "
            f"{MIN_VARYING} of {len(self._scores)} batches"
        )

    def _shares(self) -> tuple[Array, Array]:
        """Return the batches' shares of the weight, and their standardised means."""
        batches = self._split
        aside = (batches.mean[:, : self._columns] - self._sums.mean[: self._columns]) / self._size
        level = np.full(len(aside), float(self._intercept))
        return batches.weight / batches.weight.sum(), np.column_stack([aside, level])

    @cached_property
    def _in_few_batches(self) -> Array:
        """Whether a column varies in so few batches that the spread of its scores is unknown."""
        (share, aside), batches, x = self._shares(), self._split, self._size
        parts = np.diagonal(batches.scatter, axis1=1, axis2=2) / x / x / batches.weight.sum()
        parts = parts + share[:, None] * aside[:, :-1] ** 2
        least = MIN_VARYING * np.sum(parts**2, axis=0)
        return np.asarray(~self._constant & (parts.sum(axis=0) ** 2 < least))

    @cached_property
    def _leverage(self) -> tuple[Array, Array]:
        r"""Return :math:`K^{-1}` and :math:`K^{-1} \big( \sum_b S_b K^{-1} S_b \big) K^{-1}`.

        :math:`S_b` are the products of level and standardised columns of batch b, and K is their
        sum. The fit makes the scores of a batch with large :math:`S_b` small, whatever the errors.
        If these are independent and of equal variance, the second matrix is what the sandwich lacks
        of the first.
        """
        inverse = self._whitened(np.eye(1 + self._columns))
        lacks = np.zeros_like(inverse)
        (share, aside), batches, x = self._shares(), self._split, self._size
        for number, scatter in enumerate(batches.scatter):
            squares = share[number] * np.outer(aside[number], aside[number])
            squares[:-1, :-1] += scatter / x / x[:, None] / batches.weight.sum()
            moved = squares @ inverse
            lacks += moved.T @ inverse @ moved
        return inverse, lacks

    def _missing(self, rows: Array) -> Array:
        """Return the variance that batches with large leverage lack: rows × targets."""
        if not self._in_few_batches.any():
            return np.zeros((len(rows), len(self._weights)))
        whole, lacks = (np.sum(rows @ each * rows, axis=1) for each in self._leverage)
        rest = np.maximum(lacks - whole / MIN_VARYING, 0.0) / (1.0 - 1.0 / MIN_VARYING)
        inflation = np.fmax(self._rows / self.effective_rows, 1.0)
        variances = self._squared_errors(self._sums) / self._sums.weight
        variances *= self._rows / max(self._rows - self._lost, 1)  # of standardised errors
        return np.asarray(rest[:, None] * variances * inflation / self._sums.weight)

    def _squared_errors(self, sums: Sums) -> Array:
        """Return the sum of squares of the errors of each target about their mean, in its units."""
        slopes, x, y = self._slopes, self._size, self._unit
        scatter = sums.scatter / x / x[:, None]
        common = sums.cross.swapaxes(-1, -2) / x / y[:, None] - 0.5 * slopes @ scatter
        left: Array = sums.squares / y / y - 2.0 * np.sum(slopes * common, axis=-1)
        return np.maximum(left, 0.0)

    @property
    def _unknown(self) -> Array:
        return np.broadcast_to(self._constant, self._slopes.shape)

    @cached_property
    def _levels(self) -> Levels:
        squares, equal, rows = BlockSquares(self._size_of), 0.0, 0
        for window in self._windows:
            scores = self._window_scores(window)
            squares.add(scores)
            squares.interrupt()
            weight, x = window.weights[:, None], self._standardised(window.rows)
            errors = np.sum(scores[:, :, -1] ** 2 / np.maximum(weight, TINY)) / weight.sum()
            equal += float(errors) * self._size_of(np.sqrt(weight) * x)
            rows += len(weight)
        if rows == self._rows or not (self._intercept and len(self._scores) and equal > 0.0):
            return squares.levels
        # The errors of kept rows may be larger or smaller than those of all rows: by how much is
        # known as far as errors vary equally within each batch and each window.
        ratio = rows * self._if_equal / equal
        return {n: (ratio * size, blocks) for n, (size, blocks) in squares.levels.items()}

    @property
    def _if_equal(self) -> float:
        """Mean square of the scores of single rows, if errors vary equally within each batch."""
        (share, aside), batches, x = self._shares(), self._split, self._size
        errors = self._squared_errors(batches) / batches.weight[:, None]
        errors += (self._scores[:, :, -1] / batches.weight[:, None]) ** 2
        variances = errors.sum(axis=1)
        squares = (aside * (variances * share)[:, None]).T @ aside * batches.weight.sum()
        squares[:-1, :-1] += np.tensordot(variances, batches.scatter, 1) / x / x[:, None]
        return float(np.trace(self._whitened(squares))) / (self._length * len(share))

    def _window_scores(self, window: Chunk) -> Array:
        """Return scores of single rows: rows × targets × (columns + 1)."""
        x = self._standardised(window.rows)
        y = (window.targets - self._sums.mean[self._columns :]) / self._unit
        residual = (y - x[:, :-1] @ self._slopes.T) * window.weights[:, None]
        score: Array = residual[:, :, None] * x[:, None, :]
        score[:, :, :-1] -= window.weights[:, None, None] * self._ridge
        return score
