"""One fit to rows and sums: units, penalty, ball, and the sequence of solves."""

from dataclasses import dataclass, replace

import numpy as np

from mixfree.base.arithmetic import MIN_VALUE, Array, norm
from mixfree.linear.exact.solve import CONSTANT
from mixfree.linear.exact.sums import Sums
from mixfree.linear.glm.control_variates import ControlVariates
from mixfree.linear.glm.families import Family, family_of
from mixfree.linear.glm.newton import CLOSE, Objective, Part, Point, Slabs, Units, minimise
from mixfree.linear.losses import Huber, Loss, Robust

LEAST_PENALTY = 1e-8  # default ridge of standardised columns
ROUGH = 1e-4  # relative Newton decrement that is enough for intermediate weights
MAX_TRUSTED = 20.0  # standardised weights up to which a start is not compared with 0
MAX_BALL_STEPS = 50  # Newton steps for the multiplier of the ball; usually there are a few


@dataclass(frozen=True)
class Settings:
    """Settings of :class:`mixfree.linear.glm.fit.GlmFit`."""

    loss: Loss
    columns: int
    intercept: bool
    l2: float | None
    radius: float | None

    @property
    def family(self) -> Family:
        """Family of the loss, in the unit of the targets."""
        return family_of(self.loss)


@dataclass(frozen=True)
class Problem:
    """Rows, the units in which they are fitted, and the sums of the stream."""

    settings: Settings
    parts: list[Part]
    units: Units
    weight: float
    slabs: Slabs
    known: ControlVariates | None
    ridge: Array | float = 0.0  # of standardised columns, beside the penalty

    @classmethod
    def of_rows(cls, settings: Settings, parts: list[Part]) -> "Problem":
        """Pose the problem without sums: the rows are all rows of the stream."""
        mean, size = column_units(parts, settings.columns, settings.intercept)
        units = _units(settings, mean, size, parts[0].rows.targets)
        weight = sum(map(_weight, parts))
        slabs = _slabs(settings, parts, units, weight)
        return cls(settings, parts, units, weight, slabs, None)

    @classmethod
    def of_sample(cls, settings: Settings, parts: list[Part], total: Sums) -> "Problem":
        """Pose the problem in which ``parts[0]`` is a sample of the rows summed in ``total``."""
        columns, weight = settings.columns, float(total.weight)
        mean, size = total.mean[:columns], np.sqrt(total.scatter.diagonal() / weight)
        if not settings.intercept:
            mean, size = np.zeros(columns), np.hypot(size, mean)
        units = _units(settings, mean, size, parts[0].rows.targets)
        weight += sum(map(_weight, parts[1:]))
        slabs = _slabs(settings, parts, units, weight)
        known = ControlVariates(
            settings.family,
            total,
            parts[0],
            slabs,
            units,
            intercept=settings.intercept,
            weight=weight,
        )
        return cls(settings, parts, units, weight, slabs, known)

    def solved(
        self, start: Array | None, close: float = CLOSE, watch: bool = False
    ) -> tuple["Problem", Point]:
        """Find the minimum, starting at weights in the units of the rows or at 0.

        With ``watch``, a ridge is added if classes turn out to be separable, and the problem that
        was solved has it: as strong as scikit-learn's default, ½‖w‖² beside the sum of the losses
        of the rows at hand, on the columns along which classes are separated.
        """
        free = self._slopes_that_vary if watch else None
        point, separating = self._fitted(self._first(start), 0.0, close, free)
        if separating is not None:
            return self._with_ridge(separating, start, point.theta, close)
        radius = self.settings.radius
        if radius is not None and self._length(point.theta) > radius:
            point = self._in_ball(point, radius, close)
        return self, point

    def _with_ridge(
        self, separating: Array, start: Array | None, theta: Array, close: float
    ) -> tuple["Problem", Point]:
        """Find the minimum with a ridge on the weights that separate classes.

        Where a class has fewer rows than weights, all columns take it: others separate by chance.
        """
        rows = sum(float(part.rows.weights.sum()) for part in self.parts)
        separating = separating | self._scarce
        alone, free = replace(self, known=None), self._slopes_that_vary & ~separating
        while free.any():
            alone = replace(alone, ridge=separating[: self.settings.columns] / rows)
            point, more = alone._fitted(theta, 0.0, ROUGH, free)
            if more is None:
                break
            theta, separating, free = point.theta, separating | more, free & ~more
        return replace(self, ridge=separating[: self.settings.columns] / rows).solved(start, close)

    @property
    def _slopes_that_vary(self) -> Array:
        """Which weights are slopes of columns that vary, not intercepts."""
        return np.append(np.isfinite(self.units.size), np.zeros(int(self.settings.intercept))) > 0

    def _first(self, start: Array | None) -> Array:
        """Return the standardised weights at which the search starts."""
        loss = self.settings.loss
        theta = np.zeros((loss.outputs, self.settings.columns + self.settings.intercept))
        given = None if start is None else self.standard(start)
        if given is not None and self._serves(given):
            return given
        if isinstance(loss, Robust):
            convex = family_of(Huber(loss.scale)).in_units(self.units.scale)
            return minimise(self._objective(0.0, convex), theta, ROUGH)[0].theta
        return theta

    def _serves(self, theta: Array) -> bool:
        """Whether to start at ``theta``: not if a column that became huge has made it absurd."""
        if np.abs(theta).max(initial=0.0) <= MAX_TRUSTED:
            return True
        objective = self._objective(0.0)
        return objective.at(theta).value < objective.at(np.zeros_like(theta)).value

    def own(self, theta: Array) -> Array:
        """Convert standardised weights to the units of the rows."""
        slopes = self.slopes(theta)
        if not self.settings.intercept:
            return slopes
        level = theta[:, -1] * self.units.scale + self.units.shift - slopes @ self.units.mean
        return np.column_stack([slopes, level])

    def slopes(self, theta: Array) -> Array:
        """Convert standardised weights to the units of the rows, without intercepts."""
        return theta[..., : self.settings.columns] / self.units.size * self.units.scale

    def standard(self, own: Array) -> Array:
        """Convert weights in the units of the rows to standardised weights."""
        slopes = own[:, : self.settings.columns]
        size = np.where(np.isfinite(self.units.size), self.units.size, 0.0)
        theta = slopes * size / self.units.scale
        if not self.settings.intercept:
            return theta
        level = own[:, -1] + slopes @ self.units.mean - self.units.shift
        return np.column_stack([theta, level / self.units.scale])

    def _objective(
        self, extra: float, family: Family | None = None, beta: Array | None = None
    ) -> Objective:
        """Return the loss of the rows, with ``extra`` added to λ."""
        settings, size = self.settings, self.units.size
        ridge = ((settings.l2 or 0.0) + extra) / settings.family.weight
        with np.errstate(over="ignore"):
            penalty = np.minimum(ridge / size / size, 1e100)
        penalty += self.ridge
        if settings.l2 is None:
            penalty += LEAST_PENALTY
        penalty = np.where(np.isfinite(size), penalty, 1.0)
        return Objective(
            family or settings.family.in_units(self.units.scale),
            self.slabs,
            np.append(penalty, np.zeros(int(settings.intercept))),
            self.known,
            beta,
        )

    def _fitted(
        self, theta: Array, extra: float, close: float, watch: Array | None = None
    ) -> tuple[Point, Array | None]:
        objective, helpless = self._objective(extra), False
        if self.known is not None:
            beta = self.known.best_beta(objective, theta)
            found = minimise(self._objective(extra, beta=beta), theta, close, watch)
            if found[0].value >= 0.0:
                return found
            # The sums point to weights that the kept rows do not hold back.
            helpless = watch is not None
            if helpless and self._scarce:
                return found[0], np.ones(theta.shape[1], dtype=bool)
        point, separating = minimise(objective, theta, close, watch)
        if helpless and separating is None:
            separating = np.ones(theta.shape[1], dtype=bool)
        return point, separating

    @property
    def _scarce(self) -> bool:
        """Whether a class has fewer rows than weights."""
        targets = np.concatenate([part.rows.targets for part in self.parts])
        counts = np.unique(targets, return_counts=True)[1]
        return bool(counts.min() < self.settings.columns + self.settings.intercept)

    def _length(self, theta: Array) -> float:
        return norm(self.slopes(theta).ravel())

    def _in_ball(self, point: Point, radius: float, close: float) -> Point:
        """Find the minimum on the ball by Newton's method for its multiplier (Moré and Sorensen).

        A step that leaves the interval known to contain the multiplier becomes a bisection.
        """
        columns, extra, least, most = self.settings.columns, 0.0, 0.0, np.inf
        for _ in range(MAX_BALL_STEPS):
            length = self._length(point.theta)
            if abs(length / radius - 1.0) <= 1e-9 or least >= (1.0 - 1e-12) * most:
                break
            least, most = (extra, most) if length > radius else (least, extra)
            pull = np.zeros_like(point.theta)
            slopes = point.theta[:, :columns] / self.units.size
            pull[:, :columns] = slopes / self.units.size
            fall = float(np.vdot(pull, point.solve(pull))) / float(np.vdot(slopes, slopes))
            extra += (length / radius - 1.0) / fall * self.settings.family.weight
            if not least < extra < most:
                extra = 0.5 * (least + most) if np.isfinite(most) else 2.0 * least + 1e-12
            point, _ = self._fitted(point.theta, extra, close)
        length = self._length(point.theta)
        if length > radius:
            theta = point.theta.copy()
            theta[:, :columns] *= radius / length
            point = point.objective.at(theta)
        return point


def column_units(parts: list[Part], columns: int, intercept: bool) -> tuple[Array, Array]:
    """Return the weighted mean (0 without intercept) and deviation of columns."""
    lots = [(p, part.factor) for part in parts for p in part.rows.pieces]
    mean = np.zeros(columns)
    if not lots:
        return mean, mean
    total = sum(float(p.weights.sum()) * factor for p, factor in lots)
    if intercept:
        first = lots[0][0].rows[0]
        mean = first + sum((p.weights * (f / total)) @ (p.rows - first) for p, f in lots)
    return mean, np.sqrt(sum((p.weights * (f / total)) @ (p.rows - mean) ** 2 for p, f in lots))


def _units(settings: Settings, mean: Array, size: Array, targets: Array) -> Units:
    """Return the units of columns, and of targets that are not classes."""
    constant = size <= np.maximum(CONSTANT * np.abs(mean), MIN_VALUE)
    size = np.where(constant, np.inf, size)
    if not settings.family.levels or not len(targets):
        return Units(mean, size, 0.0, 1.0)
    shift = float(np.median(targets)) if settings.intercept else 0.0
    apart = np.abs(targets - shift)
    spread = max(float(np.median(apart)) or float(apart.max()), MIN_VALUE)
    # A power of two costs no digits.
    return Units(mean, size, shift, float(np.ldexp(1.0, np.frexp(spread)[1])))


def _slabs(settings: Settings, parts: list[Part], units: Units, weight: float) -> Slabs:
    return Slabs(
        parts, units, intercept=settings.intercept, weight=weight, outputs=settings.loss.outputs
    )


def _weight(part: Part) -> float:
    return float(part.rows.weights.sum()) * part.factor
