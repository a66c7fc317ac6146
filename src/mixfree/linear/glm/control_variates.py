"""Control variates: the sums of a stream correct the loss of a sample of its rows.

They are the target, the prediction when the row arrived and the loss's slope there: at later
weights, the slope is close to a combination of them and of the later prediction. Their products
with the rows are summed over the whole stream.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from scipy import linalg

from mixfree.base import draws
from mixfree.base.arithmetic import Array
from mixfree.linear.exact.sums import Sums
from mixfree.linear.glm.newton import Correction, Objective, Point, zero_sums
from mixfree.linear.glm.rows import Kept, Rows
from mixfree.linear.losses import Family

FUNCTIONS = 3  # per output
MAX_BETA_ROWS = 2048  # kept rows that are enough to choose β
MIN_VARIANCE = 1e-10  # relative variance that may be only a rounding error
ERROR_DRAWS = 64  # of a gradient's error, whose covariance may be too large a matrix


def functions(loss: Family, before: Array, targets: Array) -> Array:
    """Return target, prediction at arrival and slope there: rows × (functions · outputs)."""
    slope = loss.derivative(before if loss.outputs > 1 else before[:, 0], targets)
    return np.hstack([loss.encoded(targets), before, slope.reshape(before.shape)])


class ControlVariates:
    """Standardised sums over all rows of a stream, minus those over a sample of its rows.

    ``rows`` are the sample, and ``total`` has the sums of the rows that it was drawn from.
    """

    def __init__(self, rows: Rows, total: Sums) -> None:
        self._rows, self.total = rows, total
        outputs, width = rows.shape
        # Targets and predictions are shifted as targets are.
        self._shifts = np.repeat([rows.shift, rows.shift, 0.0], outputs)
        sums, moments = self.totals(total)
        self._metric = moments / rows.weight
        first, second = np.zeros_like(sums), np.zeros((width, width))
        for x, part in rows.slabs:
            u = self._functions(rows.sample.take(part)).reshape(len(x), -1)
            first += (u * rows.shares[part, None]).T @ x
            half = x * np.sqrt(rows.shares[part, None])
            second += half.T @ half
        self._linear = (sums / rows.weight - first).reshape(-1, outputs, width)
        self._quadratic = self._metric - second

    def totals(self, sums: Sums) -> tuple[Array, Array]:
        """Return standardised sums of any rows x, with a 1 for the intercept.

        First Σ u x per function and output, then Σ x per output, for the function 1; and Σ x xᵀ.
        """
        rows, weight = self._rows, float(sums.weight)
        columns, size = len(rows.mean), rows.size[:, None]  # infinite for a constant column
        aside = (sums.mean[:columns] - rows.mean) / rows.size
        level = sums.mean[columns:] - self._shifts
        cross = (sums.cross / size + weight * np.outer(aside, level)).T
        moments = sums.scatter / size / size.T + weight * np.outer(aside, aside)
        if rows.settings.intercept:
            aside = np.append(aside, 1.0)
            cross = np.column_stack([cross, weight * level])
            moments = np.vstack([moments, weight * aside[:columns]])
            moments = np.column_stack([moments, weight * aside])
        ones = np.repeat(weight * aside[None], rows.shape[0], axis=0)
        return np.vstack([cross, ones]), moments

    def _functions(self, kept: Kept) -> Array:
        """Return functions of kept rows, and 1: rows × functions × outputs."""
        outputs = self._rows.shape[0]
        u = functions(self._rows.settings.loss, kept.before, kept.targets) - self._shifts
        return np.hstack([u, np.ones((len(u), outputs))]).reshape(len(u), -1, outputs)

    def corrected(self, point: Point, convex: bool = False) -> Objective:
        """Return the objective with β times the stream's sums minus their estimates from rows."""
        beta = self.best_beta(point, convex)
        linear = np.einsum("kj,jkq->kq", beta[:, :-1], self._linear)
        return replace(point.objective, correction=Correction(linear, self._quadratic, beta))

    def scores(self, batches: Iterable[Sums], point: Point) -> Array:
        """Return the gradients of batches' losses, as explained by functions and predictions."""
        theta, correction = point.theta, point.objective.correction
        beta = self.best_beta(point) if correction is None else correction.beta
        found = []
        for sums, moments in map(self.totals, batches):
            explained = np.einsum("kj,jkq->kq", beta[:, :-1], sums.reshape(-1, *theta.shape))
            found.append(explained + beta[:, -1:] * (theta @ moments))
        return np.array(found).reshape(-1, *theta.shape)

    def best_beta(self, point: Point, convex: bool = False) -> Array:
        """Return the β that best explains slopes: outputs × (functions, 1, prediction).

        By least squares over kept rows, whose errors are weighted by their leverage. Without the
        prediction, if so asked, the correction is linear, so that the objective is convex.
        """
        places = slice(None, None, -(-len(self._rows.sample) // MAX_BETA_ROWS))
        kept, slope = self._rows.sample.take(places), point.slopes[places]
        basis = np.concatenate([self._functions(kept), point.predictions[places, None]], axis=1)
        metric = self._metric + np.diag(1e-6 * self._metric.diagonal() + 1e-12)
        x = self._rows.standardised(kept.rows)
        white = linalg.solve_triangular(np.linalg.cholesky(metric), x.T, lower=True).T
        weights = kept.weights / kept.weights.mean()
        leverage = np.einsum("ij,ij->i", white, white) * weights**2
        found = np.zeros((basis.shape[2], basis.shape[1]))
        for k in range(len(found)):
            both = np.column_stack([basis[:, :, k], slope[:, k]])
            mean = white.T @ (both * weights[:, None]) / len(x)
            gram = (both * leverage[:, None]).T @ both / len(x)
            lift = MIN_VARIANCE * gram.diagonal() + 1e-300  # what does not vary explains nothing
            gram += np.diag(lift) - mean.T @ mean
            used = slice(len(gram) - 1 - convex)
            root = linalg.cho_factor(gram[used, used], lower=True)
            found[k, used] = linalg.cho_solve(root, gram[used, -1])
        return found

    def residuals(self, point: Point) -> Array:
        """Return the unexplained part of the kept rows' slopes, times their weights."""
        rest, correction, kept = point.slopes.copy(), point.objective.correction, self._rows.sample
        if correction is not None:
            for _, part in self._rows.slabs:
                u, z = self._functions(kept.take(part)), point.predictions[part, None]
                basis = np.concatenate([u, z], axis=1)
                rest[part] -= np.einsum("njk,kj->nk", basis, correction.beta)
        return zero_sums((rest * kept.weights[:, None]).T).T

    def sampling_errors(self, point: Point) -> Array:
        """Return random gradients whose squares sum to the sampling variance.

        The stream counts as infinite. Shape: draws × outputs × weights.
        """
        rows, shape, rest = self._rows, point.theta.shape, self.residuals(point)
        drawn, mean = np.zeros((ERROR_DRAWS, *shape)), np.zeros(shape)
        total = np.zeros(ERROR_DRAWS)
        for x, part in rows.slabs:
            signs = _signs(part.start, len(x))
            signed = (signs[:, :, None] * rest[part, None, :]).reshape(len(x), -1)
            drawn += (signed.T @ x).reshape(drawn.shape)
            mean += rest[part].T @ x
            total += signs.sum(axis=0)
        drawn -= total[:, None, None] * (mean / len(rest))
        # β, the weights and their Hessian are fitted to these rows: degrees of freedom are lost.
        count = len(rest)
        free = max(count - len(self._linear) - 1 - 2 * len(self._metric), count // 4, 1)
        drawn *= rows.factor / rows.weight * np.sqrt(count / free / ERROR_DRAWS)
        return drawn


def _signs(first: int, rows: int) -> Array:
    """Return reproducible random signs of some rows: rows × ERROR_DRAWS."""
    counters = np.arange(first * ERROR_DRAWS // 32, (first + rows) * ERROR_DRAWS // 32)
    words = draws.words(draws.key(0, draws.SAMPLE), counters)
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
    return 2.0 * bits.reshape(rows, ERROR_DRAWS) - 1.0
