"""The kernel of TD learning: transitions between rows of features, by any method."""

from mixfree.kernels.engine import acceptable, begin, tell
from mixfree.kernels.jit import kernel
from mixfree.kernels.vectors import dot, dot_and_square, square_along


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
