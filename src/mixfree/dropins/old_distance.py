"""Estimate the scale of the steps, the distance to the solution, from the run itself."""

from dataclasses import dataclass

import numpy as np

from mixfree.base.arithmetic import Array, dot, norm
from mixfree.base.checks import check_positive
from mixfree.base.state import State, UnitChange

RELATIVE = 1e-6  # first distance, as a fraction of 1 + |x0|
MARGIN = 3.0  # factor of the lower bound until the first arrival
MOVED = 3.0  # factor of the movement of the mean point during an epoch
KEPT = 0.25  # smallest fraction of rbar that remains after an arrival
FIRST_EPOCH = 128  # steps before the mean point is first compared with the start


@dataclass(slots=True)
class DistanceState(State):
    """The scale rbar, and the sums from which it is estimated."""

    rbar: Array  # one entry per coordinate, or a single one
    lam: float  # weight of the next gradients: the largest rbar so far, or 1
    origin: Array  # the point o from which distances are measured
    mean: Array  # mean of the points of this epoch
    before: Array  # the mean of the epoch before
    weighted_sum: Array  # sum of lam_i g_i
    numerator: float = 0.0  # sum of lam_i g_i·(o − x_i)
    weight: float = 0.0  # total weight of the points in the mean
    epoch: int = FIRST_EPOCH  # step at which this epoch ends
    margin: float = MARGIN

    def check(self, what: str) -> None:
        """Scales and weights are positive."""
        if not (self.lam > 0.0 and (self.rbar > 0.0).all() and self.weight >= 0.0):
            raise ValueError(f"state of the {what} does not fit: its scale is not positive")
        if self.epoch < 1:
            raise ValueError(f"state of the {what} does not fit: epoch is {self.epoch}")

    def change_units(self, change: UnitChange) -> None:
        """Points and sums of gradients follow the coordinates; rbar stays as it is."""
        for name in ("origin", "mean", "before"):
            setattr(self, name, change.points(getattr(self, name)))
        self.weighted_sum = change.gradients(self.weighted_sum)

    def scale_gradients(self, exponent: int) -> None:
        """Multiply the sums of gradients by 2^exponent, after a change of their unit."""
        self.weighted_sum = np.ldexp(self.weighted_sum, exponent)
        self.numerator = float(np.ldexp(self.numerator, exponent))

    def extend(self, fresh: "DistanceState", per_coordinate: bool) -> None:
        """Append the coordinates of ``fresh``, whose gradients have been zero so far."""
        for name in ("origin", "mean", "before", "weighted_sum"):
            setattr(self, name, np.append(getattr(self, name), getattr(fresh, name)))
        if per_coordinate:
            self.rbar = np.append(self.rbar, fresh.rbar)

    def shift(self, by: Array) -> None:
        """Shift every point, after new coordinates have entered a sketch."""
        for point in (self.origin, self.mean, self.before):
            point += by


@dataclass(frozen=True)
class Distance:
    r"""The scale r̄ of the steps, in the units of the point.

    For a convex function, gradients g_i at x_i with any weights λ_i, and any point o,

    .. math:: \|o - x^*\| \ge \frac{\sum_i \lambda_i g_i \cdot (o - x_i)}
                                   {\|\sum_i \lambda_i g_i\|_*},

    in the maximum norm (whose dual is ∥·∥₁) or, for a single rate, in the Euclidean norm. This is
    the bound of D-adaptation (Defazio and Mishchenko 2023), with λ the largest scale so far. r̄ is
    three times the largest bound so far: it grows exponentially while gradients agree, and does
    not grow while they only fluctuate. An epoch ends whenever the number of steps has doubled. If
    its mean point has moved since the epoch before, but by less than r̄/3, the run has arrived: it
    restarts from this mean with r̄ set to three times the movement, but at least a quarter of its
    value. After the first arrival r̄ is the bound itself without the factor three, since gradients
    that agree then are more often due to a regime of the stream than to the distance.

    Parameters
    ----------
    first
        Initial value r_ε of r̄; by default 1e-6 times ``1 + |x0|``.

    Examples
    --------
    >>> Distance(first=0.5).start(np.zeros(3), per_coordinate=False).rbar
    array([0.5])
    """

    first: float | None = None

    def __post_init__(self) -> None:
        if self.first is not None:
            check_positive(self.first, "first")

    def start(self, x0: Array, per_coordinate: bool) -> DistanceState:
        """State with the initial distance, one per coordinate or one for all."""
        first = self.first
        if first is None:
            size = float(np.abs(x0).max()) if per_coordinate else norm(x0)
            first = RELATIVE * (1.0 + size)
        state = fixed_distance(x0, per_coordinate, 1.0)
        self.begin(state, first)
        return state

    def begin(self, state: DistanceState, first: float) -> None:
        """Set the initial distance."""
        state.rbar[:] = first
        state.lam = float(first)

    def add(self, state: DistanceState, total: Array, x: Array, back: float) -> None:
        """Add the latest gradients by their sum Σ g_i and Σ g_i·(x_i − x), which is ``back``."""
        state.numerator += state.lam * (dot(total, state.origin - x) - back)
        state.weighted_sum += state.lam * total

    def update(self, state: DistanceState, x: Array, step: int, steps: int) -> None:
        """Update r̄ at the point ``x``, ``steps`` steps after the last update."""
        state.weight += float(step) * steps
        state.mean += (float(step) * steps / state.weight) * (x - state.mean)
        rbar, per_coordinate = float(state.rbar[0]), state.rbar.size > 1
        total = state.weighted_sum
        size = float(np.abs(total).sum()) if per_coordinate else norm(total)
        if size > 0.0:
            rbar = max(rbar, state.margin * state.numerator / size)
        if step >= state.epoch:
            state.epoch *= 2
            movement = state.mean - state.before
            moved = MOVED * (float(np.abs(movement).max()) if per_coordinate else norm(movement))
            state.before = state.mean.copy()
            if 0.0 < moved < rbar:
                rbar = max(moved, KEPT * rbar)
                state.margin = 1.0
                state.origin = state.mean.copy()
                state.numerator = 0.0
                state.weighted_sum = np.zeros_like(total)
            state.weight = 0.0
        state.rbar[:] = rbar
        state.lam = max(state.lam, rbar)


def fixed_distance(x0: Array, per_coordinate: bool, alpha: float) -> DistanceState:
    """State of a fixed scale: rbar is ``alpha`` and every gradient has weight 1."""
    origin = x0.astype(np.float64)
    return DistanceState(
        rbar=np.full(origin.size if per_coordinate else 1, alpha),
        lam=1.0,
        origin=origin,
        mean=origin.copy(),
        before=origin.copy(),
        weighted_sum=np.zeros(origin.size),
    )
