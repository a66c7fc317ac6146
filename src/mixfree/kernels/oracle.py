"""The loop for a user's own compiled gradient."""

import numpy as np

from mixfree.kernels.engine import acceptable, begin, tell
from mixfree.kernels.jit import uncached
from mixfree.kernels.vectors import copy, sum_of_squares

WRONG_SIZE = -1


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
