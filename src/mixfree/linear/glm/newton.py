r"""Newton's method for the loss of a stream, from a sample of its rows and sums over all rows.

With R the kept rows, :math:`\rho` the rows of the stream per row of R, :math:`u_{ij}` the
functions of row i's old predictions, and T and M the stream's sums of :math:`u_j x` and
:math:`x x^\top`, the objective is

.. math:: \rho \sum_{i \in R} \ell_i(w)
          + \sum_j \beta_j \Big(T_j - \rho \sum_{i \in R} u_{ij} x_i\Big)^\top w
          + \frac{\beta_0}{2} w^\top \Big(M - \rho \sum_{i \in R} x_i x_i^\top\Big) w .

The brackets are 0 in expectation, so that the objective is unbiased for any β. β is chosen by
least squares: the combination of functions approximates the slopes of the kept rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, cg

from mixfree.base.arithmetic import Array
from mixfree.linear.glm.rows import Rows
from mixfree.linear.losses import Family

# Unknowns of several outputs up to which their Hessian is factored: for a step, and for many
# right-hand sides, which take longer by conjugate gradients.
MAX_DIRECT_STEP, MAX_DIRECT = 500, 3000
DECREMENT = 1e-12  # Newton decrement, relative to the loss, at which steps end
MAX_STEPS, MAX_PRODUCTS = 100, 200  # Newton steps, and products of conjugate gradients per step
MAX_REUSE = 10  # products per step up to which a preconditioner is used again
MAX_RESIDUAL, LEAST_RESIDUAL = 0.1, 1e-3  # relative residuals of conjugate gradients
FIRST_DAMPING, DAMPING_FACTOR, LEAST_DAMPING = 1e-3, 8.0, 1e-6  # in units of the curvature at 0
# A step separates classes if it changes a prediction by MIN_MOVE, and FAR such steps would raise
# the loss of no row by more than MAX_HARM, apart from rows of a loss below NEGLIGIBLE: far inside
# their class, they still follow the others to and fro.
MIN_MOVE, FAR, MAX_HARM, NEGLIGIBLE = 0.5, 1e3, 1.0, 0.005
JITTER = 1e-10  # relative increase of a matrix's diagonal, for repeated columns


class Correction(NamedTuple):
    """What the sums add to the loss: the brackets above, the linear ones combined by β."""

    linear: Array  # outputs × weights
    quadratic: Array
    beta: Array  # outputs × functions, the last of which is the prediction

    def product(self, theta: Array) -> Array:
        """Multiply outputs × weights by the Hessian of the correction."""
        return np.asarray(self.beta[:, -1:] * (theta @ self.quadratic))


@dataclass(eq=False)
class Objective:
    """The loss of the stream per unit of weight, as a function of standardised weights."""

    rows: Rows
    penalty: Array  # ridge per standardised column, 0 for the intercept
    loss: Family
    correction: Correction | None = None  # by the sums, if they are known
    inverse_factors: Array | None = field(default=None, init=False)  # of a Hessian met before

    def at(self, theta: Array) -> "Point":
        """Return value and gradient at ``theta``, outputs × weights."""
        gradient, rows = self.penalty * theta, self.rows
        value = 0.5 * float(np.vdot(theta, gradient))
        z, slopes, bends = (np.empty((len(rows.targets), len(theta))) for _ in range(3))
        with np.errstate(over="ignore"):
            for x, part in rows.slabs:
                np.matmul(x, theta.T, out=z[part])
                found = self.loss.at(z[part], rows.targets[part])
                values, slopes[part], bends[part] = found
                value += float(rows.shares[part] @ values)
                gradient += (found[1] * rows.shares[part, None]).T @ x
            if self.correction is not None:
                bent = self.correction.product(theta)
                value += float(np.vdot(theta, self.correction.linear + 0.5 * bent))
                gradient += self.correction.linear + bent
        return Point(self, theta, z, slopes, bends, value, zero_sums(gradient))


@dataclass(eq=False)
class Point:
    """Standardised weights, outputs × weights: the loss there, its gradient and its Hessian."""

    objective: Objective
    theta: Array
    predictions: Array  # rows × outputs
    slopes: Array  # derivatives of the rows' losses with respect to them
    bends: Array  # their curvatures
    value: float
    gradient: Array
    unbounded: bool = False  # whether the search has found that there is no minimum

    def solve(self, right: Array) -> Array:
        """Multiply arrays of outputs × weights by the inverse Hessian."""
        if len(self.theta) == 1 or self.theta.size <= MAX_DIRECT:
            flat = right.reshape(-1, self.theta.size).T
            found = linalg.cho_solve((_positive(self._hessian), True), flat, check_finite=False).T
        else:
            each = right.reshape(-1, *self.theta.shape)
            found = np.array([self._conjugate_gradients(r, 0.0, LEAST_RESIDUAL) for r in each])
        return zero_sums(found.reshape(right.shape))

    def step(self, damping: float, residual: float) -> Array | None:
        """Return the step from Hessian + ``damping``; None if that is not positive definite."""
        if len(self.theta) > 1 and self.theta.size > MAX_DIRECT_STEP:
            found = self._conjugate_gradients(self.gradient, damping, residual)
            return found if np.vdot(found, self.gradient) > 0.0 else None
        lower = _cholesky(self._hessian, damping)
        if lower is None:
            return None
        found = linalg.cho_solve((lower, True), self.gradient.ravel(), check_finite=False)
        return zero_sums(found.reshape(self.theta.shape))

    @property
    def _slabs(self) -> Iterator[tuple[Array, Array, Array]]:
        """Standardised rows, their shares, and the curvatures of their losses."""
        rows = self.objective.rows
        return ((x, rows.shares[part, None], self.bends[part]) for x, part in rows.slabs)

    @cached_property
    def blocks(self) -> Array:
        """Hessian of the rows' loss in the weights of each output, with the others fixed."""
        outputs, size = self.theta.shape
        blocks = np.zeros((outputs, size, size))
        for x, shares, bend in self._slabs:
            factor = bend * shares if outputs == 1 else bend * (1.0 - bend) * shares
            if (factor >= 0.0).all():  # half the work
                for k, root in enumerate(np.sqrt(factor).T):
                    half = x * root[:, None]
                    blocks[k] += half.T @ half
            else:
                blocks[0] += x.T @ (x * factor)
        return blocks

    @cached_property
    def _hessian(self) -> Array:
        """The Hessian of all outputs."""
        outputs, size = self.theta.shape
        total = linalg.block_diag(*self.blocks)
        if outputs > 1:
            # The blocks between outputs have −p_k p_j; those of an output have p_k − p_k².
            for x, shares, bend in self._slabs:
                both = ((np.sqrt(shares) * bend)[:, :, None] * x[:, None, :]).reshape(len(x), -1)
                total -= both.T @ both
            for k, block in enumerate(self.blocks):
                place = slice(k * size, (k + 1) * size)
                total[place, place] = block
        np.fill_diagonal(total, total.diagonal() + np.tile(self.objective.penalty, outputs))
        if (correction := self.objective.correction) is not None:
            centred = np.eye(outputs) - (outputs > 1) / outputs  # weights sum to 0 over outputs
            between = centred @ np.diag(correction.beta[:, -1]) @ centred
            total += np.kron(between, correction.quadratic)
        return np.asarray(total)

    @property
    def _coupling(self) -> float:
        """Curvature of the loss along weights of sum 0 over that of their block, about."""
        return len(self.theta) / max(len(self.theta) - 1, 1)

    @cached_property
    def metric(self) -> Array:
        """Cholesky factor of the mean Hessian of an output, or of the Hessian of the only one."""
        if len(self.theta) == 1:
            return _positive(self._hessian)
        mean = self._coupling * self.blocks.mean(axis=0)
        return _positive(mean + np.diag(self.objective.penalty))

    def determined(self, slopes: Array) -> float:
        """Return how many weights of the given columns the rows determine, not the penalty.

        The trace of H (H + penalty)⁻¹ over these columns, for the Hessian H of each output.
        """
        inverse = np.linalg.inv(self._penalised(self._coupling * self.blocks))
        free = 1.0 - self.objective.penalty * np.einsum("kii->ki", inverse)
        return float(free[:, np.flatnonzero(slopes)].sum()) / self._coupling

    def _penalised(self, blocks: Array) -> Array:
        """Add the penalty to Hessians of single outputs, so that they can be inverted."""
        found: Array = blocks + np.diag(self.objective.penalty)
        sizes = np.einsum("kii->ki", found)
        sizes += JITTER * np.maximum(sizes, 1e-6 * sizes.max())
        return found

    def _conjugate_gradients(self, right: Array, damping: float, residual: float) -> Array:
        """Solve (Hessian + damping) · found = right in variables in which it is about 1."""
        objective, products = self.objective, list[None]()
        if objective.inverse_factors is None:
            blocks = self._penalised(self.blocks)
            objective.inverse_factors = np.linalg.inv(np.linalg.cholesky(blocks))
        inverse = objective.inverse_factors
        back = inverse.transpose(0, 2, 1)

        def times(matrices: Array, vectors: Array) -> Array:
            found: Array = (matrices @ vectors.reshape(*self.theta.shape, 1))[:, :, 0]
            return zero_sums(found) if matrices is back else found

        def product(d: Array) -> Array:
            products.append(None)
            return times(inverse, zero_sums(self._product(times(back, d)))).ravel() + damping * d

        operator = LinearOperator((right.size, right.size), matvec=product, dtype=np.float64)
        start = times(inverse, right).ravel()
        found, _ = cg(operator, start, rtol=residual, maxiter=MAX_PRODUCTS)
        if len(products) > MAX_REUSE:  # the next point has factors of its own
            objective.inverse_factors = None
        return times(back, found)

    def _product(self, d: Array) -> Array:
        """Multiply outputs × weights by the Hessian."""
        found = self.objective.penalty * d
        for x, shares, bend in self._slabs:
            moved = x @ d.T
            if len(d) > 1:
                moved -= np.einsum("nk,nk->n", moved, bend)[:, None]
            moved *= bend
            moved *= shares
            found += moved.T @ x
        if self.objective.correction is not None:
            found += self.objective.correction.product(d)
        return found


def minimise(point: Point, close: float = DECREMENT, seek: bool = False) -> Point:
    """Find the minimum near a point by Newton steps, damped until the loss decreases.

    The search also ends where it is clear that there is none: below 0, where no stream's loss is,
    because of an error of the correction; and, with ``seek``, after a step that separates classes.
    """
    objective, damping, rejected, last = point.objective, 0.0, False, np.inf
    for _ in range(MAX_STEPS):
        if point.value < 0.0:
            point.unbounded = True
        if point.unbounded or not point.value > 0.0:
            break
        step = point.step(damping, min(MAX_RESIDUAL, np.sqrt(last / point.value)))
        fall = 0.0 if step is None else float(np.vdot(point.gradient, step))
        if step is not None and not fall > close * point.value:
            if rejected or not damping:
                # A loss known to 16 digits has 8 of the weights; this step squares their error.
                return point if close > DECREMENT else objective.at(point.theta - step)
            damping = 0.0
            continue
        found = None if step is None else objective.at(point.theta - step)
        if found is None or not found.value <= point.value * (1.0 + 1e-15) - 1e-4 * fall:
            objective.inverse_factors = None
            damping, rejected = max(DAMPING_FACTOR * damping, FIRST_DAMPING), True
            continue
        found.unbounded = seek and _separates(point, found)
        point, last, rejected = found, fall, False
        damping = damping / DAMPING_FACTOR if damping > LEAST_DAMPING else 0.0
    return point


def _separates(point: Point, found: Point) -> bool:
    """Whether the weights, or the last step, could be multiplied without harm to any row.

    There are no best weights then.
    """
    loss, targets = found.objective.loss, found.objective.rows.targets
    old, new = point.predictions, found.predictions
    if np.abs(new - old).max(initial=0.0) < MIN_MOVE:
        return False
    values = loss.at(new, targets)[0]
    seen = values > NEGLIGIBLE
    values, targets, old, new = values[seen], targets[seen], old[seen], new[seen]
    for step in (new - old, new):  # along the step, and along the weights themselves
        harm = loss.at(new + FAR * step, targets)[0] - values
        if harm.max(initial=0.0) <= MAX_HARM:
            return True
    return False


def zero_sums(weights: Array) -> Array:
    """Subtract the mean over outputs, to which softmax is invariant."""
    alone = weights.shape[-2] == 1
    return weights if alone else np.asarray(weights - weights.mean(axis=-2, keepdims=True))


def _cholesky(matrix: Array, damping: float = 0.0) -> Array | None:
    """Return the lower factor of matrix + ``damping``; None if it is not positive definite."""
    diagonal = matrix.diagonal()
    if not np.isfinite(diagonal).all():
        return None
    least = max(float(diagonal.max(initial=0.0)), 1e-300)
    lifted = matrix.copy()
    size = np.maximum(np.abs(diagonal), 1e-6 * least)
    np.fill_diagonal(lifted, diagonal + max(JITTER, damping) * size)
    try:
        return np.asarray(linalg.cholesky(lifted, lower=True, overwrite_a=True, check_finite=False))
    except linalg.LinAlgError:
        return None


def _positive(matrix: Array) -> Array:
    """Return the lower factor of a matrix whose negative curvatures count by their size."""
    if (lower := _cholesky(matrix)) is not None:
        return lower
    values, vectors = np.linalg.eigh(matrix)
    sizes = np.abs(values)
    sizes = np.maximum(sizes, JITTER * sizes.max())
    return np.linalg.cholesky(vectors * sizes @ vectors.T)
