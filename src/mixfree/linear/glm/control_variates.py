"""Control variates: the sums of a stream correct the loss of a sample of its rows."""

from collections.abc import Iterator

import numpy as np
from scipy import linalg

from mixfree.base import draws
from mixfree.base.arithmetic import Array
from mixfree.linear.exact.products import Products
from mixfree.linear.exact.reservoir import Kept
from mixfree.linear.exact.sums import Sums
from mixfree.linear.glm.families import Family
from mixfree.linear.glm.newton import (
    Objective,
    Part,
    Point,
    Slabs,
    Units,
    standardised,
)

MAX_BETA_ROWS = 2048  # kept rows that are enough to choose β
MIN_VARIANCE = 1e-12  # relative variance that is only a rounding error
ERROR_DRAWS = 64  # of a gradient's error, where its covariance would be too large a matrix


class ControlVariates:
    """Standardised sums over all rows of a stream, minus those over a sample of its rows.

    Parameters
    ----------
    family
        Family of the loss, in the unit of the targets.
    total
        Sums of all rows that the sample was drawn from.
    sample, slabs
        The sample, and all rows of the fit, standardised.
    units, intercept
        How rows and targets are standardised.
    weight
        Weight of the whole stream, by which everything is divided.
    """

    def __init__(
        self,
        family: Family,
        total: Sums,
        sample: Part,
        slabs: Slabs,
        units: Units,
        *,
        intercept: bool,
        weight: float,
    ) -> None:
        self._family, self._units, self._intercept = family, units, intercept
        self._sample, self._slabs, self._weight = sample, slabs, weight
        self._levels = np.zeros(family.functions * family.outputs)
        self._levels[: family.levels] = units.shift
        functions, moments = self.totals(total)
        self._metric = moments / float(total.weight)
        inside = np.zeros_like(functions), Products(len(moments))
        for x, _, weights, kept in slabs.sample:
            u = self._functions(kept).reshape(len(x), -1)
            inside[0][:] += (u * weights[:, None]).T @ x
            inside[1].add(x * np.sqrt(weights)[:, None])
        shape = (-1, family.outputs, functions.shape[1])
        self._linear = (functions / weight - inside[0]).reshape(shape)
        self._quadratic = moments / weight - inside[1].total

    def totals(self, sums: Sums) -> tuple[Array, Array]:
        """Return standardised sums of any rows x, with a 1 for the intercept.

        First Σ u x per function and output, then Σ x per output, for the function 1; and Σ x xᵀ.
        """
        columns, weight = len(self._units.mean), float(sums.weight)
        size = self._units.size[:, None]  # infinite for a constant column
        aside = (sums.mean[:columns] - self._units.mean) / self._units.size
        level = (sums.mean[columns:] - self._levels) / self._units.scale
        cross = sums.cross / size / self._units.scale
        cross = (cross + weight * np.outer(aside, level)).T
        moments = sums.scatter / size / size.T + weight * np.outer(aside, aside)
        if self._intercept:
            aside = np.append(aside, 1.0)
            cross = np.column_stack([cross, weight * level])
            moments = np.vstack([moments, weight * aside[:columns]])
            moments = np.column_stack([moments, weight * aside])
        ones = np.repeat(weight * aside[None], self._family.outputs, axis=0)
        return np.vstack([cross, ones]), moments

    def _functions(self, kept: Kept) -> Array:
        """Return standardised functions of kept rows, and 1: rows × functions × outputs."""
        u = self._family.expand(kept.before, kept.targets).T
        u = (u - self._levels) / self._units.scale
        u = np.hstack([u, np.ones((len(u), self._family.outputs))])
        return u.reshape(len(u), -1, self._family.outputs)

    def correction(self, beta: Array) -> tuple[Array, Array, Array]:
        """Return β times the stream's sums minus their estimates from the kept rows.

        A linear term, outputs × weights; a matrix; and its factor β₀ for each output.
        """
        linear = np.einsum("kj,jkq->kq", beta[:, :-1], self._linear)
        return linear, self._quadratic, beta[:, -1]

    def scores(self, batch: Sums, point: Point) -> Array:
        """Return the gradient of a batch's loss, as explained by functions and predictions."""
        (functions, moments), theta = self.totals(batch), point.theta
        beta = point.objective.beta
        if beta is None:
            return np.zeros_like(theta)
        explained: Array = np.einsum(
            "kj,jkq->kq", beta[:, :-1], functions.reshape(-1, *theta.shape)
        )
        explained += beta[:, -1:] * (theta @ moments)
        return explained

    def best_beta(self, objective: Objective, theta: Array) -> Array:
        """Return the β that best explains slopes: outputs × (functions, 1, prediction).

        By least squares over kept rows, whose errors are weighted by their leverage.
        """
        kept = self._sample.rows
        kept = kept.take(slice(None, None, -(-len(kept) // MAX_BETA_ROWS)))
        x = standardised(kept.rows, self._units, self._intercept)
        targets = (kept.targets - self._units.shift) / self._units.scale
        basis, slope = self._slopes(objective, kept, x, targets, theta)
        metric = self._metric + np.diag(1e-6 * self._metric.diagonal() + 1e-12)
        white = linalg.solve_triangular(np.linalg.cholesky(metric), x.T, lower=True).T
        weights = kept.weights / kept.weights.mean()
        leverage = np.einsum("ij,ij->i", white, white) * weights**2
        found = np.zeros((basis.shape[2], basis.shape[1]))
        for k in range(len(found)):
            both = np.column_stack([basis[:, :, k], slope[:, k]])
            mean = white.T @ (both * weights[:, None]) / len(x)
            gram = (both * leverage[:, None]).T @ both / len(x)
            size = gram.diagonal().copy()
            gram -= mean.T @ mean
            still = gram.diagonal() <= MIN_VARIANCE * size
            scale = 1.0 / np.sqrt(np.maximum(gram.diagonal(), 1e-300))
            gram *= scale[:, None] * scale
            gram[still] = gram[:, still] = 0.0  # what does not vary explains nothing
            left = gram[:-1, :-1] + 1e-9 * np.eye(len(gram) - 1)
            found[k] = np.linalg.solve(left, gram[:-1, -1]) * scale[:-1] / scale[-1]
        return found

    def _slopes(
        self, objective: Objective, kept: Kept, x: Array, targets: Array, theta: Array
    ) -> tuple[Array, Array]:
        """Return functions, 1 and prediction of each kept row, and the slopes of its loss."""
        z = x @ theta.T
        slope = objective.family.at(z, targets)[1]
        return np.concatenate([self._functions(kept), z[:, None, :]], axis=1), slope

    def excess_loss(self, point: Point) -> Array:
        """Return three cumulants of the excess loss due to sampling, and degrees of freedom.

        The excess loss is half a sum of squares of normal variables, whose variances are the
        eigenvalues of the gradient's error covariance in the metric of the Hessian. The degrees of
        freedom of these estimates are few if a few rows have most of the error.
        """
        freedom, left_out = self._freedom(point), 1.0 - 1.0 / self._sample.factor
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
        covariance = products.total - mean.T @ mean / len(self._sample.rows)
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
        spread = squares - total * total / len(self._sample.rows)
        return 2.0 * total * total / max(spread, 1e-300)

    def sampling_errors(self, point: Point) -> Array:
        """Return random gradients whose squares sum to the sampling variance.

        The stream counts as infinite. Shape: draws × outputs × weights.
        """
        rows, shape = self._sample.rows, point.theta.shape
        drawn, mean = np.zeros((ERROR_DRAWS, *shape)), np.zeros(shape)
        turned, done = np.zeros(ERROR_DRAWS), 0
        for x, rest in self._residuals(point):
            signs = _signs(done, len(x))
            signed = (signs[:, :, None] * rest[:, None, :]).reshape(len(x), -1)
            drawn += (signed.T @ x).reshape(drawn.shape)
            mean += rest.T @ x
            turned += signs.sum(axis=0)
            done += len(x)
        drawn -= turned[:, None, None] * (mean / len(rows))
        drawn *= self._scale(point) / np.sqrt(ERROR_DRAWS)
        return drawn

    def _scale(self, point: Point) -> float:
        """Return the factor from sums over the kept rows to the error of the stream's mean.

        β, the weights and their Hessian are fitted to these rows, which costs degrees of freedom.
        """
        (rows, factor), functions = self._sample, self._linear.shape[0] + 1
        free = max(len(rows) - functions - 2 * len(self._metric), len(rows) // 4, 1)
        return float(factor / self._weight * np.sqrt(len(rows) / free))

    def _residuals(self, point: Point) -> Iterator[tuple[Array, Array]]:
        """Yield standardised kept rows, and the unexplained part of their slopes."""
        theta, beta = point.theta, point.objective.beta
        for x, targets, _, kept in self._slabs.sample:
            basis, rest = self._slopes(point.objective, kept, x, targets, theta)
            if beta is not None:
                rest = rest - np.einsum("njk,kj->nk", basis, beta)
            rest = rest * kept.weights[:, None]
            if theta.shape[0] > 1:
                rest -= rest.mean(axis=1, keepdims=True)
            yield x, rest


def _signs(first: int, rows: int) -> Array:
    """Return reproducible random signs for rows from number ``first`` on: rows × ERROR_DRAWS."""
    numbers = np.arange(first * ERROR_DRAWS, (first + rows) * ERROR_DRAWS)
    drawn = draws.words(draws.key(0, draws.SAMPLE), numbers) & 1
    return (2.0 * drawn - 1.0).reshape(rows, ERROR_DRAWS)
