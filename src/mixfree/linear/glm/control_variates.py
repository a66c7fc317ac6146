"""Control variates: the sums of a stream correct the loss of a sample of its rows.

They are the target, the prediction when the row arrived and the loss's slope there: at later
weights, the slope is close to a combination of them and of the later prediction. Their products
with the rows are summed over the whole stream. (The curvature at arrival as another function, alone
or times the prediction, gave no measurable gain.)
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from scipy import linalg

from mixfree.base import draws
from mixfree.base.arithmetic import Array
from mixfree.linear.exact.sums import Products, Sums
from mixfree.linear.glm.newton import Objective, Point, zero_sums
from mixfree.linear.glm.rows import Kept, Rows
from mixfree.linear.losses import Family

FUNCTIONS = 3  # per output
MAX_BETA_ROWS = 2048  # kept rows that are enough to choose β
MIN_VARIANCE = 1e-10  # relative variance that may be only a rounding error
ERROR_DRAWS = 64  # of a gradient's error, where its covariance would be too large a matrix


def functions(loss: Family, before: Array, targets: Array) -> Array:
    """Return target, prediction at arrival and slope there: one row per function and output."""
    z = before if loss.width is not None else np.clip(before, -loss.largest, loss.largest)
    return np.concatenate([loss.encoded(targets), z, loss.at(z, targets)[1]], axis=1).T


class ControlVariates:
    """Standardised sums over all rows of a stream, minus those over a sample of its rows.

    Parameters
    ----------
    rows
        The sample, in standard units.
    total
        Sums of all rows that the sample was drawn from.
    """

    def __init__(self, rows: Rows, total: Sums) -> None:
        self._rows = rows
        outputs, width = rows.shape
        # Targets and predictions are shifted as targets are; slopes have another unit.
        self._shifts = np.repeat([rows.shift, rows.shift, 0.0], outputs)
        slope = rows.unit ** (rows.loss.degree - 1)
        self._units = np.repeat([rows.unit, rows.unit, slope], outputs)
        sums, moments = self.totals(total)
        self._metric = moments / float(total.weight)
        inside = np.zeros_like(sums), Products(width)
        for x, _, weights, kept in rows.slabs:
            u = self._functions(kept).reshape(len(x), -1)
            inside[0][:] += (u * weights[:, None]).T @ x
            inside[1].add(x * np.sqrt(weights)[:, None])
        self._linear = (sums / rows.weight - inside[0]).reshape(-1, outputs, width)
        self._quadratic = moments / rows.weight - inside[1].total

    def totals(self, sums: Sums) -> tuple[Array, Array]:
        """Return standardised sums of any rows x, with a 1 for the intercept.

        First Σ u x per function and output, then Σ x per output, for the function 1; and Σ x xᵀ.
        """
        rows, weight = self._rows, float(sums.weight)
        columns, size = len(rows.mean), rows.size[:, None]  # infinite for a constant column
        aside = (sums.mean[:columns] - rows.mean) / rows.size
        level = (sums.mean[columns:] - self._shifts) / self._units
        cross = sums.cross / size / self._units
        cross = (cross + weight * np.outer(aside, level)).T
        moments = sums.scatter / size / size.T + weight * np.outer(aside, aside)
        if rows.settings.intercept:
            aside = np.append(aside, 1.0)
            cross = np.column_stack([cross, weight * level])
            moments = np.vstack([moments, weight * aside[:columns]])
            moments = np.column_stack([moments, weight * aside])
        ones = np.repeat(weight * aside[None], rows.shape[0], axis=0)
        return np.vstack([cross, ones]), moments

    def _functions(self, kept: Kept) -> Array:
        """Return standardised functions of kept rows, and 1: rows × functions × outputs."""
        outputs = self._rows.shape[0]
        u = functions(self._rows.settings.loss, kept.before, kept.targets).T
        u = np.hstack([(u - self._shifts) / self._units, np.ones((len(u), outputs))])
        return u.reshape(len(u), -1, outputs)

    def corrected(self, objective: Objective, beta: Array) -> Objective:
        """Add β times the stream's sums minus their estimates from the kept rows."""
        linear = np.einsum("kj,jkq->kq", beta[:, :-1], self._linear)
        return replace(objective, correction=(linear, self._quadratic, beta[:, -1]), beta=beta)

    def scores(self, batches: Iterable[Sums], point: Point) -> Array:
        """Return the gradients of batches' losses, as explained by functions and predictions."""
        theta, beta = point.theta, point.objective.beta
        if beta is None:
            beta = self.best_beta(point.objective, theta)
        found = []
        for functions, moments in map(self.totals, batches):
            each = functions.reshape(-1, *theta.shape)
            explained = np.einsum("kj,jkq->kq", beta[:, :-1], each)
            found.append(explained + beta[:, -1:] * (theta @ moments))
        return np.array(found).reshape(-1, *theta.shape)

    def best_beta(self, objective: Objective, theta: Array, convex: bool = False) -> Array:
        """Return the β that best explains slopes: outputs × (functions, 1, prediction).

        By least squares over kept rows, whose errors are weighted by their leverage. Without the
        prediction, if so asked, the correction is linear, so that the objective is convex.
        """
        kept = self._rows.sample
        kept = kept.take(slice(None, None, -(-len(kept) // MAX_BETA_ROWS)))
        x = self._rows.standardised(kept.rows)
        basis, slope = self._slopes(objective, kept, x, self._rows.targets(kept), theta)
        metric = self._metric + np.diag(1e-6 * self._metric.diagonal() + 1e-12)
        white = linalg.solve_triangular(np.linalg.cholesky(metric), x.T, lower=True).T
        weights = kept.weights / kept.weights.mean()
        leverage = np.einsum("ij,ij->i", white, white) * weights**2
        found = np.zeros((basis.shape[2], basis.shape[1]))
        for k in range(len(found)):
            both = np.column_stack([basis[:, :, k], slope[:, k]])
            mean = white.T @ (both * weights[:, None]) / len(x)
            gram = (both * leverage[:, None]).T @ both / len(x)
            lift = MIN_VARIANCE * gram.diagonal() + 1e-300  # what does not vary explains nothing
            gram -= mean.T @ mean
            left = (gram + np.diag(lift))[:-1, :-1]
            used = len(left) - convex
            root = linalg.cho_factor(left[:used, :used], lower=True)
            found[k, :used] = linalg.cho_solve(root, gram[:used, -1])
        return found

    def _slopes(
        self, objective: Objective, kept: Kept, x: Array, targets: Array, theta: Array
    ) -> tuple[Array, Array]:
        """Return functions, 1 and prediction of each kept row, and the slopes of its loss."""
        z = x @ theta.T
        slope = objective.loss.at(z, targets)[1]
        return np.concatenate([self._functions(kept), z[:, None, :]], axis=1), slope

    def excess_loss(self, point: Point) -> Array:
        """Return three cumulants of the excess loss due to sampling, and degrees of freedom.

        The excess loss is half a sum of squares of normal variables, whose variances are the
        eigenvalues of the gradient's error covariance in the metric of the Hessian. The degrees of
        freedom of these estimates are few if a few rows have most of the error.
        """
        freedom, left_out = self._freedom(point), 1.0 - 1.0 / self._rows.factor
        if len(point.theta) > 1:
            spread = np.sqrt(ERROR_DRAWS * left_out) * self.sampling_errors(point)
            found = 0.5 * np.einsum("bkq,bkq->b", spread, point.solve(spread))
            middle, variance = float(found.mean()), float(found.var(ddof=1))
            # That of a gamma law: with many eigenvalues the third cumulant matters little.
            third = 2.0 * variance**2 / max(middle, 1e-300)
            return np.array([middle, variance, third, freedom])
        products, mean = Products(point.theta.shape[1]), np.zeros(point.theta.shape)
        for x, rest in self._residuals(point):
            mean += rest.T @ x
            products.add(x * rest)
        covariance = products.total - mean.T @ mean / len(self._rows.sample)
        covariance *= left_out * self._scale(point) ** 2
        solved = point.solve(covariance[:, None, :])[:, 0]
        square = solved @ solved
        third = float(np.sum(square * solved.T))
        return np.array([0.5 * np.trace(solved), 0.5 * np.trace(square), third, freedom])

    def _freedom(self, point: Point) -> float:
        """Return the degrees of freedom of a variance, from the spread of the rows' squares."""
        total = squares = 0.0
        for x, rest in self._residuals(point):
            white = linalg.solve_triangular(point.metric, x.T, lower=True, check_finite=False)
            each = np.einsum("ij,ij->j", white, white) * np.einsum("ij,ij->i", rest, rest)
            total += float(each.sum())
            squares += float(each @ each)
        return 2.0 * total * total / max(squares - total * total / len(self._rows.sample), 1e-300)

    def sampling_errors(self, point: Point) -> Array:
        """Return random gradients whose squares sum to the sampling variance.

        The stream counts as infinite. Shape: draws × outputs × weights.
        """
        shape = point.theta.shape
        drawn, mean = np.zeros((ERROR_DRAWS, *shape)), np.zeros(shape)
        turned, done = np.zeros(ERROR_DRAWS), 0
        for x, rest in self._residuals(point):
            signs = _signs(done, len(x))
            signed = (signs[:, :, None] * rest[:, None, :]).reshape(len(x), -1)
            drawn += (signed.T @ x).reshape(drawn.shape)
            mean += rest.T @ x
            turned += signs.sum(axis=0)
            done += len(x)
        drawn -= turned[:, None, None] * (mean / len(self._rows.sample))
        drawn *= self._scale(point) / np.sqrt(ERROR_DRAWS)
        return drawn

    def _scale(self, point: Point) -> float:
        """Return the factor from sums over the kept rows to the error of the stream's mean.

        β, the weights and their Hessian are fitted to these rows, which costs degrees of freedom.
        """
        rows, count = self._rows, len(self._rows.sample)
        free = max(count - len(self._linear) - 1 - 2 * len(self._metric), count // 4, 1)
        return float(rows.factor / rows.weight * np.sqrt(count / free))

    def _residuals(self, point: Point) -> Iterator[tuple[Array, Array]]:
        """Yield standardised kept rows, and the unexplained part of their slopes."""
        theta, beta = point.theta, point.objective.beta
        for x, targets, _, kept in self._rows.slabs:
            basis, rest = self._slopes(point.objective, kept, x, targets, theta)
            if beta is not None:
                rest = rest - np.einsum("njk,kj->nk", basis, beta)
            yield x, zero_sums((rest * kept.weights[:, None]).T).T


def _signs(first: int, rows: int) -> Array:
    """Return reproducible random signs for rows from number ``first`` on: rows × ERROR_DRAWS."""
    numbers = np.arange(first * ERROR_DRAWS, (first + rows) * ERROR_DRAWS)
    drawn = draws.words(draws.key(0, draws.SAMPLE), numbers) & 1
    return (2.0 * drawn - 1.0).reshape(rows, ERROR_DRAWS)
