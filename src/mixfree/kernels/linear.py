"""The linear model's kernel: every method, loss and precision, over rows in the given order."""

from mixfree.kernels.engine import acceptable, borrow, tell
from mixfree.kernels.jit import FIRST, apart, borrowed, inline, kernel, prefetch
from mixfree.kernels.losses import SOFTMAX, slope, softmax_slopes
from mixfree.kernels.memory import LINE
from mixfree.kernels.plan import LADDER
from mixfree.kernels.vectors import dot_and_square, square_along, sum_of_squares

_AHEAD, _SHORT = 4, 1024  # rows, and bytes of a row


@inline
def append_one(row, out):
    """Leave the row with a 1 at its end in ``out``."""
    for k in range(row.size):
        out[k] = row[k]
    out[row.size] = 1.0


@apart
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
    return slopes * (square + block - width)


@apart
def add_ridge(x, row, factor, l2, out):
    """Leave factor · row + l2 · x in ``out``, which may be ``row``."""
    for k in range(x.size):
        out[k] = factor * row[k] + l2 * x[k]


@inline
def linear_gradient(loss, l2, x, row, target, weight, margins, out):
    """Twin of :func:`mixfree.linear.losses.linear_gradient`, as factor · row and its sum of
    squares.

    The row itself serves where it can: writing the gradient down would cost another pass.
    """
    factor = x.dtype.type(1.0)
    if loss[0] == SOFTMAX:
        square = softmax_gradient(x, row, target, weight, margins, out)
        row = out
    else:
        margin, square = dot_and_square(x, row)
        if x.size > row.size:
            margin += x[row.size]
            square += x.dtype.type(1.0)
            append_one(row, out)
            row = out
        factor = x.dtype.type(weight * slope(loss[0], loss[1], loss[2], margin, target))
        square = square_along(square, factor)
    if l2 != 0.0:
        add_ridge(x, row, factor, x.dtype.type(l2), out)
        row, factor, square = out, x.dtype.type(1.0), sum_of_squares(out)
    return row, factor, square


@inline
def fetch_ahead(plan, rows, order, i):
    """Ask for a short row while the ladder is busy with the rows before it.

    By itself the machine foresees rows up to the end of a page of memory. Where a step is quick
    or a row is long, asking costs more than waiting does.
    """
    short = rows.shape[1] * rows.itemsize <= _SHORT
    if plan.step == LADDER and short and i + _AHEAD < order.size:
        for k in range(0, rows.shape[1], LINE // rows.itemsize):
            prefetch(rows, order[i + _AHEAD], k, FIRST)


@kernel
def linear(plan, run, loss, l2, margins, rows, targets, weights, order):
    """Go over ``rows[order]``; returns how many were taken before one was not acceptable."""
    run = borrow(run)
    margins, rows, targets = borrowed(margins), borrowed(rows), borrowed(targets)
    for i in range(order.size):
        r = order[i]
        fetch_ahead(plan, rows, order, i)
        weight = weights[r] if weights.size > 0 else 1.0
        row, factor, square = linear_gradient(
            loss, l2, run.x, rows[r], targets[r], weight, margins, run.gradient
        )
        if not acceptable(plan, row, factor, square):
            return i
        tell(plan, run, row, factor, square)
    return order.size
