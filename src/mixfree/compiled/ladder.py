"""Twin of :class:`mixfree.steps.Ladder`: its state is one table, a vector a row."""

import math
from typing import NamedTuple

import numpy as np

from mixfree.compiled.jit import apart, inline
from mixfree.steps.ladder import LARGEST_EXPONENT

FIXED, OF_AVERAGE, OF_ITERATE = range(3)
SQUARES, SUM, RATE, REACH, ORIGIN, MEAN, LEVELS = range(7)  # rows; from LEVELS on, three a level
HALF, TOTAL, EXCESS = range(3)
SHRINK, WEIGHT = range(2)  # of the numbers: 2^-unit, and the weight of the mean so far
_LEAST, _MOST = 4.0**-LARGEST_EXPONENT, 4.0 ** (LARGEST_EXPONENT - 1)
_VECTORS = ("squares", "sum", "rate", "reach", "origin", "mean")
_TABLES = ("halves", "totals", "excess")


class LadderPlan(NamedTuple):
    """The numbers that do not change during a run."""

    block: int
    max_levels: int
    width: int  # the dimension, or 1 for one rate
    reach: int


class LadderRun(NamedTuple):
    """What changes."""

    table: np.ndarray
    numbers: np.ndarray


def ladder_plan(step, dimension):
    """The plan of a ladder; of another step, one that is not used."""
    if not hasattr(step, "block"):
        return LadderPlan(1, 0, 1, FIXED)
    reach = OF_AVERAGE if step.distance.of == "average" else OF_ITERATE
    return LadderPlan(
        block=step.block,
        max_levels=64 if step.max_levels is None else step.max_levels,
        width=dimension if step.per_coordinate else 1,
        reach=reach if step.alpha is None else FIXED,
    )


def ladder_run(step, state, steps):
    """The ladder's state in a table of its own, with room for the levels of ``steps`` steps."""
    if "squares" not in state:
        return LadderRun(np.zeros((0, 0)), np.zeros(2))
    table = np.zeros((LEVELS + 3 * step.levels(steps), state["sum"].size))
    for row, name in enumerate(_VECTORS):
        table[row, : state[name].size] = state[name]
    for place, name in enumerate(_TABLES):
        rows, width = state[name].shape
        table[LEVELS + place :: 3, :width][:rows] = state[name]
    return LadderRun(table, np.array([math.ldexp(1.0, -state["unit"]), state["weight"]]))


def return_ladder(step, state, run, steps):
    """Put what a kernel changed back into the reference's state."""
    if "squares" not in state:
        return
    for row, name in enumerate(_VECTORS):
        state[name] = run.table[row, : state[name].size].copy()
    for place, name in enumerate(_TABLES):
        width = state[name].shape[1]
        state[name] = run.table[LEVELS + place :: 3, :width][: step.levels(steps)].copy()
    state["unit"] = 1 - math.frexp(run.numbers[SHRINK])[1]
    state["weight"] = float(run.numbers[WEIGHT])


@inline
def climb_along(plan, run, row, factor, square, step, x, out):
    """Bring the ladder up to date with the gradient factor · row; the displacement as v, η.

    ``square`` is the gradient's sum of squares. Per coordinate, the displacement is written to
    ``out``, which may be ``row``; otherwise it is a multiple of ``row``.
    """
    table, numbers = run.table, run.numbers
    share = square * numbers[SHRINK] * numbers[SHRINK]
    if not _LEAST < share < _MOST:
        share = choose_unit(table, numbers, row, factor)
    scale = factor * numbers[SHRINK]
    total, squares, rate, reach = table[SUM], table[SQUARES], table[RATE], table[REACH]
    for k in range(total.size):
        total[k] += scale * row[k]
    if plan.width == 1:
        squares[0] += share
    else:
        for k in range(squares.size):
            g = scale * row[k]
            squares[k] += g * g
    if step <= plan.block or step % plan.block == 0:
        refresh(plan, table, numbers, step, x)
    if plan.width == 1:
        length = math.sqrt(share)
        size = reach[0] / length if rate[0] * length > reach[0] else rate[0]
        return row, scale * size
    for k in range(rate.size):
        out[k] = min(max(rate[k] * (scale * row[k]), -reach[k]), reach[k])
    return out, 1.0


@apart
def choose_unit(table, numbers, row, factor):
    """See :meth:`mixfree.steps.Ladder._choose_unit`; returns ‖g‖² in the unit."""
    largest, total, seen = 0.0, 0.0, 0.0
    for k in range(row.size):
        largest = max(largest, abs(float(row[k])))
        seen = max(seen, table[SQUARES, k])
    if largest == 0.0 or factor == 0.0:
        return 0.0
    for k in range(row.size):
        part = row[k] / largest
        total += part * part
    size = abs(factor) * (largest * math.sqrt(total))
    change = math.frexp(size)[1] + math.frexp(numbers[SHRINK])[1] - 1
    if change > LARGEST_EXPONENT or (change < -LARGEST_EXPONENT and seen == 0.0):
        once = math.ldexp(1.0, -change)
        numbers[SHRINK] *= once
        for r in range(table.shape[0]):
            place = (r - LEVELS) % 3
            for k in range(row.size):
                if r == SUM or (r >= LEVELS and place == HALF):
                    table[r, k] *= once
                elif r == SQUARES or r >= LEVELS:
                    table[r, k] = table[r, k] * once * once
                elif r == RATE:
                    table[r, k] /= once
    length = size * numbers[SHRINK]
    return length * length


@apart
def refresh(plan, table, numbers, step, x):
    """See :meth:`mixfree.steps.Ladder._refresh`."""
    if step % plan.block == 0:
        climb(table, step // plan.block, plan.max_levels, plan.width)
    if plan.reach != FIXED:
        numbers[WEIGHT] += float(step) * (1 if step <= plan.block else plan.block)
        share = float(step) * (1 if step <= plan.block else plan.block) / numbers[WEIGHT]
        grow(table, share, x, plan.reach == OF_AVERAGE, plan.width)
    some = table.shape[0] > LEVELS
    for k in range(plan.width):
        total = table[SQUARES, k] + (table[LEVELS + EXCESS, k] if some else 0.0)
        table[RATE, k] = table[REACH, k] / math.sqrt(total) if total > 0.0 else 0.0


@apart
def grow(table, share, x, of_average, width):
    """See :meth:`mixfree.steps.Distance.update`."""
    square = 0.0
    for k in range(x.size):
        table[MEAN, k] += share * (x[k] - table[MEAN, k])
        gone = abs((table[MEAN, k] if of_average else x[k]) - table[ORIGIN, k])
        square += gone * gone
        if width > 1:
            table[REACH, k] = max(table[REACH, k], gone)
    if width == 1:
        table[REACH, 0] = max(table[REACH, 0], math.sqrt(square))


@apart
def climb(table, blocks, max_levels, width):
    """See :meth:`mixfree.steps.Ladder._climb`."""
    levels, complete = 0, 0
    while blocks >> levels > 0:
        levels += 1
    while (blocks >> complete) & 1 == 0:
        complete += 1
    levels = min(levels, max_levels)
    complete = min(complete, levels)
    size = table.shape[1]
    for j in range(complete):
        level = LEVELS + 3 * j
        for k in range(size):
            half = table[level + HALF, k]
            difference = table[SUM, k] - half
            table[level + TOTAL, k if width > 1 else 0] += difference * difference
            table[SUM, k] += half
    for k in range(size):
        if complete < levels:
            table[LEVELS + 3 * complete + HALF, k] = table[SUM, k]
        table[SUM, k] = 0.0
    for j in range(complete - 1, -1, -1):
        level = LEVELS + 3 * j
        for k in range(width):
            above = table[level + 3 + EXCESS, k] if j + 1 < levels else 0.0
            table[level + EXCESS, k] = above + max(table[level + TOTAL, k] - table[SQUARES, k], 0.0)
