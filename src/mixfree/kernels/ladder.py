"""Compiled :class:`mixfree.steps.Ladder` over dense rows, with numbers that sparse ones share.

The vectors of the state are rows of one table, its numbers are one array, and the sketch is a table
with its carry first.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array, largest_of
from mixfree.kernels.jit import inline, out_of_line
from mixfree.kernels.parts import project
from mixfree.kernels.run import STEPS, Run
from mixfree.kernels.vectors import clear, copy
from mixfree.steps.ladder import Ladder, LadderState
from mixfree.steps.ladder_rule import FIRST_EPOCH, GROWTH, KEPT, LEVELS, MOVED, SAMPLE, stride_of

VECTORS = ("squares", "weighted_sum", "origin", "mean", "before")
SQUARES, WEIGHTED_SUM, ORIGIN, MEAN, BEFORE, U = range(6)  # rows of the table; u is scratch
SCALARS = ("rbar", "lam", "numerator", "margin", "kappa", "total")
# Positions of the numbers; V_j is at TOTALS + j.
RBAR, LAM, NUMERATOR, MARGIN, KAPPA, TOTAL, SIZE, SHRINK, TOTALS = range(9)
CARRY, NEWEST, HALVES = range(3)  # rows of the sketch; the halves of level j from HALVES on


class LadderPlan(NamedTuple):
    """See :class:`Ladder`."""

    searches: bool  # whether r̄ is estimated, not given
    block: int
    length: float  # factor of every step
    stride: int  # of the coordinates in the sketch
    sample: int  # of those from which the distance is estimated
    farthest: float  # scale above which the run goes away without end


PLANS = {
    Ladder: lambda step, x: LadderPlan(
        step.alpha is None,
        step.block,
        float(step.length),
        stride_of(x.size),
        stride_of(x.size, SAMPLE),
        largest_of(x.dtype),
    )
}


def numbers_of(state: LadderState) -> tuple[Array, Array]:
    """The numbers of the state, and the sketch."""
    scalars = (getattr(state, name) for name in SCALARS)
    numbers = [*scalars, 0.0, 1.0 / math.sqrt(state.kappa), *state.totals]
    return np.array(numbers), np.vstack([state.carry, 0.0 * state.carry, state.halves])


def return_numbers(state: LadderState, numbers: Array, sketch: Array) -> None:
    """Hand numbers and sketch, which a kernel changed, to the state."""
    width = state.carry.size
    state.load(dict(zip(SCALARS, numbers.tolist(), strict=False)))
    state.load({"totals": numbers[TOTALS:].copy(), "carry": sketch[CARRY, :width].copy()})
    state.load({"halves": sketch[HALVES:, :width].copy()})


def arrays_of(state: Any) -> tuple[Array, Array, Array]:
    """The state as table, numbers and sketch, which are empty for other steps."""
    if not isinstance(state, LadderState):
        return np.zeros((0, 0)), np.zeros(0), np.zeros((0, 0))
    table = np.zeros((len(VECTORS) + 1, state.squares.size))
    for row, name in enumerate(VECTORS):
        table[row] = getattr(state, name)
    return table, *numbers_of(state)


def return_arrays(state: LadderState, run: Run) -> None:
    """Hand what a kernel changed to the reference's state."""
    state.load({name: run.table[row, : run.x.size].copy() for row, name in enumerate(VECTORS)})
    return_numbers(state, run.rates, run.sketch)


@inline
def ends_epoch(step):
    """See :func:`mixfree.steps.ladder_rule.ends_epoch`."""
    return step >= FIRST_EPOCH and step & (step - 1) == 0


@inline
def update_scale(numbers, moved):
    """Compiled :func:`mixfree.steps.ladder_rule.update_scale`; whether the run has arrived.

    Branches that are rarely taken, so that a step need not wait for the sums of its search.
    """
    longer = numbers[MARGIN] * numbers[NUMERATOR] > numbers[RBAR] * numbers[SIZE] > 0.0
    if longer:
        bound = numbers[MARGIN] * numbers[NUMERATOR] / numbers[SIZE]
        numbers[RBAR] = min(bound, GROWTH * numbers[RBAR])
    arrived = 0.0 < MOVED * moved < numbers[RBAR]
    if arrived:
        numbers[RBAR] = max(MOVED * moved, KEPT * numbers[RBAR])
        numbers[NUMERATOR], numbers[MARGIN] = 0.0, 1.0
    if longer:
        numbers[LAM] = max(numbers[LAM], numbers[RBAR])
    return arrived


@out_of_line
def climb(numbers, sketch, blocks):
    """Compiled :func:`mixfree.steps.ladder_rule.climb`, which also updates κ."""
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
    kappa, inverse = 1.0, 1.0 / numbers[TOTAL] if numbers[TOTAL] > 0.0 else 0.0
    for j in range(TOTALS, numbers.size):  # one division in place of one per level
        kappa += max(0.0, numbers[j] * inverse - 1.0)
    numbers[KAPPA], numbers[SHRINK] = kappa, 1.0 / math.sqrt(kappa)


@out_of_line
def step_of_ladder(plan, domain, run, row, factor, weight):
    """One step along the gradient factor · row, with weight · x added to the output's sum."""
    table, numbers, sketch, step = run.table, run.rates, run.sketch, run.counts[STEPS]
    search(plan, table, numbers, run.x, row, float(factor), step)
    size = plan.length * numbers[RBAR] * numbers[SHRINK]
    if plan.stride == 1:  # another array than the table's lets LLVM skip comparing addresses
        move(run, row, factor, weight, size, sketch[NEWEST])
    else:
        move(run, row, factor, weight, size, table[U])
        pick(table[U], run.x.size, plan.stride, sketch[NEWEST])
    add_to_sketch(numbers, sketch, numbers[LAM] * math.sqrt(step))
    if step % plan.block == 0:
        climb(numbers, sketch, step // plan.block)
    project(domain, run, np.inf)


@inline
def move(run, row, factor, weight, size, scaled):
    """Move every coordinate, and leave u in ``scaled``."""
    squares, x, sums, lam = run.table[SQUARES], run.x, run.sums[0], run.rates[LAM]
    for k in range(x.size):
        weighted = lam * (factor * row[k])
        square = squares[k] + weighted * weighted
        squares[k] = square
        u = weighted / math.sqrt(square if square > 0.0 else 1.0)
        scaled[k] = u
        sums[k] += weight * x[k]
        x[k] -= x.dtype.type(size * u)


@out_of_line
def pick(u, size, stride, out):
    """Copy every so many of the first ``size`` entries."""
    for k in range(0, size, stride):
        out[k // stride] = u[k]


@inline
def add_to_sketch(numbers, sketch, weight):
    """Add weight times the newest entries, and their squares to V_0."""
    newest, carry, square = sketch[NEWEST], sketch[CARRY], 0.0
    for b in range(carry.size):
        square += newest[b] * newest[b]
        carry[b] += weight * newest[b]
    numbers[TOTAL] += weight * weight * square


@out_of_line
def search_some(sample, table, x, row, weight, share):
    """The sums of the search over a sample of the coordinates; the mean is of all."""
    total, origin, mean, along, size = table[WEIGHTED_SUM], table[ORIGIN], table[MEAN], 0.0, 0.0
    for k in range(0, x.size, sample):
        along += row[k] * (origin[k] - x[k])
        total[k] += weight * row[k]
        size += abs(total[k])
    for k in range(x.size):
        mean[k] += share * (x[k] - mean[k])
    return along, size


@inline
def add_movement(sums, way, ahead):
    """Add a coordinate of mean − before and of x − mean to what :func:`movement` needs."""
    most, square, rest = sums
    return max(most, abs(way)), square + way * way, rest + (ahead - way) * (ahead - way)


@inline
def movement(sums):
    """Compiled :func:`mixfree.steps.ladder_rule.movement`."""
    most, square, rest = sums
    return most if square <= rest else 0.0


@out_of_line
def compare(table, x, sample):
    """The movement of the mean point over the epoch that ends, and the next epoch's beginning."""
    mean, before, sums = table[MEAN], table[BEFORE], (0.0, 0.0, 0.0)
    for k in range(0, x.size, sample):
        sums = add_movement(sums, mean[k] - before[k], x[k] - mean[k])
    copy(mean[: x.size], before)
    return movement(sums)


@inline
def search(plan, table, numbers, x, row, factor, step):
    """Compiled :meth:`mixfree.steps.Ladder._search`."""
    total, origin, mean = table[WEIGHTED_SUM], table[ORIGIN], table[MEAN]
    weight, share = numbers[LAM] * factor, 4.0 / (step + 3.0)
    along, size = 0.0, 0.0
    if plan.sample == 1:
        for k in range(x.size):
            ahead = origin[k] - x[k]
            along += row[k] * ahead
            total[k] += weight * row[k]
            size += abs(total[k])
            mean[k] += share * (x[k] - mean[k])
    else:
        along, size = search_some(plan.sample, table, x, row, weight, share)
    numbers[NUMERATOR] += weight * along
    numbers[SIZE] = size
    moved = compare(table, x, plan.sample) if ends_epoch(step) else 0.0
    if plan.searches and update_scale(numbers, moved):
        copy(mean[: x.size], origin)
        clear(total)
