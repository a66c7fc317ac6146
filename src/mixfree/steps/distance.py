"""A step's scale from the run itself, instead of a number: how far there is to go."""

from dataclasses import dataclass

import numpy as np

from mixfree.base.arithmetic import Array, State, norm
from mixfree.base.checks import check_one_of, check_positive

RELATIVE = 1e-6  # the first distance, as a share of 1 + |x0|
MARGIN = 3.0  # times the bound, which is one from below, until the run has first arrived
MOVED = 3.0  # times the movement of the mean while the samples doubled
KEPT = 0.25  # of r̄ at least, at an arrival
FIRST_EPOCH = 128
KINDS = ("bound", "average", "iterate")


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

    ``of="iterate"``, ``of="average"``: DoG (Ivgi et al. 2023), the greatest distance from x0 of
    the points, or of their average with weights proportional to t.

    Parameters
    ----------
    first
        Where r̄ begins, r_ε; a small share of 1 + |x0| unless given.
    of
        ``"bound"``, ``"average"`` or ``"iterate"``.

    Examples
    --------
    >>> Distance(first=0.5).start(np.zeros(3), per_coordinate=False)["reach"]
    array([0.5])
    """

    first: float | None = None
    of: str = "bound"

    def __post_init__(self) -> None:
        if self.first is not None:
            check_positive(self.first, "first")
        check_one_of(self.of, "of", KINDS)

    def start(self, x0: Array, per_coordinate: bool) -> State:
        """The first distance, one a coordinate or one for all, and nothing seen."""
        origin = x0.astype(np.float64)
        first = self.first
        if first is None:
            first = RELATIVE * (1.0 + (np.abs(origin).max() if per_coordinate else norm(origin)))
        return {
            "reach": np.full(origin.size if per_coordinate else 1, first),
            "peak": float(first) if self.of == "bound" else 1.0,  # λ
            "origin": origin,
            "mean": origin.copy(),
            "weight": 0.0,
            "before": origin.copy(),
            "epoch": FIRST_EPOCH,
            "pull": np.zeros(origin.size),
            "gain": 0.0,
            "margin": MARGIN,
        }

    def update(self, state: State, x: Array, step: int, steps: int) -> None:
        """Bring r̄ up to date at the point ``x``, ``steps`` steps after the last time."""
        state["weight"] += float(step) * steps
        state["mean"] += (float(step) * steps / state["weight"]) * (x - state["mean"])
        if self.of == "bound":
            self._bound(state, step)
        else:
            gone = np.abs((state["mean"] if self.of == "average" else x) - state["origin"])
            reach = state["reach"]
            np.maximum(reach, gone if reach.size > 1 else norm(gone), out=reach)

    def _bound(self, state: State, step: int) -> None:
        reach, pull = float(state["reach"][0]), state["pull"]
        per_coordinate = state["reach"].size > 1
        size = float(np.abs(pull).sum()) if per_coordinate else norm(pull)
        if size > 0.0:
            reach = max(reach, state["margin"] * state["gain"] / size)
        if step >= state["epoch"]:
            state["epoch"] *= 2
            movement = state["mean"] - state["before"]
            moved = MOVED * (float(np.abs(movement).max()) if per_coordinate else norm(movement))
            state["before"] = state["mean"].copy()
            if moved < reach:
                reach = max(moved, KEPT * reach)
                state["margin"] = 1.0
                state["origin"] = state["mean"].copy()
                state["gain"] = 0.0
                state["pull"] = np.zeros_like(pull)
            state["weight"] = 0.0
        state["reach"][:] = reach
        state["peak"] = max(state["peak"], reach)
