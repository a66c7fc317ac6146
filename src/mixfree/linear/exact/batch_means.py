"""Standard errors and effective sample size of a fit by batch means, for any loss.

The spread of the batches' sums of scores, the gradients of rows' losses at the final weights, gives
standard errors that are valid for rows correlated over any time shorter than a batch. The ratio of
their variance to that of single rows' scores is the variance inflation. The correlation of
neighbouring batches corrects both, and shows whether batches are long enough.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg, special

from mixfree.base.arithmetic import Array, one_thread
from mixfree.base.checks import shown
from mixfree.steps import Profile

MIN_BATCHES = 8  # batches, or blocks of one length, for a reliable spread
MAX_CORRELATION = 0.2  # correlation of neighbouring batches above which intervals are too narrow
CHANGE_LEVEL = 0.001  # probability of finding a change in a stream without one
QUARTERS = 4  # parts of the stream between which a change is looked for
RANK = 1e-9  # relative variance below which a combination of weights is 0 by construction
WATCHED_FROM = 1000  # rows at which anytime intervals are narrowest, relative to others

Levels = dict[int, tuple[float, int]]  # by length of blocks: squares of their scores, their number


class Wald(NamedTuple):
    """A test that several weights are 0: Hotelling's T² as an F statistic."""

    statistic: float
    weights: int
    freedom: int
    p_value: float


class BlockSquares:
    """Squares of sums of scores over blocks of 1, 2, 4, … consecutive rows.

    ``size_of`` returns the sum of squares of scores, which are stacked along the first axis.
    """

    def __init__(self, size_of: Callable[[Array], float]) -> None:
        self._size_of = size_of
        self.levels: Levels = {}
        self._odd: dict[int, Array] = {}  # by length, a block without a neighbour yet

    def add(self, scores: Array, length: int = 1) -> None:
        """Add the scores of the next rows, or of blocks of so many."""
        if not len(scores):
            return
        squares, blocks = self.levels.get(length, (0.0, 0))
        self.levels[length] = squares + self._size_of(scores), blocks + len(scores)
        scores = np.concatenate([self._odd.get(length, scores[:0]), scores])
        self._odd[length] = scores[len(scores) // 2 * 2 :]
        self.add(pair_sums(scores), 2 * length)

    def interrupt(self) -> None:
        """Mark a gap: the next rows do not follow the previous ones."""
        self._odd.clear()


class BatchMeans(ABC):
    """Intervals, effective sample size and correlation profile of a fit by batch means."""

    def __init__(
        self,
        weights: Array,
        rows: int,
        length: int,
        size: Array,
        unit: Array,
        lost: int,
        penalised: bool,
    ) -> None:
        self._weights = weights  # one row per output, the intercept last
        self._rows, self._length = rows, length  # of the stream, and of each batch
        self._size, self._unit = size, unit  # divisors that standardise columns and targets
        self._lost = lost  # degrees of freedom that the fit uses
        self._saturated = rows <= lost and not penalised  # too few rows to leave errors
        self.columns = len(size)

    @cached_property
    @abstractmethod
    def _scores(self) -> Array:
        """Sums of scores: batches × outputs × weights of standardised columns."""

    @abstractmethod
    def _whitened(self, scores: Array) -> Array:
        """Multiply scores by the inverse of the fit's matrix, up to a factor."""

    @cached_property
    @abstractmethod
    def _levels(self) -> Levels:
        """Squares of the scores of single rows, and of blocks of kept rows."""

    @cached_property
    @abstractmethod
    def _changes(self) -> Array:
        """Changes of standardised weights; the sum of their squares is the variance."""

    @abstractmethod
    def _standardised(self, rows: Array) -> Array:
        """Standardise rows, for predictions by standardised weights; the level is last."""

    @property
    @abstractmethod
    def _unknown(self) -> Array:
        """Whether a column's weight is not determined by the rows: outputs × columns."""

    @property
    def _unexplained(self) -> float:
        """Mean square per row of the part of the scores that batches do not know."""
        return 0.0

    def _missing(self, rows: Array) -> Array:
        """Return the variance of standardised rows that the batches do not show: rows × outputs."""
        return np.zeros((len(rows), len(self._weights)))

    def _spread_factor(self, covered: float) -> float:
        """Return the factor from the batches' sum of squares to the variance over all rows.

        Rows in no batch, a fraction 1 − ``covered`` of the weight, are assumed to vary like the
        others.
        """
        n, rows = len(self._scores), self._rows
        return self._shared * n / (n - 1) / covered * (rows - 1) / max(rows - self._lost, 1)

    @property
    def _shared(self) -> float:
        """Variance inflation of a sum of batches, from the correlation of neighbours."""
        return 1.0 + 2.0 * max(self.correlation, 0.0)

    @property
    def enough(self) -> bool:
        """Whether there are at least 8 batches, enough for a spread, and errors."""
        return len(self._scores) >= MIN_BATCHES and not self._saturated

    @cached_property
    @one_thread
    def bse(self) -> Array:
        """Standard errors in the shape of the weights; infinite where they are unknown."""
        if not self.enough:
            return np.full(self._weights.shape, np.inf)
        columns = self.columns
        slopes, each = self._changes[:, :, :columns], np.eye(columns, self._changes.shape[2])
        squares = np.einsum("btk,btk->tk", slopes, slopes) + self._missing(each).T
        errors: Array = np.sqrt(squares) / self._size * self._unit[:, None]
        errors[self._unknown] = np.inf
        if self._weights.shape[1] == columns:
            return errors
        return np.column_stack([errors, self.mean_error(np.zeros((1, columns)))[0]])

    @one_thread
    def mean_error(self, rows: Array) -> Array:
        """Return standard errors of predicted means: rows × outputs."""
        if not self.enough:
            return np.full((len(rows), len(self._weights)), np.inf)
        standardised = self._standardised(rows)
        moved = np.einsum("rk,btk->rtb", standardised, self._changes, optimize=True)
        squares = np.sum(moved * moved, axis=2) + self._missing(standardised)
        errors: Array = np.sqrt(squares) * self._unit
        return errors

    @property
    def _freedom(self) -> int:
        left = self._rows - self._lost
        return max(min(len(self._scores) - 1, left if left > 0 else self._rows), 1)

    @property
    def _terms(self) -> int:
        """Number of terms that the covariance of the weights sums, or can tell apart."""
        return self._freedom + 1

    def quantile(self, alpha: float, anytime: bool = False) -> float:
        """Return the two-sided quantile of Student's t for level 1 − alpha.

        With ``anytime``, the quantile of the same probability as the boundary that a Brownian
        motion ever crosses with probability alpha.
        """
        if not 0.0 < alpha < 1.0:
            raise ValueError(f"alpha must be between 0 and 1, not {shown(alpha)}")
        tail = special.ndtr(-boundary(self._rows, alpha)) if anytime else 0.5 * alpha
        return -float(special.stdtrit(self._freedom, tail))

    def conf_int(self, alpha: float = 0.05, anytime: bool = False) -> Array:
        """Return intervals at level 1 − alpha: per output, one row per column, then intercept."""
        half = self.quantile(alpha, anytime) * self.bse
        return np.stack([self._weights - half, self._weights + half], axis=-1)

    @cached_property
    def p_values(self) -> Array:
        """P-values of the weights being 0, by Student's t; NaN where errors are unknown or 0."""
        known = np.isfinite(self.bse) & (self.bse > 0.0)
        ratio = np.divide(self._weights, self.bse, out=np.full(self.bse.shape, np.nan), where=known)
        return np.asarray(2.0 * special.stdtr(self._freedom, -np.abs(ratio)))

    @one_thread
    def wald(self, places: Sequence[int]) -> Wald:
        """Test that the weights of columns at ``places`` are all 0, in every output.

        Weights that the rows do not determine are left out.
        """
        slopes = np.eye(len(self._size), self._changes.shape[2]) / self._size[:, None]
        level = self._standardised(np.zeros((1, len(slopes))))
        each, errors = np.vstack([slopes, level])[places], self.bse[:, places]
        known = np.isfinite(errors) & (errors > 0.0)
        unit = np.divide(self._unit[:, None], errors, out=np.zeros_like(errors), where=known)
        moved = (np.einsum("wk,btk->btw", each, self._changes) * unit)[:, known]
        lost = (self._missing(each).T * unit**2)[known]
        values, vectors = linalg.eigh(moved.T @ moved + np.diag(lost), check_finite=False)
        free = values > RANK * values.max(initial=0.0)
        count = int(free.sum())
        freedom = self._terms - count
        if not (self.enough and count > 0 and freedom > 0):
            return Wald(math.nan, count, max(freedom, 0), math.nan)
        aside = vectors[:, free].T @ (self._weights[:, places][known] / errors[known])
        square = float(np.sum(aside**2 / values[free]))
        statistic = square * freedom / (self._terms - 1) / count
        return Wald(statistic, count, freedom, float(special.fdtrc(count, freedom, statistic)))

    @cached_property
    @one_thread
    def profile(self) -> Profile:
        """Variance inflation by block length, at the final weights.

        Short blocks come from kept rows, long ones from the batches. For a long stream, nothing
        is known about the lengths in between.
        """
        found, batch, joined = self._levels.copy(), self._length, self._scores
        total, rows = found.get(1, (0.0, 0))
        if rows < MIN_BATCHES or self._saturated:
            return Profile(np.zeros(0, dtype=int), np.zeros(0), np.zeros(0, dtype=int))
        while len(joined) >= MIN_BATCHES:
            # Batches cover the whole stream, kept rows only a part of it.
            rest = self._unexplained * batch * len(joined)
            found[batch] = self._size_of(joined) + rest, len(joined)
            joined, batch = pair_sums(joined), 2 * batch
        known = [(each, *found[each]) for each in sorted(found) if found[each][1] >= MIN_BATCHES]
        lengths, squares, blocks = map(np.array, zip(*known, strict=True))
        # The fit makes all scores sum to 0, which removes the variance of one block.
        each = total / rows * (1.0 - lengths / self._rows)
        inflation = squares / blocks / lengths / each if total > 0.0 else np.ones(len(known))
        return Profile(lengths, inflation, blocks)

    @property
    def effective_rows(self) -> float:
        """Effective sample size: the rows over the variance inflation that the intervals use.

        At most the rows, even where batches hold whole categories, whose residuals sum to 0. It is
        NaN if there are fewer than 8 batches or their scores do not vary.
        """
        profile = self.profile
        ratios = profile.ratios[profile.lengths == self._length]
        if not self.enough or not ratios.any():
            return float("nan")
        return float(self._rows / max(ratios[0] * self._shared, 1.0))

    @property
    def correlation(self) -> float:
        """Correlation of neighbouring batches' sums of scores; 0 for fewer than 8 batches."""
        return self._neighbours[0]

    @property
    def correlated(self) -> bool:
        """Whether the batches are still correlated, so that intervals are too narrow."""
        return self._neighbours[1]

    @cached_property
    @one_thread
    def _neighbours(self) -> tuple[float, bool]:
        scores = self._scores.reshape(len(self._scores), -1)
        return neighbours(scores @ self._whitened(self._scores).reshape(scores.shape).T)

    @property
    @one_thread
    def changed(self) -> bool:
        """Whether later rows differ from earlier ones by more than chance.

        Welch's t for the batches' scores before and after each quarter of the stream, per weight:
        at the fit of all rows both have the mean 0 if rows do not change. The correlation
        of neighbouring batches on either side is allowed for.
        """
        scores, n = self._scores.reshape(len(self._scores), -1), len(self._scores)
        cuts = [n * part // QUARTERS for part in range(1, QUARTERS)] if self.enough else []
        level = 1.0 - 0.5 * CHANGE_LEVEL / (QUARTERS - 1) / scores.shape[1]
        for sides in (np.split(scores, [cut]) for cut in cuts):
            means = [side.mean(axis=0) for side in sides]
            inside = np.concatenate([side - mean for side, mean in zip(sides, means, strict=True)])
            white = self._whitened(inside.reshape(self._scores.shape)).reshape(inside.shape)
            shared = 1.0 + 2.0 * max(neighbours(inside @ white.T)[0], 0.0)
            parts = np.array([side.var(axis=0, ddof=1) / len(side) for side in sides])
            variance = parts.sum(axis=0)
            lost = np.array([[len(side) - 1.0] for side in sides])
            with np.errstate(invalid="ignore"):  # a constant column has no scores
                freedom = variance**2 / np.sum(parts**2 / lost, axis=0)
            limit = special.stdtrit(freedom, level)
            if np.any((means[1] - means[0]) ** 2 > limit**2 * shared * variance):
                return True
        return False

    @property
    def assumed(self) -> str:
        """What the intervals assume, in words."""
        count = len(self._scores)
        rows = f"{self._length:,} row{'s' * (self._length != 1)}"
        return f"batch means, {count} batches of {rows}; rows may be correlated"

    @property
    def remark(self) -> str:
        """A sentence on why the intervals cannot be trusted; empty if there is no known reason."""
        if len(self._scores) < MIN_BATCHES:
            return (
                f"no intervals: {self._rows:,} rows make {len(self._scores)} "
                f"batch{'es' if len(self._scores) != 1 else ''}, and {MIN_BATCHES} are needed"
            )
        if self._saturated:
            return f"no intervals: {self._lost:,} weights fit {self._rows:,} rows without errors"
        if self.correlated:
            return (
                f"intervals are too narrow: errors are alike for longer than {self._length:,} "
                f"row{'s' * (self._length != 1)}, and there are too few rows for longer batches"
            )
        return ""

    def _size_of(self, scores: Array) -> float:
        """Return the sum of squares in the metric of the fit."""
        return float(np.vdot(scores, self._whitened(scores)))


def boundary(rows: int, alpha: float) -> float:
    r"""Return the boundary for a sum of rows over its standard deviation, at all times.

    .. math:: \sqrt{2 (1 + 1/\eta) \log(\sqrt{1 + \eta} / \alpha)}

    with η proportional to the number of rows: an asymptotic confidence sequence (Waudby-Smith et
    al. 2021), narrowest at 1,000 rows.
    """
    best = -float(special.lambertw(-alpha * alpha / math.e, -1).real) - 1.0
    time = best * max(rows, 1) / WATCHED_FROM
    return math.sqrt(2.0 * (1.0 + 1.0 / time) * math.log(math.sqrt(1.0 + time) / alpha))


def neighbours(gram: Array) -> tuple[float, bool]:
    """Return the correlation of neighbouring batches, and whether it is significant.

    ``gram`` has the inner products of the batches' sums. With fewer than 8 batches the
    correlation is 0.
    """
    n, total = len(gram), float(np.trace(gram))
    if n < MIN_BATCHES or total**2 <= 0.0:  # also where it underflows
        return 0.0, False
    found = float(np.trace(gram, 1)) / total * n / (n - 1) + 1.0 / n
    # If sums vary equally in d directions, the correlation has a standard error of 1/√(n·d).
    one_in_d = max(float(np.sum(gram * gram)) / total**2 - 1.0 / n, 0.0)
    return found, found > max(MAX_CORRELATION, 2.0 * math.sqrt(one_in_d / n))


def pair_sums(scores: Array) -> Array:
    """Add neighbours; a last one without a neighbour is dropped."""
    even = len(scores) // 2 * 2
    return np.asarray(scores[:even:2] + scores[1:even:2])
