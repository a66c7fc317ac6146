"""Twin of :mod:`mixfree.linear.losses`: derivatives by a code and two numbers."""

import math

import numpy as np

from mixfree.kernels.exponential import exponential
from mixfree.kernels.jit import inline

SQUARED, LOGISTIC, HUBER, ROBUST, SOFTMAX = range(5)


@inline
def slope(code, first, second, prediction, target):
    """Derivative of a loss with one output."""
    if code == SQUARED:
        return prediction - target
    if code == LOGISTIC:
        return -target / (1.0 + exponential(target * prediction))
    if code == HUBER:
        residual = prediction - target
        if residual > first:
            return first
        return -first if residual < -first else residual  # NaN falls through and is seen
    residual = (prediction - target) / second
    if first == 2.0:
        return residual / second
    if first == -np.inf:
        return residual / second * exponential(-0.5 * residual * residual)
    power = (0.5 * first - 1.0) * math.log1p(residual * residual / abs(first - 2.0))
    return residual / second * exponential(power)


@inline
def softmax_slopes(margins, target):
    """Derivatives of the softmax loss, in place of the predictions."""
    largest = margins[0]
    for k in range(1, margins.size):
        largest = max(largest, margins[k])
    total = 0.0
    for k in range(margins.size):
        margins[k] = exponential(margins[k] - largest)
        total += margins[k]
    for k in range(margins.size):
        margins[k] = margins[k] / total - (1.0 if k == int(target) else 0.0)
