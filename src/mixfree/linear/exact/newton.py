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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import linalg

from mixfree.base.arithmetic import Array
from mixfree.linear.exact.families import Family, probabilities
from mixfree.linear.exact.products import Products
from mixfree.linear.exact.reservoir import Kept

VALUES = 1 << 16  # standardised values in use at a time
# BLAS multiplies products with fewer multiplications in one thread: waking other threads takes
# longer, and ten times as long on a busy machine.
ALONE = 1 << 18
FEWEST = 128  # rows of a slab, below which products of wide rows become slow
CACHED = 1 << 22  # most standardised values that are kept between steps
CLOSE = 1e-12  # Newton decrement, relative to the loss, at which steps end
BEYOND = 1e-4  # factor of that tolerance for steps with an old Hessian
RESIDUAL = 1e-6  # squared relative residual of conjugate gradients
ROUGHLY = 1e-2  # the same for a rough minimum
ROUNDS, CUTS, PRODUCTS = 60, 30, 100  # most Newton steps, halvings per step, products per step
SERVES = 0.1  # an old Hessian is used while the decrement falls by this factor per step
ADAPTED = 0.5  # the same if BFGS adapts it
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
        self._length = max(min(VALUES // width, max(ALONE // (width * outputs), FEWEST)), 1)
        size = sum(len(part.rows) for part in parts) * width
        self._stored = [list(self._cut(part)) for part in parts] if size <= CACHED else None

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


@dataclass(frozen=True, slots=True)
class Control:
    """β times the stream's sums minus their estimates from the kept rows."""

    linear: Array  # outputs × weights
    quadratic: Array  # weights × weights
    bend: Array  # β₀ per output


@dataclass(slots=True)
class Point:
    """Weights of standardised columns, and the loss there."""

    theta: Array
    predictions: list[Array]
    value: float
    gradient: Array


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
    """

    def __init__(self, family: Family, slabs: Slabs, penalty: Array) -> None:
        self.family, self.slabs, self.penalty = family, slabs, penalty
        self.control: Control | None = None  # the correction by the stream's sums
        self._several = family.outputs > 1

    def at(self, theta: Array) -> Point:
        """Return value and gradient at ``theta``, outputs × weights."""
        value, gradient, predictions = 0.0, self.penalty * theta, []
        with np.errstate(over="ignore"):
            value += 0.5 * float(np.vdot(theta, gradient))
            for x, targets, weights, _ in self.slabs:
                z = x @ theta.T
                at = self.family.at(z, targets)
                value += float(weights @ at.value)
                gradient += (at.slope * weights[:, None]).T @ x
                predictions.append(z)
            if self.control is not None:
                bent = self.control.bend[:, None] * (theta @ self.control.quadratic)
                value += float(np.vdot(theta, self.control.linear + 0.5 * bent))
                gradient += self.control.linear + bent
        if self._several:
            gradient = _zero_sums(gradient)
        return Point(theta, predictions, value, gradient)

    def factor(self, point: Point, bound: bool) -> tuple[Array, bool] | None:
        """Factor the Hessian, or that of a quadratic ``bound``; None if it is indefinite.

        For several outputs, the factor is that of an average Hessian, as a preconditioner.
        """
        products, negative = Products(len(self.penalty)), Products(len(self.penalty))
        for (x, targets, weights, _), z in zip(self.slabs, point.predictions, strict=True):
            bend = weights * self.family.curvature(z, targets, bound)
            products.add(x * np.sqrt(np.maximum(bend, 0.0))[:, None])
            if bend.min() < 0.0:
                negative.add(x * np.sqrt(np.maximum(-bend, 0.0))[:, None])
        hessian = products.total - negative.total
        np.fill_diagonal(hessian, hessian.diagonal() + self.penalty)
        if self.control is not None:
            change = self.control.bend.mean() * self.control.quadratic
            factor = _cholesky(hessian + change)
            if factor is not None:
                return factor
        return _cholesky(hessian)

    def factored(self, point: Point) -> tuple[Array, bool]:
        """Factor the Hessian, or that of the bound if the Hessian is indefinite."""
        factor = self.factor(point, bound=False) or self.factor(point, bound=True)
        assert factor is not None
        return factor

    def solve(
        self,
        factor: tuple[Array, bool],
        point: Point,
        right: Array,
        bound: bool = False,
        residual: float = RESIDUAL,
    ) -> Array:
        """Multiply ``right``, whose last two axes are outputs and weights, by the inverse Hessian.

        With ``bound``, by the inverse of the factored bound, which all outputs share.
        ``residual`` is the squared relative tolerance of the equations of softmax.
        """
        if not self._several:
            return _solved(factor, right)
        if bound:
            return _zero_sums(_solved(factor, right))
        return self._conjugate_gradients(factor, point, right, residual)

    def _conjugate_gradients(
        self, factor: tuple[Array, bool], point: Point, b: Array, residual: float
    ) -> Array:
        """Solve for one or several right-hand sides, with a preconditioner."""
        shape = b.shape
        b = b.reshape(-1, *shape[-2:])
        chances = [probabilities(z) for z in point.predictions]

        def precondition(r: Array) -> Array:
            return _zero_sums(_solved(factor, r))

        def dots(a: Array, c: Array) -> Array:
            found: Array = np.einsum("bkq,bkq->b", a, c)
            return found[:, None, None]

        x, r = np.zeros_like(b), b.copy()
        y = precondition(r)
        d, rho = y, dots(r, y)
        goal = residual * rho
        for _ in range(PRODUCTS):
            if (rho <= goal).all():
                break
            product = self._product(chances, d)
            bend = dots(d, product)
            # A solution is finished when it has converged or the curvature is not positive.
            going = (bend > 0.0) & (rho > goal)
            step = np.where(going, rho / np.where(going, bend, 1.0), 0.0)
            if not going.any():
                break
            x, r = x + step * d, r - step * product
            y = precondition(r)
            before, rho = rho, dots(r, y)
            d = y + np.where(going, rho / np.where(before > 0.0, before, 1.0), 0.0) * d
        if not x.any():
            x = precondition(b)
        return x.reshape(shape)

    def _product(self, chances: list[Array], d: Array) -> Array:
        """Multiply directions × outputs × weights by the Hessian of softmax."""
        count, outputs, size = d.shape
        found = self.penalty * d
        flat = d.reshape(-1, size).T
        for (x, _, weights, _), p in zip(self.slabs, chances, strict=True):
            moved = (x @ flat).reshape(len(x), count, outputs)
            moved -= np.einsum("nbk,nk->nb", moved, p)[:, :, None]
            moved *= (weights[:, None] * p)[:, None, :]
            found += (moved.reshape(len(x), -1).T @ x).reshape(d.shape)
        if self.control is not None:
            found += self.control.bend[:, None] * (d @ self.control.quadratic)
        return _zero_sums(found)


def minimise(objective: Objective, theta: Array, close: float = CLOSE) -> Point | None:
    """Find the minimum near ``theta`` by Newton steps, halved until the loss decreases.

    A factored Hessian, which BFGS adapts if there is one output, is kept as long as the decrement
    falls fast. Where the loss's own curvature fails, steps use that of a quadratic bound. Return
    None if the objective becomes negative, which no stream's loss is: the correction is then wrong.
    """
    point = objective.at(theta)
    bound, old, last = False, None, np.inf
    failed: Point | None = None  # where the loss's own curvature has failed
    changes: list[tuple[Array, Array]] = []  # of weights and gradients, since the old Hessian
    residual = RESIDUAL if close <= CLOSE else ROUGHLY
    one = len(theta) == 1
    serves = ADAPTED if one else SERVES
    for _ in range(ROUNDS):
        if not point.value >= 0.0:
            return None
        factor = old or objective.factor(point, bound)
        if factor is None:
            if bound:
                break
            bound, failed = True, point
            continue
        solve = partial(objective.solve, factor, point, bound=bound, residual=residual)
        direction = -_quasi_newton(solve, point.gradient, changes)
        fall = -float(np.vdot(point.gradient, direction))
        if old is not None and not fall <= serves * last:
            old, changes = None, []
            continue
        # Steps with an old Hessian converge more slowly, so their tolerance is smaller.
        if not fall > (close if old is None else BEYOND * close) * abs(point.value):
            # The bound's steps are short: try the loss itself, but not twice at one point.
            if bound and fall > 0.0 and point is not failed:
                bound, old = False, None
                continue
            break
        found, whole = _search(objective, point, direction, fall)
        if found is None:
            if old is None:
                if bound:
                    break
                failed = point
            bound, old = old is None, None
            continue
        if whole and not bound:
            old, last = factor, fall
            step, change = found.theta - point.theta, found.gradient - point.gradient
            if one and np.vdot(step, change) != 0.0:  # 0 where the loss is flat to rounding
                changes.append((step, change))
        else:
            old, last, changes = None, np.inf, []
        bound = not whole and not bound
        point = found
    return point


def _quasi_newton(
    solve: Callable[[Array], Array], gradient: Array, changes: list[tuple[Array, Array]]
) -> Array:
    """Multiply by the inverse Hessian that BFGS adapts to changes of (weights, gradient)."""
    found, shares = gradient, []
    for step, change in reversed(changes):
        share = np.vdot(step, found) / np.vdot(step, change)
        shares.append(share)
        found = found - share * change
    found = solve(found)
    for (step, change), share in zip(changes, reversed(shares), strict=True):
        found = found + (share - np.vdot(change, found) / np.vdot(step, change)) * step
    return found


def _search(
    objective: Objective, point: Point, direction: Array, fall: float
) -> tuple[Point | None, bool]:
    """Return the first of the steps 1, ½, ¼, … that decreases the loss, and whether it is 1."""
    step = 1.0
    rounding = 1e-15 * abs(point.value)
    for cut in range(CUTS):
        found = objective.at(point.theta + step * direction)
        if found.value <= point.value - 1e-4 * step * fall + rounding:
            return found, cut == 0
        step *= 0.5
    return None, False


def standardised(rows: Array, units: Units, intercept: bool) -> Array:
    """Standardise rows, and append a 1 for an intercept."""
    columns = rows.shape[1]
    x = np.empty((len(rows), columns + intercept))
    np.subtract(rows, units.mean, out=x[:, :columns])
    x[:, :columns] *= 1.0 / units.size
    x[:, columns:] = 1.0
    return x


def _solved(factor: tuple[Array, bool], right: Array) -> Array:
    """Multiply vectors along the last axis by the inverse of a factored matrix."""
    flat = right.reshape(-1, right.shape[-1])
    found: Array = linalg.cho_solve(factor, flat.T, check_finite=False).T.reshape(right.shape)
    return found


def _zero_sums(weights: Array) -> Array:
    """Subtract the mean over outputs, to which softmax is invariant."""
    found: Array = weights - weights.mean(axis=-2, keepdims=True)
    return found


def _cholesky(matrix: Array) -> tuple[Array, bool] | None:
    """Factor a matrix with a slightly larger diagonal; None if it is not positive definite."""
    diagonal = matrix.diagonal()
    if not np.isfinite(diagonal).all():
        return None
    least = max(float(diagonal.max(initial=0.0)), 1e-300)
    lifted = matrix.copy()
    np.fill_diagonal(lifted, diagonal + JITTER * np.maximum(diagonal, 1e-6 * least))
    try:
        lower = linalg.cholesky(lifted, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    return lower, True
