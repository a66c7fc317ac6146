"""SGD with a constant step over a stream, with three averages of its path at once."""

import numpy as np

from mixfree.kernels.jit import kernel
from mixfree.kernels.losses import slope
from mixfree.kernels.memory import borrowed


@kernel
def constant_step(loss, step, rows, targets, order):
    """Compute averages of SGD's path from the origin: uniform, weighted by t, second half."""
    averages = np.zeros((3, rows.shape[1]))
    x = np.zeros(rows.shape[1])
    sums, rows_, x_ = borrowed(averages), borrowed(rows), borrowed(x)
    half = order.size // 2
    for i in range(order.size):
        r = order[i]
        row = rows_[r]
        sum_, weighted = sums[0 if i < half else 2], sums[1]
        margin = 0.0
        for k in range(x_.size):
            margin += row[k] * x_[k]
        if not abs(margin) < 1e150:
            return np.full((3, x_.size), np.inf)
        move = step * slope(loss, margin, targets[r])
        weight = i + 1.0
        for k in range(x_.size):
            sum_[k] += x_[k]
            weighted[k] += weight * x_[k]
            x_[k] -= move * row[k]
    for k in range(x_.size):
        averages[0, k] = (averages[0, k] + averages[2, k]) / order.size
        averages[1, k] /= 0.5 * order.size * (order.size + 1.0)
        averages[2, k] /= order.size - half
    return averages
