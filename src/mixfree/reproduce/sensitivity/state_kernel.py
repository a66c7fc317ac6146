"""The loop for samples that are whole states, with gradients Aw − b."""

from mixfree.kernels.engine import acceptable, begin, tell
from mixfree.kernels.jit import kernel
from mixfree.kernels.vectors import sum_of_squares


@kernel
def whole_states(plan, run, curvature, linear, order):
    """Process the states in ``order``; return how many were taken before an unacceptable gradient.

    ``curvature`` has the rows of all A below each other.
    """
    plan, run = begin(plan, run)
    one = run.x.dtype.type(1.0)
    size = run.x.size
    for i in range(order.size):
        state = order[i]
        for k in range(size):
            row, total = curvature[state * size + k], 0.0
            for j in range(size):
                total += row[j] * run.x[j]
            run.gradient[k] = total - linear[state, k]
        square = sum_of_squares(run.gradient)
        if not acceptable(plan, run, run.gradient, one, square):
            return i
        tell(plan, run, run.gradient, one, square)
    return order.size
