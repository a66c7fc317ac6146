"""Sums of gradients over rows or samples, at one point."""

from mixfree.kernels.jit import kernel, uncached
from mixfree.kernels.linear import loss_gradient
from mixfree.kernels.vectors import copy


@kernel
def add_gradients(loss, x, rows, targets, weights, margins, room, out):
    """Add the gradient of every row's loss at x to ``out``, in the order of the rows."""
    for i in range(rows.shape[0]):
        row, factor, _ = loss_gradient(loss, x, rows[i], targets[i], weights[i], margins, room)
        for k in range(out.size):
            out[k] += factor * row[k]


@uncached
def add_oracle(gradient, x, samples, room, out):
    """Add the gradient of every sample at x to ``out``, in their order."""
    for i in range(samples.shape[0]):
        copy(x, room)  # a gradient that writes to its argument must not move the point
        told = gradient(room, samples[i])
        for k in range(out.size):
            out[k] += told[k]
