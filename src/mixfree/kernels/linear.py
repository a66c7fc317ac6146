"""The linear model's kernel: every method, loss and precision, over rows in the given order."""

from mixfree.kernels.engine import acceptable, begin, tell
from mixfree.kernels.jit import by_type, inline, kernel, out_of_line
from mixfree.kernels.losses import SoftmaxLoss, slope, softmax_slopes
from mixfree.kernels.run import unshared
from mixfree.kernels.scaling import in_units
from mixfree.kernels.vectors import dot_and_square, square_along, sum_of_squares


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
    """Twin of :func:`mixfree.linear.losses.linear_gradient`, as factor · row."""
    row, factor, square = loss_gradient(loss, x, row, target, weight, margins, out)
    if l2 != 0.0:
        add_ridge(x, row, factor, x.dtype.type(l2), out)
        row, factor, square = out, x.dtype.type(1.0), sum_of_squares(out)
    return row, factor, square


@kernel
def linear(plan, run, units, loss, l2, margins, samples, kept, order):
    """Take samples in ``order``; return how many were taken before one was refused.

    So is one for which new ``units`` are due. ``samples`` and ``kept`` are rows, targets and
    weights; empty weights are all 1. A negative r in the order is the ~r-th kept sample.
    """
    plan, run = begin(plan, run)
    units = unshared(units)
    rows, targets, weights = samples
    kept_rows, kept_targets, kept_weights = kept
    for i in range(order.size):
        r = order[i]
        if r >= 0:
            row, target = rows[r], targets[r]
            weight = weights[r] if weights.size > 0 else 1.0
        else:
            row, target, weight = kept_rows[~r], kept_targets[~r], kept_weights[~r]
        ready, row = in_units(units, row)
        if not ready:
            return i
        row, factor, square = linear_gradient(
            loss, l2, run.x, row, target, weight, margins, run.gradient
        )
        if not acceptable(plan, run, square):
            return i
        tell(plan, run, row, factor, square)
    return order.size
