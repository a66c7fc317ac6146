"""The linear model's kernel: every method, loss and precision, over rows in the given order."""

import math
from typing import NamedTuple

import numpy as np

from mixfree.kernels.engine import acceptable, begin, tell
from mixfree.kernels.jit import by_type, inline, kernel, out_of_line
from mixfree.kernels.run import unshared
from mixfree.kernels.vectors import dot_and_square, square_along, sum_of_squares


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


class RunningUnits(NamedTuple):
    """The arrays of a running scale: see :class:`mixfree.linear.scaling.RunningScale`."""

    due: np.ndarray  # 1 if the next row is counted already, and waits for new units
    count: np.ndarray
    mean: np.ndarray
    spread: np.ndarray  # sum of squares around the mean
    shift: np.ndarray
    inverse: np.ndarray  # of the scale
    centred: bool
    limit: float


@inline
def counts_row(units, row, out):
    """Count a row and leave it standardised in ``out``; False if new units are due first."""
    mean, spread, shift, inverse = units[2:6]
    new = 1 - units.due[0]
    units.count[0] += new
    count, far = units.count[0], 0
    for k in range(row.size):
        out[k] = (float(row[k]) - shift[k]) * inverse[k]
        far += abs(out[k]) > units.limit  # a sum of integers is the same in any order
    due = far > 0 or count & (count - 1) == 0
    share = new / count if units.centred else 0.0
    rest = new - share
    for k in range(row.size):
        delta = float(row[k]) - mean[k]
        mean[k] += share * delta
        spread[k] += rest * delta * delta
    units.due[0] = 1 if due and new > 0 else 0
    return units.due[0] == 0


@kernel
def standardise(units, rows, out):
    """Standardise rows up to one for which new units are due; how many they are."""
    # One version of each loop at all addresses: others would round differently.
    units, rows, out = unshared(units), unshared(rows), unshared(out)
    for i in range(rows.shape[0]):
        if not counts_row(units, rows[i], out[i]):
            return i
    return rows.shape[0]


@inline
def append_one(row, out):
    """Leave the row with a 1 at its end in ``out``."""
    for k in range(row.size):
        out[k] = row[k]
    out[row.size] = 1.0


@out_of_line
def softmax_gradient(x, row, target, weight, margins, out):
    """Gradient of all outputs' weights; returns its sum of squares."""
    width, block = row.size, x.size // margins.size
    for o in range(margins.size):
        v = x[o * block : (o + 1) * block]
        product, square = dot_and_square(v, row)
        margins[o] = product + v[width] if block > width else product
    softmax_slopes(margins, target)
    slopes = 0.0
    for o in range(margins.size):
        factor = x.dtype.type(weight * margins[o])
        slopes += factor * factor
        v = out[o * block : (o + 1) * block]
        for k in range(width):
            v[k] = factor * row[k]
        if block > width:
            v[width] = factor
    return slopes * (square + float(block - width))


@out_of_line
def add_ridge(x, row, factor, l2, out):
    """Leave factor · row + l2 · x in ``out``, which may be ``row``."""
    for k in range(x.size):
        out[k] = factor * row[k] + l2 * x[k]


@by_type
def loss_gradient(loss, x, row, target, weight, margins, out):
    """Gradient of a row's loss as factor · row, and its sum of squares.

    The row itself is returned where possible, since writing the gradient costs another pass.
    """
    margin, square = dot_and_square(x, row)
    if x.size > row.size:
        margin += x[row.size]
        square += x.dtype.type(1.0)
        append_one(row, out)
        row = out
    factor = x.dtype.type(weight * slope(loss, margin, target))
    return row, factor, square_along(square, row, factor)


@loss_gradient.register(SoftmaxLoss)
def _(loss, x, row, target, weight, margins, out):
    square = softmax_gradient(x, row, target, weight, margins, out)
    return out, x.dtype.type(1.0), square


@inline
def linear_gradient(loss, l2, x, row, target, weight, margins, out):
    """Compiled :func:`mixfree.linear.losses.linear_gradient`, as factor · row."""
    row, factor, square = loss_gradient(loss, x, row, target, weight, margins, out)
    if l2 != 0.0:
        add_ridge(x, row, factor, x.dtype.type(l2), out)
        row, factor, square = out, x.dtype.type(1.0), sum_of_squares(out)
    return row, factor, square


@kernel
def linear(plan, run, loss, l2, margins, samples, kept, order):
    """Take samples in ``order``; return how many were taken before one was refused.

    ``samples`` and ``kept`` are rows, targets and
    weights; empty weights are all 1. A negative r in the order is the ~r-th kept sample.
    """
    plan, run = begin(plan, run)
    rows, targets, weights = samples
    kept_rows, kept_targets, kept_weights = kept
    for i in range(order.size):
        r = order[i]
        if r >= 0:
            row, target = rows[r], targets[r]
            weight = weights[r] if weights.size > 0 else 1.0
        else:
            row, target, weight = kept_rows[~r], kept_targets[~r], kept_weights[~r]
        row, factor, square = linear_gradient(
            loss, l2, run.x, row, target, weight, margins, run.gradient
        )
        if not acceptable(plan, run, square):
            return i
        tell(plan, run, row, factor, square)
    return order.size
