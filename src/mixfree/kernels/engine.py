"""Compiled :meth:`mixfree.Optimizer.tell`, and the loops of TD and of a user's own gradient.

Each part is a named tuple of its numbers. The type of the step, the ladder or one with a single
size, decides when a kernel is compiled which code it is made of.

LLVM may decide by the arrays' addresses whether a loop that stores runs in vector registers, and
the order of a sum in it, and its bits, would follow. So a loop stores or sums up, not both, except
where it stores only to rows of one table (the ladder), whose distance is the same at all addresses.
"""

import math

import numpy as np

from mixfree.kernels.jit import by_type, inline, kernel, uncached
from mixfree.kernels.ladder import LAM, LadderPlan, step_of_ladder
from mixfree.kernels.parts import add, displace, record_after, step_size, weight_before
from mixfree.kernels.run import STEPS, unshared
from mixfree.kernels.vectors import copy, dot, dot_and_square, square_along, sum_of_squares

WRONG_SIZE = -1  # returned by :func:`oracle`


@inline
def begin(plan, run):
    """The plan and the run as the loop needs them: see :func:`unshared`."""
    return unshared(plan), unshared(run)


@inline
def acceptable(plan, run, square):
    """Whether a gradient with this sum of squares can be taken, and the steps are not endless."""
    return square <= plan.largest * plan.largest and goes_on(plan.step, run)


@by_type
def goes_on(step, run):
    """Whether a step that searches for its scale has one; others always do."""
    return True


@goes_on.register(LadderPlan)
def _(step, run):
    return run.rates[LAM] <= step.farthest


@inline
def tell(plan, run, row, factor, square):
    """Take the gradient factor · row, whose sum of squares is ``square``, if acceptable."""
    full, row, factor, square = add(plan.gradient, run, row, factor, square)
    if full:
        run.counts[STEPS] += 1
        weight = weight_before(plan.gradient, plan.output, run)
        step_along(plan.step, plan.domain, run, row, factor, square, weight)
        record_after(plan.gradient, plan.output, run)


@by_type
def step_along(step, domain, run, row, factor, square, weight):
    """One step along factor · row, with weight · x added to the output's sum before it."""
    size = step_size(step, run, square)
    multiple = run.x.dtype.type(size * factor)
    displace(domain, run, multiple, row, weight, size * math.sqrt(square))


@step_along.register(LadderPlan)
def _(step, domain, run, row, factor, square, weight):
    step_of_ladder(step, domain, run, row, factor, weight)


@kernel
def td(plan, run, gamma, rows, rewards, here, there, order):
    """Take the transitions ``order``; return how many were taken before one was refused.

    The semi-gradient is a multiple of φ(s), so the row itself is used.
    """
    plan, run = begin(plan, run)
    for i in range(order.size):
        t = order[i]
        row = rows[here[t]]
        value, square = dot_and_square(run.x, row)
        factor = value - rewards[t]
        if there[t] >= 0:
            factor -= gamma * dot(run.x, rows[there[t]])
        square = square_along(square, row, factor)
        if not acceptable(plan, run, square):
            return i
        tell(plan, run, row, factor, square)
    return order.size


@uncached
def oracle(gradient, plan, run, stream, kept, order):
    """Go over samples in ``order``; returns how many were taken before one was not acceptable.

    An r below 0 in the order stands for the ~r-th sample of those kept.
    """
    plan, run = begin(plan, run)
    one = run.x.dtype.type(1.0)
    x = np.empty_like(run.x)  # a gradient that writes to its argument must not move the point
    for i in range(order.size):
        copy(run.x, x)
        r = order[i]
        told = gradient(x, stream[r] if r >= 0 else kept[~r])
        if told.size != run.x.size:
            return WRONG_SIZE
        copy(told, run.gradient)
        square = sum_of_squares(run.gradient)
        if not acceptable(plan, run, square):
            return i
        tell(plan, run, run.gradient, one, square)
    return order.size
