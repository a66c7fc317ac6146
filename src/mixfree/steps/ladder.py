"""The ladder: AdaGrad's step, made smaller by what the gradients' correlation adds."""

import math
from dataclasses import dataclass, field

import numpy as np

from mixfree.base.arithmetic import Array, State, dot, norm
from mixfree.base.checks import check_positive, check_whole
from mixfree.steps.distance import Distance
from mixfree.steps.profile import Profile

BLOCK = 64
EARLY = 8  # blocks at the beginning, in which the rates are renewed at every step
LARGEST_EXPONENT = 256  # of a gradient in the state's unit: squares of sums stay finite
LEAST_UNIT = -1000  # below it 2^-unit would overflow
POWERS = {
    **dict.fromkeys(("sum", "carry", "halves", "pull", "gain"), 1),
    **dict.fromkeys(("squares", "total", "levels", "excess"), 2),
    "rate": -1,
}
# What the state has of the point's size: sums of gradients, and points.
GRADIENTS = ("sum", "carry", "halves", "pull")
POINTS = ("origin", "mean", "before")


@dataclass(frozen=True)
class Ladder:
    r"""AdaGrad with the excess of every dyadic level in its sum.

    Cut the directions g_1, g_2, … into consecutive blocks of 2^j at every level j. When a block
    is complete, D is the sum of its second half less that of its first, and V_j adds D². On
    independent data each V_j is about Q = Σ g²; the step pays for what is above:

    .. math:: \eta_t = \bar r_t / \sqrt{S_t}, \qquad S = Q + \sum_j \max(0, V_j - Q).

    Σ_j V_j is what the MLMC gradient adds to AdaGrad's sum by Lemma 3.1, over all levels and
    without drawing one. The rates are renewed at every step of the first eight blocks and then
    once a ``block``; in between, no entry moves by more than r̄, which is AdaGrad's own bound.
    Where r̄ is found on the way, the sums are of λ_t g_t and S is divided by λ_t², with λ the
    largest r̄ so far: gradients from the time when steps were tiny then count for nothing.

    Parameters
    ----------
    alpha
        A fixed scale instead of r̄; ``None`` finds it by ``distance``.
    per_coordinate
        One rate and one distance a coordinate, or one for all.
    block
        Directions summed before they enter the cascade of levels.
    max_levels
        Levels at most; ``None`` lets them grow with the run, and 0 leaves AdaGrad.
    distance
        How r̄ is found.

    Examples
    --------
    >>> import mixfree as mf
    >>> opt = mf.Ladder([0.0], alpha=1.0, block=1)
    >>> for sign in (1.0, 1.0, -1.0, -1.0):
    ...     stepped = opt.tell([sign])
    >>> opt.profile().ratios
    array([0., 4.])
    """

    alpha: float | None = None
    per_coordinate: bool = True
    block: int = BLOCK
    max_levels: int | None = None
    distance: Distance = field(default_factory=Distance)

    def __post_init__(self) -> None:
        if self.alpha is not None:
            check_positive(self.alpha, "alpha")
        check_whole(self.block, "block")
        if self.max_levels is not None:
            check_whole(self.max_levels, "max_levels", least=0)
        if not isinstance(self.distance, Distance):
            raise ValueError(f"distance must be a Distance, not {self.distance!r}")

    def start(self, x0: Array) -> State:
        """No gradient seen and no level begun; all sums are in units of 2^unit."""
        width = x0.size if self.per_coordinate else 1
        state = {
            "unit": 0,
            "rate": np.zeros(width),
            "sum": np.zeros(x0.size),  # of the gradients since the rates were last renewed
            "squares": np.zeros(width),
            "carry": np.zeros(x0.size),  # of the weighted gradients since a block was last full
            "total": np.zeros(width),  # Q
            "halves": np.zeros((0, x0.size)),
            "levels": np.zeros((0, width)),  # V_j
            "excess": np.zeros((0, width)),
            **self.distance.start(x0, self.per_coordinate),
        }
        if self.alpha is not None:
            state["reach"][:] = self.alpha
            state["peak"] = 1.0
        return state

    def move(self, state: State, direction: Array, step: int, x: Array) -> Array:
        """r̄ g_t/√S, entry by entry or as a whole."""
        size = norm(direction)
        change = max(math.frexp(size)[1], LEAST_UNIT) - state["unit"]
        if abs(change) > LARGEST_EXPONENT and size > 0.0:
            self._change_unit(state, change)
        g, length = direction.astype(np.float64, copy=False), size
        if state["unit"]:
            g, length = np.ldexp(g, -state["unit"]), math.ldexp(size, -state["unit"])
        if self.per_coordinate:
            state["squares"] += g * g
        else:
            state["squares"][0] += length * length
        state["sum"] += g
        if self.refreshes(step):
            self._refresh(state, g, length, step, x)
        if self.per_coordinate:
            reach, displacement = state["reach"], state["rate"] * g
            np.maximum(displacement, -reach, out=displacement)
            np.minimum(displacement, reach, out=displacement)
        else:
            rate, reach = state["rate"].item(), state["reach"].item()
            displacement = min(rate, reach / length if length > 0.0 else 0.0) * g
        return displacement.astype(direction.dtype, copy=False)

    def refreshes(self, step: int) -> bool:
        """Whether the ``step``-th step brings the rates up to date, and so looks at the point."""
        return step <= EARLY * self.block or step % self.block == 0

    def levels(self, step: int) -> int:
        """Levels begun after ``step`` steps."""
        begun = (step // self.block).bit_length()
        return begun if self.max_levels is None else min(begun, self.max_levels)

    def profile(self, state: State, step: int) -> Profile:
        """Totals of the levels relative to level 0, after ``step`` steps."""
        lengths = self.block << np.arange(1, len(state["levels"]) + 1)
        blocks = step // lengths
        known = blocks > 0
        lengths, blocks, totals = lengths[known], blocks[known], state["levels"][known].sum(axis=1)
        # The levels cover whole blocks only; a part of Q to match, as if it had grown evenly.
        covered = blocks * lengths / (step - step % self.block)
        whole_total = state["total"].sum()
        ratios = totals / (whole_total * covered) if whole_total > 0.0 else np.zeros(len(totals))
        return Profile(lengths, ratios, blocks)

    def _change_unit(self, state: State, change: int) -> None:
        """Keep squares far from overflow; a change of unit is a power of two, hence exact."""
        if change > 0 or not (state["squares"].any() or state["total"].any()):
            state["unit"] += change
            with np.errstate(over="ignore"):  # rates: those that overflow are cut
                for name, power in POWERS.items():
                    state[name] = np.ldexp(state[name], -power * change)
            np.minimum(state["rate"], np.finfo(np.float64).max, out=state["rate"])
            state["gain"] = float(state["gain"])

    def _refresh(self, state: State, g: Array, length: float, step: int, x: Array) -> None:
        """Take the gradients since the last time into all sums, and renew the rates."""
        weight, total = state["peak"], state["sum"]
        if self.alpha is None:
            # Σ g_i·(o − x_i), where x_i came from x_t by steps at the rates that now end.
            earlier = total - g
            if self.per_coordinate:
                back = 0.5 * dot(state["rate"], earlier**2 + (state["squares"] - g * g))
            else:
                squares = state["squares"][0] - length * length
                back = 0.5 * state["rate"][0] * (norm(earlier) ** 2 + squares)
            state["gain"] += weight * (dot(total, state["origin"] - x) - float(back))
            state["pull"] += weight * total
        state["total"] += weight**2 * state["squares"]
        state["carry"] += weight * total
        state["squares"].fill(0.0)
        total.fill(0.0)
        if step % self.block == 0:
            self._climb(state, step)
        if self.alpha is None:
            self.distance.update(state, x, step, 1 if step <= EARLY * self.block else self.block)
        above = state["excess"][0] if len(state["excess"]) else 0.0
        root = np.sqrt(state["total"] + above)
        state["rate"].fill(0.0)
        np.divide(state["peak"] * state["reach"], root, out=state["rate"], where=root > 0.0)

    def _climb(self, state: State, step: int) -> None:
        """Give the block's sum to the first level, and what is complete to the next."""
        levels, blocks = self.levels(step), step // self.block
        while len(state["halves"]) < levels:
            for name in ("halves", "levels", "excess"):
                row = np.zeros((1, state[name].shape[1]))
                state[name] = np.concatenate([state[name], row])
        halves, totals, excess = state["halves"], state["levels"], state["excess"]
        carry = state["carry"]
        complete = min((blocks & -blocks).bit_length() - 1, levels)
        for j in range(complete):
            difference = carry - halves[j]
            totals[j] += difference**2 if self.per_coordinate else norm(difference) ** 2
            carry = carry + halves[j]
        if complete < levels:
            halves[complete] = carry
        # excess[j] is the sum over level j and those above, which have not changed.
        for j in reversed(range(complete)):
            above = excess[j + 1] if j + 1 < levels else 0.0
            excess[j] = above + np.maximum(totals[j] - state["total"], 0.0)
        state["carry"].fill(0.0)
