"""The ladder: AdaGrad per coordinate, with its own distance and one factor for correlation."""

import math
from dataclasses import dataclass

import numpy as np

from mixfree.base.arithmetic import Array, dot
from mixfree.base.checks import check_positive, check_whole
from mixfree.base.state import State, UnitChange
from mixfree.steps import ladder_rule as rule
from mixfree.steps.ladder_rule import BLOCK, LEVELS, MARGIN, SAMPLE, Numbers, Scale
from mixfree.steps.profile import Profile


@dataclass(slots=True)
class LadderState(State):
    """The sums of :class:`Ladder`, in double precision for every dtype of the point."""

    rbar: float
    lam: float
    squares: Array  # Q = Σ (λ g)²
    weighted_sum: Array  # Σ λ g since the last arrival, of the coordinates of the sample
    origin: Array  # the point o from which distances are measured
    mean: Array  # of all points so far, with weights that grow as t³
    before: Array  # the mean when the number of steps last doubled
    carry: Array  # sketch of the gradients since the last full block
    halves: Array  # sketches of the first halves of incomplete blocks, one row per level
    totals: Array  # V_j of every level j
    total: float = 0.0  # V_0
    kappa: float = 1.0
    numerator: float = 0.0
    margin: float = MARGIN

    def check(self, what: str) -> None:
        """Scales are positive, and sums of squares are not negative."""
        if not (self.rbar > 0.0 and self.lam > 0.0 and self.kappa >= 1.0 and self.margin > 0.0):
            raise ValueError(f"state of the {what} does not fit: its scale is not positive")
        if self.total < 0.0 or (self.squares < 0.0).any() or (self.totals < 0.0).any():
            raise ValueError(f"state of the {what} does not fit: a sum of squares is negative")

    def change_units(self, change: UnitChange) -> None:
        """Convert points and sums of gradients, and the squares but for a shift.

        The sketch is of gradients over the root of their squares, which have no unit.
        """
        for name in ("origin", "mean", "before"):
            setattr(self, name, change.points(getattr(self, name)))
        self.weighted_sum = change.gradients(self.weighted_sum)
        # A column without a gradient so far has no unit yet.
        growth = np.where(self.squares > 0.0, change.growth, 1.0)
        self.squares = self.squares / growth / growth


@dataclass(frozen=True)
class Ladder:
    r"""AdaGrad per coordinate with one distance r̄ and one inflation factor κ ≥ 1.

    .. math:: Q \leftarrow Q + (\lambda g)^2, \qquad u = \lambda g / \sqrt Q, \qquad
              x \leftarrow x - \bar r\, u / \sqrt\kappa .

    r̄ is a lower bound of the distance to the solution from the run itself, and λ the largest r̄ so
    far, so that gradients from the time of tiny steps carry no weight: see
    :class:`mixfree.steps.ladder_rule.Scale`. κ is the variance inflation of sums of u over dyadic
    blocks of the stream: V_j sums ‖second half − first half‖² over blocks of 2^j, of a sketch of
    λ√t·u, whose own squares sum to V_0, and κ = 1 + Σ_j max(0, V_j/V_0 − 1). By Lemma 3.1, Σ_j V_j
    is what MLMC gradients would add to AdaGrad's sum; the ladder adds it without sampling a level.

    Parameters
    ----------
    alpha
        A fixed scale instead of r̄; ``None`` estimates r̄.
    first
        Initial value of r̄; ``None`` is :func:`mixfree.steps.ladder_rule.first_scale`.
    block
        Number of gradients summed before they enter the levels.
    length
        Factor of every step. With draws from memory, whose noise averages out, 4 to 16 is often
        better than 1.

    Examples
    --------
    >>> import mixfree as mf
    >>> opt = mf.Ladder([0.0], alpha=1e-9, block=1)
    >>> for sign in 4 * (1.0, 1.0, -1.0, -1.0):
    ...     stepped = opt.tell([sign])
    >>> opt.profile().ratios.round(3)
    array([0., 4., 0., 0.])
    """

    alpha: float | None = None
    first: float | None = None
    block: int = BLOCK
    length: float = 1.0

    def __post_init__(self) -> None:
        for name in ("alpha", "first"):
            if getattr(self, name) is not None:
                check_positive(getattr(self, name), name)
        check_positive(self.length, "length")
        check_whole(self.block, "block")

    def start(self, x0: Array) -> LadderState:
        """State of a run that has seen no gradient."""
        origin, width = x0.astype(np.float64), rule.width_of(x0.size)
        rms = math.sqrt(np.mean(origin**2))
        scale = rule.first_scale(Numbers, self.alpha, self.first, float(np.abs(origin).max()), rms)
        return LadderState(
            rbar=float(scale.rbar),
            lam=float(scale.lam),
            squares=np.zeros(x0.size),
            weighted_sum=np.zeros(x0.size),
            origin=origin,
            mean=origin.copy(),
            before=origin.copy(),
            carry=np.zeros(width),
            halves=np.zeros((LEVELS, width)),
            totals=np.zeros(LEVELS),
        )

    def begin(self, state: LadderState, first: float) -> None:
        """Set the initial distance, unless the settings give a scale or a distance."""
        if self.alpha is None and self.first is None:
            state.rbar = state.lam = float(first)

    def reach(self, state: LadderState) -> float:
        """The largest scale so far, which reveals a run that diverges."""
        return state.lam

    def move(self, state: LadderState, direction: Array, step: int, x: Array) -> Array:
        """r̄ u_t/√κ; no entry is larger than r̄."""
        g = direction.astype(np.float64, copy=False)
        self._search(state, g, step, x)
        weighted = state.lam * g
        state.squares += weighted * weighted
        root = np.sqrt(state.squares)
        u = np.divide(weighted, root, out=np.zeros_like(root), where=root > 0.0)
        displacement: Array = (self.length * state.rbar / math.sqrt(state.kappa)) * u
        sketch = (state.lam * math.sqrt(step) * u)[:: rule.stride_of(u.size)]
        state.total += dot(sketch, sketch)
        state.carry += sketch
        if step % self.block == 0:
            rule.climb(state.halves, state.totals, state.carry, step // self.block)
            state.carry = np.zeros_like(state.carry)
            state.kappa = float(rule.inflation(state.totals, state.total))
        return displacement.astype(direction.dtype, copy=False)

    def profile(self, state: LadderState, step: int) -> Profile:
        """Totals of the levels relative to independent gradients, after ``step`` steps."""
        known = min(LEVELS, max(0, (step // self.block).bit_length() - 1))
        lengths = self.block << np.arange(1, known + 1)
        blocks = step // lengths
        # The levels cover complete blocks only: scale V_0 to match, as if it had grown evenly.
        covered = state.total * blocks * lengths / max(step, 1)
        ratios = state.totals[:known] / np.where(covered > 0.0, covered, 1.0)
        return Profile(lengths, ratios, blocks)

    def _search(self, state: LadderState, g: Array, step: int, x: Array) -> None:
        """Update r̄ and λ, and restart from the mean point if the run has arrived."""
        some, moved = slice(None, None, rule.stride_of(x.size, SAMPLE)), 0.0
        sums, origin = state.weighted_sum[some], state.origin[some]
        state.weighted_sum[some], sizes = rule.pull(np, sums, origin, g[some], x[some], state.lam)
        state.mean += rule.newest_share(step) * (x - state.mean)
        if rule.ends_epoch(step):
            moved = float(rule.movement(state.mean[some], state.before[some], x[some]))
            state.before = state.mean.copy()
        state.numerator += float(sizes[1])
        if self.alpha is not None:
            return
        scale = Scale(state.rbar, state.lam, state.numerator, state.margin)
        arrived, scale = rule.update_scale(Numbers, scale, float(sizes[0]), moved)
        state.rbar, state.lam, state.numerator, state.margin = scale
        if arrived:
            state.origin, state.weighted_sum = state.mean.copy(), np.zeros_like(state.mean)
