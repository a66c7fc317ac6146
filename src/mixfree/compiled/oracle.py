"""The loop for a user's own compiled gradient."""

import numpy as np

from mixfree.compiled.engine import acceptable, borrow, sum_of_squares, tell
from mixfree.compiled.jit import apart

WRONG_SIZE = -1


@apart
def oracle(gradient, plan, run, stream, order):
    """Go over ``stream[order]``; returns how many were taken before one was not acceptable."""
    run = borrow(run)
    one = run.x.dtype.type(1.0)
    x = np.empty_like(run.x)  # a gradient that writes to its argument must not move the point
    for i in range(order.size):
        for k in range(x.size):
            x[k] = run.x[k]
        told = gradient(x, stream[order[i]])
        if told.size != run.x.size:
            return WRONG_SIZE
        for k in range(run.x.size):
            run.gradient[k] = told[k]
        square = sum_of_squares(run.gradient)
        if not acceptable(plan, run.gradient, one, square):
            return i
        tell(plan, run, run.gradient, one, square)
    return order.size
