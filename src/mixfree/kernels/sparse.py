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
from mixfree.kernels.jit import by_type, inline, kernel, out_of_line, prefetch
from mixfree.kernels.ladder import (
    CARRY,
    LAM,
    NUMERATOR,
    RBAR,
    SHRINK,
    SIZE,
    TOTAL,
    add_movement,
    climb,
    ends_epoch,
    movement,
    update_scale,
)
from mixfree.kernels.linear import SoftmaxLoss, slope, softmax_slopes
from mixfree.kernels.parts import LAST, RANDOM, TAIL, WEIGHTED
from mixfree.kernels.run import COUNT, SAMPLES, STEPS

# Columns of the cells, which are one cache line each: the point, q, vectors of the ladder, and the
# gradient of a sample and its draws, which is 0 between steps.
X, Q, LAG, SQUARES, WEIGHTED_SUM, ORIGIN, GRADIENT = range(7)
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


class Move(NamedTuple):
    """What the coordinates of a step have in common."""

    size: float
    weight: float  # in the sketch
    mass: float  # of the output so far
    whole: float  # weight of the mean so far
    stride: int  # of the coordinates in the sketch


@inline
def unsigned(place):
    """The place as an index of which Numba need not ask whether it counts from the end."""
    return np.uint64(place)


@inline
def reciprocal(divisor):
    """2^64/divisor, rounded up, for :func:`divides`: division takes many times as long."""
    return np.uint64(0xFFFFFFFFFFFFFFFF) // np.uint64(divisor) + np.uint64(1)


@inline
def divides(inverse, place):
    """Whether a number below 2^32 is a multiple of the divisor (Lemire, Kaser and Kurz 2019)."""
    return inverse * place <= inverse - np.uint64(1)


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
def fetch(run, samples, kept, r, factors, block):
    """Ask for the cells of a row that comes next, before they are needed."""
    columns = row_of(samples, r)[1] if r >= 0 else row_of(kept, ~r)[1]
    for o in range(factors.size):
        for p in range(columns.size):
            prefetch(run.cells, unsigned(o * block + columns[p]))


@inline
def row_of(rows, r):
    """Values, columns, target and weight of one row."""
    data, indices, starts, targets, weights = rows
    begin, end = starts[r], starts[r + 1]
    weight = weights[r] if weights.size > 0 else 1.0
    return data[begin:end], indices[begin:end], targets[r], weight


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
def add_entry(cells, place, gradient, lam, some):
    """Add one entry of a gradient; what it adds to ‖Σ λ g‖₁ and to the numerator."""
    cells[place, GRADIENT] += gradient
    if not divides(some, place):
        return 0.0, 0.0
    before, weighted = cells[place, WEIGHTED_SUM], lam * gradient
    cells[place, WEIGHTED_SUM] = before + weighted
    ahead = cells[place, ORIGIN] - cells[place, X]
    return abs(before + weighted) - abs(before), weighted * ahead


@inline
def add_row(run, values, columns, factors, share, width, intercept, some):
    """Add the gradient of one row, which is a ``share`` of the step's."""
    rates, longer, ahead = run.rates, 0.0, 0.0
    lam = rates[LAM]
    for o in range(factors.size):
        base, factor = o * (width + intercept), share * factors[o]
        for p in range(values.size):
            place = unsigned(base + columns[p])
            more, along = add_entry(run.cells, place, factor * values[p], lam, some)
            longer += more
            ahead += along
        if intercept:
            more, along = add_entry(run.cells, unsigned(base + width), factor, lam, some)
            longer += more
            ahead += along
    rates[SIZE] += longer
    rates[NUMERATOR] += ahead


@inline
def move_row(run, columns, base, extra, room, step, sketched):
    """Move the coordinates of one row, with the lazy sums of the output and of the mean.

    In three loops, since roots and quotients of numbers that lie together take half the time.
    """
    cells, rates, (places, u, squares) = run.cells, run.rates, room
    lam, size = rates[LAM], columns.size
    for p in range(size):
        places[p] = base + columns[p]
    if extra > 0:
        places[size] = base + extra
        size += 1
    for p in range(size):
        place = unsigned(places[p])
        u[p] = lam * cells[place, GRADIENT]
        squares[p] = cells[place, SQUARES] + u[p] * u[p]
        cells[place, GRADIENT], cells[place, SQUARES] = 0.0, squares[p]
    for p in range(size):
        u[p] /= math.sqrt(squares[p] if squares[p] > 0.0 else 1.0)
    for p in range(size):
        place, delta = unsigned(places[p]), -step.size * u[p]
        cells[place, X] += delta
        cells[place, Q] += step.mass * delta
        cells[place, LAG] += step.whole * delta
        if divides(sketched, place):
            run.sketch[CARRY, place // step.stride] += step.weight * u[p]
            rates[TOTAL] += step.weight * u[p] * (step.weight * u[p])


@out_of_line
def compare(run, whole, sample):
    """The movement of the mean point over the epoch that ends; ‖Σ λ g‖₁ without rounding."""
    cells, earlier, size, sums = run.cells, run.earlier, 0.0, (0.0, 0.0, 0.0)
    for k in range(cells.shape[0]):
        mean = cells[k, X] - cells[k, LAG] / whole
        if k % sample == 0:
            sums = add_movement(sums, mean - earlier[k], cells[k, X] - mean)
        size += abs(cells[k, WEIGHTED_SUM])
        earlier[k] = mean
    run.rates[SIZE] = size
    return movement(sums)


@out_of_line
def restart(run):
    """Measure distances from the mean point, which has just been compared."""
    for k in range(run.cells.shape[0]):
        run.cells[k, ORIGIN] = run.earlier[k]
        run.cells[k, WEIGHTED_SUM] = 0.0
    run.rates[SIZE] = 0.0


@inline
def weight_of(steps):
    """Total weight of so many points in the ladder's mean."""
    return steps * (steps + 1.0) * (steps + 2.0) * (steps + 3.0) / 24.0


@inline
def begin_step(rule, output, run):
    """Count the step, search for its scale, and hand the point to the output."""
    rates = run.rates
    run.counts[SAMPLES] += 1
    run.counts[STEPS] += 1
    step, moved = run.counts[STEPS], 0.0
    whole = weight_of(step)
    if ends_epoch(step):
        moved = compare(run, whole, rule.sample)
    if rule.searches and update_scale(rates, moved):
        restart(run)
    record(output, run)
    size, weight = rule.length * rates[RBAR] * rates[SHRINK], rates[LAM] * math.sqrt(step)
    return Move(size, weight, run.mass[0], whole, unsigned(rule.stride))


@kernel
def sparse(plan, run, loss, factors, width, intercept, samples, kept, order, room):
    """Take samples in ``order``; return how many were taken before one was refused.

    ``samples`` and ``kept`` are a CSR matrix, targets and weights; empty weights are all 1. A
    negative r in the order is the ~r-th kept sample. Each sample is followed by its draws.
    """
    rule, together = plan.step, 1 + plan.gradient.draws
    some, sketched = reciprocal(rule.sample), reciprocal(rule.stride)
    for i in range(order.size):
        r = order[i]
        values, columns, target, weight = row_of(samples, r) if r >= 0 else row_of(kept, ~r)
        if i + 1 < order.size:
            fetch(run, samples, kept, order[i + 1], factors, width + intercept)
        for o in range(factors.size):
            base = o * (width + intercept)
            factors[o] = margin_of(run, values, columns, base, width, intercept)
        slopes(loss, factors, target, weight)
        row_square, factor_square = 1.0 if intercept else 0.0, 0.0
        for p in range(values.size):
            row_square += values[p] * values[p]
        for o in range(factors.size):
            factor_square += factors[o] * factors[o]
        if not acceptable(plan, run, factor_square * row_square):
            return i
        add_row(run, values, columns, factors, plan.gradient.share, width, intercept, some)
        if (i + 1) % together == 0:
            step = begin_step(rule, plan.output, run)
            for j in range(i + 1 - together, i + 1):
                r = order[j]
                columns = row_of(samples, r)[1] if r >= 0 else row_of(kept, ~r)[1]
                for o in range(factors.size):
                    base = o * (width + intercept)
                    move_row(run, columns, base, intercept * width, room, step, sketched)
            if run.counts[STEPS] % rule.block == 0:
                climb(run.rates, run.sketch, run.counts[STEPS] // rule.block)
    return order.size
