"""Least squares with exponential forgetting, by a given half-life or a mixture of several."""

import math
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from scipy.linalg import lapack

from mixfree.base.arithmetic import MIN_VALUE, Array
from mixfree.base.checks import check_not_negative, check_positive, check_values
from mixfree.base.state import shallow
from mixfree.linear.exact.blocks import Fit
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.solve import factored, inverse_times

HALF_LIVES = (50.0, 200.0, 800.0, 3200.0, 12800.0, math.inf)
LOSS_HALF_LIFE = 2000.0  # half-life, in rows, of the test-then-train losses
BLOCK = 32  # rows within which nothing is forgotten, and weights do not change
BLOCKS_PER_HALF_LIFE = 8  # of a long half-life, whose blocks are longer
MAX_BLOCK = 1024  # most rows of such a block
SOLVES_PER_HALF_LIFE = 8  # how often weights are solved for again
ROWS_TOGETHER = 2048  # rows multiplied at a time
ROWS_PER_ORIGIN = 4096  # rows between changes of the origin: a multiple of MAX_BLOCK
PRIOR_ROWS = 1.0  # strength of the ridge, in rows with each column's own deviation
ROUNDING = np.finfo(np.float64).eps  # least variance over mean square
SAME_LOSS = 1e-12  # relative difference of losses that may be only rounding
MAX_LOSS = 1e290  # largest loss of a block that counts, so that it can be forgotten
MAX_LOSS_RATIO = 1e6  # a half-life whose loss is this many times the least has no share


class Forgetting(Fit):
    r"""Fits a linear model with the squared loss; a row's weight halves every ``half_life`` rows.

    With ``"auto"`` there are sums for several half-lives. Each block of 32 rows is predicted with
    the weights of every half-life before it is learnt. The current weights are the convex
    combination :math:`\sum_h \pi_h w_h` whose discounted loss

    .. math:: D(\pi) = \sum_{i \le t} 2^{-(t - i)/2000}
              \Big( y_i - \sum_h \pi_h \hat y_{h,i} \Big)^2

    is least. A short half-life has a large variance, a long one a large bias, and a mixture has
    less of both. A ridge worth one row, in units of each column's deviation over all rows so far,
    keeps weights small that recent rows do not determine.
    """

    grows: ClassVar[tuple[str, ...]] = ("_changes",)
    _arrays = "_origin", "_products", "_prior", "_rest", "_solved", "_errors", "_changes"
    saved = ("samples", "_blocks", "_learnt", *_arrays)

    def __init__(
        self,
        columns: int,
        half_life: float | str = "auto",
        *,
        intercept: bool = True,
        l2: float = 0.0,
    ) -> None:
        super().__init__(columns)
        if isinstance(half_life, str):
            if half_life != "auto":
                raise ValueError(f"half_life must be a number of rows or 'auto', not {half_life!r}")
            self.half_lives, candidates = np.array(HALF_LIVES), len(HALF_LIVES)
        else:
            # Sums that never forget determine the unit of every column.
            self.half_lives = np.array([check_positive(half_life, "half_life"), math.inf])
            candidates = 1
        shortest = float(self.half_lives[0])
        length = max(min(BLOCK, shortest), min(shortest / BLOCKS_PER_HALF_LIFE, MAX_BLOCK))
        self._block = 1 << max(int(length).bit_length() - 1, 0)
        self.together = max(ROWS_TOGETHER // self._block, 1)
        self._intercept, self._l2 = bool(intercept), check_not_negative(l2, "l2")
        self._learnt, size = 0, columns + 2  # rows in the products
        self._origin = np.zeros(size)
        # Of (1, columns, target) about the origin, per half-life.
        self._products = np.zeros((len(self.half_lives), size, size))
        self._prior = np.zeros(1 + columns)
        # Coefficients of (1, columns, target) in the residuals of each half-life.
        self._rest = np.zeros((candidates, 1, size))
        self._rest[:, :, -1] = 1.0
        self._solved = np.zeros(candidates, dtype=np.int64)
        self._errors = np.zeros((candidates, candidates))  # discounted products
        self._changes = np.zeros((0, 2), dtype=np.int64)  # first row and number of the best

    @property
    def half_life(self) -> float:
        """The half-life that has predicted best; infinite if nothing is forgotten."""
        return self.history[-1][1] if self.history else float(self.half_lives[0])

    @property
    def history(self) -> tuple[tuple[int, float], ...]:
        """The best half-life over time: pairs of the first row and the half-life."""
        return tuple((row, float(self.half_lives[best])) for row, best in self._changes.tolist())

    @property
    def mean_losses(self) -> dict[float, float]:
        """Discounted test-then-train loss per row of each half-life, ½(prediction − target)²."""
        seen, each = max(self._learnt - self._block, 0), 0.5 ** (1.0 / LOSS_HALF_LIFE)
        means = 0.5 * self._errors.diagonal() / max((1.0 - each**seen) / (1.0 - each), 1.0)
        return dict(zip(self.half_lives.tolist(), means.tolist(), strict=False))

    @property
    def shares(self) -> dict[float, float]:
        """The share π of each half-life in the current weights."""
        found = least_combination(self._errors)
        return dict(zip(self.half_lives.tolist(), found.tolist(), strict=False))

    @cached_property
    def solution(self) -> Array:
        """The current weights: one row, in the units of the rows; an intercept is last."""
        fit = self
        if self._filled:
            fit = shallow(self)
            fit._take(*self._waiting)
        prior, shares = fit._priors(), enumerate(self.shares.values())
        parts = [share * fit._fitted(h, prior) for h, share in shares if share > 0.0]
        level, slopes = np.split(np.sum(parts, axis=0), [int(self._intercept)])
        level = level + fit._origin[-1] - slopes @ fit._origin[1:-1]
        return np.append(slopes, level)[None]

    def weights(self) -> Array:
        """Return one row, in the units of the rows; an intercept is last."""
        return self.solution

    rough_weights = weights  # solved for as quickly

    def _length(self) -> int:
        return self._block

    def _take(self, rows: Array, targets: Array, weights: Array | None) -> None:
        """Learn from whole blocks, or from a single shorter one."""
        check_values(rows=rows, targets=targets)
        for name in ("_products", "_rest"):  # to be changed in place, beside the predecessor's
            setattr(self, name, getattr(self, name).copy())
        done = 0
        while done < len(rows):
            since = self._learnt % ROWS_PER_ORIGIN
            if since == 0 and self._intercept:
                first = slice(done, done + self._block)
                self._move(np.hstack([rows[first], targets[first]]))
            here = slice(done, done + ROWS_PER_ORIGIN - since)
            z = np.empty((len(rows[here]), len(self._origin)))
            z[:, 0], z[:, 1:-1], z[:, -1:] = 1.0, rows[here], targets[here]
            z -= self._origin
            if weights is not None:
                z *= np.sqrt(weights[here])[:, None]
            blocks = z.reshape(max(len(z) // self._block, 1), -1, z.shape[1])
            self._learn(blocks.swapaxes(1, 2) @ blocks, blocks.shape[1])
            done += len(z)

    def _move(self, rows: Array) -> None:
        """Move the origin to the mean of a block of rows and targets; no prediction changes."""
        origin = np.append(0.0, rows[0] + (rows - rows[0]).mean(axis=0))
        step, self._origin = self._origin - origin, origin  # column 0 of z is 1
        self._products += self._products[:, :, :1] * step
        self._products += step[:, None] * self._products[:, :1, :]
        self._rest[:, :, 0] -= (self._rest * step).sum(axis=2)

    def _learn(self, grams: Array, length: int) -> None:
        """Learn from blocks of ``length`` rows, and score the weights used before each block."""
        first, auto = self._learnt, len(self._rest) > 1
        rests = np.empty((len(grams), *self._rest.shape))
        decays = 0.5 ** (length / self.half_lives)[:, None, None]
        solved, lives = self._solved.tolist(), self.half_lives.tolist()
        for place, gram in enumerate(grams):
            rests[place] = self._rest
            self._products *= decays
            self._products += gram
            self._learnt = rows = self._learnt + length
            for h in reversed(range(len(lives) if auto else 0)):  # first that which never forgets
                if SOLVES_PER_HALF_LIFE * (rows - solved[h]) >= min(lives[h], rows):
                    self._prior = self._priors() if lives[h] == math.inf else self._prior
                    self._solve(h)
                    solved[h] = rows
        self._solved = np.array(solved)
        if auto:
            unseen = slice(0 if first else 1, None)  # no weights predicted the very first block
            self._add_losses(grams[unseen], rests[unseen], max(first, length), length)

    def _add_losses(self, grams: Array, rests: Array, first: int, length: int) -> None:
        """Add the losses of each block under the weights before it; ``first`` rows came before."""
        with np.errstate(over="ignore", invalid="ignore"):
            lost = (rests @ grams[:, None])[:, :, 0] @ rests[:, :, 0].swapaxes(1, 2)
        # Weights of a column that hardly varied and then became huge predict beyond all bounds.
        lost = np.nan_to_num(np.clip(lost, -MAX_LOSS, MAX_LOSS), nan=MAX_LOSS)
        for place, product in enumerate(lost):
            self._errors = self._errors * 0.5 ** (length / LOSS_HALF_LIFE) + product
            losses = self._errors.diagonal()  # of which equal ones may differ by rounding
            best = int(np.flatnonzero(losses - losses.min() <= SAME_LOSS * abs(losses.min()))[-1])
            if not len(self._changes) or self._changes[-1, 1] != best:
                change = first + (place + 1) * length, best
                self._changes = np.append(self._changes, [change], axis=0)

    def _solve(self, h: int) -> None:
        """Solve for new weights of a half-life, for the next blocks."""
        np.negative(self._fitted(h, self._prior), out=self._rest[h, 0, not self._intercept : -1])

    def _fitted(self, h: int, prior: Array) -> Array:
        """Return the level at the origin, with an intercept, and the slopes of a half-life."""
        products, first = self._products[h], int(not self._intercept)
        matrix, right = products[first:-1, first:-1].copy(), products[-1, first:-1]
        diagonal = matrix.reshape(-1)[:: len(matrix) + 1]
        diagonal += prior[first:]
        if self._l2:
            diagonal[1 - first :] += float(products[0, 0]) * self._l2
        # The matrix is symmetric: its transpose has the memory order that LAPACK needs.
        _, found, failed = lapack.dposv(matrix.T, right)
        if failed:  # columns depend on each other
            scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-300))[:, None]
            factors = factored(matrix * scale * scale.T, np.zeros(len(matrix), dtype=bool))
            found = inverse_times(scale, *factors, right[:, None])[:, 0]
        return np.asarray(found)

    def _priors(self) -> Array:
        """Return PRIOR_ROWS times the variance of each column over all rows, but never 0."""
        whole = self._products[-1]
        weight, size = max(float(whole[0, 0]), 1e-300), whole.diagonal()[:-1]
        squares = (whole.diagonal() - whole[0] ** 2 / weight)[:-1] / weight
        # A constant column that is not 0, without an intercept, has a variance by rounding alone.
        prior: Array = PRIOR_ROWS * np.maximum(squares, ROUNDING * size / weight + MIN_VALUE**2)
        prior[0] = 0.0
        return prior

    def mapped(self, change: ColumnMap) -> Self:
        """Return the sums of the same rows for mapped columns.

        Test-then-train losses stay those of the columns before.
        """
        fit, between = self._mapped(change), change.between()
        fit._origin, fit._rest = between.rows(self._origin), between.rows(self._rest)
        fit._products = between.products(self._products)
        fit._prior = np.append(self._prior[:1], change.rows(self._prior[1:]))
        if self._learnt:
            np.maximum(fit._prior[1:], PRIOR_ROWS * MIN_VALUE**2, out=fit._prior[1:])
            if not change.places:
                fit._prior = fit._priors()
                for h in range(len(fit._rest)):
                    fit._solve(h)
        return fit


def least_combination(products: Array) -> Array:
    """Return the convex combination of errors with the least square, from their products P.

    Up to its sum, it is the u ≥ 0 with the least uᵀPu + (1 − Σu)²: for u = sπ with Σπ = 1, the
    least over s is q/(1 + q), which increases with q = πᵀPπ.
    """
    from scipy.optimize import nnls  # late, since it takes long to import

    squares = products.diagonal()
    best = int(np.argmin(squares))
    shares, least = np.zeros(len(squares)), float(squares[best])
    shares[best] = 1.0
    if not least > 0.0:
        return shares
    usable = np.flatnonzero(squares < MAX_LOSS_RATIO * least)
    scaled = products[np.ix_(usable, usable)] / least + 1e-6 * np.eye(len(usable))
    factor = np.linalg.cholesky(scaled).T
    found, _ = nnls(np.vstack([factor, np.ones(len(usable))]), np.eye(len(usable) + 1)[-1])
    shares[usable] = found / found.sum()
    return shares
