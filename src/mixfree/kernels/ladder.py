"""Twin of :class:`mixfree.steps.Ladder` over dense rows, with numbers that sparse ones share.

The vectors of the state are rows of one table, its numbers are one array, and the sketch is a table
with its carry first.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array, farthest_of
from mixfree.base.state import UnitChange
from mixfree.kernels.domains import project
from mixfree.kernels.jit import apart, inline
from mixfree.kernels.run import STEPS, Run
from mixfree.kernels.vectors import clear, copy
from mixfree.steps.ladder import Ladder, LadderState
from mixfree.steps.ladder_rule import FIRST_EPOCH, KEPT, LEVELS, MOVED, WIDTH, signs

VECTORS = ("squares", "weighted_sum", "origin", "mean", "before")
SQUARES, WEIGHTED_SUM, ORIGIN, MEAN, BEFORE, U, SIGNS = range(7)  # rows of the table
SCALARS = ("rbar", "lam", "numerator", "margin", "kappa", "total")
RBAR, LAM, NUMERATOR, MARGIN, KAPPA, TOTAL, SIZE, TOTALS = range(8)  # numbers; V_j from TOTALS on
CARRY, NEWEST, HALVES = range(3)  # rows of the sketch; the halves of level j from HALVES on


class LadderPlan(NamedTuple):
    """See :class:`Ladder`."""

    searches: bool  # whether r̄ is estimated, not given
    block: int
    length: float  # factor of every step
    farthest: float  # scale above which the run goes away without end


PLANS = {
    Ladder: lambda step, x: LadderPlan(
        step.alpha is None, step.block, float(step.length), farthest_of(x.dtype)
    )
}


def signs_of(step: Any, size: int) -> Array:
    """The sign of every coordinate in the sketch."""
    return np.repeat(signs(step.seed, -(-size // WIDTH)), WIDTH)[:size]


def numbers_of(state: LadderState) -> tuple[Array, Array]:
    """The numbers of the state, and the sketch."""
    numbers = [*(getattr(state, name) for name in SCALARS), 0.0, *state.totals]
    sketch = np.vstack([state.carry, np.zeros_like(state.carry), state.halves])
    return np.array(numbers), sketch


def return_numbers(state: LadderState, numbers: Array, sketch: Array) -> None:
    """Hand numbers and sketch, which a kernel changed, to the state."""
    width = state.carry.size
    state.load(dict(zip(SCALARS, numbers.tolist(), strict=False)))
    state.load({"totals": numbers[TOTALS:].copy(), "carry": sketch[CARRY, :width].copy()})
    state.load({"halves": sketch[HALVES:, :width].copy()})


def arrays_of(step: Any, state: Any) -> tuple[Array, Array, Array]:
    """The state as table, numbers and sketch, which are empty for other steps."""
    if not isinstance(state, LadderState):
        return np.zeros((0, 0)), np.zeros(0), np.zeros((0, 0))
    size = state.squares.size
    rows = [getattr(state, name) for name in VECTORS] + [np.zeros(size)]
    if size > WIDTH:
        rows.append(signs_of(step, size))
    return np.array(rows), *numbers_of(state)


def return_arrays(state: LadderState, run: Run) -> None:
    """Hand what a kernel changed to the reference's state."""
    state.load({name: run.table[row, : run.x.size].copy() for row, name in enumerate(VECTORS)})
    return_numbers(state, run.rates, run.sketch)


def change_units(run: Run, change: UnitChange) -> None:
    """Twin of :meth:`mixfree.steps.ladder.LadderState.change_units`."""
    table = run.table[:, : run.x.size]
    table[ORIGIN : BEFORE + 1] = change.points(table[ORIGIN : BEFORE + 1])
    table[WEIGHTED_SUM] = change.gradients(table[WEIGHTED_SUM])
    growth = np.where(table[SQUARES] > 0.0, change.growth, 1.0)
    table[SQUARES] = table[SQUARES] / growth / growth


@inline
def ends_epoch(step):
    """See :func:`mixfree.steps.ladder_rule.ends_epoch`."""
    return step >= FIRST_EPOCH and step & (step - 1) == 0


@inline
def update_scale(numbers, moved):
    """Twin of :func:`mixfree.steps.ladder_rule.update_scale`; whether the run has arrived."""
    rbar, reach, arrived = numbers[RBAR], MOVED * moved, False
    if numbers[SIZE] > 0.0:
        rbar = max(rbar, numbers[MARGIN] * numbers[NUMERATOR] / numbers[SIZE])
    if 0.0 < reach < rbar:
        arrived, rbar = True, max(reach, KEPT * rbar)
        numbers[NUMERATOR], numbers[MARGIN] = 0.0, 1.0
    numbers[RBAR], numbers[LAM] = rbar, max(numbers[LAM], rbar)
    return arrived


@apart
def climb(numbers, sketch, blocks):
    """Twin of :func:`mixfree.steps.ladder_rule.climb`, which also updates κ."""
    carry, level = sketch[CARRY], 0
    while level < LEVELS and (blocks >> level) & 1 == 0:
        half, square = sketch[HALVES + level], 0.0
        for b in range(carry.size):
            square += (carry[b] - half[b]) * (carry[b] - half[b])
        for b in range(carry.size):
            carry[b] += half[b]
        numbers[TOTALS + level] += square
        level += 1
    if level < LEVELS:
        copy(carry, sketch[HALVES + level])
    clear(carry)
    kappa = 1.0
    for j in range(TOTALS, numbers.size):
        kappa += max(0.0, numbers[j] / numbers[TOTAL] - 1.0) if numbers[TOTAL] > 0.0 else 0.0
    numbers[KAPPA] = kappa


@apart
def step_of_ladder(plan, domain, run, row, factor, weight):
    """One step along the gradient factor · row, with weight · x added to the output's sum."""
    table, numbers, x, sums, step = run.table, run.rates, run.x, run.sums[0], run.counts[STEPS]
    search(plan, table, numbers, x, row, float(factor), step)
    squares, u, lam = table[SQUARES], table[U], numbers[LAM]
    size = plan.length * numbers[RBAR] / math.sqrt(numbers[KAPPA])
    for k in range(x.size):
        weighted = lam * (factor * row[k])
        square = squares[k] + weighted * weighted
        squares[k] = square
        u[k] = weighted / math.sqrt(square if square > 0.0 else 1.0)
    for k in range(x.size):
        sums[k] += weight * x[k]
        x[k] -= x.dtype.type(size * u[k])
    add_to_sketch(table, numbers, run.sketch, lam * math.sqrt(step))
    if step % plan.block == 0:
        climb(numbers, run.sketch, step // plan.block)
    project(domain, run, np.inf)


@apart
def search(plan, table, numbers, x, row, factor, step):
    """Twin of :meth:`mixfree.steps.Ladder._search`."""
    total, origin, mean, before = table[WEIGHTED_SUM], table[ORIGIN], table[MEAN], table[BEFORE]
    weight, share = numbers[LAM] * factor, 2.0 / (step + 1.0)
    along, size, moved = 0.0, 0.0, 0.0
    for k in range(x.size):
        along += row[k] * (origin[k] - x[k])
    for k in range(x.size):
        total[k] += weight * row[k] if x[k] != origin[k] else 0.0
        mean[k] += share * (x[k] - mean[k])
    for k in range(x.size):
        size += abs(total[k])
    numbers[NUMERATOR] += weight * along
    numbers[SIZE] = size
    if ends_epoch(step):
        for k in range(x.size):
            moved = max(moved, abs(mean[k] - before[k]))
        copy(mean[: x.size], before)
    if plan.searches and update_scale(numbers, moved):
        copy(mean[: x.size], origin)
        clear(total)


@inline
def add_to_sketch(table, numbers, sketch, weight):
    """Add weight · u to the sketch, and its square to V_0."""
    u, carry, square = table[U], sketch[CARRY], 0.0
    if table.shape[0] > SIGNS:
        newest, sign = sketch[NEWEST], table[SIGNS]
        clear(newest)
        for k in range(u.size):
            newest[k % WIDTH] += sign[k] * u[k]
    else:
        newest = u
    for b in range(carry.size):
        square += newest[b] * newest[b]
    for b in range(carry.size):
        carry[b] += weight * newest[b]
    numbers[TOTAL] += weight * weight * square
