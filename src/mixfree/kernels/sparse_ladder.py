"""Sparse rows under the ladder at a cost of their non-zeros: see :class:`mixfree.steps.Ladder`.

A coordinate is brought up to date when a row has it. Until then its gradients are zero, so that all
that happens to it is known: scale and weights are the same for all coordinates, and its blocks
are completed by zeros. What was touched since a block began is listed, with the sums of the block.

Of its levels, a coordinate keeps those from ``first`` to before ``end``. Above, no block is complete
yet. Below, each gradient was alone in its block, and all blocks are complete: V_j is Q, without
excess. Most coordinates of wide data have few levels of their own.

A coordinate has what a step touches in one line of the cache, and its levels side by side.
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
from mixfree.kernels.memory import FIRST, SECOND, borrowed, prefetch
from mixfree.kernels.run import SAMPLES, STEPS
from mixfree.kernels.sparse import (
    LISTED,
    MASS,
    Q,
    V,
    certain,
    fetch_ahead,
    gradient_size,
    put_aside,
    put_back,
    record,
    take_row,
)
from mixfree.steps.distance import KEPT, MOVED
from mixfree.steps.ladder import EARLY

# Columns of the cells after V and Q. The mean of the epoch is x − LAG/weight, CARRY is the sum of
# the block in which the coordinate was last listed.
LAG, PULL, TOTAL, CARRY, ORIGIN, MARK = range(2, 8)
# Columns of the entries: CARRIED is the sum of weighted gradients until the last refresh.
SUM, SQUARES, RATE, CARRIED = range(4)
# Further places in rates: r̄, and ‖Σ λ g‖₁ as a sum of two numbers with the largest it has been.
RBAR, SIZE, REST, LARGEST_SIZE = range(MARGIN + 1, MARGIN + 5)
NONE = 64  # first and end of a coordinate that has no levels
_SHIFT = 15  # of the number in a mark; below are whether it is a slot, 64 − end and 64 − first
_SOON, _LATER = 24, 96  # coordinates by which memory is asked for
_COLLAPSE = 2.0**-30  # of its largest value: below, ‖Σ λ g‖₁ is summed up anew
_LARGEST = np.finfo(np.float64).max


class SparseLadderRun(NamedTuple):
    """The arrays of a run."""

    counts: np.ndarray
    numbers: np.ndarray
    rates: np.ndarray  # numbers of the ladder
    cells: np.ndarray  # one row per coordinate
    marks: np.ndarray  # the same memory as integers
    levels: np.ndarray  # three numbers per level, one row per coordinate
    places: np.ndarray  # the coordinates of the list
    entries: np.ndarray  # one row per coordinate of the list
    earlier: np.ndarray  # mean of the epoch before
    before: np.ndarray  # the tail average's older sum
    kept: np.ndarray  # the random iterate


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
def mark_of(number, listed, first, end):
    """What stands for a coordinate's last block, or slot in the list, and for its levels."""
    return number << _SHIFT | listed << 14 | (NONE - end) << 7 | (NONE - first)


@inline
def number_of(mark):
    """The last block, or the slot."""
    return mark >> _SHIFT


@inline
def is_listed(mark):
    """Whether the coordinate is in the list."""
    return mark >> 14 & 1


@inline
def end_of(mark):
    """The level above the last one that the coordinate has."""
    return NONE - (mark >> 7 & 127)


@inline
def first_of(mark):
    """The first level that the coordinate has."""
    return NONE - (mark & 127)


@inline
def excess_of(run, place, mark):
    """Σ_j max(0, V_j − Q) of a coordinate that is up to date."""
    first = first_of(mark)
    return run.levels[place, 3 * first + EXCESS] if first < end_of(mark) else 0.0


@inline
def begin_levels(run, place, mark, first, total):
    """Let the coordinate have levels from ``first`` on, with V_j at ``total``; its mark then."""
    levels, old = run.levels, first_of(mark)
    if old == NONE:
        return mark_of(number_of(mark), is_listed(mark), first, first)
    excess = excess_of(run, place, mark)
    for j in range(first, old):
        levels[place, 3 * j + HALF] = 0.0
        levels[place, 3 * j + LEVEL] = max(total, 0.0)
        levels[place, 3 * j + EXCESS] = excess
    return mark_of(number_of(mark), is_listed(mark), first, end_of(mark))


@inline
def catch_up(run, place, mark, block, limit):
    """Complete a coordinate's blocks up to the one that begins now; its mark then.

    See :meth:`mixfree.steps.Ladder._climb`: all blocks up to the level at which the last one
    and this one are halves of one block are complete.
    """
    cells, levels, last = run.cells, run.levels, number_of(mark)
    carry, total = cells[place, CARRY], cells[place, TOTAL]
    cells[place, CARRY] = 0.0
    top = min(highest_bit(last ^ block), limit)
    if top < first_of(mark):
        mark = begin_levels(run, place, mark, top, total - carry * carry)
    first, end = first_of(mark), end_of(mark)
    for j in range(end, min(top + 1, limit)):
        levels[place, 3 * j + HALF] = 0.0
        levels[place, 3 * j + LEVEL] = 0.0
        levels[place, 3 * j + EXCESS] = 0.0
        end = j + 1
    for j in range(first, top):
        half = levels[place, 3 * j + HALF]
        difference = carry - half
        levels[place, 3 * j + HALF] = 0.0
        levels[place, 3 * j + LEVEL] += difference * difference
        carry += half
    above = 0.0
    if top < limit:
        levels[place, 3 * top + HALF] = carry
        above = levels[place, 3 * top + EXCESS]
    for j in range(top - 1, first - 1, -1):
        above += max(levels[place, 3 * j + LEVEL] - total, 0.0)
        levels[place, 3 * j + EXCESS] = above
    return mark_of(block, 0, first, end)


@inline
def rate_of(run, place, mark, pace):
    """λ r̄/√S of a coordinate that is up to date."""
    root = run.cells[place, TOTAL] + excess_of(run, place, mark)
    return pace / math.sqrt(root if root > 0.0 else np.inf)


@inline
def slot_of(run, place, block, limit, pace):
    """The coordinate's slot in the list, to which it is added if need be."""
    mark = run.marks[place, MARK]
    if is_listed(mark):
        return number_of(mark)
    if number_of(mark) < block and run.cells[place, TOTAL] > 0.0:
        mark = catch_up(run, place, mark, block, limit)
    slot = run.counts[LISTED]
    run.counts[LISTED] = slot + 1
    entry = certain(slot)
    run.places[entry] = place
    run.entries[entry, SUM] = 0.0
    run.entries[entry, SQUARES] = 0.0
    run.entries[entry, RATE] = rate_of(run, place, mark, pace)
    run.entries[entry, CARRIED] = 0.0
    run.marks[place, MARK] = mark_of(slot, 1, first_of(mark), end_of(mark))
    return slot


@inline
def add(run, place, slot, g):
    """Add a gradient's entry to the sums of the block."""
    entry, mark = certain(slot), run.marks[place, MARK]
    carried = run.entries[entry, CARRIED]
    if first_of(mark) > 0 and (run.entries[entry, SQUARES] > 0.0 or carried != 0.0):
        # A second gradient in one block: from now on V_0 may differ from Q.
        total = run.cells[place, TOTAL] - carried * carried
        run.marks[place, MARK] = begin_levels(run, place, mark, 0, total)
    run.entries[entry, SUM] += g
    run.entries[entry, SQUARES] += g * g


@inline
def move(run, place, rate, g):
    """Move one coordinate at this rate, by r̄ at most."""
    cells, rbar = run.cells, run.rates[RBAR]
    delta = min(max(rate * g, -rbar), rbar)
    cells[place, V] -= delta
    cells[place, Q] -= run.numbers[MASS] * delta
    cells[place, LAG] -= run.rates[WEIGHT] * delta


@take_row.register(SparseLadderRun)
def _(run, plan, indices, at, values, columns, factors, square, along, l2, width, intercept, exact):
    counts, rates, step = run.counts, run.rates, plan.step
    counts[SAMPLES] += 1
    counts[STEPS] += 1
    record(plan.output, run)
    if not keeps_unit(square * rates[SHRINK] * rates[SHRINK]):
        choose_unit(run, gradient_size(values, factors, intercept))
    steps = counts[STEPS]
    if steps <= EARLY * step.block or steps % step.block == 0:
        step_and_refresh(step, run, values, columns, factors, width, intercept)
        return
    block, pace = steps // step.block, rates[PEAK] * rates[RBAR]
    for o in range(factors.size):
        base, factor = o * (width + intercept), factors[o] * rates[SHRINK]
        for p in range(values.size + intercept):
            inside = p < values.size
            place = certain(base + (columns[p] if inside else width))
            g = factor * (values[p] if inside else 1.0)
            if o == 0 and inside:
                fetch(run, indices, at + p, block)
            slot = slot_of(run, place, block, step.max_levels, pace)
            add(run, place, slot, g)
            move(run, place, run.entries[certain(slot), RATE], g)


@apart
def step_and_refresh(step, run, values, columns, factors, width, intercept):
    """A step at which the rates are renewed, before the point moves."""
    steps, rates, limit = run.counts[STEPS], run.rates, step.max_levels
    back, pace = path_of_list(run), rates[PEAK] * rates[RBAR]
    for o in range(factors.size):
        base, factor = o * (width + intercept), factors[o] * rates[SHRINK]
        for p in range(values.size + intercept):
            inside = p < values.size
            place = certain(base + (columns[p] if inside else width))
            slot = slot_of(run, place, (steps - 1) // step.block, limit, pace)
            add(run, place, slot, factor * (values[p] if inside else 1.0))
    refresh(step, run, back)
    block, pace = steps // step.block, rates[PEAK] * rates[RBAR]
    for o in range(factors.size):
        base, factor = o * (width + intercept), factors[o] * rates[SHRINK]
        for p in range(values.size + intercept):
            inside = p < values.size
            place = certain(base + (columns[p] if inside else width))
            mark = run.marks[place, MARK]
            if not is_listed(mark) and highest_bit(number_of(mark) ^ block) >= first_of(mark):
                # Else its block ends without completing another of which it has the level.
                mark = catch_up(run, place, mark, block, limit)
                run.marks[place, MARK] = mark
            g = factor * (values[p] if inside else 1.0)
            move(run, place, rate_of(run, place, mark, pace), g)


@inline
def path_of_list(run):
    """Σ g_i·(x_i − x) over the gradients since the rates were last renewed, but for the newest."""
    back = 0.0
    for i in range(run.counts[LISTED]):
        total = run.entries[i, SUM]
        back += run.entries[i, RATE] * (total * total + run.entries[i, SQUARES])
    return 0.5 * back


@inline
def refresh(step, run, back):
    """See :meth:`mixfree.steps.Ladder._refresh`."""
    steps, rates = run.counts[STEPS], run.rates
    full = steps % step.block == 0
    gain, growth = take_block(run, steps // step.block - 1 if full else -1)
    update_distance(
        step.reach, run, gain - back, growth, 1 if steps <= EARLY * step.block else step.block
    )
    if full:
        run.counts[LISTED] = 0
    pace = rates[PEAK] * rates[RBAR]
    for i in range(run.counts[LISTED]):
        place = certain(run.places[i])
        run.entries[i, RATE] = rate_of(run, place, run.marks[place, MARK], pace)


@inline
def take_block(run, block):
    """Take the sums of the list into the cells; Σ g·(o − x) then, and the growth of ‖Σ λ g‖₁.

    Where a block has ended, coordinates keep its sum until they are touched again.
    """
    cells, entries, weight, listed = run.cells, run.entries, run.rates[PEAK], run.counts[LISTED]
    gain, growth = 0.0, 0.0
    for i in range(listed):
        prefetch(cells, run.places[min(i + 8, listed - 1)], 0, FIRST)
        place, total = certain(run.places[i]), entries[i, SUM]
        pull, carried = cells[place, PULL], entries[i, CARRIED] + weight * total
        gain += total * (cells[place, ORIGIN] - cells[place, V])
        growth += abs(pull + weight * total) - abs(pull)
        cells[place, PULL] = pull + weight * total
        cells[place, TOTAL] += weight * weight * entries[i, SQUARES]
        entries[i, CARRIED] = carried
        entries[i, SUM] = 0.0
        entries[i, SQUARES] = 0.0
        if block >= 0:
            mark = run.marks[place, MARK]
            cells[place, CARRY] = carried
            run.marks[place, MARK] = mark_of(block, 0, first_of(mark), end_of(mark))
    return gain, growth


@exact
def add_exactly(rates, growth):
    """Add to ‖Σ λ g‖₁ with the rounding in a second number."""
    size = rates[SIZE] + growth
    part = size - rates[SIZE]
    rates[REST] += (rates[SIZE] - (size - part)) + (growth - part)
    rates[SIZE] = size
    rates[LARGEST_SIZE] = max(rates[LARGEST_SIZE], size)


@chosen
def update_distance(reach, run, gain, growth, steps):
    """See :meth:`mixfree.Distance.update`; a scale that is given stays as it is."""


@update_distance.register(BoundReach)
def _(reach, run, gain, growth, steps):
    rates, step = run.rates, float(run.counts[STEPS])
    rates[GAIN] += rates[PEAK] * gain
    add_exactly(rates, growth)
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
    for k in range(earlier.size):
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
        for k in range(earlier.size):
            cells[k, ORIGIN] = earlier[k]
            cells[k, PULL] = 0.0
    return rbar


@apart
def choose_unit(run, size):
    """See :meth:`mixfree.steps.ladder.LadderState.change_unit`."""
    rates, cells, levels, entries = run.rates, run.cells, run.levels, run.entries
    seen, listed = 0.0, run.counts[LISTED]
    for k in range(cells.shape[0]):
        seen = max(seen, cells[k, TOTAL])
    for i in range(listed):
        seen = max(seen, entries[i, SQUARES])
    change = changed_unit(rates, size, seen)
    if change == 0:
        return
    for place in (GAIN, SIZE, REST, LARGEST_SIZE):
        rates[place] = math.ldexp(rates[place], -change)
    for k in range(cells.shape[0]):
        cells[k, PULL] = math.ldexp(cells[k, PULL], -change)
        cells[k, TOTAL] = math.ldexp(cells[k, TOTAL], -2 * change)
        cells[k, CARRY] = math.ldexp(cells[k, CARRY], -change)
        mark = run.marks[k, MARK]
        for j in range(first_of(mark), end_of(mark)):
            levels[k, 3 * j + HALF] = math.ldexp(levels[k, 3 * j + HALF], -change)
            levels[k, 3 * j + LEVEL] = math.ldexp(levels[k, 3 * j + LEVEL], -2 * change)
            levels[k, 3 * j + EXCESS] = math.ldexp(levels[k, 3 * j + EXCESS], -2 * change)
    for i in range(listed):
        entries[i, SUM] = math.ldexp(entries[i, SUM], -change)
        entries[i, SQUARES] = math.ldexp(entries[i, SQUARES], -2 * change)
        entries[i, CARRIED] = math.ldexp(entries[i, CARRIED], -change)
        entries[i, RATE] = min(math.ldexp(entries[i, RATE], change), _LARGEST)


@fetch_ahead.register(SparseLadderRun)
def _(run, indices, starts, i):
    pass  # they are asked for one by one, while others are at work


@inline
def fetch(run, indices, at, block):
    """Ask for a coordinate that comes later, and for the levels of one that comes soon."""
    last = indices.size - 1
    prefetch(run.cells, indices[min(at + _LATER, last)], 0, SECOND)
    place = indices[min(at + _SOON, last)]
    mark = run.marks[certain(place), MARK]
    top = highest_bit(number_of(mark) ^ block | 1)
    for level in range(3 * min(first_of(mark), top), 3 * top + 3, 8):
        prefetch(run.levels, place, level, SECOND)


@kernel
def settle_levels(run, block, limit, tables):
    """Bring every coordinate up to date, and leave halves, V and excess of its levels in tables."""
    run = borrowed(run)
    for k in range(run.cells.shape[0]):
        mark, total = run.marks[k, MARK], run.cells[k, TOTAL]
        if is_listed(mark):
            # V_j does not have this block's gradient yet, which Q may have.
            total -= run.entries[number_of(mark), CARRIED] ** 2
        elif number_of(mark) < block and total > 0.0:
            mark = catch_up(run, k, mark, block, limit)
        first, end, excess = first_of(mark), end_of(mark), excess_of(run, k, mark)
        for j in range(min(first, tables.shape[1])):
            tables[LEVEL, j, k] = max(total, 0.0)
            tables[EXCESS, j, k] = excess
        for j in range(first, end):
            for part in range(3):
                tables[part, j, k] = run.levels[k, 3 * j + part]
