"""One fit to rows and sums: start, penalty, ridge and ball."""

from dataclasses import dataclass, replace

import numpy as np

from mixfree.base.arithmetic import Array, norm
from mixfree.linear.exact.sums import Sums
from mixfree.linear.glm.control_variates import ControlVariates
from mixfree.linear.glm.newton import DECREMENT, Objective, Point, minimise
from mixfree.linear.glm.rows import Kept, Rows, Settings
from mixfree.linear.losses import Huber, Poisson, Robust

LEAST_PENALTY = 1e-8  # default ridge of standardised columns per row
ROUGH_DECREMENT = 1e-4  # relative Newton decrement that is enough for intermediate weights
MAX_BALL_STEPS = 50  # Newton steps for the multiplier of the ball; usually there are a few
MAX_RIDGE_STEPS, RIDGE_CLOSE = 20, 0.05  # fits for the ridge, and its relative change at the end
FIRST_RIDGE, MAX_RIDGE = 1.0, 1e6  # beside the sum of the rows' losses
# Laplace's approximation of the evidence misses the long tail of weights that separate classes; on
# drawn problems with new rows, half of its ridge predicts better than all or a quarter of it.
SHARE_OF_RIDGE = 0.5


@dataclass(frozen=True)
class Problem:
    """Rows in standard units, the sums of their stream, and a ridge."""

    rows: Rows
    controls: ControlVariates | None
    total: Sums | None
    ridge: float = 0.0  # of standardised columns per row, beside the penalty

    @classmethod
    def of(
        cls, settings: Settings, sample: Kept, factor: float, total: Sums | None, ridge: float = 0.0
    ) -> "Problem":
        """Pose the problem for a sample of the rows summed in ``total``, or of all rows if None."""
        rows = Rows(settings, sample, factor, total)
        return cls(rows, None if total is None else ControlVariates(rows, total), total, ridge)

    def with_sample(self, sample: Kept) -> "Problem":
        """Pose the same problem with fewer rows of the sample."""
        rows = self.rows
        factor = rows.factor * len(rows.sample) / len(sample)
        return Problem.of(rows.settings, sample, factor, self.total, self.ridge)

    @property
    def alone(self) -> "Problem":
        """The problem of the rows at hand, without sums and without a ridge."""
        return replace(self, controls=None, ridge=0.0)

    def weights(self, point: Point) -> Array:
        """Return the weights of a fit in the units of the rows."""
        return self.rows.weights(point.theta)

    def solved(self, start: Array | None, close: float = DECREMENT) -> Point:
        """Find the minimum, starting at weights in the units of the rows or at 0."""
        point = self._fitted(self._first(start), close=close)
        radius = self.rows.settings.radius
        if radius is not None and self._length(point.theta) > radius:
            point = self._in_ball(point, radius, close)
        return point

    def solved_with_ridge(self, start: Array | None) -> tuple["Problem", Point]:
        """Find the minimum, with a ridge if the weights cannot be estimated without.

        They cannot if a class has fewer rows at hand than weights, if a step separates classes, or
        if the sums point to weights that the rows at hand do not hold back. The problem that is
        returned has the ridge, too: half of that with the largest evidence for the rows at hand
        (MacKay 1992). Weights are a priori normal with variance 1/τ, and τ solves τ = γ/‖w‖² with
        γ, the number of weights that the rows determine.
        """
        if not self.scarce:
            point = self._fitted(self._first(start), seek=True)
            if not point.unbounded:
                return self, point
        ridge, theta = self.alone._best_ridge()
        problem = replace(self, ridge=ridge)
        return problem, problem._fitted(theta)

    @property
    def scarce(self) -> bool:
        """Whether a class has fewer rows at hand than weights."""
        targets = self.rows.sample.targets
        counts = self.rows.loss.class_counts(targets)
        return counts is not None and bool(counts.min() < min(self.rows.shape[1], len(targets)))

    def _best_ridge(self) -> tuple[float, Array]:
        """Return τ per row at hand, and weights that are close to the fit with it."""
        rows, count = self.rows, float(self.rows.sample.weights.sum())
        tau, theta = FIRST_RIDGE, np.zeros(rows.shape)
        for _ in range(MAX_RIDGE_STEPS):
            point = replace(self, ridge=tau / count)._fitted(theta, close=ROUGH_DECREMENT)
            theta, last = point.theta, tau
            slopes = theta[:, : rows.settings.columns]
            square = max(float(np.vdot(slopes, slopes)), 1e-300)
            tau = min(point.determined(rows.varying) / square, MAX_RIDGE)
            if abs(tau - last) <= RIDGE_CLOSE * last:
                break
        return SHARE_OF_RIDGE * tau / count, theta

    def _first(self, start: Array | None) -> Array:
        """Return the standardised weights at which the search starts."""
        zero, loss = np.zeros(self.rows.shape), self.rows.loss
        if isinstance(loss, Poisson) and self.rows.settings.intercept:
            # Newton's steps from means that are much too small are much too long.
            zero[:, -1:] = loss.best_constant(self.rows.sample.targets)
        given = None if start is None else self.rows.theta(start)
        if given is not None:  # not if a column that became huge has made it absurd
            objective = self._objective()
            if objective.at(given).value < objective.at(zero).value:
                return given
        if isinstance(loss, Robust):  # not convex: from the fit of a convex loss
            return minimise(
                replace(self._objective(), loss=Huber(loss.width)), zero, ROUGH_DECREMENT
            ).theta
        return zero

    def _objective(self, extra: float = 0.0) -> Objective:
        """Return the loss of the rows alone, with ``extra`` added to λ."""
        rows, l2 = self.rows, self.rows.settings.l2
        unit = rows.unit ** (2 - rows.loss.degree)
        with np.errstate(over="ignore"):
            penalty = np.minimum(((l2 or 0.0) + extra) * unit / rows.size / rows.size, 1e100)
        penalty += self.ridge + (LEAST_PENALTY if l2 is None else 0.0)
        penalty = np.where(rows.varying, penalty, 1.0)
        penalty = np.append(penalty, np.zeros(int(rows.settings.intercept)))
        return Objective(rows, penalty, rows.loss)

    def _fitted(
        self, theta: Array, extra: float = 0.0, close: float = DECREMENT, seek: bool = False
    ) -> Point:
        """Minimise the loss; with ``seek``, find out whether it has a minimum."""
        objective = self._objective(extra)
        if self.controls is None:
            return minimise(objective, theta, close, seek)
        # A rough fit is as good without the curvature of the sums, which may have no minimum.
        for convex in (False, True)[close > DECREMENT :]:
            beta = self.controls.best_beta(objective, theta, convex)
            point = minimise(self.controls.corrected(objective, beta), theta, close, seek)
            if not point.unbounded:
                return point
        return point if seek else minimise(objective, theta, close)

    def _length(self, theta: Array) -> float:
        return norm(self.rows.slopes(theta).ravel())

    def _in_ball(self, point: Point, radius: float, close: float) -> Point:
        """Find the minimum on the ball by Newton's method for its multiplier (Moré and Sorensen).

        A step that leaves the interval known to contain the multiplier becomes a bisection.
        """
        rows, columns = self.rows, self.rows.settings.columns
        unit = rows.unit ** (2 - rows.loss.degree)
        extra, least, most = 0.0, 0.0, np.inf
        for _ in range(MAX_BALL_STEPS):
            length = self._length(point.theta)
            if abs(length / radius - 1.0) <= 1e-9 or least >= (1.0 - 1e-12) * most:
                break
            least, most = (extra, most) if length > radius else (least, extra)
            pull = np.zeros_like(point.theta)
            slopes = point.theta[:, :columns] / rows.size
            pull[:, :columns] = slopes / rows.size
            fall = float(np.vdot(pull, point.solve(pull))) / float(np.vdot(slopes, slopes))
            extra += (length / radius - 1.0) / fall / unit
            if not least < extra < most:
                extra = 0.5 * (least + most) if np.isfinite(most) else 2.0 * least + 1e-12
            point = self._fitted(point.theta, extra, close)
        length = self._length(point.theta)
        if length > radius:
            theta = point.theta.copy()
            theta[:, :columns] *= radius / length
            point = point.objective.at(theta)
        return point
