"""e^x as inline arithmetic: a call would make the kernel save its vector registers."""

import math
from decimal import Context, Decimal

import numpy as np

from mixfree.kernels.jit import exact

_PARTS = 128
_POWERS = np.array([2.0 ** (part / _PARTS) for part in range(_PARTS)]).view(np.int64)
# ln 2 as a sum of two numbers, the first with so few digits that its multiples are exact.
_COARSE = math.floor(math.log(2.0) * 2.0**32) / 2.0**32
_FINE = float(Context(40).ln(2) - Decimal(_COARSE))
_USUAL = 700.0  # up to here e^x neither overflows nor loses digits


@exact
def exponential(x):
    """e^x within 1 unit in the last place: 2^(n/128) · e^r, where r is at most ln 2 / 256."""
    if not abs(x) < _USUAL:
        return math.exp(x)
    multiple = np.floor(x * (_PARTS / math.log(2.0)) + 0.5)
    r = (x - multiple * (_COARSE / _PARTS)) - multiple * (_FINE / _PARTS)
    square = r * r
    growth = r + square * ((1 / 2 + r * (1 / 6)) + square * (1 / 24 + r * (1 / 120)))
    n = np.int64(multiple)
    bits = _POWERS[n & (_PARTS - 1)] + ((n // _PARTS) << 52)  # the exponent's begin at the 52nd
    power = np.int64(bits).view(np.float64)
    return power + power * growth
