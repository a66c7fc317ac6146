"""Twin of :meth:`mixfree.Optimizer.tell`: the four parts, compiled.

A loop either stores or sums up, never both: LLVM decides by the arrays' addresses whether a loop
that stores runs in vector registers, and the order of a sum, and its bits, would follow.
"""

import math

import numpy as np

from mixfree.base.arithmetic import LEAST, MOST
from mixfree.kernels.draws import one_in, trailing_zeros
from mixfree.kernels.jit import apart, inline, unshared
from mixfree.kernels.ladder import (
    FASTEST,
    RATE,
    SQUARES,
    SUM,
    LadderRun,
    climb_along,
    in_unit,
    only_adds,
)
from mixfree.kernels.plan import (
    ADAGRAD,
    AVERAGE,
    BALL,
    BOX,
    COUNT,
    DROP,
    ENTROPIC,
    INVERSE,
    INVERSE_SQRT,
    LADDER,
    LENGTH,
    MINIBATCH,
    RANDOM,
    REACH,
    ROOT,
    SAMPLES,
    SEEN,
    SIMPLEX,
    STEPS,
    TAIL,
    TRUNCATED,
    TURN,
    WEIGHTED,
    Run,
)
from mixfree.kernels.vectors import add_scaled, copy, scaled_size, size_of, sum_of_squares


@inline
def acceptable(plan, row, factor, square):
    """Whether the gradient factor · row is finite and small enough to be summed."""
    return square < plan.largest or abs(factor) * scaled_size(row) < plan.largest


@inline
def window_length(plan, steps, samples):
    """Length of the window that opens now."""
    if plan.gradient <= DROP:
        return plan.length
    zeros = trailing_zeros(plan.level_key[0], plan.level_key[1], steps + 1)
    if plan.gradient == TRUNCATED:
        return 1 << (1 + zeros % plan.length)
    horizon = plan.horizon if plan.horizon > 0 else samples
    return 1 << (1 + zeros) if zeros < 61 and (1 << (1 + zeros)) <= horizon else 1


@inline
def window_weight(plan, position, length):
    """Weight of a sample in the window's sum."""
    if plan.gradient == MINIBATCH:
        return 1.0
    if plan.gradient == DROP:
        return 1.0 if position + 1 == length else 0.0
    if 2 * position >= length:
        return 1.0
    return -1.0 if position > 0 else 1.0 / plan.share - 1.0


@inline
def size_of_gradient(row, factor, square):
    """Norm of factor · row, whose plain sum of squares is ``square``."""
    return math.sqrt(square) if LEAST < square < MOST else abs(factor) * scaled_size(row)


@inline
def longer(root, row, factor, square):
    """hypot(root, ‖g‖), which is slow, or the same by a plain root where nothing is lost."""
    total = root * root + square
    if square > LEAST and total < MOST:
        return math.sqrt(total)
    return math.hypot(root, size_of_gradient(row, factor, square))


@inline
def step_size(plan, run, row, factor, square):
    """η_t, with the step's own state brought up to date."""
    if plan.step == ADAGRAD:
        root = longer(run.numbers[ROOT], row, factor, square)
        run.numbers[ROOT] = root
        return plan.alpha / root if root > 0.0 else 0.0
    size = plan.alpha
    if plan.step == INVERSE:
        size /= run.counts[STEPS]
    elif plan.step == INVERSE_SQRT:
        size /= math.sqrt(run.counts[STEPS])
    return size if size <= 1.0 else finite_size(plan.largest, size, row, factor, square)


@apart
def finite_size(largest, size, row, factor, square):
    """See :func:`mixfree.base.arithmetic.stretched`."""
    length = size_of_gradient(row, factor, square)
    return min(size, largest / length) if length > 0.0 else 0.0


@inline
def recording_weight(plan, run):
    """Count an iterate and prepare the output for it; its weight in the sums."""
    run.counts[COUNT] += 1
    count = run.counts[COUNT]
    if plan.output == AVERAGE:
        return 1.0
    if plan.output == WEIGHTED:
        return float(count)
    if plan.output == TAIL:
        if count & (count - 1) == 0:
            turn_tail(run.sums)
        return 1.0
    if plan.output == RANDOM and one_in(plan.output_key[0], plan.output_key[1], count):
        copy(run.x, run.kept)
    return 0.0


@apart
def turn_tail(sums):
    """Begin a new sum and keep the one before."""
    for k in range(sums.shape[1]):  # Numba takes seconds to compile an assignment to a slice
        sums[1, k] = sums[0, k]
        sums[0, k] = 0.0


@inline
def surely_inside(plan, run, length):
    """Whether a ball around the origin still holds the point after a move of this length.

    What the norm can be at most since it was last measured spares most of the measuring. Where
    a run is cut decides when that was, so the bound has to hold to the last bit.
    """
    reach = (run.numbers[REACH] + length) * plan.slack
    run.numbers[REACH] = reach
    return reach <= plan.bound and run.low.size == 0


@inline
def project(plan, run, length):
    """Bring the point back into the domain after a move of this length."""
    x, low, high = run.x, run.low, run.high
    if plan.domain == BALL:
        if not surely_inside(plan, run, length):
            square = sum_of_squares(x)
            run.numbers[REACH] = math.sqrt(square) if LEAST < square < MOST else np.inf
            if square < LEAST or square > min(plan.bound * plan.bound, MOST) or low.size > 0:
                project_ball(x, square, plan.bound, low)
                run.numbers[REACH] = np.inf
    elif plan.domain == BOX:
        for k in range(x.size):
            x[k] = min(max(x[k], low[k]), high[k])
    elif plan.domain == SIMPLEX:
        project_simplex(x, plan.bound)


@apart
def project_ball(x, square, radius, center):
    """See :class:`mixfree.domains.Ball`."""
    if center.size > 0:
        for k in range(x.size):
            x[k] -= center[k]
        square = sum_of_squares(x)
    distance = size_of(x, square)
    shrink = radius / distance if distance > radius else 1.0
    for k in range(x.size):
        x[k] *= shrink
    if center.size > 0:
        for k in range(x.size):
            x[k] += center[k]


@apart
def project_simplex(x, bound):
    """See :class:`mixfree.domains.Simplex`."""
    least, largest, total = x[0], x[0], 0.0
    for k in range(x.size):
        least, largest = min(least, x[k]), max(largest, x[k])
        total += x[k]
    if least >= 0.0 and abs(total - bound) <= 1e-15 * bound:
        return
    for k in range(x.size):
        x[k] -= largest
    # Leaving out what is below the threshold raises it, until nothing more is below.
    threshold, kept, before = -np.inf, x.size + 1, 0
    while kept != before:
        before, kept, total = kept, 0, 0.0
        for k in range(x.size):
            if x[k] > threshold:
                total += x[k]
                kept += 1
        threshold = (total - bound) / kept
    for k in range(x.size):
        x[k] = max(x[k] - threshold, 0.0)


@apart
def move_entropic(x, row, size, tiny):
    """See :class:`mixfree.domains.Entropic`."""
    least, before, after = row[0], 0.0, 0.0
    for k in range(x.size):
        least = min(least, row[k]) if size > 0.0 else max(least, row[k])
        before += x[k]
    # The difference first: a fused multiply-add would leave its rounding in the exponent.
    for k in range(x.size):
        x[k] *= math.exp(size * (least - row[k]))
    for k in range(x.size):
        after += x[k]
    for k in range(x.size):
        x[k] = max(x[k] * (before / after), tiny)


@inline
def as_ratio(plan, run, size):
    """η as a ratio of two numbers, neither of which overflows."""
    if plan.step == ADAGRAD:
        return plan.alpha, run.numbers[ROOT]
    return 1.0, 1.0 / size


@apart
def divide(row, factor, divisor, out):
    """Leave factor · row/divisor in ``out``, which may be ``row``."""
    for k in range(row.size):
        out[k] = factor * row[k] / divisor


@inline
def move(plan, run, row, factor, square, size, weight):
    """Add weight · x to the output's sum, then move x by −η g in the domain's geometry."""
    x, sums = run.x, run.sums[0]
    step = x.dtype.type(size * factor)
    if not abs(step) < np.inf:  # of a gradient that is tiny, or of a tiny row with a huge factor
        multiple, divisor = as_ratio(plan, run, size)
        divide(row, factor, divisor, run.gradient)
        row, step = run.gradient, x.dtype.type(multiple)
    if plan.domain == ENTROPIC:
        add_scaled(sums, weight, x)
        move_entropic(x, row, step, plan.tiny)
        return
    for k in range(x.size):
        before = x[k]
        sums[k] += weight * before
        x[k] = before - step * row[k]
    known = LEAST < square < MOST
    project(plan, run, size * math.sqrt(square) if known else np.inf)


@inline
def move_at_rates(plan, run, row, scale, length, weight):
    """Like :func:`move` at the ladder's rates, adding the gradient scale · row to its sums."""
    x, sums, table = run.x, run.sums[0], run.ladder.table
    rate, total, squares = table[RATE], table[SUM], table[SQUARES]
    for k in range(x.size):
        g, before = scale * row[k], x[k]
        total[k] += g
        squares[k] += g * g
        sums[k] += weight * before
        x[k] = before - rate[k] * g
    project(plan, run, run.ladder.numbers[FASTEST] * length)


@apart
def climb_and_move(plan, run, row, scale, length, weight):
    """Bring the ladder up to date and move along the gradient scale · row."""
    row, factor = climb_along(
        plan.ladder, run.ladder, row, scale, length, run.counts[STEPS], run.x, run.gradient
    )
    move(plan, run, row, factor, np.inf, 1.0, weight)


@inline
def step_along(plan, run, row, factor, square):
    """One step of the loop along the whole direction factor · row."""
    run.counts[STEPS] += 1
    weight = 0.0 if plan.record_every > 0 else recording_weight(plan, run)
    if plan.step == LADDER:
        scale, length = in_unit(run.ladder, row, factor, square)
        if plan.domain != ENTROPIC and only_adds(
            plan.ladder, run.ladder, length, run.counts[STEPS]
        ):
            move_at_rates(plan, run, row, scale, length, weight)
        else:
            climb_and_move(plan, run, row, scale, length, weight)
    else:
        size = step_size(plan, run, row, factor, square)
        move(plan, run, row, factor, square, size, weight)
    if plan.record_every > 0:
        run.counts[TURN] += 1
        if run.counts[TURN] == plan.record_every:
            run.counts[TURN] = 0
            add_scaled(run.sums[0], recording_weight(plan, run), run.x)


@inline
def borrow(run):
    """The run's arrays without reference counting."""
    return Run(
        unshared(run.counts),
        unshared(run.numbers),
        unshared(run.x),
        unshared(run.total),
        unshared(run.sums),
        unshared(run.kept),
        unshared(run.gradient),
        unshared(run.low),
        unshared(run.high),
        LadderRun(unshared(run.ladder.table), unshared(run.ladder.numbers)),
    )


@inline
def tell(plan, run, row, factor, square):
    """Take the gradient factor · row, whose sum of squares is ``square``, if acceptable."""
    counts, total = run.counts, run.total
    seen = counts[SEEN]
    if seen == 0:
        counts[LENGTH] = window_length(plan, counts[STEPS], counts[SAMPLES])
    length = counts[LENGTH]
    counts[SAMPLES] += 1
    if length > 1:
        weight = total.dtype.type(window_weight(plan, seen, length) * factor)
        if seen == 0:
            for k in range(total.size):
                total[k] = weight * row[k]
        elif weight != 0.0:
            for k in range(total.size):
                total[k] += weight * row[k]
        counts[SEEN] = seen + 1
        if seen + 1 < length:
            return
        counts[SEEN] = 0
        row, factor = total, total.dtype.type(plan.share)
        square = plan.share * plan.share * sum_of_squares(total)
    step_along(plan, run, row, factor, square)
