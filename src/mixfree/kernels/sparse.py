"""Sparse rows at a cost of their non-zeros: the point and its average are kept lazily.

The point is x = a·v, so that shrinking it (by regularisation or a ball) changes one number. The
output's sum is Σ w_t x_t = A·v − q with A = Σ w_t a_t; when v moves by δ, q moves by A·δ.

Coordinates far apart in memory cost more than the arithmetic, so that everything about one is a row
of a table. The window's sum is there, too, with a list of the coordinates that it has.
"""

from typing import NamedTuple

import numpy as np

from mixfree.kernels.draws import one_in
from mixfree.kernels.engine import acceptable
from mixfree.kernels.jit import by_type, inline, kernel, out_of_line
from mixfree.kernels.linear import SoftmaxLoss, slope, softmax_slopes
from mixfree.kernels.parts import (
    LAST,
    RANDOM,
    TAIL,
    WEIGHTED,
    step_size,
    window_length,
    window_weight,
)
from mixfree.kernels.run import COUNT, LENGTH, SAMPLES, SEEN, STEPS

LISTED = 6  # a further place in counts: how many coordinates the window's sum has
A, MASS, SQUARE, WEIGHTS = range(1, 5)  # in numbers: a, A, ‖x‖², sum of the window's weights
_LEAST_A, _MOST_A = 1e-3, 1e3  # outside of these the difference A·v − q costs digits
_EXACT_EVERY = 1024  # steps, at least, between exact values of ‖x‖²
V, Q, SUM, INSIDE = range(4)  # columns of the cells; of the ladder's, the first two


class SparseRun(NamedTuple):
    """The arrays of a run."""

    counts: np.ndarray
    numbers: np.ndarray
    cells: np.ndarray  # one row per coordinate
    places: np.ndarray  # the coordinates in the window's sum
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
def rebase(run, a):
    """Let v be the point itself, which is a·v now, and −q its sum."""
    cells, mass = run.cells, run.numbers[MASS]
    for k in range(cells.shape[0]):
        cells[k, Q] -= mass * cells[k, V]
        cells[k, V] *= a
    run.numbers[A], run.numbers[MASS] = 1.0, 0.0


@out_of_line
def turn_tail(run):
    """Begin a new sum and keep the one before."""
    cells, mass = run.cells, run.numbers[MASS]
    for k in range(cells.shape[0]):
        run.before[k] = mass * cells[k, V] - cells[k, Q]
        cells[k, Q] = mass * cells[k, V]


@out_of_line
def keep(run):
    """Keep the point as the random iterate."""
    for k in range(run.kept.size):
        run.kept[k] = run.numbers[A] * run.cells[k, V]


@out_of_line
def exact_square(run):
    """‖x‖² without the rounding of its updates."""
    square = 0.0
    for k in range(run.cells.shape[0]):
        square += run.cells[k, V] * run.cells[k, V]
    run.numbers[SQUARE] = run.numbers[A] * run.numbers[A] * square


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


@inline
def begin_step(plan, run, square, ridge, along, exact):
    """Step size for the direction D + ridge·x, with x shrunk by the ridge's part of the step.

    ``square`` is ‖D‖² and ``along`` is ⟨D, x⟩.
    """
    numbers, whole = run.numbers, square
    run.counts[STEPS] += 1
    if ridge != 0.0:  # else ‖x‖² is not kept exactly
        whole = max(0.0, square + ridge * (2.0 * along + ridge * numbers[SQUARE]))
    size = step_size(plan.step, run, whole)
    record(plan.output, run)
    if ridge != 0.0:
        shrink(run, 1.0 - size * ridge)
        along *= 1.0 - size * ridge
    if exact:
        moved = size * size * square
        numbers[SQUARE] += moved - 2.0 * size * along
        if moved > (_MOST_A * plan.domain.radius) ** 2:
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
        shrink(run, radius / np.sqrt(square))
        run.numbers[SQUARE] = radius * radius


@inline
def margin_of(run, values, columns, base, width, intercept):
    """⟨x, row⟩ for the block of weights that begins at ``base``."""
    cells = run.cells
    product = cells[base + width, V] if intercept else 0.0
    for p in range(values.size):
        product += cells[unsigned(base + columns[p]), V] * values[p]
    return run.numbers[A] * product


@inline
def add_to_sum(run, place, value):
    """Add to one coordinate of the window's sum."""
    cells = run.cells
    if cells[place, INSIDE] == 0.0:
        cells[place, INSIDE] = 1.0
        run.places[run.counts[LISTED]] = place
        run.counts[LISTED] += 1
    cells[place, SUM] += value


@inline
def tell_window(run, values, columns, factors, weight, width, intercept):
    """Add weight · gradient to the window's sum."""
    for o in range(factors.size):
        base, factor = o * (width + intercept), weight * factors[o]
        for p in range(values.size):
            add_to_sum(run, unsigned(base + columns[p]), factor * values[p])
        if intercept:
            add_to_sum(run, unsigned(base + width), factor)


@inline
def step_along_window(plan, run, l2, exact):
    """A step along the window's whole sum, which is empty then."""
    cells, places, share = run.cells, run.places[: run.counts[LISTED]], plan.gradient.scale
    square, along = 0.0, 0.0
    for i in range(places.size):
        place = unsigned(places[i])
        square += cells[place, SUM] * cells[place, SUM]
        along += cells[place, SUM] * cells[place, V]
    along *= share * run.numbers[A]
    ridge = l2 * share * run.numbers[WEIGHTS]
    size = begin_step(plan, run, square * share * share, ridge, along, exact)
    step, mass = size * share / run.numbers[A], run.numbers[MASS]
    for i in range(places.size):
        place = unsigned(places[i])
        move_by(cells, mass, place, -step * cells[place, SUM])
        cells[place, SUM] = cells[place, INSIDE] = 0.0
    run.counts[LISTED] = 0
    end_step(plan, run, exact)


@inline
def move_by(cells, mass, place, delta):
    """Move one coordinate of v."""
    cells[place, V] += delta
    cells[place, Q] += mass * delta


@inline
def step_along_row(plan, run, values, columns, factors, square, along, l2, width, intercept, exact):
    """A step along the gradient of one row."""
    size = begin_step(plan, run, square, l2, along, exact)
    cells, mass = run.cells, run.numbers[MASS]
    for o in range(factors.size):
        base, step = o * (width + intercept), size * factors[o] / run.numbers[A]
        for p in range(values.size):
            move_by(cells, mass, unsigned(base + columns[p]), -step * values[p])
        if intercept:
            move_by(cells, mass, unsigned(base + width), -step)
    end_step(plan, run, exact)


@by_type
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


@by_type
def take_row(step, plan, run, values, columns, factors, square, along, l2, width, intercept, exact):
    """Take the gradient of a row into the window's sum, or step along it by itself."""
    counts, rule = run.counts, plan.gradient
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
        factor_square, along = 0.0, 0.0
        for o in range(factors.size):
            factor_square += factors[o] * factors[o]
            along += factors[o] * margins[o]
        square = factor_square * row_square
        if not acceptable(plan, run, square):
            return i
        take_row(
            plan.step,
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
    return targets.size
