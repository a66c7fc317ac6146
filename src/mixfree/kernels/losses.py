"""Twins of :mod:`mixfree.linear.losses`: a type per loss, and its derivative."""

import math
from typing import NamedTuple

import numpy as np

from mixfree.kernels.jit import by_type, inline


class SquaredLoss(NamedTuple):
    """½(prediction − target)²."""


class LogisticLoss(NamedTuple):
    """log(1 + e^−m), m = target · prediction."""


class HuberLoss(NamedTuple):
    """½r² up to ``delta``, linear beyond."""

    delta: float


class RobustLoss(NamedTuple):
    """Barron's loss."""

    shape: float
    scale: float


class SoftmaxLoss(NamedTuple):
    """Cross-entropy of as many predictions as there are classes: see :func:`softmax_slopes`."""


@by_type
def slope(loss, prediction, target):
    """Derivative of a loss with one output; by default the squared loss."""
    return prediction - target


@slope.register(LogisticLoss)
def _(loss, prediction, target):
    return -target / (1.0 + math.exp(target * prediction))


@slope.register(HuberLoss)
def _(loss, prediction, target):
    residual = prediction - target
    if residual > loss.delta:
        return loss.delta
    return -loss.delta if residual < -loss.delta else residual  # NaN falls through


@slope.register(RobustLoss)
def _(loss, prediction, target):
    shape, scale = loss.shape, loss.scale
    residual = (prediction - target) / scale
    if shape == 2.0:
        return residual / scale
    if shape == -np.inf:
        return residual / scale * math.exp(-0.5 * residual * residual)
    power = (0.5 * shape - 1.0) * math.log1p(residual * residual / abs(shape - 2.0))
    return residual / scale * math.exp(power)


@inline
def softmax_slopes(margins, target):
    """Derivatives of the softmax loss, in place of the predictions."""
    largest = margins[0]
    for k in range(1, margins.size):
        largest = max(largest, margins[k])
    total = 0.0
    for k in range(margins.size):
        margins[k] = math.exp(margins[k] - largest)
        total += margins[k]
    for k in range(margins.size):
        margins[k] = margins[k] / total - (1.0 if k == int(target) else 0.0)
