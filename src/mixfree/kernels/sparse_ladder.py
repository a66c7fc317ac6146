"""The ladder over sparse rows, at a cost of their non-zeros.

Only a coordinate with a gradient moves, and its step depends on the shared numbers and on its own Q
alone. The mean point is kept as the output's sum is in :mod:`mixfree.kernels.sparse`: with M the
sum of its weights t(t + 1)(t + 2)/6, it is x − lag/M, and when x moves by δ, its lag grows by M·δ.
"""

import math

from mixfree.kernels.jit import inline, out_of_line
from mixfree.kernels.ladder import (
    CARRY,
    LAM,
    NUMERATOR,
    RBAR,
    SHRINK,
    SIZE,
    TOTAL,
    LadderPlan,
    climb,
    ends_epoch,
    update_scale,
)
from mixfree.kernels.run import SAMPLES, STEPS
from mixfree.kernels.sparse import MASS, Q, V, record, take_row, unsigned

# Columns of the cells after V and Q: a coordinate is one cache line, with two to spare.
SQUARES, WEIGHTED_SUM, ORIGIN, LAG = range(2, 6)
FIELDS = {"squares": SQUARES, "weighted_sum": WEIGHTED_SUM, "origin": ORIGIN}


@inline
def add_entry(cells, place, weighted, sample):
    """Add one entry of λ·gradient to its sum; what it adds to ‖Σ λ g‖₁ and to the numerator."""
    if sample > 1 and place % sample != 0:
        return 0.0, 0.0
    before = cells[place, WEIGHTED_SUM]
    cells[place, WEIGHTED_SUM] = before + weighted
    ahead = cells[place, ORIGIN] - cells[place, V]
    return abs(before + weighted) - abs(before), weighted * ahead


@inline
def move_entry(run, place, weighted, size, weight, mass, whole, stride):
    """Move one coordinate, with the lazy sums of the output and of the mean, and sketch it.

    Returns what the entry adds to the square of the sketch.
    """
    cells = run.cells
    square = cells[place, SQUARES] + weighted * weighted
    cells[place, SQUARES] = square
    u = weighted / math.sqrt(square) if square > 0.0 else 0.0
    delta = -size * u
    cells[place, V] += delta
    cells[place, Q] += mass * delta
    cells[place, LAG] += whole * delta
    if place % stride != 0:
        return 0.0
    run.sketch[CARRY, place // stride] += weight * u
    return weight * u * (weight * u)


@out_of_line
def compare(run, whole, sample):
    """The movement of the mean point over the epoch that ends; ‖Σ λ g‖₁ without rounding."""
    cells, earlier, moved, size = run.cells, run.earlier, 0.0, 0.0
    for k in range(cells.shape[0]):
        mean = cells[k, V] - cells[k, LAG] / whole
        if k % sample == 0:
            moved = max(moved, abs(mean - earlier[k]))
        size += abs(cells[k, WEIGHTED_SUM])
        earlier[k] = mean
    run.rates[SIZE] = size
    return moved


@out_of_line
def restart(run):
    """Measure distances from the mean point, which has just been compared."""
    for k in range(run.cells.shape[0]):
        run.cells[k, ORIGIN] = run.earlier[k]
        run.cells[k, WEIGHTED_SUM] = 0.0
    run.rates[SIZE] = 0.0


@take_row.register(LadderPlan)
def _(rule, plan, run, values, columns, factors, square, along, l2, width, intercept, exact):
    """Twin of :meth:`mixfree.steps.Ladder.move` along the gradient of one row."""
    rates = run.rates
    run.counts[SAMPLES] += 1
    run.counts[STEPS] += 1
    step = run.counts[STEPS]
    whole, longer, ahead = step * (step + 1.0) * (step + 2.0) * (step + 3.0) / 24.0, 0.0, 0.0
    sample = unsigned(rule.sample)
    for o in range(factors.size):
        base, factor = o * (width + intercept), rates[LAM] * factors[o]
        for p in range(values.size):
            place = unsigned(base + columns[p])
            more, along = add_entry(run.cells, place, factor * values[p], sample)
            longer += more
            ahead += along
        if intercept:
            more, along = add_entry(run.cells, unsigned(base + width), factor, sample)
            longer += more
            ahead += along
    rates[SIZE] += longer
    rates[NUMERATOR] += ahead
    moved = compare(run, whole, rule.sample) if ends_epoch(step) else 0.0
    if rule.searches and update_scale(rates, moved):
        restart(run)
    record(plan.output, run)
    size, mass = rule.length * rates[RBAR] * rates[SHRINK], run.numbers[MASS]
    weight, norm, stride = rates[LAM] * math.sqrt(step), 0.0, unsigned(rule.stride)
    for o in range(factors.size):
        base, factor = o * (width + intercept), rates[LAM] * factors[o]
        for p in range(values.size):
            place = unsigned(base + columns[p])
            along = factor * values[p]
            norm += move_entry(run, place, along, size, weight, mass, whole, stride)
        if intercept:
            place = unsigned(base + width)
            norm += move_entry(run, place, factor, size, weight, mass, whole, stride)
    rates[TOTAL] += norm
    if step % rule.block == 0:
        climb(rates, run.sketch, step // rule.block)
