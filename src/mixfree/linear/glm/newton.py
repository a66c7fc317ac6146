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

import numpy as np
from scipy import linalg

from mixfree.base.arithmetic import Array
from mixfree.linear.glm.rows import Rows
from mixfree.linear.losses import Family

MAX_DIRECT = 500  # unknowns of several outputs up to which their Hessian is factored
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


@dataclass(eq=False)
class Objective:
    """The loss of the stream per unit of weight, as a function of standardised weights.

    Parameters
    ----------
    rows
        The rows.
    penalty
        Ridge per standardised column, 0 for the intercept.
    loss
        The loss in the unit of the rows.
    correction
        A linear term, a matrix, and its factor for each output, if the sums correct the loss.
    beta
        Coefficients of the sums.
    """

    rows: Rows
    penalty: Array
    loss: Family
    correction: tuple[Array, Array, Array] | None = None
    beta: Array | None = None
    inverse_factors: Array | None = field(default=None, init=False)  # of a Hessian met before

    def at(self, theta: Array) -> "Point":
        """Return value and gradient at ``theta``, outputs × weights."""
        gradient = self.penalty * theta
        value, predictions, curvatures = 0.5 * float(np.vdot(theta, gradient)), [], []
        with np.errstate(over="ignore"):
            for x, targets, weights, _ in self.rows.slabs:
                z = x @ theta.T
                values, slopes, bend = self.loss.at(z, targets)
                value += float(weights @ values)
                slopes *= weights[:, None]
                gradient += slopes.T @ x
                predictions.append(z)
                curvatures.append(bend)
            if self.correction is not None:
                linear, quadratic, factor = self.correction
                bent = factor[:, None] * (theta @ quadratic)
                value += float(np.vdot(theta, linear + 0.5 * bent))
                gradient += linear + bent
        return Point(self, theta, predictions, curvatures, value, zero_sums(gradient))


@dataclass(eq=False)
class Point:
    """Standardised weights, outputs × weights: the loss there, its gradient and its Hessian."""

    objective: Objective
    theta: Array
    predictions: list[Array]  # by slab
    curvatures: list[Array]  # of the rows' losses, by slab
    value: float
    gradient: Array
    unbounded: bool = False  # whether the search has found that there is no minimum

    def solve(self, right: Array) -> Array:
        """Multiply arrays of outputs × weights by the inverse Hessian."""
        if self._direct:
            lower = _cholesky(self._hessian)
            if lower is None:  # not quite a minimum: without the correction
                lower = _cholesky(self._hessian_of_rows)
            assert lower is not None
            flat = right.reshape(-1, self.theta.size)
            found = linalg.cho_solve((lower, True), flat.T, check_finite=False).T
        else:
            each = right.reshape(-1, *self.theta.shape)
            found = np.array([self._conjugate_gradients(r, 0.0, LEAST_RESIDUAL) for r in each])
        return zero_sums(found.reshape(right.shape))

    def step(self, damping: float, residual: float) -> Array | None:
        """Return the step from Hessian + ``damping``; None if that is not positive definite."""
        if not self._direct:
            found = self._conjugate_gradients(self.gradient, damping, residual)
            return found if np.vdot(found, self.gradient) > 0.0 else None
        lower = _cholesky(self._hessian, damping)
        if lower is None:
            return None
        found = linalg.cho_solve((lower, True), self.gradient.ravel(), check_finite=False)
        return zero_sums(found.reshape(self.theta.shape))

    @property
    def _direct(self) -> bool:
        return len(self.theta) == 1 or self.theta.size <= MAX_DIRECT

    @property
    def _slabs(self) -> Iterator[tuple[Array, Array, Array]]:
        """Standardised rows, their weights, and the curvatures of their losses."""
        for (x, _, weights, _), bend in zip(
            self.objective.rows.slabs, self.curvatures, strict=True
        ):
            yield x, weights[:, None], bend

    @cached_property
    def blocks(self) -> Array:
        """Hessian of the rows' loss in the weights of each output, with the others fixed."""
        outputs, size = self.theta.shape
        blocks = np.zeros((outputs, size, size))
        for x, weights, bend in self._slabs:
            factor = bend * weights if outputs == 1 else bend * (1.0 - bend) * weights
            if outputs > size:  # one product of matrices is faster than many small ones
                pairs = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
                blocks += (factor.T @ pairs).reshape(blocks.shape)
            elif (factor >= 0.0).all():  # half the work
                for k, root in enumerate(np.sqrt(factor).T):
                    half = x * root[:, None]
                    blocks[k] += half.T @ half
            else:
                blocks[0] += x.T @ (x * factor)
        return blocks

    @cached_property
    def _hessian_of_rows(self) -> Array:
        outputs, size = self.theta.shape
        total = linalg.block_diag(*self.blocks)
        if outputs > 1:
            # The blocks between outputs have −p_k p_j; those of an output have p_k − p_k².
            for x, weights, bend in self._slabs:
                both = ((np.sqrt(weights) * bend)[:, :, None] * x[:, None, :]).reshape(len(x), -1)
                total -= both.T @ both
            for k, block in enumerate(self.blocks):
                place = slice(k * size, (k + 1) * size)
                total[place, place] = block
        np.fill_diagonal(total, total.diagonal() + np.tile(self.objective.penalty, outputs))
        return np.asarray(total)

    @cached_property
    def _hessian(self) -> Array:
        """The Hessian of all outputs."""
        correction = self.objective.correction
        if correction is None:
            return self._hessian_of_rows
        blocks = linalg.block_diag(*(bend * correction[1] for bend in correction[2]))
        return np.asarray(self._hessian_of_rows + blocks)

    @property
    def _coupling(self) -> float:
        """Curvature of the loss along weights of sum 0 over that of their block, about."""
        return len(self.theta) / max(len(self.theta) - 1, 1)

    @cached_property
    def metric(self) -> Array:
        """Cholesky factor of the mean Hessian of an output, that of the only one if possible.

        Where a loss is not convex, directions of negative curvature count by its size.
        """
        for matrix in (self._hessian, self._hessian_of_rows) if len(self.theta) == 1 else ():
            lower = _cholesky(matrix)
            if lower is not None:
                return lower
        mean = self._coupling * self.blocks.mean(axis=0)
        mean += np.diag(self.objective.penalty)
        if (lower := _cholesky(mean)) is None:
            values, vectors = np.linalg.eigh(mean)
            sizes = np.abs(values)
            sizes = np.maximum(sizes, JITTER * sizes.max())
            lower = np.linalg.cholesky(vectors * sizes @ vectors.T)
        return lower

    def determined(self, slopes: Array) -> float:
        """Return how many weights of the given columns the rows determine, not the penalty.

        The trace of H (H + penalty)⁻¹ over these columns, for the Hessian H of each output.
        """
        free, penalty = 0.0, self.objective.penalty
        columns = np.flatnonzero(slopes)
        for block in self.blocks:
            lower = _cholesky(self._coupling * block + np.diag(penalty))
            assert lower is not None
            inverse = linalg.cho_solve((lower, True), np.eye(len(block)), check_finite=False)
            free += float(np.sum(1.0 - (penalty * inverse.diagonal())[columns]))
        return free / self._coupling

    def _conjugate_gradients(self, right: Array, damping: float, residual: float) -> Array:
        """Solve (Hessian + damping) · found = right in variables in which it is about 1.

        The search ends early along a direction without curvature, as in truncated Newton methods.
        """
        inverse = self.objective.inverse_factors
        if inverse is None:
            inverse = self.objective.inverse_factors = self._inverse_factors()
        r = (inverse @ right[:, :, None])[:, :, 0]
        found, d, rho = np.zeros_like(r), r, float(np.vdot(r, r))
        goal = residual**2 * rho
        for count in range(MAX_PRODUCTS):
            if rho <= goal:
                break
            if count == MAX_REUSE:  # the next point has factors of its own
                self.objective.inverse_factors = None
            move = zero_sums(_back(inverse, d))
            product = (inverse @ zero_sums(self._product(move))[:, :, None])[:, :, 0]
            product += damping * d
            bend = float(np.vdot(d, product))
            if not bend > 0.0:
                break
            found, r = found + rho / bend * d, r - rho / bend * product
            rho, last = float(np.vdot(r, r)), rho
            d = r + rho / last * d
        return zero_sums(_back(inverse, found if found.any() else r))

    def _inverse_factors(self) -> Array:
        """Inverse Cholesky factors of the Hessian of the rows in the weights of each output."""
        blocks = self.blocks + np.diag(self.objective.penalty)
        sizes = np.einsum("kii->ki", blocks)
        sizes += JITTER * np.maximum(sizes, 1e-6 * sizes.max())
        found: Array = np.linalg.inv(np.linalg.cholesky(blocks))
        return found

    def _product(self, d: Array) -> Array:
        """Multiply outputs × weights by the Hessian."""
        found = self.objective.penalty * d
        for x, weights, bend in self._slabs:
            moved = x @ d.T
            if len(d) > 1:
                moved -= np.einsum("nk,nk->n", moved, bend)[:, None]
            moved *= bend
            moved *= weights
            found += moved.T @ x
        if self.objective.correction is not None:
            _, quadratic, bend = self.objective.correction
            found += bend[:, None] * (d @ quadratic)
        return found


def minimise(
    objective: Objective, theta: Array, close: float = DECREMENT, seek: bool = False
) -> Point:
    """Find the minimum near ``theta`` by Newton steps, damped until the loss decreases.

    The search also ends where it is clear that there is none: below 0, where no stream's loss is,
    because of an error of the correction; and, with ``seek``, after a step that separates classes.
    """
    point, damping, rejected, last = objective.at(theta), 0.0, False, np.inf
    for _ in range(MAX_STEPS):
        if point.value < 0.0:
            point.unbounded = True
        if point.unbounded or not point.value > 0.0:
            break
        step = point.step(damping, min(MAX_RESIDUAL, np.sqrt(last / point.value)))
        fall = 0.0 if step is None else float(np.vdot(point.gradient, step))
        if step is not None and not fall > close * point.value:
            if rejected or not damping:
                break
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
    family, rows = found.objective.loss, found.objective.rows
    olds, news = point.predictions, found.predictions
    if max(np.abs(new - old).max() for old, new in zip(olds, news, strict=True)) < MIN_MOVE:
        return False
    for share in (1.0, 0.0):  # along the step, and along the weights themselves
        for (_, targets, _, _), old, new in zip(rows.slabs, olds, news, strict=True):
            far, values = new + FAR * (new - share * old), family.at(new, targets)[0]
            harm = (family.at(far, targets)[0] - values)[values > NEGLIGIBLE]
            if not harm.max(initial=0.0) <= MAX_HARM:
                break
        else:
            return True
    return False


def _back(inverse: Array, vectors: Array) -> Array:
    """Multiply the vector of each output by the transposed inverse factor."""
    found: Array = (inverse.transpose(0, 2, 1) @ vectors[:, :, None])[:, :, 0]
    return found


def zero_sums(weights: Array) -> Array:
    """Subtract the mean over outputs, to which softmax is invariant."""
    if weights.shape[-2] == 1:
        return weights
    found: Array = weights - weights.mean(axis=-2, keepdims=True)
    return found


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
        lower: Array = linalg.cholesky(lifted, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    return lower
