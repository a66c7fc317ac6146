"""The ladder over sparse rows, at a cost of their non-zeros.

Only a coordinate with a gradient moves, and its step depends on the shared numbers and on its own Q
alone. Sums over all steps are kept lazily. With A the sum of the output's weights, its sum of
points is A·x − q; when x moves by δ, q grows by A·δ. With M the sum of the mean point's weights
t(t + 1)(t + 2)/6, that is x − lag/M, and lag grows by M·δ.

Coordinates far apart in memory cost more than the arithmetic, so that everything about one is a row
of a table.
"""

import math
from typing import NamedTuple

import numpy as np

from mixfree.kernels.draws import one_in
from mixfree.kernels.engine import acceptable
from mixfree.kernels.jit import by_type, inline, kernel, out_of_line
from mixfree.kernels.ladder import (
    CARRY,
    LAM,
    NUMERATOR,
    RBAR,
    SHRINK,
    SIZE,
    TOTAL,
    climb,
    ends_epoch,
    update_scale,
)
from mixfree.kernels.linear import SoftmaxLoss, slope, softmax_slopes
from mixfree.kernels.parts import LAST, RANDOM, TAIL, WEIGHTED
from mixfree.kernels.run import COUNT, SAMPLES, STEPS

# Columns of the cells, which are one cache line each: the point, q, and vectors of the ladder.
X, Q, SQUARES, WEIGHTED_SUM, ORIGIN, LAG = range(6)
FIELDS = {"squares": SQUARES, "weighted_sum": WEIGHTED_SUM, "origin": ORIGIN}


class SparseRun(NamedTuple):
    """The arrays of a run."""

    counts: np.ndarray
    mass: np.ndarray  # the sum of the output's weights
    cells: np.ndarray  # one row per coordinate
    before: np.ndarray  # the tail average's older sum
    kept: np.ndarray  # the random iterate
    rates: np.ndarray  # numbers of the ladder
    sketch: np.ndarray  # of the ladder
    earlier: np.ndarray  # the ladder's mean point when the number of steps last doubled


@inline
def unsigned(place):
    """The place as an index of which Numba need not ask whether it counts from the end."""
    return np.uint64(place)


@out_of_line
def turn_tail(run):
    """Begin a new sum and keep the one before."""
    cells, mass = run.cells, run.mass[0]
    for k in range(cells.shape[0]):
        run.before[k] = mass * cells[k, X] - cells[k, Q]
        cells[k, Q] = mass * cells[k, X]


@out_of_line
def keep(run):
    """Keep the point as the random iterate."""
    for k in range(run.kept.size):
        run.kept[k] = run.cells[k, X]


@inline
def record(output, run):
    """Hand the point to the output."""
    run.counts[COUNT] += 1
    count = run.counts[COUNT]
    if output.kind == LAST:
        return
    if output.kind == RANDOM:
        if one_in(output.key[0], output.key[1], count):
            keep(run)
        return
    if output.kind == TAIL and count & (count - 1) == 0:
        turn_tail(run)
    run.mass[0] += float(count) if output.kind == WEIGHTED else 1.0


@inline
def margin_of(run, values, columns, base, width, intercept):
    """⟨x, row⟩ for the block of weights that begins at ``base``."""
    cells = run.cells
    product = cells[base + width, X] if intercept else 0.0
    for p in range(values.size):
        product += cells[unsigned(base + columns[p]), X] * values[p]
    return product


@by_type
def slopes(loss, margins, target, weight):
    """Derivatives of the loss for every output, times the row's weight, in place of the margins."""
    margins[0] = weight * slope(loss, margins[0], target)


@slopes.register(SoftmaxLoss)
def _(loss, margins, target, weight):
    softmax_slopes(margins, target)
    for o in range(margins.size):
        margins[o] *= weight


@inline
def add_entry(cells, place, weighted, sample):
    """Add one entry of λ·gradient to its sum; what it adds to ‖Σ λ g‖₁ and to the numerator."""
    if sample > 1 and place % sample != 0:
        return 0.0, 0.0
    before = cells[place, WEIGHTED_SUM]
    cells[place, WEIGHTED_SUM] = before + weighted
    ahead = cells[place, ORIGIN] - cells[place, X]
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
    cells[place, X] += delta
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
        mean = cells[k, X] - cells[k, LAG] / whole
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


@inline
def take_row(rule, output, run, values, columns, factors, width, intercept):
    """Compiled :meth:`mixfree.steps.Ladder.move` along the gradient of one row."""
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
    record(output, run)
    size, mass = rule.length * rates[RBAR] * rates[SHRINK], run.mass[0]
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


@kernel
def sparse(plan, run, loss, factors, width, intercept, csr, targets, weights):
    """Go over the rows of a CSR matrix; how many were taken before one was not acceptable."""
    data, indices, starts = csr
    for i in range(targets.size):
        values = data[starts[i] : starts[i + 1]]
        columns = indices[starts[i] : starts[i + 1]]
        for o in range(factors.size):
            base = o * (width + intercept)
            factors[o] = margin_of(run, values, columns, base, width, intercept)
        slopes(loss, factors, targets[i], weights[i] if weights.size > 0 else 1.0)
        row_square, factor_square = 1.0 if intercept else 0.0, 0.0
        for p in range(values.size):
            row_square += values[p] * values[p]
        for o in range(factors.size):
            factor_square += factors[o] * factors[o]
        if not acceptable(plan, run, factor_square * row_square):
            return i
        take_row(plan.step, plan.output, run, values, columns, factors, width, intercept)
    return targets.size
