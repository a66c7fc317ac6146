"""Twin of :meth:`mixfree.Optimizer.tell`: the loop around the parts.

Each part is a named tuple of its numbers. The type of the step, the ladder or one with a single
size, decides when a kernel is compiled which code it is made of.

A loop either stores or sums up, never both: LLVM decides by the arrays' addresses whether a loop
that stores runs in vector registers, and the order of a sum, and its bits, would follow.
"""

import math

from mixfree.kernels.domains import displace
from mixfree.kernels.jit import chosen, inline
from mixfree.kernels.ladder import LAM, LadderPlan, step_of_ladder
from mixfree.kernels.memory import unshared
from mixfree.kernels.run import STEPS
from mixfree.kernels.steps import step_size
from mixfree.kernels.windows import add, record_after, weight_before


@inline
def begin(plan, run):
    """The plan and the run as the loop needs them: see :func:`unshared`."""
    return unshared(plan), unshared(run)


@inline
def acceptable(plan, run, square):
    """Whether a gradient with this sum of squares can be taken, and the steps are not endless."""
    return square <= plan.largest * plan.largest and goes_on(plan.step, run)


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
    size = step_size(step, run, square)
    multiple = run.x.dtype.type(size * factor)
    displace(domain, run, multiple, row, weight, size * math.sqrt(square))


@step_along.register(LadderPlan)
def _(step, domain, run, row, factor, square, weight):
    step_of_ladder(step, domain, run, row, factor, weight)
