"""Twin of :mod:`mixfree.losses`: derivatives by a code and two numbers."""

import math

import numpy as np

from mixfree import losses
from mixfree.compiled.exponential import exponential
from mixfree.compiled.jit import inline

SQUARED, LOGISTIC, HUBER, ROBUST, SOFTMAX = range(5)


def loss_code(loss):
    """The code and the two numbers by which the kernels know a loss."""
    match loss:
        case losses.Squared():
            return SQUARED, 0.0, 0.0
        case losses.Logistic():
            return LOGISTIC, 0.0, 0.0
        case losses.Huber():
            return HUBER, float(loss.delta), 0.0
        case losses.Robust():
            return ROBUST, float(loss.shape), float(loss.scale)
        case losses.Softmax():
            return SOFTMAX, float(loss.classes), 0.0
    raise TypeError(f"there is no compiled twin of the loss {loss!r}")


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
