"""One fit to rows and sums: start, penalty and ridge."""

from dataclasses import dataclass, replace

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.linear.exact.sums import Sums
from mixfree.linear.glm.control_variates import ControlVariates
from mixfree.linear.glm.newton import DECREMENT, Objective, Point, minimise, zero_sums
from mixfree.linear.glm.rows import Kept, Rows, Settings
from mixfree.linear.losses import Huber, Robust

LEAST_PENALTY = 1e-8  # default ridge of standardised columns per row
ROUGH_DECREMENT = 1e-4  # relative Newton decrement that is enough for intermediate weights
BETA_DECREMENT = 1e-8  # the same for weights at which β is chosen
MAX_PENALTY = 1e100  # of a column that hardly varies, with a penalty in the units of the rows
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
    ridge: float = 0.0  # of standardised columns per row, beside the penalty

    @classmethod
    def of(
        cls, settings: Settings, sample: Kept, count: int, total: Sums | None, ridge: float = 0.0
    ) -> "Problem":
        """Pose the problem for a sample of ``count`` rows, which are summed in ``total`` or not."""
        rows = Rows(settings, sample, count, total)
        return cls(rows, None if total is None else ControlVariates(rows, total), ridge)

    def with_sample(self, sample: Kept) -> "Problem":
        """Pose the same problem with fewer rows of the sample."""
        rows, total = self.rows, None if self.controls is None else self.controls.total
        return Problem.of(rows.settings, sample, rows.count, total, self.ridge)

    @property
    def alone(self) -> "Problem":
        """The problem of the rows at hand, without sums and without a ridge."""
        return Problem(self.rows, None)

    @property
    def curvature(self) -> float:
        """The curvature of small residuals, whose unit is that of the ridge; 1 with a link."""
        loss = self.rows.settings.loss
        return float(loss.curvature(0.0, 0.0)) if loss.of_residuals else 1.0

    def weights(self, point: Point) -> Array:
        """Return the weights of a fit in the units of the rows."""
        return self.rows.weights(point.theta)

    def solved(self, start: Array | None, close: float = DECREMENT) -> Point:
        """Find the minimum, starting at weights in the units of the rows or at 0."""
        return self._fitted(self._first(start), close)

    def solved_with_ridge(
        self, start: Array | None, close: float = DECREMENT
    ) -> tuple["Problem", Point]:
        """Find the minimum, with a ridge if the weights cannot be estimated without.

        Only losses with a link, without λ, get a ridge. Weights cannot be estimated if a
        class has fewer rows at hand than weights, if a step separates classes, or if the sums point
        to weights that the rows at hand do not hold back. The problem that is returned has the
        ridge, too: half of that with the largest evidence for the rows at hand (MacKay 1992).
        Weights are a priori normal with variance 1/τ, and τ solves τ = γ/‖w‖² with γ, the number of
        weights that the rows determine.
        """
        settings = self.rows.settings
        if settings.loss.of_residuals or settings.l2 is not None:
            return self, self.solved(start, close)
        if not self.scarce:
            point = self._fitted(self._first(start), close, seek=True)
            if not point.unbounded:
                return self, point
        ridge, theta = self.alone._best_ridge()
        problem = replace(self, ridge=ridge)
        return problem, problem._fitted(problem._objective().at(theta), close)

    @property
    def scarce(self) -> bool:
        """Whether a class has fewer rows at hand than weights."""
        targets = self.rows.sample.targets
        counts = self.rows.settings.loss.class_counts(targets)
        return counts is not None and bool(counts.min() < min(self.rows.shape[1], len(targets)))

    def _best_ridge(self) -> tuple[float, Array]:
        """Return τ per row at hand, and weights that are close to the fit with it."""
        rows, count = self.rows, float(self.rows.sample.weights.sum())
        tau, theta = FIRST_RIDGE, np.zeros(rows.shape)
        for _ in range(MAX_RIDGE_STEPS):
            objective = replace(self, ridge=tau / count)._objective()
            point = minimise(objective.at(theta), ROUGH_DECREMENT)
            theta, last = point.theta, tau
            slopes = theta[:, : rows.settings.columns]
            square = max(float(np.vdot(slopes, slopes)), 1e-300)
            tau = min(point.determined(rows.varying) / square, MAX_RIDGE)
            if abs(tau - last) <= RIDGE_CLOSE * last:
                break
        return SHARE_OF_RIDGE * tau / count, theta

    def _first(self, start: Array | None) -> Point:
        """Return the point at which the search starts."""
        objective, rows = self._objective(), self.rows
        zero, loss = np.zeros(rows.shape), rows.settings.loss
        if rows.settings.intercept and not loss.of_residuals and len(rows.sample):
            best = loss.best_constant(rows.sample.targets, rows.sample.weights)
            zero[:, -1:] = zero_sums(best)
        first = objective.at(zero)
        if start is not None:  # not if a column that became huge has made it absurd
            given = objective.at(rows.theta(start))
            if given.value < first.value:
                return given
        if isinstance(loss, Robust):  # not convex: from the fit of a convex loss
            convex = replace(objective, loss=Huber(loss.scale))
            return objective.at(minimise(convex.at(zero), ROUGH_DECREMENT).theta)
        return first

    def _objective(self) -> Objective:
        """Return the loss of the rows alone."""
        rows, loss, l2 = self.rows, self.rows.settings.loss, self.rows.settings.l2
        penalty = np.minimum((l2 or 0.0) / rows.size / rows.size, MAX_PENALTY)
        penalty += self.curvature * (self.ridge + (LEAST_PENALTY if l2 is None else 0.0))
        penalty = np.where(rows.varying, penalty, self.curvature)
        return Objective(rows, np.append(penalty, [0.0] * rows.settings.intercept), loss)

    def _fitted(self, point: Point, close: float = DECREMENT, seek: bool = False) -> Point:
        """Minimise the loss from a point; with ``seek``, find out whether it has a minimum."""
        if self.controls is None:
            return minimise(point, close, seek)
        found = point
        # β explains the slopes at the weights where it is chosen, so it is chosen twice.
        for each in dict.fromkeys((max(close, BETA_DECREMENT), close)):
            # Beside a ridge, the curvature of the sums is of no use, and may leave no minimum.
            corrected = self.controls.corrected(found, convex=self.ridge > 0.0)
            found = minimise(corrected.at(found.theta), each, seek)
            if found.unbounded:
                return found if seek else minimise(point, close)
        return found
