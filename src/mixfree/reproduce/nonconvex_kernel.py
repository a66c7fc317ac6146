"""Compiled gradients in :mod:`mixfree.reproduce.nonconvex`."""

import math

from mixfree.kernels.engine import acceptable, begin, tell
from mixfree.kernels.jit import kernel, out_of_line
from mixfree.kernels.linear import RobustLoss, slope
from mixfree.kernels.vectors import sum_of_squares


@out_of_line
def phase_gradient(w, z, out):
    """Write the gradient of Barron's loss of shape −2 of (xᵀw)² − y."""
    along = 0.0
    for k in range(w.size):
        along += w[k] * z[k]
    factor = 2.0 * along * slope(RobustLoss(-2.0, 1.0), along * along, z[w.size])
    for k in range(w.size):
        out[k] = factor * z[k]


@out_of_line
def network_gradient(w, z, out):
    """Write the gradient of ½(σ(vᵀtanh(Wx) + b) − y)², with w = (W, v, b)."""
    inputs = z.size - 1
    hidden = (w.size - 1) // (inputs + 1)
    first_of_v = hidden * inputs
    total = w[w.size - 1]
    for h in range(hidden):
        unit = 0.0
        for k in range(inputs):
            unit += w[h * inputs + k] * z[k]
        out[first_of_v + h] = math.tanh(unit)
        total += w[first_of_v + h] * out[first_of_v + h]
    output = 0.5 + 0.5 * math.tanh(0.5 * total)
    factor = (output - z[inputs]) * output * (1.0 - output)
    for h in range(hidden):
        unit = out[first_of_v + h]
        back = factor * w[first_of_v + h] * (1.0 - unit * unit)
        for k in range(inputs):
            out[h * inputs + k] = back * z[k]
        out[first_of_v + h] = factor * unit
    out[w.size - 1] = factor


@kernel
def nonconvex(plan, run, phase, rows, order):
    """Process ``rows[order]``; return how many were taken before an unacceptable gradient.

    The gradient is that of phase retrieval or, if not ``phase``, of the network.
    """
    plan, run = begin(plan, run)
    one = run.x.dtype.type(1.0)
    for i in range(order.size):
        if phase:
            phase_gradient(run.x, rows[order[i]], run.gradient)
        else:
            network_gradient(run.x, rows[order[i]], run.gradient)
        square = sum_of_squares(run.gradient)
        if not acceptable(plan, run, square):
            return i
        tell(plan, run, run.gradient, one, square)
    return order.size
