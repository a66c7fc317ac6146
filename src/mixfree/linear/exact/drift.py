"""Least squares with exponential forgetting, by a given half-life or a mixture of several."""

import math
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from mixfree.base.arithmetic import MIN_VALUE, Array
from mixfree.base.checks import check_positive, check_values, shown
from mixfree.base.state import State, shallow
from mixfree.linear.exact.blocks import Blocks, block_rows
from mixfree.linear.exact.decay import BLOCKS_PER_HALF_LIFE, DecayedProducts
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.mixture import least_combination
from mixfree.linear.exact.solve import Solution, solve

HALF_LIVES = (50.0, 200.0, 800.0, 3200.0, 12800.0, math.inf)
LOSS_HALF_LIFE = 2000.0  # half-life, in rows, of the test-then-train losses
BLOCK = 32  # rows within which nothing is forgotten, and weights do not change
SOLVES_PER_HALF_LIFE = 8  # how often weights are solved for again
ROWS_TOGETHER = 2048  # rows multiplied at a time
ROWS_PER_ORIGIN = 4096  # rows between changes of the origin
ROWS_PER_PRIOR = 256  # rows between updates of the columns' deviations
PRIOR_ROWS = 1.0  # strength of the ridge, in rows with each column's own deviation
ROUNDING = np.finfo(np.float64).eps  # least variance over mean square
MAX_BLOCK_LOSS = 1e296  # above which sums are checked, since they may reach MAX_LOSS
MAX_LOSS = 1e300  # largest loss of a block that counts, so that it can be forgotten


class Forgetting(State):
    r"""Sums in which a row's weight halves every ``half_life`` rows, and the fits to them.

    With ``"auto"`` there are sums for several half-lives. Each block of 32 rows is predicted with
    the weights of every half-life before it is learnt. The current weights are the convex
    combination :math:`\sum_h \pi_h w_h` whose discounted loss

    .. math:: D(\pi) = \sum_{i \le t} 2^{-(t - i)/2000}
              \Big( y_i - \sum_h \pi_h \hat y_{h,i} \Big)^2

    is least. A short half-life has a large variance, a long one a large bias, and a mixture has
    less of both. A ridge worth one row, in units of each column's deviation over all rows so far,
    keeps weights small that recent rows do not determine.

    Parameters
    ----------
    columns
        Number of features.
    half_life
        Number of rows, or ``"auto"`` for a mixture of 50, 200, 800, 3,200, 12,800 and never.
    intercept, l2, radius
        As in :func:`mixfree.linear.exact.solve.solve`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 1))
    >>> slope = np.where(np.arange(4000) < 3000, 1.0, -1.0)
    >>> forgetting = Forgetting(1)
    >>> forgetting.add(x, slope * x[:, 0])
    >>> forgetting.half_life, forgetting.solution.weights.round(2) + 0.0
    (50.0, array([[-0.99,  0.  ]]))
    """

    grows: ClassVar[tuple[str, ...]] = ("_changes",)

    def __init__(
        self,
        columns: int,
        half_life: float | str = "auto",
        *,
        intercept: bool = True,
        l2: float = 0.0,
        radius: float | None = None,
    ) -> None:
        if isinstance(half_life, str):
            if half_life != "auto":
                raise ValueError(
                    f"half_life must be a number of rows or 'auto', not {shown(half_life)}"
                )
            self.half_lives = np.array(HALF_LIVES)
            self._candidates = len(HALF_LIVES)
        else:
            # Sums that never forget determine the unit of every column.
            self.half_lives = np.array([check_positive(half_life, "half_life"), math.inf])
            self._candidates = 1
        shortest = float(self.half_lives[0])
        rows = max(min(BLOCK, shortest), shortest / BLOCKS_PER_HALF_LIFE)
        block = min(1 << max(int(rows).bit_length() - 1, 0), block_rows(columns))
        self._intercept, self._l2, self._radius = intercept, float(l2), radius
        self._blocks = Blocks(columns)
        self._decayed = DecayedProducts(columns + 2, self.half_lives, block)
        self._prior, self._sized = np.zeros(1 + columns), 0
        # Coefficients of (1, columns, target) in the residuals of each half-life.
        self._rest = np.zeros((self._candidates, 1, columns + 2))
        self._rest[:, :, -1] = 1.0
        self._solved = np.zeros(self._candidates, dtype=np.int64)
        self._errors = np.zeros((self._candidates, self._candidates))  # discounted products
        self._changes = np.zeros((0, 2), dtype=np.int64)  # first row and number of the best

    @property
    def block(self) -> int:
        """Rows within which nothing is forgotten."""
        return self._decayed.block

    @property
    def rows(self) -> int:
        """Rows of positive weight seen."""
        return self._decayed.rows + self._blocks.filled

    @property
    def half_life(self) -> float:
        """The half-life that has predicted best; infinite if nothing is forgotten."""
        return float(self.half_lives[np.argmin(self._errors.diagonal())])

    @property
    def history(self) -> tuple[tuple[int, float], ...]:
        """The best half-life over time: pairs of the first row and the half-life."""
        return tuple((row, float(self.half_lives[best])) for row, best in self._changes.tolist())

    @property
    def mean_losses(self) -> dict[float, float]:
        """Discounted test-then-train loss per row of each half-life, ½(prediction − target)²."""
        seen = max(self._decayed.rows - self.block, 0)
        weight = max(
            (1.0 - 0.5 ** (seen / LOSS_HALF_LIFE)) / (1.0 - 0.5 ** (1.0 / LOSS_HALF_LIFE)), 1.0
        )
        means = 0.5 * self._errors.diagonal() / weight
        return dict(zip(self.half_lives.tolist(), means.tolist(), strict=False))

    @property
    def shares(self) -> dict[float, float]:
        """The share π of each half-life in the current weights."""
        found = least_combination(self._errors)
        return dict(zip(self.half_lives.tolist(), found.tolist(), strict=False))

    @property
    def solution(self) -> Solution:
        """The current fit, pending rows included."""
        waiting, twin = self._blocks.pending, self
        if waiting is not None:
            twin = self.successor()
            twin._take(*waiting)
        parts = [
            (share, twin._solution(h))
            for h, share in enumerate(self.shares.values())
            if share > 0.0
        ]
        share, solution = max(parts, key=lambda part: part[0])
        if share == 1.0:
            return solution
        mixture = np.sum([share * each.weights for share, each in parts], axis=0)
        return replace(solution, weights=mixture)

    def add(self, rows: Any, targets: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> None:
        """Predict, then learn, rows in order; arguments and errors as in :class:`Batches`."""
        together = max(ROWS_TOGETHER // self.block, 1)
        self._blocks.cut(rows, targets, weights, lambda: self.block, self._take, together)

    def _take(self, rows: Array, targets: Array, weights: Array | None) -> None:
        """Learn from whole blocks, or from a single shorter one."""
        check_values(rows=rows, targets=targets)
        done = 0
        while done < len(rows):
            first = slice(done, done + self.block)
            decayed = self._decayed
            if decayed.rows == 0 or decayed.rows - decayed.moved >= ROWS_PER_ORIGIN:
                self._move(rows[first], targets[first])
            blocks = -(-(self._decayed.moved + ROWS_PER_ORIGIN - self._decayed.rows) // self.block)
            here = slice(done, done + max(blocks, 1) * self.block)
            grams = self._decayed.grams(
                rows[here], targets[here], None if weights is None else weights[here]
            )
            length = len(rows[first])
            self._learn(grams, length)
            done += len(grams) * length

    def _learn(self, grams: Array, length: int) -> None:
        """Learn from blocks of ``length`` rows, and judge the weights used before each block."""
        first, auto = self._decayed.rows, self._candidates > 1
        rests = np.empty((len(grams), *self._rest.shape))
        solved = self._solved.tolist()
        for place, gram in enumerate(grams):
            rests[place] = self._rest
            self._decayed.add(gram, length)
            rows = self._decayed.rows
            if rows - self._sized >= min(rows, ROWS_PER_PRIOR):
                self._prior, self._sized = self._priors(), rows
            if auto:
                for h, life in enumerate(HALF_LIVES):
                    if SOLVES_PER_HALF_LIFE * (rows - solved[h]) >= (life if life < rows else rows):
                        self._solve(h)
                        solved[h] = rows
        self._solved[:] = solved
        if auto:
            unseen = slice(0 if first else 1, None)  # no weights predicted the very first block
            self._judge(grams[unseen], rests[unseen], max(first, length), length)

    def _judge(self, grams: Array, rests: Array, first: int, length: int) -> None:
        """Add the losses of each block under the weights before it; ``first`` rows came before."""
        flat = rests[:, :, 0]
        with np.errstate(over="ignore", invalid="ignore"):
            lost = (rests @ grams[:, None])[:, :, 0]
            products = lost @ flat.swapaxes(1, 2)
            far = ~(np.abs(products).max(axis=(1, 2)) < MAX_BLOCK_LOSS)
            for place, product in enumerate(products):
                errors = self._errors * 0.5 ** (length / LOSS_HALF_LIFE) + product
                wrong = ~(np.abs(errors).max(axis=1) < MAX_LOSS) if far[place] else None
                if wrong is not None and wrong.any():
                    errors[wrong] = errors[:, wrong] = 0.0
                    errors[wrong, wrong] = MAX_LOSS
                self._errors = products[place] = errors
        bests = products.diagonal(axis1=1, axis2=2).argmin(axis=1).tolist()
        for place, best in enumerate(bests):
            if not len(self._changes) or self._changes[-1, 1] != best:
                change = first + (place + 1) * length, best
                self._changes = np.append(self._changes, [change], axis=0)

    def _solve(self, h: int) -> None:
        """Solve for new weights of a half-life, for the next blocks."""
        first, failed = 0 if self._intercept else 1, self._radius is not None
        if not failed:
            whole = self._decayed.whole(h)
            matrix = whole[first:-1, first:-1].copy()
            diagonal = matrix.reshape(-1)[:: len(matrix) + 1]
            diagonal += self._ridge(float(whole[0, 0]), self._prior)[first:]
            # The matrix is symmetric: its transpose has the memory order that LAPACK needs.
            _, found, failed = lapack.dposv(matrix.T, whole[-1, first:-1], overwrite_a=1)
        if failed:  # there is a ball, or columns depend on each other
            weights, origin = self._solution(h).weights, self._decayed.origin
            level = weights @ np.append(origin[1:-1], 1.0)[: weights.shape[1]] - origin[-1]
            found = np.append(level, weights[:, : self._blocks.columns])[first:]
        np.negative(found, out=self._rest[h, 0, first:-1])

    def _ridge(self, weight: float, prior: Array) -> Array:
        """Return the diagonal to add to the products of (1, columns), for this total weight."""
        if not self._l2:
            return prior
        with np.errstate(over="ignore"):
            ridge = np.minimum(prior + weight * self._l2, MAX_LOSS)
        ridge[0] = 0.0
        return ridge

    def _priors(self) -> Array:
        """Return PRIOR_ROWS times the variance of each column over all rows, but never 0."""
        whole = self._decayed.whole(-1)
        weight, size = max(float(whole[0, 0]), 1e-300), whole.diagonal()[:-1]
        squares = (whole.diagonal() - whole[0] ** 2 / weight)[:-1] / weight
        # A constant column that is not 0, without an intercept, has a variance by rounding alone.
        prior: Array = PRIOR_ROWS * np.maximum(squares, ROUNDING * size / weight + MIN_VALUE**2)
        prior[0] = 0.0
        return prior

    def _solution(self, h: int) -> Solution:
        sums = self._decayed.sums(h)
        weight = max(float(sums.weight), 1e-300)
        with np.errstate(over="ignore"):
            own = self._ridge(weight, self._priors())[1:] / weight
        return solve(
            sums, l2=np.minimum(own, MAX_LOSS), radius=self._radius, intercept=self._intercept
        )

    def _move(self, rows: Array, targets: Array) -> None:
        """Choose the origin anew by a block of rows; without intercept it is 0."""
        step = self._decayed.move(rows, targets, self._intercept)
        self._rest = self._rest.copy()
        self._rest[:, :, 0] -= (self._rest * step).sum(axis=2)
        if self._decayed.rows:
            self._prior, self._sized = self._priors(), self._decayed.rows

    def successor(self) -> Self:
        """Return a copy that shares the pending rows; only one of the two may be continued."""
        twin = shallow(self)
        twin._blocks, twin._decayed = self._blocks.successor(), self._decayed.copy()
        twin._rest, twin._solved = self._rest.copy(), self._solved.copy()
        return twin

    def mapped(self, change: ColumnMap) -> Self:
        """Return the sums of the same rows for mapped columns.

        Test-then-train losses stay those of the columns before.
        """
        twin, between = shallow(self), change.between()
        twin._blocks, twin._decayed = self._blocks.mapped(change), self._decayed.mapped(between)
        twin._solved, twin._rest = self._solved.copy(), between.rows(self._rest)
        twin._prior = np.append(self._prior[:1], change.rows(self._prior[1:]))
        if twin.rows and self._sized:
            np.maximum(twin._prior[1:], PRIOR_ROWS * MIN_VALUE**2, out=twin._prior[1:])
            if not change.places:
                twin._prior = twin._priors()
                for h in range(self._candidates):
                    twin._solve(h)
        return twin

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The attributes to save."""
        arrays = "_prior", "_rest", "_solved", "_errors", "_changes"
        return "_blocks", "_decayed", "_sized", *arrays

    def check(self, what: str) -> None:
        """The best half-lives are some of those that were tried."""
        if not ((self._changes[:, 1] >= 0) & (self._changes[:, 1] < self._candidates)).all():
            raise ValueError(f"state of the {what} does not fit: it has other half-lives")
        if self._sized < 0:
            raise ValueError(f"state of the {what} does not fit: sized is {self._sized}")
