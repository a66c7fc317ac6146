"""A step's scale from the run itself, instead of a number: how far there is to go."""

from dataclasses import dataclass

import numpy as np

from mixfree.base.arithmetic import Array, dot, norm
from mixfree.base.checks import check_one_of, check_positive
from mixfree.base.state import State, UnitChange

RELATIVE = 1e-6  # first distance, as a fraction of 1 + |x0|
MARGIN = 3.0  # factor of the bound, which is one from below, until the run has first arrived
MOVED = 3.0  # factor of the mean's movement while the samples doubled
KEPT = 0.25  # least fraction of rbar that an arrival leaves
FIRST_EPOCH = 128  # steps before the mean point is first compared with the start
KINDS = ("bound", "iterate")


@dataclass(slots=True)
class DistanceState(State):
    """The scale rbar, and what it was found from."""

    rbar: Array  # one entry per coordinate, or a single one
    lam: float  # weight of the next gradients: the largest rbar so far, or 1
    origin: Array  # the point o that distances are measured from
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
        """Express gradients as multiples of a unit that is 2^exponent times smaller."""
        self.weighted_sum = np.ldexp(self.weighted_sum, exponent)
        self.numerator = float(np.ldexp(self.numerator, exponent))

    def extend(self, fresh: "DistanceState", per_coordinate: bool) -> None:
        """Add the coordinates of ``fresh``, which have stood still with gradients of zero."""
        for name in ("origin", "mean", "before", "weighted_sum"):
            setattr(self, name, np.append(getattr(self, name), getattr(fresh, name)))
        if per_coordinate:
            self.rbar = np.append(self.rbar, fresh.rbar)

    def shift(self, by: Array) -> None:
        """Move every point, where the vector is a sketch of one that has become longer."""
        for point in (self.origin, self.mean, self.before):
            point += by


@dataclass(frozen=True)
class Distance:
    r"""The scale r̄ of the steps, in the units of the point.

    ``of="bound"``: for a convex function, gradients g_i at x_i with any weights λ_i, and any
    point o,

    .. math:: \|o - x^*\| \ge \frac{\sum_i \lambda_i g_i \cdot (o - x_i)}
                                   {\|\sum_i \lambda_i g_i\|_*},

    in the largest entry (dual: ∥·∥₁) or, for a single rate, the Euclidean norm: the bound of
    D-adaptation (Defazio and Mishchenko 2023), with λ the largest scale so far. r̄ is three
    times the greatest value seen. It grows exponentially while gradients agree and not at all
    when they only vary. Whenever the samples have doubled, the mean point since is compared with
    the one before: when it has moved by less than r̄/3, the run has arrived, and it goes on from
    that mean as from a new start, with r̄ shrunk to three times the movement, at most to a
    quarter. From the first arrival on, the bound counts once: what makes gradients agree then is
    more often a regime of the stream than a way to go.

    ``of="iterate"``: DoG (Ivgi et al. 2023), the greatest distance of the points from x0.

    Parameters
    ----------
    first
        Where r̄ begins, r_ε; 1e-6 times ``1 + |x0|`` unless given.
    of
        ``"bound"`` or ``"iterate"``.

    Examples
    --------
    >>> Distance(first=0.5).start(np.zeros(3), per_coordinate=False).rbar
    array([0.5])
    """

    first: float | None = None
    of: str = "bound"

    def __post_init__(self) -> None:
        if self.first is not None:
            check_positive(self.first, "first")
        check_one_of(self.of, "of", KINDS)

    def start(self, x0: Array, per_coordinate: bool) -> DistanceState:
        """The first distance, one per coordinate or one for all, and nothing seen."""
        first = self.first
        if first is None:
            size = float(np.abs(x0).max()) if per_coordinate else norm(x0)
            first = RELATIVE * (1.0 + size)
        state = fixed_distance(x0, per_coordinate, 1.0)
        self.begin(state, first)
        return state

    def begin(self, state: DistanceState, first: float) -> None:
        """Begin with this distance."""
        state.rbar[:] = first
        if self.of == "bound":
            state.lam = float(first)

    def add(self, state: DistanceState, total: Array, x: Array, back: float) -> None:
        """Take the sum Σ g_i of the latest gradients, where Σ g_i·(x_i − x) is ``back``."""
        if self.of == "bound":
            state.numerator += state.lam * (dot(total, state.origin - x) - back)
            state.weighted_sum += state.lam * total

    def update(self, state: DistanceState, x: Array, step: int, steps: int) -> None:
        """Bring r̄ up to date at the point ``x``, ``steps`` steps after the last time."""
        state.weight += float(step) * steps
        state.mean += (float(step) * steps / state.weight) * (x - state.mean)
        if self.of == "bound":
            self._bound(state, step)
        else:
            gone = np.abs(x - state.origin)
            np.maximum(state.rbar, gone if state.rbar.size > 1 else norm(gone), out=state.rbar)

    def _bound(self, state: DistanceState, step: int) -> None:
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
            if moved < rbar:
                rbar = max(moved, KEPT * rbar)
                state.margin = 1.0
                state.origin = state.mean.copy()
                state.numerator = 0.0
                state.weighted_sum = np.zeros_like(total)
            state.weight = 0.0
        state.rbar[:] = rbar
        state.lam = max(state.lam, rbar)


def fixed_distance(x0: Array, per_coordinate: bool, alpha: float) -> DistanceState:
    """The state of a scale that is given: rbar is ``alpha`` and every gradient has weight 1."""
    origin = x0.astype(np.float64)
    return DistanceState(
        rbar=np.full(origin.size if per_coordinate else 1, alpha),
        lam=1.0,
        origin=origin,
        mean=origin.copy(),
        before=origin.copy(),
        weighted_sum=np.zeros(origin.size),
    )
