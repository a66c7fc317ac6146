r"""How sure a fit is: intervals, effective sample size and the correlation behind them.

With :math:`\hat w` the fit of all rows and :math:`g_b` the sum of the scores
:math:`x_i (y_i - \hat w^\top x_i)` of batch b, the sandwich

.. math:: \operatorname{Var} \hat w \approx S^{-1}
          \Big( \frac{n}{n-1} \sum_{b=1}^n g_b g_b^\top \Big) S^{-1}

holds for rows correlated over any time much shorter than a batch, and for models that are only
an approximation; Student's t with n − 1 degrees of freedom gives its intervals.
"""

from functools import cached_property

import numpy as np
from scipy import stats

from mixfree.base.arithmetic import Array
from mixfree.linear.exact.batches import Batches
from mixfree.linear.exact.solve import Solution
from mixfree.linear.exact.sums import Sums
from mixfree.linear.exact.windows import Window
from mixfree.steps import Profile

ENOUGH = 8  # batches, or blocks of a length, that give a spread to be trusted
CORRELATED = 0.2  # correlation of neighbouring batches above which intervals are too narrow


class Inference:
    """Intervals of a fit from the batches of its stream.

    Parameters
    ----------
    batches
        Sums of the stream.
    sums, solution
        Of all its rows: ``batches.total``, and the fit to it.
    intercept
        Whether the fit has one.

    Examples
    --------
    >>> from mixfree.linear.exact.solve import solve
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 1))
    >>> batches = Batches(1)
    >>> batches.add(x, 2.0 * x[:, 0] + rng.normal(size=4000))
    >>> inference = Inference(batches, batches.total, solve(batches.total))
    >>> inference.conf_int().round(2)
    array([[[ 1.97,  2.03],
            [-0.02,  0.05]]])
    >>> inference.correlated
    False
    """

    def __init__(
        self, batches: Batches, sums: Sums, solution: Solution, *, intercept: bool = True
    ) -> None:
        self._solution, self._intercept = solution, intercept
        self._windows = batches.kept
        self._longest = batches.windows.length
        self._split = batches.split if intercept else batches.split.about_zero()
        self._sums = sums if intercept else sums.about_zero()
        self._columns = len(sums.scatter)
        deviation = np.where(solution.deviation > 0.0, solution.deviation, 1.0)
        self._size, self._target_size = np.split(deviation, [self._columns])
        slopes = solution.weights[:, : self._columns]
        self._slopes = slopes * self._size / self._target_size[:, None]

    @property
    def degrees(self) -> int:
        """Degrees of freedom of the spread: batches less one."""
        return len(self._split) - 1

    @cached_property
    def _scores(self) -> Array:
        """Sums of scores per batch, of level (if there is one) and standardised columns.

        Shape: batches, targets, columns + 1. The level is that at the columns' means.
        """
        batches = self._split.in_units(self._sums.exponents)
        columns, weight = self._columns, batches.weight[:, None]
        sizes = np.append(self._size, self._target_size)
        x, y = np.split(np.ldexp(sizes, -self._sums.exponents), [columns])
        move = (batches.mean - self._sums.mean) / sizes
        aside, above = move[:, :columns], move[:, columns:]
        level = weight * (above - aside @ self._slopes.T) * float(self._intercept)
        score = batches.cross.swapaxes(1, 2) / x / y[:, None]
        score -= (self._slopes / x) @ batches.scatter / x
        score += level[:, :, None] * aside[:, None, :]
        score -= weight[:, :, None] * self._ridge
        return np.concatenate([level[:, :, None], score], axis=2)

    @property
    def _ridge(self) -> Array:
        """What the penalty adds to the score of a row of weight 1."""
        with np.errstate(over="ignore"):
            ridge: Array = self._solution.penalty * self._slopes / self._size / self._size
            return ridge

    def _whitened(self, scores: Array) -> Array:
        """Changes of level and standardised weights that scores make, times the weight."""
        shape = scores.shape
        flat = scores.reshape(-1, shape[-1]).copy()
        if self._columns:
            flat[:, 1:] = self._solution.inverse(np.ascontiguousarray(flat[:, 1:].T)).T
        return flat.reshape(shape)

    @cached_property
    def _changes(self) -> Array:
        """What each batch has moved level and standardised weights by."""
        n = len(self._split)
        covered = self._split.weight.sum()
        # Rows in no batch vary like the others; as many degrees as weights are lost to the fit.
        lost = self._solution.rank + self._intercept
        rows = self._sums.rows
        factor = np.sqrt(
            self._sums.weight / covered * n / (n - 1) * (rows - 1) / max(rows - lost, 1)
        )
        changes: Array = factor * self._whitened(self._scores) / self._sums.weight
        return changes

    @property
    def enough(self) -> bool:
        """Whether there are batches enough for a spread, at least 8."""
        return len(self._split) >= ENOUGH

    @cached_property
    def bse(self) -> Array:
        """Standard errors, of the shape of the weights; infinite where nothing is known."""
        if not self.enough:
            return np.full(self._solution.weights.shape, np.inf)
        slopes = self._changes[:, :, 1:]
        with np.errstate(over="ignore"):
            errors: Array = np.sqrt(np.einsum("btk,btk->tk", slopes, slopes)) / self._size
            errors *= self._target_size[:, None]
        errors[:, self._solution.deviation[: self._columns] == 0.0] = np.inf
        if not self._intercept:
            return errors
        zero = self.mean_error(np.zeros((1, self._columns)))
        return np.column_stack([errors, zero[0]])

    def mean_error(self, rows: Array) -> Array:
        """Standard errors of predicted means: one row per row, one column per target."""
        if not self.enough:
            return np.full((len(rows), len(self._slopes)), np.inf)
        aside = (rows - self._sums.mean[: self._columns]) / self._size
        aside[:, self._solution.deviation[: self._columns] == 0.0] = 0.0
        full = np.column_stack([np.full(len(rows), float(self._intercept)), aside])
        moved = np.einsum("rk,btk->rtb", full, self._changes, optimize=True)
        errors: Array = np.sqrt(np.sum(moved * moved, axis=2)) * self._target_size
        return errors

    def quantile(self, alpha: float) -> float:
        """Student's t that leaves ``alpha`` outside, on both sides together."""
        if not 0.0 < alpha < 1.0:
            raise ValueError(f"alpha must be between 0 and 1, not {alpha!r}")
        return float(stats.t.ppf(1.0 - 0.5 * alpha, max(self.degrees, 1)))

    def conf_int(self, alpha: float = 0.05) -> Array:
        """Intervals of level 1 − alpha: per target, a row per column, then the intercept."""
        half = self.quantile(alpha) * self.bse
        weights = self._solution.weights
        return np.stack([weights - half, weights + half], axis=-1)

    @cached_property
    def profile(self) -> Profile:
        """Variance inflation by block length, at the weights of the whole stream.

        Short blocks come from the windows of rows that were kept, long ones from the batches;
        a long stream has lengths between them of which nothing is known.
        """
        rows = [self._window_scores(window) for window in self._windows]
        count = sum(map(len, rows))
        if count == 0:
            return Profile(np.zeros(0, dtype=int), np.zeros(0), np.zeros(0, dtype=int))
        one = sum(self._size_of(each) for each in rows) / count
        found = []
        length = 1
        while length <= self._longest:
            sums = [_block_sums(each, length) for each in rows]
            found.append((length, sum(map(self._size_of, sums)), sum(map(len, sums))))
            length *= 2
        batch, joined = self._split.rows, self._scores
        while len(joined) >= ENOUGH:
            # Batches cover the whole stream, windows only a part of a long one.
            found = [each for each in found if each[0] != batch]
            found.append((batch, self._size_of(joined), len(joined)))
            joined, batch = _block_sums(joined, 2), 2 * batch
        found = sorted(each for each in found if each[2] >= ENOUGH)
        n = self._sums.rows
        scale = one if one > 0.0 else 1.0
        # The fit makes all scores sum to 0, which takes one block's worth of variance away.
        inflation = [
            total / blocks / size / scale / (1.0 - size / n) for size, total, blocks in found
        ]
        return Profile(
            np.array([each[0] for each in found]),
            np.array(inflation) if one > 0.0 else np.ones(len(found)),
            np.array([each[2] for each in found]),
        )

    @property
    def effective_rows(self) -> float:
        """Effective sample size: independent rows that would determine the fit as well.

        Rows over the variance inflation of blocks as long as the batches behind the intervals;
        NaN while there are fewer than 8 of them.
        """
        profile = self.profile
        here = profile.lengths == self._split.rows
        if not self.enough or not here.any():
            return float("nan")
        return float(self._sums.rows / profile.ratios[here][0])

    @cached_property
    def correlation(self) -> float:
        """Correlation of neighbouring batches' sums of scores; 0 for fewer than 8 batches."""
        if not self.enough:
            return 0.0
        gram = self._gram
        total = float(np.trace(gram))
        n = len(gram)
        return float(np.trace(gram, 1)) / total * n / (n - 1) + 1.0 / n if total > 0.0 else 0.0

    @property
    def correlated(self) -> bool:
        """Whether the batches are still correlated, so that intervals are too narrow."""
        if not self.enough:
            return False
        gram = self._gram
        squares = float(np.sum(gram * gram))
        if squares == 0.0:
            return False
        # Directions in which the scores vary alike: as many give the noise of the correlation.
        directions = max(float(np.trace(gram)) ** 2 / squares, 1.0)
        noise = 1.0 / np.sqrt(max(directions, len(gram)))
        return bool(self.correlation > max(CORRELATED, 2.0 * noise))

    @property
    def remark(self) -> str:
        """A sentence about what the intervals cannot be trusted for; empty if nothing is known."""
        if not self.enough:
            return (
                f"no intervals: {self._sums.rows:,} rows make {len(self._split)} batches, "
                f"and {ENOUGH} are needed"
            )
        if self.correlated:
            return (
                f"intervals are too narrow: batches of {self._split.rows:,} rows are still "
                f"correlated ({self.correlation:.2f} between neighbours); the stream is too short "
                "beside its correlation"
            )
        return ""

    @cached_property
    def _gram(self) -> Array:
        """Inner products of the batches' sums of scores, in the metric of the fit."""
        scores = self._scores.reshape(len(self._scores), -1)
        return scores @ self._whitened(self._scores).reshape(scores.shape).T

    def _window_scores(self, window: Window) -> Array:
        """Scores of single rows: rows, targets, columns + 1."""
        x = (window.rows - self._sums.mean[: self._columns]) / self._size
        x[:, self._solution.deviation[: self._columns] == 0.0] = 0.0
        y = (window.targets - self._sums.mean[self._columns :]) / self._target_size
        residual = (y - x @ self._slopes.T) * window.weights[:, None]
        score = residual[:, :, None] * x[:, None, :]
        score -= window.weights[:, None, None] * self._ridge
        level = residual * float(self._intercept)
        return np.concatenate([level[:, :, None], score], axis=2)

    def _size_of(self, scores: Array) -> float:
        """Sum of squares in the metric of the fit."""
        return float(np.vdot(scores, self._whitened(scores)))


def _block_sums(scores: Array, length: int) -> Array:
    """Sums over consecutive blocks; what is left over at the end is dropped."""
    n = len(scores) // length
    summed: Array = scores[: n * length].reshape(n, length, *scores.shape[1:]).sum(axis=1)
    return summed
