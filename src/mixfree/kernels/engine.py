"""Twin of :meth:`mixfree.Optimizer.tell`: the loop around the parts.

Each part is a named tuple whose type decides, when a kernel is compiled, which functions of
:mod:`windows`, :mod:`steps`, :mod:`ladder`, :mod:`domains` and :mod:`outputs` it is made of.

A loop either stores or sums up, never both: LLVM decides by the arrays' addresses whether a loop
that stores runs in vector registers, and the order of a sum, and its bits, would follow.
"""

import math

import numpy as np

from mixfree.base.arithmetic import LEAST, MOST
from mixfree.kernels.domains import displace
from mixfree.kernels.jit import chosen, inline
from mixfree.kernels.ladder import LAM, LadderPlan, step_of_ladder
from mixfree.kernels.memory import unshared
from mixfree.kernels.run import STEPS
from mixfree.kernels.steps import as_ratio, step_size
from mixfree.kernels.vectors import divide, scaled_size
from mixfree.kernels.windows import add, record_after, weight_before


@inline
def begin(plan, run):
    """The plan and the run as the loop needs them: see :func:`unshared`."""
    return unshared(plan), unshared(run)


@inline
def acceptable(plan, run, row, factor, square):
    """Whether the gradient factor · row can be summed, and the step still goes somewhere."""
    small = square < plan.largest or abs(factor) * scaled_size(row) < plan.largest
    return small and goes_on(plan.step, run)


@chosen
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


@chosen
def step_along(step, domain, run, row, factor, square, weight):
    """One step along factor · row, with weight · x added to the output's sum before it."""
    size = step_size(step, run, row, factor, square)
    known = LEAST < square < MOST
    length = size * math.sqrt(square) if known else np.inf
    move(step, domain, run, row, factor, size, weight, length)


@step_along.register(LadderPlan)
def _(step, domain, run, row, factor, square, weight):
    step_of_ladder(step, domain, run, row, factor, weight)


@inline
def move(step, domain, run, row, factor, size, weight, length):
    """Move by −size · factor · row, a vector of this length at most."""
    multiple = run.x.dtype.type(size * factor)
    if not abs(multiple) < np.inf:  # of a tiny gradient, or of a tiny row with a huge factor
        above, below = as_ratio(step, run, size)
        divide(row, factor, below, run.gradient)
        row, multiple = run.gradient, run.x.dtype.type(above)
    displace(domain, run, multiple, row, weight, length)
