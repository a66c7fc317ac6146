r"""Intervals for losses other than the squared loss, from batches and kept rows.

As for least squares (:mod:`mixfree.linear.exact.inference`), with the gradients of the rows' losses
as scores and the Hessian of the loss as matrix. If the stream exceeds the memory, the batches'
scores are known only as far as functions of old predictions explain them. The unexplained rest is
known for the kept rows; its spread over them gives the variance from sampling the rows, which is
added, and the optimality gap, by which the loss exceeds that of the fit to all rows.
"""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg, special

from mixfree.base.arithmetic import Array, norm, one_thread
from mixfree.base.equal_batches import EqualBatches
from mixfree.linear.exact.batch_means import BatchMeans, BlockSquares, Levels, pair_sums
from mixfree.linear.exact.sums import Sums
from mixfree.linear.glm.control_variates import ERROR_DRAWS
from mixfree.linear.glm.newton import Point, zero_sums
from mixfree.linear.glm.problem import BETA_DECREMENT, LEAST_PENALTY, ROUGH_DECREMENT, Problem
from mixfree.linear.glm.rows import MAX_CACHED_VALUES, Kept

BATCHES = 64  # short streams have fewer batches than this
# The default penalty stops the weights of separable classes at log-odds of about 20, where the
# curvature is about 20 times the penalty. Below FLAT, rows do not determine a direction.
FLAT = 50.0 * LEAST_PENALTY
# Standard errors by which the correlation of rows, or the variance of their sums, must exceed that
# of independent rows to be found: of the mean over weights, and of a single weight.
POOLED, SINGLE = 2.6, 3.7
MIN_BLOCKS = 32  # by which a correlation is estimated
ASIDE = 1e-3  # component of a unit vector along such directions that exceeds rounding errors
MAX_FREEDOM = 1e9  # degrees of freedom that are as good as infinitely many
GAP_LEVEL = 0.98  # nominal level of the 95 % bound, since sorted streams have heavier tails
FOLDS = 5  # rows are left out by fifths


class Gap(NamedTuple):
    """The loss above that of the fit to all rows: an estimate and a 95 % upper bound."""

    estimate: float = 0.0
    upper: float = 0.0


class GlmInference(BatchMeans):
    """Intervals of a fit from the batches of its stream, None if all rows are kept in order."""

    def __init__(
        self, problem: Problem, point: Point, rows: int, batches: EqualBatches[Sums] | None
    ) -> None:
        length = 1 << (rows // BATCHES).bit_length() if batches is None else batches.length
        settings, size, unit = problem.rows.settings, problem.rows.size, np.ones(len(point.theta))
        lost = int(problem.rows.varying.sum()) + settings.intercept
        penalised = bool(problem.ridge or settings.l2)
        super().__init__(problem.weights(point), rows, length, size, unit, lost, penalised)
        self._problem, self._point, self._batches = problem, point, batches
        # Slopes of the kept rows' losses, times their fractions of the stream's weight.
        self._slopes = point.slopes * (problem.rows.shares[:, None] / problem.rows.factor)

    @cached_property
    def _sums_of_batches(self) -> tuple[Array, Array]:
        """Gradients and weights of each batch, divided by the weight of the stream."""
        rows, length, controls = self._problem.rows, self._length, self._problem.controls
        if self._batches is not None:
            assert controls is not None
            covered = [float(batch.weight) / rows.weight for batch in self._batches.items]
            scores = controls.scores(self._batches.items, self._point) / rows.weight
            return scores, np.array(covered)
        parts = [slice(end - length, end) for end in range(length, self._rows + 1, length)]
        found = [self._slopes[p].T @ rows.standardised(rows.sample.rows[p]) for p in parts]
        scores = np.array(found).reshape(len(parts), *self._point.theta.shape)
        return scores, np.array([rows.shares[p].sum() for p in parts])

    @cached_property
    def _scores(self) -> Array:
        scores, covered = self._sums_of_batches
        # The penalty and the unexplained part act evenly over time.
        share = covered / max(covered.sum(), np.finfo(np.float64).tiny)
        centred: Array = scores - share[:, None, None] * scores.sum(axis=0)
        return zero_sums(centred)

    def _whitened(self, scores: Array) -> Array:
        flat = scores.reshape(-1, scores.shape[-1])
        found = linalg.cho_solve((self._point.metric, True), flat.T, check_finite=False)
        return np.asarray(found.T.reshape(scores.shape))

    @cached_property
    def _changes(self) -> Array:
        pull = (self._point.objective.penalty * self._point.theta)[None]  # of a ridge, towards 0
        pull = -self._point.solve(pull if self._problem.ridge else pull[:0])
        rows = self._by_row
        if rows is not None:  # any factor of the covariance does, and this one is short
            short = np.asarray(np.linalg.qr(rows.reshape(len(rows), -1), mode="r"))
            factor = math.sqrt(self._rows / max(self._rows - self._lost, 1))
            return np.concatenate([factor * short.reshape(-1, *rows.shape[1:]), pull])
        covered = float(self._sums_of_batches[1].sum())
        factor = math.sqrt(self._spread_factor(covered))
        scores = np.concatenate([factor * self._scores, self._sampling_errors])
        return np.concatenate([-self._point.solve(scores), pull])

    @cached_property
    def _by_row(self) -> Array | None:
        """The change of weights by each row, if no sign of correlation is found; else None.

        The neighbouring sums of 1, 2, 4, … rows are then uncorrelated, for all weights together and
        for each of them, and sums over batches vary as much as those of independent rows.
        """
        values = self._rows * self._point.theta.size
        if self._batches is not None or not self.enough or values > MAX_CACHED_VALUES:
            return None
        rows = self._problem.rows
        scores = self._slopes[:, :, None] * rows.standardised(rows.sample.rows)[:, None, :]
        scores -= rows.shares[:, None, None] * scores.sum(axis=0)
        found: Array = -self._point.solve(zero_sums(scores))
        sums = found.reshape(len(found), -1)
        unit = np.sqrt(np.sum(sums**2, axis=0))
        sums = sums[:, unit > 0.0] / unit[unit > 0.0]
        if not sums.size:
            return None
        directions = sums.shape[1] ** 2 / max(float(np.sum((sums.T @ sums) ** 2)), 1.0)
        while len(sums) >= MIN_BLOCKS:
            count = len(sums)
            squares, products = np.sum(sums**2, axis=0), np.sum(sums[1:] * sums[:-1], axis=0)
            correlation = products / np.maximum(squares, 1e-300) + 1.0 / count
            together = count * directions
            far = correlation.mean() > POOLED / math.sqrt(together)
            far |= squares.mean() > 1.0 + POOLED * math.sqrt(2.0 / together)
            far |= bool((correlation > SINGLE / math.sqrt(count)).any())
            far |= bool((squares > 1.0 + SINGLE * math.sqrt(2.0 / count)).any())
            if far:
                return None
            sums = pair_sums(sums)
        return found

    @property
    def _terms(self) -> int:
        return super()._terms if self._by_row is None else self._rows

    @property
    def assumed(self) -> str:
        """What the intervals assume, in words."""
        if self._by_row is None:
            return super().assumed
        return "sandwich of rows, since no correlation of rows was found"

    @cached_property
    def _sampling_errors(self) -> Array:
        """Gradients whose squares sum to the variance from sampling the rows."""
        controls = self._problem.controls
        if controls is None:
            return np.zeros((0, *self._point.theta.shape))
        return controls.sampling_errors(self._point)

    @property
    def _unexplained(self) -> float:
        rows = self._problem.rows
        return self._size_of(self._sampling_errors) / rows.factor**2 / max(len(rows.sample), 1)

    @cached_property
    def _levels(self) -> Levels:
        squares = BlockSquares(lambda white: float(np.vdot(white, white)))
        ridge = self._white(self._point.objective.penalty * self._point.theta)
        rows = self._problem.rows
        for x, part in rows.slabs:
            white = self._slopes[part, :, None] * self._white(x)[:, None, :]
            squares.add(white + rows.shares[part, None, None] / rows.factor * ridge)
        # The kept rows of a long stream are not consecutive.
        return squares.levels if self._batches is None else {1: squares.levels[1]}

    def _white(self, vectors: Array) -> Array:
        """Return vectors whose inner products are those in the metric of the fit."""
        lower = self._point.metric
        found = linalg.solve_triangular(lower, vectors.T, lower=True, check_finite=False)
        return np.asarray(found.T)

    def _standardised(self, rows: Array) -> Array:
        return self._problem.rows.standardised(rows)

    @property
    def _unknown(self) -> Array:
        unknown = (linalg.norm(self._flat, axis=1) > ASIDE)[: len(self._size)]
        unknown |= np.isinf(self._size)
        return np.broadcast_to(unknown, (len(self._weights), len(self._size)))

    def mean_error(self, rows: Array) -> Array:
        """Return standard errors of predicted means; infinite where they are undetermined."""
        errors, x = super().mean_error(rows), self._standardised(rows)
        errors[linalg.norm(x @ self._flat, axis=1) > ASIDE * linalg.norm(x, axis=1)] = np.inf
        return errors

    @property
    def remark(self) -> str:
        """A sentence on why intervals cannot be trusted, or on undetermined weights."""
        if not self.enough or not self._flat.size:
            return super().remark
        unknown = int(np.isinf(self.bse[0]).sum())
        return (
            f"{unknown} of {self.bse.shape[1]} weights have no interval: the rows do not determine "
            "them, because classes can be separated or columns repeat others; a penalty such as "
            "`l2=0.001` does"
        )

    @cached_property
    @one_thread
    def _flat(self) -> Array:
        """Directions along which the loss of an output is nearly flat: weights × directions.

        The weights of softmax sum to 0 over outputs, so that a direction that one output leaves
        undetermined is undetermined for all.
        """
        alone = self._point
        if self._problem.controls is not None or self._problem.ridge:
            # The sums' random errors would stop separated weights at an arbitrary point.
            alone = self._problem.alone.solved(self._weights, BETA_DECREMENT)
        found = []
        for block in alone.blocks:
            values, vectors = linalg.eigh(block + np.diag(alone.objective.penalty))
            found.append(vectors[:, values < FLAT * self._problem.curvature])
        return np.hstack(found)

    @property
    def gap(self) -> Gap:
        """The gap from the part of the kept rows' slopes that the sums do not explain.

        The excess loss is half a sum of squares of normal variables, about gamma distributed; where
        its mean and variance are estimates from few rows, the bound is larger, as Fisher's F is
        beside χ². Where classes can be separated, the gap follows from losses of rows that are left
        out of further fits, above the least loss of the same rows: half of this excess is that of
        the fit itself.

        The bound is over the choice of the kept rows alone, of a given stream. Where a few kept
        rows carry most of the error, as rows of a rare regime do, it is too small.
        """
        rows, controls = self._problem.rows, self._problem.controls
        if controls is None:
            return Gap()
        if self._problem.ridge:
            lost, weights = self._held_out(), rows.sample.weights
            mean = float(np.average(lost, weights=weights))
            error = norm(weights * (lost - mean)) / float(weights.sum())
            estimate = max(0.5 * mean, 0.0)
            return Gap(estimate, max(estimate, mean + 2.0 * error))
        errors = np.sqrt(ERROR_DRAWS * (1.0 - 1.0 / rows.factor)) * self._sampling_errors
        gram = np.tensordot(errors, self._point.solve(errors), axes=([1, 2], [1, 2]))
        mean = 0.5 * float(gram.diagonal().mean())
        freedom = self._freedom_of(controls.residuals(self._point))
        # Where the sums explain all slopes, the rest is rounding, with less than 1 freedom.
        if not (mean > 0.0 and freedom >= 1.0):
            return Gap(max(mean, 0.0), max(mean, 0.0))
        # The squares of products of two draws have the sum of squared eigenvalues as their mean.
        others = gram[~np.eye(ERROR_DRAWS, dtype=bool)] / mean
        shape, freedom = 2.0 / max(float(np.mean(others**2)), 1e-9), min(freedom, MAX_FREEDOM)
        return Gap(mean, mean * float(special.fdtri(2.0 * shape, freedom, GAP_LEVEL)))

    def _freedom_of(self, rest: Array) -> float:
        """Return the degrees of freedom of a variance, from the spread of the rows' squares."""
        each = np.einsum("ij,ij->i", rest, rest)
        for x, part in self._problem.rows.slabs:
            each[part] *= np.sum(self._white(x) ** 2, axis=1)
        spread = float(np.var(each / max(float(each.mean()), 1e-300)))
        return 2.0 * len(each) / max(spread, 1e-300)

    def _held_out(self) -> Array:
        """Return losses of rows in fits without them, above those of a fit to them."""
        problem, kept = self._problem, self._problem.rows.sample

        def losses(fitted: Problem, some: Kept) -> Array:
            rows, point = fitted.rows, fitted.solved(self._weights, ROUGH_DECREMENT)
            z = rows.standardised(some.rows) @ point.theta.T
            return rows.settings.loss.at(z, some.targets - rows.shift)[0]

        lost = -losses(problem.alone, kept)
        for out in (np.arange(len(kept)) % FOLDS == number for number in range(FOLDS)):
            lost[out] += losses(problem.with_sample(kept.take(~out)), kept.take(out))
        return lost
