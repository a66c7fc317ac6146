"""The ladder: AdaGrad whose accumulator includes the variance inflation of dyadic blocks."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixfree.base.arithmetic import Array, dot, norm
from mixfree.base.checks import check_positive, check_whole, shown
from mixfree.base.state import State, UnitChange
from mixfree.dropins.old_distance import Distance, DistanceState, fixed_distance
from mixfree.steps.profile import Profile

BLOCK = 64
EARLY = 8  # number of initial blocks in which the rates are updated at every step
LARGEST_EXPONENT = 64  # a gradient is at most 2^64 in the state's unit: no square overflows
LEAST_UNIT = -1000  # below it 2^-unit would overflow


@dataclass(slots=True)
class LadderState(State):
    """The rates and the sums that determine them; gradients are in units of 2^unit."""

    unit: int
    rate: Array
    sum: Array  # sum of the gradients since the last update of the rates
    squares: Array  # sum of their squares
    carry: Array  # sum of the weighted gradients since the last full block
    total: Array  # Q
    halves: Array  # first halves of incomplete blocks, one row per level
    levels: Array  # V_j, one row per level
    excess: Array  # Σ_{i ≥ j} max(0, V_i − Q), one row per level
    distance: DistanceState

    grows: ClassVar[tuple[str, ...]] = ("halves", "levels", "excess")

    def check(self, what: str) -> None:
        """Levels have one row in each table, and sums of squares are not negative."""
        if not len(self.halves) == len(self.levels) == len(self.excess) <= 64:
            raise ValueError(f"state of the {what} does not fit: its levels differ in number")
        for name in ("rate", "squares", "total", "levels", "excess"):
            if (getattr(self, name) < 0.0).any():
                raise ValueError(f"state of the {what} does not fit: {name} is negative")
        if not LEAST_UNIT <= self.unit <= 1100:
            raise ValueError(f"state of the {what} does not fit: unit is {self.unit}")

    def change_unit(self, change: int) -> None:
        """Change the unit by a power of two, which is exact, to keep squares from overflowing."""
        if change <= 0 and (self.squares.any() or self.total.any()):
            return
        self.unit += change
        for name in ("sum", "carry", "halves"):
            setattr(self, name, np.ldexp(getattr(self, name), -change))
        for name in ("squares", "total", "levels", "excess"):
            setattr(self, name, np.ldexp(getattr(self, name), -2 * change))
        with np.errstate(over="ignore"):
            self.rate = np.minimum(np.ldexp(self.rate, change), np.finfo(np.float64).max)
        self.distance.scale_gradients(-change)

    def change_units(self, change: UnitChange) -> None:
        """Convert the sums of gradients, and the squares approximately (a shift is ignored)."""
        for name in ("sum", "carry", "halves"):
            setattr(self, name, change.gradients(getattr(self, name)))
        self.distance.change_units(change)
        if self.squares.size != self.sum.size:
            return
        # A column without a gradient so far has no unit yet.
        growth = np.where(self.squares + self.total > 0.0, change.growth, 1.0)
        for name in ("squares", "total", "levels", "excess"):
            setattr(self, name, getattr(self, name) / growth / growth)
        self.rate = self.rate * growth

    def extend(self, fresh: "LadderState", per_coordinate: bool) -> None:
        """Append the coordinates of ``fresh``, whose gradients have been zero so far."""
        rates = ("rate", "squares", "total", "levels", "excess") if per_coordinate else ()
        for name in ("sum", "carry", "halves", *rates):
            mine: Array = getattr(self, name)
            new = np.zeros((*mine.shape[:-1], fresh.sum.size))
            setattr(self, name, np.concatenate([mine, new], axis=-1))
        self.distance.extend(fresh.distance, per_coordinate)

    def add_level(self) -> None:
        """Add a level."""
        for name in self.grows:
            rows: Array = getattr(self, name)
            setattr(self, name, np.concatenate([rows, np.zeros((1, rows.shape[1]))]))


@dataclass(frozen=True)
class Ladder:
    r"""AdaGrad whose accumulator includes the variance inflation of every dyadic level.

    Cut the directions g_1, g_2, … into consecutive blocks of 2^j at every level j. When a block
    is complete, D is the sum of its second half minus that of its first, and V_j adds D². On
    independent data each V_j is about Q = Σ g²; the accumulator S adds the excess over Q:

    .. math:: \eta_t = \bar r_t / \sqrt{S_t}, \qquad S = Q + \sum_j \max(0, V_j - Q).

    By Lemma 3.1, Σ_j V_j is what MLMC gradients would add to AdaGrad's sum; the ladder adds it for
    all levels without sampling a level. The rates are updated at every step of the first eight
    blocks and then once per ``block``; in between, no entry moves by more than r̄, which is
    AdaGrad's own bound. Where r̄ is estimated, the sums are of λ_t g_t and S is divided by λ_t²,
    with λ the largest r̄ so far, so that gradients from the time of tiny steps carry no weight.

    Parameters
    ----------
    alpha
        A fixed scale instead of r̄; ``None`` estimates r̄ by ``distance``.
    per_coordinate
        One rate and one distance per coordinate, or one for all.
    block
        Number of directions summed before they enter the levels.
    max_levels
        Largest number of levels; ``None`` lets it grow with the run, and 0 is plain AdaGrad.
    distance
        The estimator of r̄.
    length
        Factor of every step. With draws from memory, whose noise averages out, 4 to 16 is often
        better than 1.

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
    length: float = 1.0

    def __post_init__(self) -> None:
        if self.alpha is not None:
            check_positive(self.alpha, "alpha")
        check_positive(self.length, "length")
        check_whole(self.block, "block")
        if self.max_levels is not None:
            check_whole(self.max_levels, "max_levels", least=0)
        if not isinstance(self.distance, Distance):
            raise ValueError(f"distance must be a Distance, not {shown(self.distance)}")

    def start(self, x0: Array) -> LadderState:
        """State of a run that has seen no gradient."""
        width = x0.size if self.per_coordinate else 1
        if self.alpha is None:
            distance = self.distance.start(x0, self.per_coordinate)
        else:
            distance = fixed_distance(x0, self.per_coordinate, self.alpha)
        return LadderState(
            unit=0,
            rate=np.zeros(width),
            sum=np.zeros(x0.size),
            squares=np.zeros(width),
            carry=np.zeros(x0.size),
            total=np.zeros(width),
            halves=np.zeros((0, x0.size)),
            levels=np.zeros((0, width)),
            excess=np.zeros((0, width)),
            distance=distance,
        )

    def begin(self, state: LadderState, first: float) -> None:
        """Set the initial distance, unless the settings give a scale or a distance."""
        if self.guesses:
            self.distance.begin(state.distance, first)

    def reach(self, state: LadderState) -> float:
        """The largest scale so far, which reveals a run that diverges."""
        return state.distance.lam

    @property
    def guesses(self) -> bool:
        """Whether the settings give neither a scale nor an initial distance."""
        return self.alpha is None and self.distance.first is None

    def extend(self, state: LadderState, x0: Array) -> None:
        """Append coordinates at ``x0``, whose gradients have been zero so far."""
        state.extend(self.start(x0), self.per_coordinate)

    def move(self, state: LadderState, direction: Array, step: int, x: Array) -> Array:
        """r̄ g_t/√S, entry by entry or as a whole."""
        size = norm(direction)
        change = max(math.frexp(size)[1], LEAST_UNIT) - state.unit
        if abs(change) > LARGEST_EXPONENT and size > 0.0:
            state.change_unit(change)
        g, length = direction.astype(np.float64, copy=False), size
        if state.unit:
            g, length = np.ldexp(g, -state.unit), math.ldexp(size, -state.unit)
        if self.per_coordinate:
            state.squares += g * g
        else:
            state.squares[0] += length * length
        state.sum += g
        if self.refreshes(step):
            self._refresh(state, g, length, step, x)
        rbar = state.distance.rbar
        if self.per_coordinate:
            displacement = state.rate * g
            np.maximum(displacement, -rbar, out=displacement)
            np.minimum(displacement, rbar, out=displacement)
        else:
            rate = state.rate.item()
            displacement = min(rate, rbar.item() / length if length > 0.0 else 0.0) * g
        return displacement.astype(direction.dtype, copy=False)

    def refreshes(self, step: int) -> bool:
        """Whether the ``step``-th step updates the rates, which requires the point."""
        return step <= EARLY * self.block or step % self.block == 0

    def levels(self, step: int) -> int:
        """Number of levels after ``step`` steps."""
        begun = (step // self.block).bit_length()
        return begun if self.max_levels is None else min(begun, self.max_levels)

    def profile(self, state: LadderState, step: int) -> Profile:
        """Totals of the levels relative to level 0, after ``step`` steps."""
        lengths = self.block << np.arange(1, len(state.levels) + 1)
        blocks = step // lengths
        known = blocks > 0
        lengths, blocks, totals = lengths[known], blocks[known], state.levels[known].sum(axis=1)
        # The levels cover complete blocks only: scale Q to match, as if it had grown evenly.
        covered = blocks * lengths / (step - step % self.block)
        squares = state.total.sum()
        ratios = totals / (squares * covered) if squares > 0.0 else np.zeros(len(totals))
        return Profile(lengths, ratios, blocks)

    def _refresh(self, state: LadderState, g: Array, length: float, step: int, x: Array) -> None:
        """Add the gradients since the last update to all sums, and update the rates."""
        distance, total = state.distance, state.sum
        weight = distance.lam
        if self.alpha is None:
            # The rates have been constant since the last update, which determines x_i − x_t.
            earlier = total - g
            if self.per_coordinate:
                back = 0.5 * dot(state.rate, earlier**2 + (state.squares - g * g))
            else:
                squares = state.squares[0] - length * length
                back = 0.5 * state.rate[0] * (norm(earlier) ** 2 + squares)
            self.distance.add(distance, total, x, float(back))
        state.total += weight**2 * state.squares
        state.carry += weight * total
        state.squares.fill(0.0)
        total.fill(0.0)
        if step % self.block == 0:
            self._climb(state, step)
        if self.alpha is None:
            self.distance.update(distance, x, step, 1 if step <= EARLY * self.block else self.block)
        above = state.excess[0] if len(state.excess) else 0.0
        root = np.sqrt(state.total + above)
        state.rate.fill(0.0)
        np.divide(
            self.length * distance.lam * distance.rbar, root, out=state.rate, where=root > 0.0
        )

    def _climb(self, state: LadderState, step: int) -> None:
        """Pass the sum of the block to the first level, and complete sums to the next level."""
        levels, blocks = self.levels(step), step // self.block
        while len(state.halves) < levels:
            state.add_level()
        halves, totals, excess, carry = state.halves, state.levels, state.excess, state.carry
        complete = min((blocks & -blocks).bit_length() - 1, levels)
        for j in range(complete):
            difference = carry - halves[j]
            totals[j] += difference**2 if self.per_coordinate else norm(difference) ** 2
            carry = carry + halves[j]
        if complete < levels:
            halves[complete] = carry
        # excess[j] sums over level j and all higher levels; incomplete levels are unchanged.
        for j in reversed(range(complete)):
            above = excess[j + 1] if j + 1 < levels else 0.0
            excess[j] = above + np.maximum(totals[j] - state.total, 0.0)
        state.carry.fill(0.0)
