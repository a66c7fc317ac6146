"""The loop for a user's own compiled gradient."""

import numpy as np

from mixfree.kernels.engine import acceptable, begin, tell
from mixfree.kernels.jit import uncached
from mixfree.kernels.vectors import copy, sum_of_squares

WRONG_SIZE = -1


@uncached
def oracle(gradient, plan, run, stream, order):
    """Go over ``stream[order]``; returns how many were taken before one was not acceptable."""
    plan, run = begin(plan, run)
    one = run.x.dtype.type(1.0)
    x = np.empty_like(run.x)  # a gradient that writes to its argument must not move the point
    for i in range(order.size):
        copy(run.x, x)
        told = gradient(x, stream[order[i]])
        if told.size != run.x.size:
            return WRONG_SIZE
        copy(told, run.gradient)
        square = sum_of_squares(run.gradient)
        if not acceptable(plan, run, run.gradient, one, square):
            return i
        tell(plan, run, run.gradient, one, square)
    return order.size
