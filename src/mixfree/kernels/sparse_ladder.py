"""Sparse rows under the ladder at a cost of their non-zeros: see :class:`mixfree.steps.Ladder`.

A coordinate is brought up to date when a row has it. Until then its gradients are zero, so that all
that happens to it is known: scale and weights are the same for all coordinates, and its blocks
are completed by zeros.

A level j has the sums of λg and of (λg)² over the first half of its block, where that is complete
and the block is not, and U_j = V_j − Q as it was when its block was last complete. With D = b − a
for the sums a and b of two halves, and A and B for those of squares, U_j adds D² − (A + B). A block
whose other half is zeros adds a² − A, which is nothing as long as only one gradient is in it. So a
coordinate that is touched now and then changes at few levels, and Σ_j max(0, U_j) only there.

Memory far apart costs more than the arithmetic. All that every step needs of a coordinate is one
cache line; its levels are elsewhere, in :mod:`mixfree.kernels.sparse_records`.
"""

import math
from typing import NamedTuple

import numpy as np

from mixfree.kernels.jit import apart, exact, inline, kernel
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
    changed_unit,
    keeps_unit,
)
from mixfree.kernels.run import SAMPLES, STEPS
from mixfree.kernels.sparse import (
    LISTED,
    MASS,
    Q,
    V,
    certain,
    gradient_size,
    may_take,
    put_aside,
    put_back,
    record,
    take_row,
)
from mixfree.kernels.sparse_records import (
    ABOVE,
    DUE,
    HALVES,
    SEVERAL,
    USED,
    WAITS,
    block_of,
    count_of,
    depth_of,
    first_of,
    has_room,
    has_several,
    highest_bit,
    lowest_bit,
    make_room,
    mark_of,
    place_of,
    size_of,
)
from mixfree.steps.distance import KEPT, MOVED
from mixfree.steps.ladder import EARLY

# Columns of the cells after V and Q. The mean of the epoch is x − LAG/weight. CARRY is the sum of
# λg over the block in which the coordinate was last touched, TOTAL is Q before that block.
LAG, PULL, TOTAL, CARRY, MARK, ROOM = range(2, 8)
# Further places in rates: r̄, ‖Σ λ g‖₁ as a sum of two numbers with the largest it has been,
# Σ λ g·(o − x) since the rates were last renewed, and whether o is not 0 everywhere.
RBAR, SIZE, REST, LARGEST_SIZE, NEWEST, SHIFTED = range(FARTHEST + 1, FARTHEST + 7)
TOUCHED = LISTED  # place in counts: how many coordinates have been touched
NOTHING, ALL, SLOTS = range(3)  # what a row needs first: that all may change, or more slots
_COLLAPSE = 2.0**-30  # of its largest value: below, ‖Σ λ g‖₁ is summed up anew


class SparseLadderRun(NamedTuple):
    """The arrays of a run."""

    counts: np.ndarray
    numbers: np.ndarray
    rates: np.ndarray  # numbers of the ladder
    cells: np.ndarray  # one row per coordinate
    marks: np.ndarray  # the same memory as integers
    records: np.ndarray  # the levels, one row per slot
    levels: np.ndarray  # the same memory as a vector
    bits: np.ndarray  # and as integers
    touched: np.ndarray  # the coordinates that have been touched
    origin: np.ndarray  # o
    earlier: np.ndarray  # mean of the epoch before
    before: np.ndarray  # the tail average's older sum
    kept: np.ndarray  # the random iterate
    needs: np.ndarray  # what a row needs first
    whole: bool  # whether every coordinate may change
    most: int  # slots that a coordinate may need for one row


@put_back.register(SparseLadderRun)
def _(run):
    pass


@put_aside.register(SparseLadderRun)
def _(run):
    pass


@inline
def due_of(run, place, mark, at):
    """Sum of (λg)² over the last block; ``at`` is where the record begins."""
    carry = run.cells[place, CARRY]
    return run.levels[certain(at + DUE)] if has_several(mark) else carry * carry


@inline
def catch_up(run, place, mark, block, limit):
    """Complete a coordinate's blocks up to the one that begins now.

    See :meth:`mixfree.steps.Ladder._climb`: all blocks up to the level at which the last one
    and this one are halves of one block are complete.
    """
    cells, levels, bits = run.cells, run.levels, run.bits
    top, room = min(highest_bit(block_of(mark) ^ block), limit), run.marks[place, ROOM]
    at = place_of(room)
    waits, carry, due = bits[certain(at + WAITS)], cells[place, CARRY], due_of(run, place, mark, at)
    low = 0 if has_several(mark) else lowest_bit(waits)
    if room == 0 or not has_room(room, low, top):
        room = make_room(levels, run.counts, room, low, top)
        at = place_of(room)
    cells[place, TOTAL] += due
    cells[place, CARRY] = 0.0
    if low < top:
        above, half_at = levels[certain(at + ABOVE)], at + HALVES + 2 * depth_of(room)
        over_at = at + size_of(room) - 1 + first_of(room)
        for j in range(low, top):
            waited = waits >> j & 1
            half_at -= 2 * waited
            room -= waited
            found = half_at if waited else HALVES  # of the record of zeros
            half, half_due = levels[certain(found)], levels[certain(found + 1)]
            over = levels[certain(over_at - j)]
            difference = carry - half
            grown = over + (difference * difference - (due + half_due))
            above += max(grown, 0.0) - max(over, 0.0)
            carry += half
            due += half_due
            levels[certain(over_at - j)] = grown
        levels[certain(at + ABOVE)] = max(above, 0.0)
        waits = waits >> top << top
    if top < limit:
        half_at = at + HALVES + 2 * depth_of(room)
        levels[certain(half_at)], levels[certain(half_at + 1)] = carry, due
        waits |= 1 << top
        room += 1
    bits[certain(at + WAITS)] = waits
    run.marks[place, ROOM] = room
    run.marks[place, MARK] = mark_of(block, 0)


@inline
def up_to_date(run, place, block, limit):
    """Complete the coordinate's blocks before this one."""
    mark = run.marks[place, MARK]
    if mark == 0:
        run.touched[certain(run.counts[TOUCHED])] = place
        run.counts[TOUCHED] += 1
        run.marks[place, MARK] = mark_of(block, 0)
    elif block_of(mark) < block:
        catch_up(run, place, mark, block, limit)


@inline
def add(searches, run, place, weighted):
    """Add an entry of λ g to the sums; by how much Σ λ g·(o − x) and ‖Σ λ g‖₁ have grown."""
    cells, carry = run.cells, run.cells[place, CARRY]
    if carry != 0.0 or has_several(run.marks[place, MARK]):
        add_another(run.levels, run.counts, run.marks, place, carry, weighted)
    cells[place, CARRY] = carry + weighted
    if not searches:
        return 0.0, 0.0
    pull = cells[place, PULL]
    cells[place, PULL] = pull + weighted
    origin = run.origin[place] if run.rates[SHIFTED] != 0.0 else 0.0
    return weighted * (origin - cells[place, V]), abs(pull + weighted) - abs(pull)


@apart
def add_another(levels, counts, marks, place, carry, weighted):
    """Add to the squares of a block that has several gradients."""
    room = marks[place, ROOM]
    if room == 0:
        room = make_room(levels, counts, room, 0, 0)
        marks[place, ROOM] = room
    at = certain(place_of(room) + DUE)
    if not has_several(marks[place, MARK]):
        marks[place, MARK] |= SEVERAL
        levels[at] = carry * carry
    levels[at] += weighted * weighted


@inline
def root_of(run, place):
    """S without the last block, if that is the current one."""
    at = place_of(run.marks[place, ROOM])
    return run.cells[place, TOTAL] + run.levels[certain(at + ABOVE)]


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
    slots = (values.size + intercept) * factors.size * run.most
    if run.counts[USED] + slots > run.records.shape[0]:
        run.needs[0] = SLOTS
        return False
    kept = keeps_unit(square * run.rates[SHRINK] * run.rates[SHRINK])
    if kept or run.whole or gradient_size(values, factors, intercept) == 0.0:
        return True
    run.needs[0] = ALL
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
            up_to_date(run, place, block, step.max_levels)
            rate = rate_of(root_of(run, place), pace)
            more, grown = add(step.searches, run, place, lam * g)
            delta = min(max(rate * g, -rbar), rbar)
            # The reference takes x back by whole steps, from where it is in the end.
            gain += more + cells[place, CARRY] * (delta - rate * g)
            growth += grown
            move(run, place, delta, mass, weight)
    if step.searches:
        take(rates, gain, growth)


@apart
def step_and_refresh(step, run, values, columns, factors, width, intercept):
    """A step at which the rates are renewed, before the point moves."""
    steps, rates, limit = run.counts[STEPS], run.rates, step.max_levels
    block, lam, gain, growth = (steps - 1) // step.block, rates[PEAK], 0.0, 0.0
    for o in range(factors.size):
        base, factor = o * (width + intercept), factors[o] * rates[SHRINK]
        for p in range(values.size + intercept):
            inside = p < values.size
            place = certain(base + (columns[p] if inside else width))
            up_to_date(run, place, block, limit)
            g = factor * (values[p] if inside else 1.0)
            more, grown = add(step.searches, run, place, lam * g)
            gain += more
            growth += grown
    if step.searches:
        take(rates, gain, growth)
        update_distance(run, 1 if steps <= EARLY * step.block else step.block)
    block, pace, rbar = steps // step.block, step.length * rates[PEAK] * rates[RBAR], rates[RBAR]
    for o in range(factors.size):
        base, factor = o * (width + intercept), factors[o] * rates[SHRINK]
        for p in range(values.size + intercept):
            inside = p < values.size
            place = certain(base + (columns[p] if inside else width))
            mark = run.marks[place, MARK]
            if block_of(mark) < block:
                catch_up(run, place, mark, block, limit)
                mark = run.marks[place, MARK]
            due = due_of(run, place, mark, place_of(run.marks[place, ROOM]))
            rate = rate_of(root_of(run, place) + due, pace)
            g = factor * (values[p] if inside else 1.0)
            delta = min(max(rate * g, -rbar), rbar)
            move(run, place, delta, run.numbers[MASS], rates[WEIGHT])


@inline
def take(rates, gain, growth):
    """Take what a row has added to Σ λ g·(o − x) and to ‖Σ λ g‖₁."""
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


@apart
def update_distance(run, steps):
    """See :meth:`mixfree.Distance.update`."""
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
    if 0.0 < MOVED * far < rbar:
        rbar = max(MOVED * far, KEPT * rbar)
        rates[MARGIN] = 1.0
        rates[GAIN] = 0.0
        rates[SIZE], rates[REST], rates[LARGEST_SIZE] = 0.0, 0.0, 0.0
        rates[SHIFTED] = 1.0
        for i in range(number):
            k = certain(run.touched[i] if few else i)
            run.origin[k] = earlier[k]
            cells[k, PULL] = 0.0
    return rbar


@apart
def choose_unit(run, size):
    """See :meth:`mixfree.steps.ladder.LadderState.change_unit`."""
    rates, cells, levels, seen, i = run.rates, run.cells, run.levels, 0.0, 0
    while seen == 0.0 and i < run.counts[TOUCHED]:
        place = certain(run.touched[i])
        at = place_of(run.marks[place, ROOM])
        seen = max(cells[place, TOTAL], due_of(run, place, run.marks[place, MARK], at))
        i += 1
    change = changed_unit(rates, size, seen)
    if change == 0:
        return
    for place in (GAIN, SIZE, REST, LARGEST_SIZE, NEWEST):
        rates[place] = math.ldexp(rates[place], -change)
    for k in range(cells.shape[0]):
        cells[k, PULL] = math.ldexp(cells[k, PULL], -change)
        cells[k, CARRY] = math.ldexp(cells[k, CARRY], -change)
        cells[k, TOTAL] = math.ldexp(cells[k, TOTAL], -2 * change)
        room = run.marks[k, ROOM]
        if room == 0:
            continue
        at, end = place_of(room), place_of(room) + size_of(room)
        for s in range(at + ABOVE, at + HALVES):
            levels[s] = math.ldexp(levels[s], -2 * change)
        for s in range(at + HALVES, at + HALVES + 2 * depth_of(room), 2):
            levels[s] = math.ldexp(levels[s], -change)
            levels[s + 1] = math.ldexp(levels[s + 1], -2 * change)
        for s in range(end - count_of(room), end):
            levels[s] = math.ldexp(levels[s], -2 * change)


@kernel
def settle_levels(run, block, limit, tables):
    """Bring every coordinate up to date, and leave halves, V and excess of its levels in tables."""
    cells, levels = run.cells, run.levels
    for k in range(cells.shape[0]):
        mark = run.marks[k, MARK]
        if mark != 0 and block_of(mark) < block:
            catch_up(run, certain(k), mark, block, limit)
        room, total, above = run.marks[k, ROOM], cells[k, TOTAL], 0.0
        at, first, end = place_of(room), first_of(room), first_of(room) + count_of(room)
        half_at, over_at = at + HALVES + 2 * depth_of(room), at + size_of(room) - 1 + first
        waits = run.bits[at + WAITS]
        for j in range(tables.shape[1]):
            if waits >> j & 1:
                half_at -= 2
                tables[HALF, j, k] = levels[half_at]
                total -= levels[half_at + 1]
            over = levels[over_at - j] if first <= j < end else 0.0
            tables[LEVEL, j, k] = max(total + over, 0.0)
        for j in range(tables.shape[1] - 1, -1, -1):
            above += max(levels[over_at - j], 0.0) if first <= j < end else 0.0
            tables[EXCESS, j, k] = above
