"""The linear model's kernel: every method, loss and precision, over rows in the given order."""

from mixfree.compiled.engine import acceptable, borrow, tell
from mixfree.compiled.jit import apart, borrowed, inline, kernel
from mixfree.compiled.losses import SOFTMAX, slope, softmax_slopes


@inline
def dot_and_square(v, row):
    """Σ v_k row_k and Σ row_k² in one pass."""
    product, square = v.dtype.type(0.0), v.dtype.type(0.0)
    for k in range(row.size):
        product += v[k] * row[k]
        square += row[k] * row[k]
    return product, square


@inline
def dot_and_append(v, row, out):
    """The same for the row with a 1 at its end, which is left in ``out``."""
    product, square = v[row.size], v.dtype.type(1.0)
    for k in range(row.size):
        value = row[k]
        product += v[k] * value
        square += value * value
        out[k] = value
    out[row.size] = 1.0
    return product, square


@apart
def softmax_gradient(x, row, target, weight, margins, out):
    """Gradient of all outputs' weights; returns its sum of squares."""
    width, block = row.size, x.size // margins.size
    for o in range(margins.size):
        v = x[o * block : (o + 1) * block]
        product = v.dtype.type(0.0)
        for k in range(width):
            product += v[k] * row[k]
        margins[o] = product + v[width] if block > width else product
    softmax_slopes(margins, target)
    square = x.dtype.type(0.0)
    for o in range(margins.size):
        factor = x.dtype.type(weight * margins[o])
        v = out[o * block : (o + 1) * block]
        for k in range(width):
            value = factor * row[k]
            v[k] = value
            square += value * value
        if block > width:
            v[width] = factor
            square += factor * factor
    return square


@apart
def add_ridge(x, row, factor, l2, out):
    """factor · row + l2 · x; returns its sum of squares. ``out`` may be ``row``."""
    square = x.dtype.type(0.0)
    for k in range(x.size):
        value = factor * row[k] + l2 * x[k]
        out[k] = value
        square += value * value
    return square


@inline
def linear_gradient(loss, l2, x, row, target, weight, margins, out):
    """Twin of :func:`mixfree.losses.linear_gradient`, as factor · row with its sum of squares.

    The row itself serves where it can: writing the gradient down would cost another pass.
    """
    factor = x.dtype.type(1.0)
    if loss[0] == SOFTMAX:
        square = softmax_gradient(x, row, target, weight, margins, out)
        row = out
    else:
        if x.size > row.size:
            margin, square = dot_and_append(x, row, out)
            row = out
        else:
            margin, square = dot_and_square(x, row)
        factor = x.dtype.type(weight * slope(loss[0], loss[1], loss[2], margin, target))
        square *= factor * factor
    if l2 != 0.0:
        square = add_ridge(x, row, factor, x.dtype.type(l2), out)
        row, factor = out, x.dtype.type(1.0)
    return row, factor, square


@kernel
def linear(plan, run, loss, l2, margins, rows, targets, weights, order):
    """Go over ``rows[order]``; returns how many were taken before one was not acceptable."""
    run = borrow(run)
    margins, rows, targets = borrowed(margins), borrowed(rows), borrowed(targets)
    for i in range(order.size):
        r = order[i]
        weight = weights[r] if weights.size > 0 else 1.0
        row, factor, square = linear_gradient(
            loss, l2, run.x, rows[r], targets[r], weight, margins, run.gradient
        )
        if not acceptable(plan, row, factor, square):
            return i
        tell(plan, run, row, factor, square)
    return order.size
