"""SGD with a constant step over a stream, with three averages of its path at once."""

from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.kernels.jit import kernel
from mixfree.kernels.losses import slope


def constant_step(loss: Any, step: float, rows: Array, targets: Array, order: Array) -> Array:
    """Compute averages of SGD's path from the origin: uniform, weighted by t, second half."""
    averages = np.zeros((3, rows.shape[1]))
    stays = add_path(loss, step, rows, targets, order, np.zeros(rows.shape[1]), averages)
    return averages if stays else np.full_like(averages, np.inf)


@kernel
def add_path(loss, step, rows, targets, order, x, averages):
    """Write the averages; False if the path goes away without end."""
    half = order.size // 2
    for i in range(order.size):
        r = order[i]
        row = rows[r]
        sum_, weighted = averages[0 if i < half else 2], averages[1]
        margin = 0.0
        for k in range(x.size):
            margin += row[k] * x[k]
        if not abs(margin) < 1e150:
            return False
        move = step * slope(loss, margin, targets[r])
        weight = i + 1.0
        for k in range(x.size):
            sum_[k] += x[k]
            weighted[k] += weight * x[k]
            x[k] -= move * row[k]
    for k in range(x.size):
        averages[0, k] = (averages[0, k] + averages[2, k]) / order.size
        averages[1, k] /= 0.5 * order.size * (order.size + 1.0)
        averages[2, k] /= order.size - half
    return True
