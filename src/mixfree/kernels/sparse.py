"""Sparse rows at a cost of their non-zeros: the point and its average are kept lazily.

The point is x = a·v, so that shrinking it (by regularisation or a ball) changes one number. The
output's sum is Σ w_t x_t = A·v − q with A = Σ w_t a_t; when v moves by δ, q moves by A·δ.

Coordinates far apart in memory cost more than the arithmetic, so that each has v and q side by side
and nothing else. The window's sum is a list of its own; while a coordinate is in that list, its q
is kept there, too, and in place of q stands a NaN that says where in the list.
"""

import math
from typing import NamedTuple

import numpy as np

from mixfree.base.arithmetic import LEAST, MOST
from mixfree.kernels.draws import one_in
from mixfree.kernels.engine import acceptable
from mixfree.kernels.jit import apart, chosen, inline, kernel
from mixfree.kernels.losses import SoftmaxLoss, slope, softmax_slopes
from mixfree.kernels.outputs import LAST, RANDOM, TAIL, WEIGHTED
from mixfree.kernels.run import COUNT, LENGTH, SAMPLES, SEEN, STEPS
from mixfree.kernels.steps import as_ratio, step_size
from mixfree.kernels.vectors import divide, scaled_size, size_along
from mixfree.kernels.windows import ReservoirPlan, window_length, window_weight

LISTED = 6  # a further place in counts: how many coordinates the window's sum has
# In numbers: a, A, ‖x‖², sum of the window's weights, ‖g‖ where its square is out of range.
A, MASS, SQUARE, WEIGHTS, NORM = range(1, 6)
_LEAST_A, _MOST_A = 1e-3, 1e3  # outside of these the difference A·v − q costs digits
_EXACT_EVERY = 1024  # steps, at least, between exact values of ‖x‖²
V, Q = range(2)  # columns of SparseRun.cells
_MARK = -0x807  # upper half of a NaN that no arithmetic gives; the lower is a slot of the list


class SparseRun(NamedTuple):
    """The arrays of a run."""

    counts: np.ndarray
    numbers: np.ndarray
    cells: np.ndarray  # v and q, a row a coordinate
    marks: np.ndarray  # the same memory as integers
    places: np.ndarray  # the coordinates in the window's sum
    sums: np.ndarray  # the window's sum
    aside: np.ndarray  # their q
    before: np.ndarray  # the tail average's older sum
    kept: np.ndarray  # the random iterate


@inline
def certain(place):
    """The place as an index of which Numba need not ask whether it counts from the end."""
    return np.uint64(place)


@inline
def mark(slot):
    """What stands in place of the q that is in this slot of the list."""
    return _MARK << 32 | slot


@chosen
def put_back(run):
    """Put the q of the listed coordinates where they belong."""
    for i in range(run.counts[LISTED]):
        run.cells[run.places[i], Q] = run.aside[i]


@chosen
def put_aside(run):
    """List the q of the listed coordinates; their own are written when the window is done."""
    for i in range(run.counts[LISTED]):
        run.aside[i] = run.cells[run.places[i], Q]


@apart
def rebase(run, a):
    """Let v be the point itself, which is a·v now, and −q its sum."""
    cells, mass = run.cells, run.numbers[MASS]
    put_back(run)
    for k in range(cells.shape[0]):
        cells[k, Q] -= mass * cells[k, V]
        cells[k, V] *= a
    put_aside(run)
    run.numbers[A], run.numbers[MASS] = 1.0, 0.0


@apart
def turn_tail(run):
    """Begin a new sum and keep the one before."""
    cells, mass = run.cells, run.numbers[MASS]
    put_back(run)
    for k in range(cells.shape[0]):
        run.before[k] = mass * cells[k, V] - cells[k, Q]
        cells[k, Q] = mass * cells[k, V]
    put_aside(run)


@apart
def keep(run):
    """Keep the point as the random iterate."""
    for k in range(run.kept.size):
        run.kept[k] = run.numbers[A] * run.cells[k, V]


@apart
def exact_square(run):
    """‖x‖² without the rounding of its updates."""
    square = 0.0
    for k in range(run.cells.shape[0]):
        square += run.cells[k, V] * run.cells[k, V]
    run.numbers[SQUARE] = run.numbers[A] * run.numbers[A] * square


@apart
def norm_of_point(run):
    """‖x‖ where its square would overflow."""
    return run.numbers[A] * scaled_size(run.cells[:, V])


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
    weight = float(count) if output.kind == WEIGHTED else 1.0
    run.numbers[MASS] += weight * run.numbers[A]


@inline
def shrink(run, factor):
    """x ← factor · x."""
    a = run.numbers[A] * factor
    if _LEAST_A < a < _MOST_A:
        run.numbers[A] = a
    else:
        rebase(run, a)
    run.numbers[SQUARE] *= factor * factor


@apart
def norm_of_sum(length, ridge, along, square):
    """‖D + ridge·x‖ from ‖D‖, ⟨D, x⟩ and ‖x‖², none of which need be near 1."""
    pull = abs(ridge) * math.sqrt(max(0.0, square))
    # By exponents: the compiler may reorder products, and one of two tiny numbers would vanish.
    unit = math.frexp(max(length, pull))[1]
    length, pull = math.ldexp(length, -unit), math.ldexp(pull, -unit)
    both = math.ldexp(ridge, -unit) * math.ldexp(along, -unit)
    return math.ldexp(math.sqrt(max(0.0, length * length + pull * pull + 2.0 * both)), unit)


@inline
def begin_step(plan, run, length, square, ridge, along, exact):
    """Step size for the direction D + ridge·x, with x shrunk by the ridge's part of the step.

    An infinite one is left to :func:`step_in_ratio` as a whole. ``length`` is ‖D‖, ``square`` its
    plain square and ``along`` is ⟨D, x⟩.
    """
    numbers = run.numbers
    run.counts[STEPS] += 1
    whole = square
    if ridge != 0.0:  # else ‖x‖² is not kept exactly
        whole = max(0.0, square + ridge * (2.0 * along + ridge * numbers[SQUARE]))
    if not LEAST < whole < MOST:
        found = numbers[SQUARE]
        numbers[NORM] = norm_of_sum(length, ridge, along, found) if ridge != 0.0 else length
    size = step_size(plan.step, run, numbers[NORM : NORM + 1], 1.0, whole)
    record(plan.output, run)
    if size == np.inf:
        return size
    if ridge != 0.0:
        shrink(run, 1.0 - size * ridge)
        along *= 1.0 - size * ridge
    if exact:
        moved = size * length
        numbers[SQUARE] += moved * moved - 2.0 * size * along
        if moved > _MOST_A * plan.domain.radius:
            # What is far outside would cost the sum A·v − q its digits before it is back.
            rebase(run, numbers[A])
    return size


@inline
def end_step(plan, run, exact):
    """Bring the point back into the ball."""
    if not exact:
        return
    if run.counts[STEPS] % max(_EXACT_EVERY, run.cells.shape[0]) == 0:
        exact_square(run)
    square, radius = run.numbers[SQUARE], plan.domain.radius
    if square > radius * radius:
        length = math.sqrt(square) if square < MOST else norm_of_point(run)
        shrink(run, radius / length)
        run.numbers[SQUARE] = radius * radius


@inline
def margin_of(run, values, columns, base, width, intercept):
    """⟨x, row⟩ for the block of weights that begins at ``base``."""
    cells = run.cells
    product = cells[base + width, V] if intercept else 0.0
    for p in range(values.size):
        product += cells[certain(base + columns[p]), V] * values[p]
    return run.numbers[A] * product


@inline
def add_to_sum(run, found, place, value):
    """Add to one coordinate of the window's sum; how many coordinates it has now."""
    row, end = certain(place), certain(found)
    there = run.marks[row, Q]
    if there >> 32 == _MARK:
        run.sums[certain(there & 0xFFFFFFFF)] += value
        return found
    run.places[end] = place
    run.sums[end] = value
    run.aside[end] = run.cells[row, Q]
    run.marks[row, Q] = mark(found)
    return found + 1


@inline
def tell_window(run, values, columns, factors, weight, width, intercept):
    """Add weight · gradient to the window's sum."""
    found = run.counts[LISTED]
    for o in range(factors.size):
        base = o * (width + intercept)
        factor = weight * factors[o]
        for p in range(values.size):
            found = add_to_sum(run, found, base + columns[p], factor * values[p])
        if intercept:
            found = add_to_sum(run, found, base + width, factor)
    run.counts[LISTED] = found


@inline
def movable(step, mass):
    """Whether neither a step nor A times it, which the compiler may form, overflows."""
    return abs(step) * max(1.0, abs(mass)) < np.inf


@apart
def step_in_ratio(plan, run, size, share, ridge):
    """A step along share · the window's sum where η, or η times a factor, would overflow.

    If η is infinite, the ridge's part of the step is still to be taken, too.
    """
    multiple, divisor = as_ratio(plan.step, run, size)
    cells, places, sums, found = run.cells, run.places, run.sums, run.counts[LISTED]
    rebase(run, run.numbers[A])
    if size == np.inf:
        pull = run.aside  # of which nothing is needed any more
        for k in range(cells.shape[0]):
            pull[k] = ridge * cells[k, V] / divisor
        for k in range(cells.shape[0]):
            cells[k, V] -= multiple * pull[k]
    divide(sums[:found], share, divisor, sums)
    for i in range(found):
        cells[places[i], V] -= multiple * sums[i]
    run.counts[LISTED] = 0
    exact_square(run)


@inline
def step_along_window(plan, run, l2, exact):
    """A step along the window's whole sum, which is empty then."""
    cells, found, share = run.cells, run.counts[LISTED], plan.gradient.scale
    places, sums, aside = run.places[:found], run.sums[:found], run.aside[:found]
    square, along = 0.0, 0.0
    for i in range(found):
        square += sums[i] * sums[i]
    if exact:
        for i in range(found):
            along += sums[i] * cells[certain(places[i]), V]
    along *= share * run.numbers[A]
    ridge = l2 * share * run.numbers[WEIGHTS]
    length = share * size_along(sums, 1.0, square)
    size = begin_step(plan, run, length, square * share * share, ridge, along, exact)
    step, mass = size * share / run.numbers[A], run.numbers[MASS]
    if movable(step, mass):
        for i in range(found):
            place, delta = certain(places[i]), -step * sums[i]
            cells[place, V] += delta
            cells[place, Q] = aside[i] + mass * delta
        run.counts[LISTED] = 0
    else:
        step_in_ratio(plan, run, size, share, ridge)
    end_step(plan, run, exact)


@inline
def move_by(cells, mass, place, delta):
    """Move one coordinate of v."""
    cells[place, V] += delta
    cells[place, Q] += mass * delta


@apart
def gradient_size(values, factors, intercept):
    """Norm of the gradient of one row, all outputs and intercepts included."""
    return scaled_size(factors) * math.hypot(scaled_size(values), float(intercept))


@apart
def step_along_row_in_ratio(plan, run, values, columns, factors, size, ridge, width, intercept):
    """The step of :func:`step_in_ratio` along the gradient of one row."""
    tell_window(run, values, columns, factors, 1.0, width, intercept)
    step_in_ratio(plan, run, size, 1.0, ridge)


@inline
def step_along_row(plan, run, values, columns, factors, square, along, l2, width, intercept, exact):
    """A step along the gradient of one row."""
    cells = run.cells
    length = (
        math.sqrt(square) if LEAST < square < MOST else gradient_size(values, factors, intercept)
    )
    size = begin_step(plan, run, length, square, l2, along, exact)
    mass, largest = run.numbers[MASS], 0.0
    for o in range(factors.size):
        largest = max(largest, abs(factors[o]))
    if not movable(size * largest / run.numbers[A], mass):
        step_along_row_in_ratio(plan, run, values, columns, factors, size, l2, width, intercept)
        end_step(plan, run, exact)
        return
    for o in range(factors.size):
        base = o * (width + intercept)
        step = size * factors[o] / run.numbers[A]
        for p in range(values.size):
            move_by(cells, mass, certain(base + columns[p]), -step * values[p])
        if intercept:
            move_by(cells, mass, base + width, -step)
    end_step(plan, run, exact)


@chosen
def slopes(loss, margins, target, weight, factors):
    """Derivatives of the loss for every output, times the row's weight."""
    factors[0] = weight * slope(loss, margins[0], target)


@slopes.register(SoftmaxLoss)
def _(loss, margins, target, weight, factors):
    for o in range(margins.size):
        factors[o] = margins[o]
    softmax_slopes(factors, target)
    for o in range(margins.size):
        factors[o] *= weight


@chosen
def step_or_add(
    rule, plan, run, values, columns, factors, square, along, l2, width, intercept, exact
):
    """Take the gradient of a row into the window's sum, or step along it by itself."""
    counts = run.counts
    seen = counts[SEEN]
    if seen == 0:
        counts[LENGTH] = window_length(rule, counts[STEPS], counts[SAMPLES])
        run.numbers[WEIGHTS] = 0.0
    length = counts[LENGTH]
    counts[SAMPLES] += 1
    if length == 1:
        step_along_row(
            plan, run, values, columns, factors, square, along, l2, width, intercept, exact
        )
        return
    weight = window_weight(rule, seen, length)
    run.numbers[WEIGHTS] += weight
    if weight != 0.0:
        tell_window(run, values, columns, factors, weight, width, intercept)
    counts[SEEN] = seen + 1
    if seen + 1 == length:
        counts[SEEN] = 0
        step_along_window(plan, run, l2, exact)


@step_or_add.register(ReservoirPlan)
def _(rule, plan, run, values, columns, factors, square, along, l2, width, intercept, exact):
    run.counts[SAMPLES] += 1
    step_along_row(plan, run, values, columns, factors, square, along, l2, width, intercept, exact)


@chosen
def may_take(run, square, values, factors, intercept):
    """Whether a row may change all that it would change."""
    return True


@chosen
def take_row(run, plan, values, columns, factors, square, along, l2, width, intercept, exact):
    """Take the gradient of a row."""
    step_or_add(
        plan.gradient,
        plan,
        run,
        values,
        columns,
        factors,
        square,
        along,
        l2,
        width,
        intercept,
        exact,
    )


@kernel
def sparse(plan, run, loss, l2, margins, factors, width, intercept, csr, targets, weights):
    """Go over the rows of a CSR matrix; how many were taken before one was not acceptable."""
    data, indices, starts = csr
    exact = l2 != 0.0 or plan.domain.radius < np.inf
    for i in range(targets.size):
        values = data[starts[i] : starts[i + 1]]
        columns = indices[starts[i] : starts[i + 1]]
        for o in range(margins.size):
            base = o * (width + intercept)
            margins[o] = margin_of(run, values, columns, base, width, intercept)
        slopes(loss, margins, targets[i], weights[i] if weights.size > 0 else 1.0, factors)
        row_square = 1.0 if intercept else 0.0
        for p in range(values.size):
            row_square += values[p] * values[p]
        factor_square, along, size = 0.0, 0.0, 0.0
        for o in range(factors.size):
            factor_square += factors[o] * factors[o]
            along += factors[o] * margins[o]
            size += abs(factors[o])
        square = factor_square * row_square
        if not acceptable(plan, run, values, size, square):
            return i
        if not may_take(run, square, values, factors, intercept):
            return i
        take_row(
            run,
            plan,
            values,
            columns,
            factors,
            square,
            along,
            l2,
            width,
            intercept,
            exact,
        )
    return targets.size
