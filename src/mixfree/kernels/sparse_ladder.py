"""Sparse rows under the ladder at a cost of their non-zeros: see :class:`mixfree.steps.Ladder`.

A coordinate is brought up to date when a row has it. Until then its gradients are zero, so that all
that happens to it is known: scale and weights are the same for all coordinates, and its blocks
are completed by zeros. What was touched since a block began is listed, with the sums of the block.

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
from mixfree.kernels.memory import FIRST, LINE, SECOND, borrowed, prefetch
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

# Columns of the cells after V and Q. The mean of the epoch is x − LAG/weight; CARRY and DUE are
# the sums of λg and (λg)² over the block in which the coordinate was last listed.
LAG, PULL, TOTAL, ORIGIN, ABOVE, MARK, CARRY, DUE, LEVELS = range(2, 11)
WAITING, WAITING_DUE, OVER = range(3)  # of each level: the sums of the first half, and U
# Columns of the entries; CARRIED and ADDED are what CARRY and DUE will be.
SUM, SQUARES, RATE, CARRIED, ADDED = range(5)
# Further places in rates: r̄, and ‖Σ λ g‖₁ as a sum of two numbers with the largest it has been.
RBAR, SIZE, REST, LARGEST_SIZE = range(FARTHEST + 1, FARTHEST + 5)
NONE = 64  # first and end of a coordinate that has no levels
# A mark, which is 0 until the coordinate is touched: its number from the bit _SHIFT on, below it
# a one, whether the number is a slot of the list, and 64 less low, end and first.
_SHIFT, _TOUCHED, _SLOT, _REST = 23, 1 << 22, 21, (1 << 21) - 1
TOUCHED = LISTED + 1  # a further place in counts: how many coordinates have been touched
_AHEAD, _LINES = 64, 3  # coordinates by which memory is asked for, and how much of each
_COLLAPSE = 2.0**-30  # of its largest value: below, ‖Σ λ g‖₁ is summed up anew
_LARGEST = np.finfo(np.float64).max


class SparseLadderRun(NamedTuple):
    """The arrays of a run."""

    counts: np.ndarray
    numbers: np.ndarray
    rates: np.ndarray  # numbers of the ladder
    cells: np.ndarray  # one row per coordinate
    marks: np.ndarray  # the same memory as integers
    places: np.ndarray  # the coordinates of the list
    entries: np.ndarray  # one row per coordinate of the list
    touched: np.ndarray  # the coordinates that have been touched
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
def mark_of(number, listed, first, end, low):
    """What stands for a coordinate's last block, or slot in the list, and for its levels."""
    levels = (NONE - low) << 14 | (NONE - end) << 7 | (NONE - first)
    return number << _SHIFT | _TOUCHED | listed << _SLOT | levels


@inline
def number_of(mark):
    """The last block, or the slot."""
    return mark >> _SHIFT


@inline
def is_listed(mark):
    """Whether the coordinate is in the list."""
    return mark >> _SLOT & 1


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
def renumbered(mark, number, listed):
    """The mark with another number."""
    return number << _SHIFT | _TOUCHED | listed << _SLOT | mark & _REST


@inline
def begin_levels(run, place, mark, first):
    """Let the coordinate have levels from ``first`` on, at zero; its mark then."""
    cells, old, end = run.cells, first_of(mark), end_of(mark)
    if old == NONE:
        end = first
    else:
        shift = 3 * (old - first)
        for s in range(LEVELS + 3 * (end - old) - 1, LEVELS - 1, -1):
            cells[place, s + shift] = cells[place, s]
        for s in range(LEVELS, LEVELS + shift):
            cells[place, s] = 0.0
    return mark_of(number_of(mark), is_listed(mark), first, end, low_of(mark))


@inline
def catch_up(run, place, mark, block, limit):
    """Complete a coordinate's blocks up to the one that begins now; its mark then.

    See :meth:`mixfree.steps.Ladder._climb`: all blocks up to the level at which the last one
    and this one are halves of one block are complete.
    """
    cells, top = run.cells, min(highest_bit(number_of(mark) ^ block), limit)
    carry, due = cells[place, CARRY], cells[place, DUE]
    cells[place, CARRY] = 0.0
    cells[place, DUE] = 0.0
    if top < first_of(mark):
        mark = begin_levels(run, place, mark, top)
    first, end = first_of(mark), end_of(mark)
    base = LEVELS - 3 * first
    for j in range(end, min(top + 1, limit)):
        cells[place, base + 3 * j + WAITING] = 0.0
        cells[place, base + 3 * j + WAITING_DUE] = 0.0
        cells[place, base + 3 * j + OVER] = 0.0
        end = j + 1
    above = cells[place, ABOVE]
    for j in range(low_of(mark), top):
        at = certain(base + 3 * j)
        half, half_due, over = cells[place, at], cells[place, at + 1], cells[place, at + 2]
        grown = over + ((carry - half) ** 2 - (due + half_due))
        above += max(grown, 0.0) - max(over, 0.0)
        carry += half
        due += half_due
        cells[place, at + WAITING] = 0.0
        cells[place, at + WAITING_DUE] = 0.0
        cells[place, at + OVER] = grown
    if top < limit:
        cells[place, base + 3 * top + WAITING] = carry
        cells[place, base + 3 * top + WAITING_DUE] = due
    cells[place, ABOVE] = max(above, 0.0)
    return mark_of(block, 0, first, end, top)


@inline
def rate_of(run, place, pace):
    """λ r̄/√S of a coordinate that is up to date."""
    root = run.cells[place, TOTAL] + run.cells[place, ABOVE]
    return pace / math.sqrt(root if root > 0.0 else np.inf)


@inline
def slot_of(run, place, block, limit, pace):
    """The coordinate's slot in the list, to which it is added if need be."""
    mark = run.marks[place, MARK]
    if is_listed(mark):
        return number_of(mark)
    if number_of(mark) < block and run.cells[place, TOTAL] > 0.0:
        mark = catch_up(run, place, mark, block, limit)
    if mark == 0:
        run.touched[certain(run.counts[TOUCHED])] = place
        run.counts[TOUCHED] += 1
    slot = run.counts[LISTED]
    run.counts[LISTED] = slot + 1
    entry = certain(slot)
    run.places[entry] = place
    run.entries[entry, SUM] = 0.0
    run.entries[entry, SQUARES] = 0.0
    run.entries[entry, RATE] = rate_of(run, place, pace)
    run.entries[entry, CARRIED] = 0.0
    run.entries[entry, ADDED] = 0.0
    run.marks[place, MARK] = renumbered(mark, slot, 1)
    return slot


@inline
def add(run, place, slot, g):
    """Add a gradient's entry to the sums of the block."""
    entry, mark = certain(slot), run.marks[place, MARK]
    if low_of(mark) > 0 and (run.entries[entry, SQUARES] > 0.0 or run.entries[entry, ADDED] > 0.0):
        # A second gradient in one block: from now on V_0 may differ from Q.
        if first_of(mark) > 0:
            mark = begin_levels(run, place, mark, 0)
        run.marks[place, MARK] = mark_of(slot, 1, 0, end_of(mark), 0)
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
    block, pace = steps // step.block, step.length * rates[PEAK] * rates[RBAR]
    for o in range(factors.size):
        base, factor = o * (width + intercept), factors[o] * rates[SHRINK]
        for p in range(values.size + intercept):
            inside = p < values.size
            place = certain(base + (columns[p] if inside else width))
            g = factor * (values[p] if inside else 1.0)
            if o == 0 and inside:
                fetch(run, indices, at + p)
            slot = slot_of(run, place, block, step.max_levels, pace)
            add(run, place, slot, g)
            move(run, place, run.entries[certain(slot), RATE], g)


@apart
def step_and_refresh(step, run, values, columns, factors, width, intercept):
    """A step at which the rates are renewed, before the point moves."""
    steps, rates, limit = run.counts[STEPS], run.rates, step.max_levels
    back, pace = path_of_list(run), step.length * rates[PEAK] * rates[RBAR]
    for o in range(factors.size):
        base, factor = o * (width + intercept), factors[o] * rates[SHRINK]
        for p in range(values.size + intercept):
            inside = p < values.size
            place = certain(base + (columns[p] if inside else width))
            slot = slot_of(run, place, (steps - 1) // step.block, limit, pace)
            add(run, place, slot, factor * (values[p] if inside else 1.0))
    refresh(step, run, back)
    block, pace = steps // step.block, step.length * rates[PEAK] * rates[RBAR]
    for o in range(factors.size):
        base, factor = o * (width + intercept), factors[o] * rates[SHRINK]
        for p in range(values.size + intercept):
            inside = p < values.size
            place = certain(base + (columns[p] if inside else width))
            mark = run.marks[place, MARK]
            if not is_listed(mark) and highest_bit(number_of(mark) ^ block) > low_of(mark):
                # Else the end of its block changes nothing above.
                mark = catch_up(run, place, mark, block, limit)
                run.marks[place, MARK] = mark
            g = factor * (values[p] if inside else 1.0)
            move(run, place, rate_of(run, place, pace), g)


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
    block = steps // step.block - 1 if full else -1
    gain, growth = take_block(step.reach, run, block)
    update_distance(
        step.reach, run, gain - back, growth, 1 if steps <= EARLY * step.block else step.block
    )
    if full:
        run.counts[LISTED] = 0
    pace = step.length * rates[PEAK] * rates[RBAR]
    for i in range(run.counts[LISTED]):
        place = certain(run.places[i])
        run.entries[i, RATE] = rate_of(run, place, pace)


@inline
def take_block(reach, run, block):
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
        if is_sought(reach):
            cells[place, PULL] = pull + weight * total
        added = weight * weight * entries[i, SQUARES]
        cells[place, TOTAL] += added
        if block >= 0:
            cells[place, CARRY] = carried
            cells[place, DUE] = entries[i, ADDED] + added
            run.marks[place, MARK] = renumbered(run.marks[place, MARK], block, 0)
        else:
            entries[i, CARRIED] = carried
            entries[i, ADDED] += added
            entries[i, SUM] = 0.0
            entries[i, SQUARES] = 0.0
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
def is_sought(reach):
    """Whether r̄ is found on the way."""
    return False


@is_sought.register(BoundReach)
def _(reach):
    return True


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
    rates, cells, entries = run.rates, run.cells, run.entries
    seen, i, listed = 0.0, 0, run.counts[LISTED]
    while seen == 0.0 and i < listed:
        seen = entries[i, SQUARES]
        i += 1
    i = 0
    while seen == 0.0 and i < run.counts[TOUCHED]:
        seen = cells[certain(run.touched[i]), TOTAL]
        i += 1
    change = changed_unit(rates, size, seen)
    if change == 0:
        return
    for place in (GAIN, SIZE, REST, LARGEST_SIZE):
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
    for i in range(listed):
        entries[i, SUM] = math.ldexp(entries[i, SUM], -change)
        entries[i, SQUARES] = math.ldexp(entries[i, SQUARES], -2 * change)
        entries[i, CARRIED] = math.ldexp(entries[i, CARRIED], -change)
        entries[i, ADDED] = math.ldexp(entries[i, ADDED], -2 * change)
        entries[i, RATE] = min(math.ldexp(entries[i, RATE], change), _LARGEST)


@fetch_ahead.register(SparseLadderRun)
def _(run, indices, starts, i):
    pass  # they are asked for one by one, while others are at work


@inline
def fetch(run, indices, at):
    """Ask for a coordinate that comes later."""
    place = indices[min(at + _AHEAD, indices.size - 1)]
    for line in range(0, _LINES * LINE // 8, LINE // 8):
        prefetch(run.cells, place, line, SECOND)


@kernel
def settle_levels(run, block, limit, tables):
    """Bring every coordinate up to date, and leave halves, V and excess of its levels in tables."""
    run = borrowed(run)
    cells = run.cells
    for k in range(cells.shape[0]):
        mark, total, above = run.marks[k, MARK], cells[k, TOTAL], 0.0
        if is_listed(mark):
            total -= run.entries[number_of(mark), ADDED]
        elif number_of(mark) < block and total > 0.0:
            mark = catch_up(run, k, mark, block, limit)
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
