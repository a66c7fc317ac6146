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

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import linalg

from mixfree.base.arithmetic import Array
from mixfree.linear.exact.reservoir import Kept
from mixfree.linear.glm.families import Family

if TYPE_CHECKING:
    from mixfree.linear.glm.control_variates import ControlVariates

MAX_SLAB_VALUES = 1 << 16  # standardised values in use at a time
# BLAS multiplies products with fewer multiplications in one thread: waking other threads takes
# longer, and ten times as long on a busy machine.
MAX_ONE_THREAD = 1 << 18
MIN_SLAB_ROWS = 128  # below which products of wide rows become slow
MAX_CACHED_VALUES = 1 << 22  # standardised values that are kept between steps
MAX_DIRECT = 500  # unknowns of several outputs up to which their Hessian is factored
CLOSE = 1e-12  # Newton decrement, relative to the loss, at which steps end
MAX_STEPS, MAX_PRODUCTS = 100, 200  # Newton steps, and products of conjugate gradients per step
MAX_REUSE = 10  # products per step up to which a preconditioner is used again
MAX_RESIDUAL, LEAST_RESIDUAL = 0.1, 1e-3  # relative residuals of conjugate gradients
FIRST_DAMPING, DAMPING_FACTOR, LEAST_DAMPING = 1e-3, 8.0, 1e-6  # in units of the curvature at 0
# A step that separates classes advances a row by at least MIN_ADVANCE in log-odds, and no row with
# log-odds below FAR_INSIDE retreats by more than MAX_RETREAT of the largest advance.
# Columns with at least MIN_SHARE of the largest effect on log-odds take part.
MIN_ADVANCE, FAR_INSIDE, MAX_RETREAT, MIN_SHARE = 0.5, 5.0, 1e-4, 0.05
JITTER = 1e-10  # relative increase of a matrix's diagonal, for repeated columns


class Units(NamedTuple):
    """What is subtracted from columns and targets, and what the differences are divided by."""

    mean: Array
    size: Array  # infinite for a constant column
    shift: float
    scale: float


class Part(NamedTuple):
    """Rows that represent ``factor`` rows each."""

    rows: Kept
    factor: float


class Slab(NamedTuple):
    """A few kept rows; x has them standardised, with a 1 for the intercept."""

    x: Array
    targets: Array
    weights: Array
    kept: Kept


class Slabs:
    """Standardises kept rows a few at a time, and stores the result if it is not too large.

    Parameters
    ----------
    parts
        Rows and what they represent.
    units, intercept
        How to standardise the rows.
    weight
        Weight of the whole stream.
    outputs
        Number of predictions per row.
    """

    def __init__(
        self, parts: list[Part], units: Units, *, intercept: bool, weight: float, outputs: int
    ) -> None:
        self._parts, self._units, self._intercept, self._weight = parts, units, intercept, weight
        width = max(len(units.mean) + intercept, 1)
        self._length = max(
            min(MAX_SLAB_VALUES // width, max(MAX_ONE_THREAD // (width * outputs), MIN_SLAB_ROWS)),
            1,
        )
        size = sum(len(part.rows) for part in parts) * width
        self._stored = (
            [list(self._cut(part)) for part in parts] if size <= MAX_CACHED_VALUES else None
        )

    def __iter__(self) -> Iterator[Slab]:
        """Yield all rows."""
        return itertools.chain.from_iterable(map(self._of, range(len(self._parts))))

    @property
    def sample(self) -> Iterator[Slab]:
        """The rows of the first part, which is the sample."""
        return self._of(0)

    def _of(self, place: int) -> Iterator[Slab]:
        return self._cut(self._parts[place]) if self._stored is None else iter(self._stored[place])

    def _cut(self, part: Part) -> Iterator[Slab]:
        rows, factor = part
        for start in range(0, len(rows), self._length):
            piece = rows.take(slice(start, start + self._length))
            yield Slab(
                standardised(piece.rows, self._units, self._intercept),
                (piece.targets - self._units.shift) / self._units.scale,
                piece.weights * (factor / self._weight),
                piece,
            )


class Objective:
    """The loss of the stream per unit of weight, as a function of standardised weights.

    Parameters
    ----------
    family
        Loss, in the units of the standardised targets.
    slabs
        The rows.
    penalty
        Ridge per standardised column, 0 for the intercept.
    known, beta
        The stream's sums and their coefficients, if the loss of the rows is corrected by them.
    """

    def __init__(
        self,
        family: Family,
        slabs: Slabs,
        penalty: Array,
        known: "ControlVariates | None" = None,
        beta: Array | None = None,
    ) -> None:
        self.family, self.slabs, self.penalty = family, slabs, penalty
        self.known, self.beta, self.correction = known, beta, None
        self.inverse_factors: Array | None = None  # of the Hessian at a point met before
        if known is not None and beta is not None:
            self.correction = known.correction(beta)

    def at(self, theta: Array) -> "Point":
        """Return value and gradient at ``theta``, outputs × weights."""
        value, gradient, predictions = 0.0, self.penalty * theta, []
        with np.errstate(over="ignore"):
            value += 0.5 * float(np.vdot(theta, gradient))
            for x, targets, weights, _ in self.slabs:
                z = x @ theta.T
                values, slopes = self.family.at(z, targets)
                value += float(weights @ values)
                slopes *= weights[:, None]
                gradient += slopes.T @ x
                predictions.append(z)
            if self.correction is not None:
                linear, quadratic, bend = self.correction
                bent = bend[:, None] * (theta @ quadratic)
                value += float(np.vdot(theta, linear + 0.5 * bent))
                gradient += linear + bent
        return Point(self, theta, predictions, value, _zero_sums(gradient))


@dataclass(eq=False)
class Point:
    """Standardised weights, outputs × weights: the loss there, its gradient and its Hessian."""

    objective: Objective
    theta: Array
    predictions: list[Array]
    value: float
    gradient: Array

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
            found = np.array(
                [
                    self._conjugate_gradients(each, 0.0, LEAST_RESIDUAL)
                    for each in right.reshape(-1, *self.theta.shape)
                ]
            )
        return _zero_sums(found.reshape(right.shape))

    def step(self, damping: float, residual: float) -> Array | None:
        """Return the step from Hessian + ``damping``; None if that is not positive definite."""
        if not self._direct:
            found = self._conjugate_gradients(self.gradient, damping, residual)
            return found if np.vdot(found, self.gradient) > 0.0 else None
        lower = _cholesky(self._hessian, damping)
        if lower is None:
            return None
        found = linalg.cho_solve((lower, True), self.gradient.ravel(), check_finite=False)
        return _zero_sums(found.reshape(self.theta.shape))

    @property
    def _direct(self) -> bool:
        return len(self.theta) == 1 or self.theta.size <= MAX_DIRECT

    @cached_property
    def curvatures(self) -> list[tuple[Array, Array, Array]]:
        """Rows, and the parts a and p of the Hessians of their weighted losses, by slab."""
        found = []
        slabs = zip(self.objective.slabs, self.predictions, strict=True)
        for (x, targets, weights, _), z in slabs:
            own, shared = self.objective.family.curvature(z, targets)
            found.append((x, own * weights[:, None], shared * np.sqrt(weights)[:, None]))
        return found

    @cached_property
    def _hessian_of_rows(self) -> Array:
        outputs, size = self.theta.shape
        total = np.zeros((outputs, size, outputs, size))
        for x, own, shared in self.curvatures:
            for k in range(outputs):
                for other in range(k + 1):
                    bend = -shared[:, k] * shared[:, other]
                    if k == other:
                        bend += own[:, k]
                    total[k, :, other, :] += x.T @ (x * bend[:, None])
        flat: Array = total.reshape(self.theta.size, -1)
        np.fill_diagonal(flat, flat.diagonal() + np.tile(self.objective.penalty, outputs))
        return flat

    @cached_property
    def _hessian(self) -> Array:
        """The Hessian of all outputs; only its lower triangle is complete."""
        correction = self.objective.correction
        if correction is None:
            return self._hessian_of_rows
        blocks = linalg.block_diag(*(bend * correction[1] for bend in correction[2]))
        return np.asarray(self._hessian_of_rows + blocks)

    @cached_property
    def _mean_hessian(self) -> Array:
        """Mean over outputs of the Hessians of the rows' loss, without penalty."""
        found = np.zeros((self.theta.shape[1],) * 2)
        for x, own, shared in self.curvatures:
            found += x.T @ (x * (own - shared * shared).mean(axis=1)[:, None])
        return found

    @cached_property
    def metric(self) -> Array:
        """Cholesky factor of the mean Hessian of an output, that of the only one if possible."""
        for matrix in (self._hessian, self._hessian_of_rows) if len(self.theta) == 1 else ():
            lower = _cholesky(matrix)
            if lower is not None:
                return lower
        scale = len(self.theta) / max(len(self.theta) - 1, 1)
        lower = _cholesky(scale * self._mean_hessian + np.diag(self.objective.penalty))
        assert lower is not None
        return lower

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
            move = _zero_sums(_back(inverse, d))
            product = (inverse @ _zero_sums(self._product(move))[:, :, None])[:, :, 0]
            product += damping * d
            bend = float(np.vdot(d, product))
            if not bend > 0.0:
                break
            found, r = found + rho / bend * d, r - rho / bend * product
            rho, last = float(np.vdot(r, r)), rho
            d = r + rho / last * d
        return _zero_sums(_back(inverse, found if found.any() else r))

    def _inverse_factors(self) -> Array:
        """Inverse Cholesky factors of the Hessian of the rows in the weights of each output."""
        outputs, size = self.theta.shape
        blocks = np.zeros((outputs, size, size))
        for x, own, shared in self.curvatures:
            bend = own - shared * shared
            if outputs > size:  # one product of matrices is faster than many small ones
                pairs = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
                blocks += (bend.T @ pairs).reshape(blocks.shape)
            else:
                for k in range(outputs):
                    blocks[k] += x.T @ (x * bend[:, k, None])
        blocks += np.diag(self.objective.penalty)
        sizes = np.einsum("kii->ki", blocks)
        sizes += JITTER * np.maximum(sizes, 1e-6 * sizes.max())
        found: Array = np.linalg.inv(np.linalg.cholesky(blocks))
        return found

    def _product(self, d: Array) -> Array:
        """Multiply outputs × weights by the Hessian."""
        found = self.objective.penalty * d
        for x, own, shared in self.curvatures:
            moved = x @ d.T
            along = np.einsum("nk,nk->n", moved, shared)
            moved *= own
            moved -= along[:, None] * shared
            found += moved.T @ x
        if self.objective.correction is not None:
            _, quadratic, bend = self.objective.correction
            found += bend[:, None] * (d @ quadratic)
        return found


def minimise(
    objective: Objective, theta: Array, close: float = CLOSE, watch: Array | None = None
) -> tuple[Point, Array | None]:
    """Find the minimum near ``theta`` by Newton steps, damped until the loss decreases.

    With ``watch``, the search ends at a step that separates classes: one that moves no row away
    from its class. Such a step can be repeated for ever, so that there is no minimum. It is
    returned, too, else None.
    """
    point, damping, rejected, last = objective.at(theta), 0.0, False, np.inf
    for _ in range(MAX_STEPS):
        if not point.value > 0.0:  # below 0, where no stream's loss is, the correction is wrong
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
            if last == np.inf and theta.any() and not objective.family.levels:
                # Rows that are certain of the wrong class have no curvature; 0 is certain of none.
                theta = np.zeros_like(theta)
                point = objective.at(theta)
                continue
            damping, rejected = max(DAMPING_FACTOR * damping, FIRST_DAMPING), True
            continue
        separating = None if watch is None else _separating(point, found)
        if separating is not None and (separating & watch).any():
            return found, separating
        point, last, rejected = found, fall, False
        damping = damping / DAMPING_FACTOR if damping > LEAST_DAMPING else 0.0
    return point, None


def _separating(point: Point, found: Point) -> Array | None:
    """Return whether a step uses each weight to separate classes, or None if it separates none.

    It does if no row moves away from its class, apart from rows that are far inside it. If all rows
    lie on the side of their class, all weights separate them.
    """
    family, step = point.objective.family, found.theta - point.theta
    least, lowest, highest, reach = np.inf, 0.0, 0.0, np.zeros(step.shape[1])
    slabs = zip(point.objective.slabs, point.predictions, found.predictions, strict=True)
    for (x, targets, _, _), old, new in slabs:
        margins, moved = family.margins(new, targets), family.margins(new - old, targets)
        if margins is None or moved is None:
            return None
        least, highest = min(least, float(margins.min())), max(highest, float(moved.max()))
        lowest = min(lowest, float(moved.min(where=margins < FAR_INSIDE, initial=0.0)))
        np.maximum(reach, np.abs(x).max(axis=0), out=reach)
    if least >= 0.0:
        return np.ones(len(reach), dtype=bool)
    if highest < MIN_ADVANCE or lowest < -MAX_RETREAT * highest:
        return None
    effect = np.abs(step).max(axis=0) * reach
    found_columns: Array = effect > MIN_SHARE * effect.max()
    return found_columns


def _back(inverse: Array, vectors: Array) -> Array:
    """Multiply the vector of each output by the transposed inverse factor."""
    found: Array = (inverse.transpose(0, 2, 1) @ vectors[:, :, None])[:, :, 0]
    return found


def standardised(rows: Array, units: Units, intercept: bool) -> Array:
    """Standardise rows, and append a 1 for an intercept."""
    columns = rows.shape[1]
    x = np.empty((len(rows), columns + intercept))
    np.subtract(rows, units.mean, out=x[:, :columns])
    x[:, :columns] *= 1.0 / units.size
    x[:, columns:] = 1.0
    return x


def _zero_sums(weights: Array) -> Array:
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
