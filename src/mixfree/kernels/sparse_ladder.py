"""Sparse rows under the ladder at a cost of their non-zeros: see :class:`mixfree.steps.Ladder`.

A coordinate is brought up to date when a row has it. Until then its gradients are zero, so that all
that happens to it is known: scale and weights are the same for all coordinates, and its blocks
are completed by zeros.

A level j has the sums of λg and of (λg)² over the first half of its block, where that is complete
and the block is not, and U_j = V_j − Q as it was when its block was last complete. With D = b − a
for the sums a and b of two halves, and A and B for those of squares, U_j adds D² − (A + B). A block
whose other half is zeros adds a² − A, which is nothing as long as only one gradient is in it. So a
coordinate that is touched now and then changes at few levels, and Σ_j max(0, U_j) only there.

Of its levels, a coordinate keeps those from ``first`` to before ``end``; the others are zero.
``low`` is the lowest whose first half is waiting. All of a coordinate is side by side in memory,
beginning with what a step touches.
"""

import math
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mixfree.kernels.jit import apart, chosen, exact, inline, kernel
from mixfree.kernels.ladder import (
    EPOCH,
    EXCESS,
    FARTHEST,
    GAIN,
    HALF,
    LEVEL,
    MARGIN,
    PEAK,
    SHRINK,
    WEIGHT,
    BoundReach,
    changed_unit,
    keeps_unit,
)
from mixfree.kernels.memory import LINE, SECOND, prefetch
from mixfree.kernels.run import SAMPLES, STEPS
from mixfree.kernels.sparse import (
    LISTED,
    MASS,
    Q,
    V,
    certain,
    fetch_ahead,
    gradient_size,
    may_take,
    put_aside,
    put_back,
    record,
    take_row,
)
from mixfree.steps.distance import KEPT, MOVED
from mixfree.steps.ladder import EARLY

# Columns of the cells after V and Q. The mean of the epoch is x − LAG/weight. CARRY and DUE are
# the sums of λg and (λg)² over the block in which the coordinate was last touched, TOTAL is Q
# before that block and ABOVE is Σ_j max(0, U_j).
LAG, PULL, TOTAL, ORIGIN, ABOVE, MARK, CARRY, DUE, LEVELS = range(2, 11)
WAITING, WAITING_DUE, OVER = range(3)  # of each level: the sums of the first half, and U
# Further places in rates: r̄, ‖Σ λ g‖₁ as a sum of two numbers with the largest it has been, and
# Σ λ g·(o − x) since the rates were last renewed.
RBAR, SIZE, REST, LARGEST_SIZE, NEWEST = range(FARTHEST + 1, FARTHEST + 6)
NONE = 64  # first and end of a coordinate that has no levels
# A mark, which is 0 until the coordinate is touched: a block from the bit _SHIFT on, below it a
# one, and 64 less low, end and first.
_SHIFT, _TOUCHED = 22, 1 << 21
TOUCHED = LISTED  # place in counts: how many coordinates have been touched
_LINES = 3  # of each coordinate that are asked for ahead
PART, WHOLE, WANTED = range(3)
_COLLAPSE = 2.0**-30  # of its largest value: below, ‖Σ λ g‖₁ is summed up anew


class SparseLadderRun(NamedTuple):
    """The arrays of a run."""

    counts: np.ndarray
    numbers: np.ndarray
    rates: np.ndarray  # numbers of the ladder
    cells: np.ndarray  # one row per coordinate
    marks: np.ndarray  # the same memory as integers
    touched: np.ndarray  # the coordinates that have been touched
    earlier: np.ndarray  # mean of the epoch before
    before: np.ndarray  # the tail average's older sum
    kept: np.ndarray  # the random iterate
    whole: np.ndarray  # WHOLE if every coordinate may change, else PART, or WANTED by a row


@put_back.register(SparseLadderRun)
def _(run):
    pass


@put_aside.register(SparseLadderRun)
def _(run):
    pass


@intrinsic
def highest_bit(typing_context, value):
    """Place of the highest bit of a positive integer."""

    def codegen(context, builder, signature, arguments):
        undefined_for_zero = ir.Constant(ir.IntType(1), 1)
        zeros = builder.ctlz(arguments[0], undefined_for_zero)
        return builder.sub(ir.Constant(zeros.type, 63), zeros)

    return types.int64(types.int64), codegen


@inline
def mark_of(block, first, end, low):
    """What stands for the block in which a coordinate was last touched, and for its levels."""
    levels = (NONE - low) << 14 | (NONE - end) << 7 | (NONE - first)
    return block << _SHIFT | _TOUCHED | levels


@inline
def block_of(mark):
    """The block in which the coordinate was last touched."""
    return mark >> _SHIFT


@inline
def low_of(mark):
    """The lowest level whose first half is waiting."""
    return NONE - (mark >> 14 & 127)


@inline
def end_of(mark):
    """The level above the last one that the coordinate has."""
    return NONE - (mark >> 7 & 127)


@inline
def first_of(mark):
    """The first level that the coordinate has."""
    return NONE - (mark & 127)


@inline
def begin_levels(run, place, mark, first):
    """Let the coordinate have levels from ``first`` on, at zero; its mark then."""
    cells, old, end = run.cells, first_of(mark), end_of(mark)
    if old == NONE:
        end = first
    else:
        shift = 3 * (old - first)
        for s in range(LEVELS + 3 * (end - old) - 1, LEVELS - 1, -1):
            cells[place, certain(s + shift)] = cells[place, certain(s)]
        for s in range(LEVELS, LEVELS + shift):
            cells[place, certain(s)] = 0.0
    return mark_of(block_of(mark), first, end, low_of(mark))


@inline
def catch_up(run, place, mark, block, limit):
    """Complete a coordinate's blocks up to the one that begins now; its mark then.

    See :meth:`mixfree.steps.Ladder._climb`: all blocks up to the level at which the last one
    and this one are halves of one block are complete.
    """
    cells, top = run.cells, min(highest_bit(block_of(mark) ^ block), limit)
    carry, due = cells[place, CARRY], cells[place, DUE]
    cells[place, TOTAL] += due
    cells[place, CARRY] = 0.0
    cells[place, DUE] = 0.0
    if top < first_of(mark):
        mark = begin_levels(run, place, mark, top)
    first, end, low = first_of(mark), end_of(mark), low_of(mark)
    base = LEVELS - 3 * first
    for s in range(base + 3 * end, base + 3 * min(top + 1, limit)):
        cells[place, certain(s)] = 0.0
    end = max(end, min(top + 1, limit))
    if low < top:
        above = cells[place, ABOVE]
        for at in range(base + 3 * low, base + 3 * top, 3):
            half = cells[place, certain(at + WAITING)]
            half_due, over = (
                cells[place, certain(at + WAITING_DUE)],
                cells[place, certain(at + OVER)],
            )
            difference = carry - half
            grown = over + (difference * difference - (due + half_due))
            above += max(grown, 0.0) - max(over, 0.0)
            carry += half
            due += half_due
            cells[place, certain(at + WAITING)] = 0.0
            cells[place, certain(at + WAITING_DUE)] = 0.0
            cells[place, certain(at + OVER)] = grown
        cells[place, ABOVE] = max(above, 0.0)
    if top < limit:
        cells[place, certain(base + 3 * top + WAITING)] = carry
        cells[place, certain(base + 3 * top + WAITING_DUE)] = due
    return mark_of(block, first, end, top)


@inline
def up_to_date(run, place, block, limit):
    """Complete the coordinate's blocks before this one; its mark then."""
    mark = run.marks[place, MARK]
    if mark == 0:
        run.touched[certain(run.counts[TOUCHED])] = place
        run.counts[TOUCHED] += 1
        mark = mark_of(block, NONE, NONE, NONE)
        run.marks[place, MARK] = mark
    elif block_of(mark) < block:
        mark = catch_up(run, place, mark, block, limit)
        run.marks[place, MARK] = mark
    return mark


@inline
def add(reach, run, place, mark, weighted):
    """Add an entry of λ g to the sums; by how much Σ λ g·(o − x) and ‖Σ λ g‖₁ have grown."""
    cells = run.cells
    if cells[place, DUE] > 0.0 and low_of(mark) > 0:
        # A second gradient in one block: from now on V_0 may differ from Q.
        if first_of(mark) > 0:
            mark = begin_levels(run, place, mark, 0)
        run.marks[place, MARK] = mark_of(block_of(mark), 0, end_of(mark), 0)
    cells[place, CARRY] += weighted
    cells[place, DUE] += weighted * weighted
    if not is_sought(reach):
        return 0.0, 0.0
    pull = cells[place, PULL]
    cells[place, PULL] = pull + weighted
    gain = weighted * (cells[place, ORIGIN] - cells[place, V])
    return gain, abs(pull + weighted) - abs(pull)


@inline
def rate_of(root, pace):
    """λ r̄/√S; 0 where there has been no gradient."""
    return pace / math.sqrt(root if root > 0.0 else np.inf)


@inline
def move(run, place, delta, mass, weight):
    """Move one coordinate; ``weight`` is that of the epoch so far."""
    cells = run.cells
    cells[place, V] -= delta
    cells[place, Q] -= mass * delta
    cells[place, LAG] -= weight * delta


@may_take.register(SparseLadderRun)
def _(run, square, values, factors, intercept):
    kept = keeps_unit(square * run.rates[SHRINK] * run.rates[SHRINK])
    if kept or run.whole[0] == WHOLE or gradient_size(values, factors, intercept) == 0.0:
        return True
    run.whole[0] = WANTED
    return False


@take_row.register(SparseLadderRun)
def _(run, plan, values, columns, factors, square, along, l2, width, intercept, exact):
    counts, rates, step, cells = run.counts, run.rates, plan.step, run.cells
    counts[SAMPLES] += 1
    counts[STEPS] += 1
    record(plan.output, run)
    if not keeps_unit(square * rates[SHRINK] * rates[SHRINK]):
        choose_unit(run, gradient_size(values, factors, intercept))
    steps = counts[STEPS]
    if steps <= EARLY * step.block or steps % step.block == 0:
        step_and_refresh(step, run, values, columns, factors, width, intercept)
        return
    block, pace, rbar = steps // step.block, step.length * rates[PEAK] * rates[RBAR], rates[RBAR]
    mass, weight, lam, gain, growth = run.numbers[MASS], rates[WEIGHT], rates[PEAK], 0.0, 0.0
    for o in range(factors.size):
        base, factor = o * (width + intercept), factors[o] * rates[SHRINK]
        for p in range(values.size + intercept):
            inside = p < values.size
            place = certain(base + (columns[p] if inside else width))
            g = factor * (values[p] if inside else 1.0)
            mark = up_to_date(run, place, block, step.max_levels)
            rate = rate_of(cells[place, TOTAL] + cells[place, ABOVE], pace)
            more, grown = add(step.reach, run, place, mark, lam * g)
            delta = min(max(rate * g, -rbar), rbar)
            # The reference takes x back by whole steps, from where it is in the end.
            gain += more + cells[place, CARRY] * (delta - rate * g)
            growth += grown
            move(run, place, delta, mass, weight)
    take(step.reach, rates, gain, growth)


@apart
def step_and_refresh(step, run, values, columns, factors, width, intercept):
    """A step at which the rates are renewed, before the point moves."""
    steps, rates, cells, limit = run.counts[STEPS], run.rates, run.cells, step.max_levels
    block, lam, gain, growth = (steps - 1) // step.block, rates[PEAK], 0.0, 0.0
    for o in range(factors.size):
        base, factor = o * (width + intercept), factors[o] * rates[SHRINK]
        for p in range(values.size + intercept):
            inside = p < values.size
            place = certain(base + (columns[p] if inside else width))
            mark = up_to_date(run, place, block, limit)
            g = factor * (values[p] if inside else 1.0)
            more, grown = add(step.reach, run, place, mark, lam * g)
            gain += more
            growth += grown
    take(step.reach, rates, gain, growth)
    update_distance(step.reach, run, 1 if steps <= EARLY * step.block else step.block)
    block, pace, rbar = steps // step.block, step.length * rates[PEAK] * rates[RBAR], rates[RBAR]
    for o in range(factors.size):
        base, factor = o * (width + intercept), factors[o] * rates[SHRINK]
        for p in range(values.size + intercept):
            inside = p < values.size
            place = certain(base + (columns[p] if inside else width))
            mark = run.marks[place, MARK]
            ended = block_of(mark) < block
            if ended and highest_bit(block_of(mark) ^ block) > low_of(mark):
                # Else the end of its block changes nothing above.
                run.marks[place, MARK] = catch_up(run, place, mark, block, limit)
            rate = rate_of(cells[place, TOTAL] + cells[place, DUE] + cells[place, ABOVE], pace)
            g = factor * (values[p] if inside else 1.0)
            delta = min(max(rate * g, -rbar), rbar)
            move(run, place, delta, run.numbers[MASS], rates[WEIGHT])


@chosen
def take(reach, rates, gain, growth):
    """Take what a row has added to Σ λ g·(o − x) and to ‖Σ λ g‖₁."""


@take.register(BoundReach)
def _(reach, rates, gain, growth):
    rates[NEWEST] += gain
    add_exactly(rates, growth)


@exact
def add_exactly(rates, growth):
    """Add to ‖Σ λ g‖₁ with the rounding in a second number."""
    size = rates[SIZE] + growth
    part = size - rates[SIZE]
    rates[REST] += (rates[SIZE] - (size - part)) + (growth - part)
    rates[SIZE] = size
    rates[LARGEST_SIZE] = max(rates[LARGEST_SIZE], size)


@chosen
def is_sought(reach):
    """Whether r̄ is found on the way."""
    return False


@is_sought.register(BoundReach)
def _(reach):
    return True


@chosen
def update_distance(reach, run, steps):
    """See :meth:`mixfree.Distance.update`; a scale that is given stays as it is."""


@update_distance.register(BoundReach)
def _(reach, run, steps):
    rates, step = run.rates, float(run.counts[STEPS])
    rates[GAIN] += rates[NEWEST]
    rates[NEWEST] = 0.0
    rates[WEIGHT] += step * steps
    if rates[SIZE] + rates[REST] < _COLLAPSE * rates[LARGEST_SIZE]:
        sum_size(run)
    size, rbar = rates[SIZE] + rates[REST], rates[RBAR]
    if size > 0.0:
        rbar = max(rbar, rates[MARGIN] * rates[GAIN] / size)
    if step >= rates[EPOCH]:
        rbar = end_epoch(run, rbar)
    rates[RBAR] = rbar
    rates[PEAK] = max(rates[PEAK], rbar)
    rates[FARTHEST] = rates[PEAK]


@apart
def sum_size(run):
    """‖Σ λ g‖₁ without the rounding of its updates."""
    size = 0.0
    for k in range(run.cells.shape[0]):
        size += abs(run.cells[k, PULL])
    run.rates[SIZE], run.rates[REST], run.rates[LARGEST_SIZE] = size, 0.0, size


@apart
def end_epoch(run, rbar):
    """Compare the mean of the epoch with that of the one before; r̄ then."""
    cells, rates, earlier, far = run.cells, run.rates, run.earlier, 0.0
    number = run.counts[TOUCHED]
    few = 4 * number < earlier.size  # of many, it is faster to go through all in their order
    number = number if few else earlier.size
    for i in range(number):
        k = certain(run.touched[i] if few else i)
        mean = cells[k, V] - cells[k, LAG] / rates[WEIGHT]
        far = max(far, abs(mean - earlier[k]))
        earlier[k] = mean
        cells[k, LAG] = 0.0
    rates[EPOCH] *= 2.0
    rates[WEIGHT] = 0.0
    if MOVED * far < rbar:
        rbar = max(MOVED * far, KEPT * rbar)
        rates[MARGIN] = 1.0
        rates[GAIN] = 0.0
        rates[SIZE], rates[REST], rates[LARGEST_SIZE] = 0.0, 0.0, 0.0
        for i in range(number):
            k = certain(run.touched[i] if few else i)
            cells[k, ORIGIN] = earlier[k]
            cells[k, PULL] = 0.0
    return rbar


@apart
def choose_unit(run, size):
    """See :meth:`mixfree.steps.ladder.LadderState.change_unit`."""
    rates, cells, seen, i = run.rates, run.cells, 0.0, 0
    while seen == 0.0 and i < run.counts[TOUCHED]:
        place = certain(run.touched[i])
        seen = max(cells[place, TOTAL], cells[place, DUE])
        i += 1
    change = changed_unit(rates, size, seen)
    if change == 0:
        return
    for place in (GAIN, SIZE, REST, LARGEST_SIZE, NEWEST):
        rates[place] = math.ldexp(rates[place], -change)
    for k in range(cells.shape[0]):
        cells[k, PULL] = math.ldexp(cells[k, PULL], -change)
        cells[k, TOTAL] = math.ldexp(cells[k, TOTAL], -2 * change)
        cells[k, ABOVE] = math.ldexp(cells[k, ABOVE], -2 * change)
        cells[k, CARRY] = math.ldexp(cells[k, CARRY], -change)
        cells[k, DUE] = math.ldexp(cells[k, DUE], -2 * change)
        mark = run.marks[k, MARK]
        for s in range(LEVELS, LEVELS + 3 * (end_of(mark) - first_of(mark)), 3):
            cells[k, s + WAITING] = math.ldexp(cells[k, s + WAITING], -change)
            cells[k, s + WAITING_DUE] = math.ldexp(cells[k, s + WAITING_DUE], -2 * change)
            cells[k, s + OVER] = math.ldexp(cells[k, s + OVER], -2 * change)


@fetch_ahead.register(SparseLadderRun)
def _(run, indices, starts, i):
    for p in range(starts[i + 1], starts[min(i + 2, starts.size - 1)]):
        for line in range(0, _LINES * LINE // 8, LINE // 8):
            prefetch(run.cells, indices[p], line, SECOND)


@kernel
def settle_levels(run, block, limit, tables):
    """Bring every coordinate up to date, and leave halves, V and excess of its levels in tables."""
    cells = run.cells
    for k in range(cells.shape[0]):
        mark, total, above = run.marks[k, MARK], cells[k, TOTAL], 0.0
        if mark != 0 and block_of(mark) < block:
            mark = catch_up(run, certain(k), mark, block, limit)
            run.marks[k, MARK] = mark
            total = cells[k, TOTAL]
        first, end = first_of(mark), end_of(mark)
        for j in range(min(first, tables.shape[1])):
            tables[LEVEL, j, k] = max(total, 0.0)
        for j in range(first, end):
            at = LEVELS + 3 * (j - first)
            total -= cells[k, at + WAITING_DUE]
            tables[HALF, j, k] = cells[k, at + WAITING]
            tables[LEVEL, j, k] = max(total + cells[k, at + OVER], 0.0)
        for j in range(min(end, tables.shape[1]) - 1, -1, -1):
            above += max(cells[k, LEVELS + 3 * (j - first) + OVER], 0.0) if j >= first else 0.0
            tables[EXCESS, j, k] = above
