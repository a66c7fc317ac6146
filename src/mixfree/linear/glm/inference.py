r"""Intervals for losses other than the squared loss, from batches and kept rows.

As for least squares (:mod:`mixfree.linear.exact.inference`), with the gradients of the rows' losses
as scores and the Hessian of the loss as matrix. If the stream exceeds the memory, the batches'
scores are known only as far as functions of old predictions explain them. The unexplained rest is
known for the kept rows; its spread over them gives the variance from sampling the rows, which is
added.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy import linalg

from mixfree.base.arithmetic import Array
from mixfree.linear.exact.batch_means import BatchMeans, BlockSquares, Level
from mixfree.linear.exact.streamsums import StreamSums
from mixfree.linear.glm.newton import Part, Point, standardised
from mixfree.linear.glm.problem import LEAST_PENALTY, Problem

BATCHES = 64  # short streams have fewer batches than this
# The default penalty stops the weights of separable classes at log-odds of about 20, where the
# curvature is about 20 times the penalty. Below FLAT, rows do not determine a direction.
FLAT = 50.0 * LEAST_PENALTY
ASIDE = 1e-3  # component of a unit vector along such directions that exceeds rounding errors


class GlmInference(BatchMeans):
    """Intervals of a fit from the batches of its stream.

    Parameters
    ----------
    problem, point
        The fit to rows and sums.
    rows
        Number of rows in the stream.
    sums
        Sums of the stream and its batches; None if all rows are kept in order.
    """

    def __init__(self, problem: Problem, point: Point, rows: int, sums: StreamSums | None) -> None:
        length = 1 << (rows // BATCHES).bit_length() if sums is None else sums.length
        units, outputs = problem.units, problem.settings.loss.outputs
        unit = np.full(outputs, units.scale)
        super().__init__(problem.own(point.theta), rows, length, units.size, unit)
        self._problem, self._point, self._sums = problem, point, sums

    @cached_property
    def _sums_of_batches(self) -> tuple[Array, Array]:
        """Gradients and weights of each batch, divided by the weight of the stream."""
        if self._sums is None:
            return self._exact_sums
        known, total = self._problem.known, self._problem.weight
        assert known is not None
        closed = self._sums.closed
        found = [known.scores(batch, self._point) for batch in closed]
        covered = np.array([float(batch.weight) for batch in closed]) / total
        return np.array(found).reshape(-1, *self._point.theta.shape) / total, covered

    @property
    def _exact_sums(self) -> tuple[Array, Array]:
        """The same from the rows themselves, all of which are kept."""
        length, count = self._length, self._rows // self._length
        scores, covered = np.zeros((count, *self._point.theta.shape)), np.zeros(count)
        first = 0
        for x, slope, weights in map(self._slopes, _all_pieces(self._problem)):
            batch = (first + np.arange(len(x))) // length
            for place in range(batch[0], min(batch[-1], count - 1) + 1):
                here = batch == place
                scores[place] += slope[here].T @ x[here]
                covered[place] += weights[here].sum()
            first += len(x)
        return scores, covered

    def _slopes(self, part: Part) -> tuple[Array, Array, Array]:
        """Return standardised rows, the slopes of their weighted losses, and their weights."""
        problem = self._problem
        x = self._standardised(part.rows.rows)
        weights = part.rows.weights / problem.weight
        targets = (part.rows.targets - problem.units.shift) / problem.units.scale
        _, slope = self._point.objective.family.at(x @ self._point.theta.T, targets)
        return x, slope * weights[:, None], weights

    @cached_property
    def _scores(self) -> Array:
        scores, covered = self._sums_of_batches
        # The penalty and the unexplained part act evenly over time.
        share = covered / max(covered.sum(), np.finfo(np.float64).tiny)
        centred: Array = scores - share[:, None, None] * scores.sum(axis=0)
        if centred.shape[1] > 1:
            centred -= centred.mean(axis=1, keepdims=True)
        return centred

    def _whitened(self, scores: Array) -> Array:
        flat = scores.reshape(-1, scores.shape[-1])
        found = linalg.cho_solve((self._point.metric, True), flat.T, check_finite=False)
        return np.asarray(found.T.reshape(scores.shape))

    @cached_property
    def _changes(self) -> Array:
        covered = float(self._sums_of_batches[1].sum())
        lost = int(np.isfinite(self._size).sum()) + self._problem.settings.intercept
        factor = np.sqrt(self._spread_factor(covered, lost))
        pulls = np.concatenate([factor * self._scores, self._sampling_errors])
        return -self._point.solve(pulls)

    @cached_property
    def _sampling_errors(self) -> Array:
        """Gradients whose squares sum to the variance from sampling the rows."""
        known = self._problem.known
        if known is None:
            return np.zeros((0, *self._point.theta.shape))
        return known.sampling_errors(self._point)

    @property
    def _unexplained(self) -> float:
        if self._problem.known is None:
            return 0.0
        rows, factor = self._problem.parts[0]
        return self._size_of(self._sampling_errors) / factor**2 / len(rows)

    @cached_property
    def _levels(self) -> list[Level]:
        squares = BlockSquares(lambda white: float(np.vdot(white, white)))
        ridge = self._white(self._point.objective.penalty * self._point.theta)
        for x, slope, weights in map(self._slopes, _all_pieces(self._problem)):
            white = slope[:, :, None] * self._white(x)[:, None, :]
            squares.add(white + weights[:, None, None] * ridge)
        # The kept rows of a long stream are not consecutive.
        return squares.levels if self._sums is None else squares.levels[:1]

    def _white(self, vectors: Array) -> Array:
        """Return vectors whose inner products are those in the metric of the fit."""
        lower = self._point.metric
        found = linalg.solve_triangular(lower, vectors.T, lower=True, check_finite=False)
        return np.asarray(found.T)

    def _standardised(self, rows: Array) -> Array:
        return standardised(rows, self._problem.units, self._problem.settings.intercept)

    @property
    def _slopes_at(self) -> slice:
        return slice(0, len(self._size))

    @property
    def _unknown(self) -> Array:
        unknown = (linalg.norm(self._flat, axis=1) > ASIDE)[self._slopes_at]
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
    def _flat(self) -> Array:
        """Directions along which the loss of an output is nearly flat: weights × directions.

        The weights of softmax sum to 0 over outputs, so that a direction that one output leaves
        undetermined is undetermined for all.
        """
        found = []
        for hessian in self._hessians:
            values, vectors = linalg.eigh(hessian, check_finite=False)
            found.append(vectors[:, values < FLAT])
        return np.hstack(found)

    @property
    def _hessians(self) -> Iterator[Array]:
        """Hessian of the loss in the weights of each output, with the others fixed.

        At the fit to the rows alone, without a ridge: the sums' random errors would stop the
        weights of separable classes at an arbitrary point.
        """
        problem, alone = self._problem, self._point
        if problem.known is not None or np.any(problem.ridge):
            problem = replace(problem, known=None, ridge=0.0)
            alone = problem.solved(self._weights)[1]
        for output in range(len(alone.theta)):
            hessian = np.diag(alone.objective.penalty)
            for x, own, shared in alone.curvatures:
                bend = own[:, output] - shared[:, output] ** 2
                hessian += (x * bend[:, None]).T @ x
            yield hessian


def _all_pieces(problem: Problem) -> Iterator[Part]:
    """Yield a few kept rows at a time, in order."""
    for rows, factor in problem.parts:
        for piece in rows.pieces:
            yield Part(piece, factor)
