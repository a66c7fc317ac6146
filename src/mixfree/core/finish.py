"""Minimise a smooth function from its gradients alone, by the limited-memory BFGS method."""

import math
from collections import deque
from collections.abc import Callable

import numpy as np

from mixfree.base.arithmetic import Array, norm

PAIRS = 30  # differences of points and gradients from which the curvature is estimated
FLAT = 0.5  # a step ends where the slope along it is at most this fraction of the first slope
GROWTH = 1e3  # largest factor by which the next trial step is longer
TINY = 1e-9  # fraction of the total gain below which the next step is not worth taking
Pairs = deque[tuple[Array, Array, float]]


def descent(
    gradient: Callable[[Array], Array], start: Array, evaluations: int, least: float = TINY
) -> list[Array]:
    """Return the path from ``start`` towards the minimum, of at most this many gradients.

    The limited-memory BFGS method (Nocedal 1980) with a line search by slopes: the minimum along
    a direction is where the slope vanishes, so that no function values are needed. The path ends
    where a step would gain less than a fraction ``least`` of the total gain, or where no step is
    found, for instance since gradients are not finite.

    Examples
    --------
    >>> hessian = np.diag([1.0, 100.0])
    >>> descent(lambda x: hessian @ x - 1.0, np.zeros(2), 20)[-1].round(6)
    array([1.  , 0.01])
    """
    x, g, left, path = start, gradient(start), evaluations - 1, [start]
    pairs: Pairs = deque(maxlen=PAIRS)
    gained = 0.0
    while left > 0:
        direction = -_newton(g, pairs)
        fall = -float(g @ direction)
        if not least * gained < fall < math.inf:
            break
        length, low, high = 1.0, 0.0, math.inf
        if not pairs:  # the curvature is unknown
            length = min(1.0, (1.0 + norm(x)) / norm(g))
        while True:
            new = x + length * direction
            h = gradient(new)
            left -= 1
            slope = -float(h @ direction) / fall  # 1 at the start, 0 at the minimum
            if abs(slope) <= FLAT or left == 0:
                break
            wanted = length / (1.0 - slope) if slope < 1.0 else math.inf
            if slope > 0.0:
                low = length
                length = min(wanted, GROWTH * length, 0.5 * (low + high))
            else:  # beyond the minimum, or not finite
                high = length
                length = max(wanted if math.isfinite(slope) else 0.0, low + 0.1 * (high - low))
        if not (slope > -1.0 and np.isfinite(h).all()):
            break
        gained += length * fall
        if slope < 1.0:
            pairs.append((new - x, h - g, 1.0 / (length * fall * (1.0 - slope))))
        x, g = new, h
        path.append(x)
    return path


def _newton(g: Array, pairs: Pairs) -> Array:
    """The inverse of the estimated Hessian times ``g``: the two-loop recursion."""
    found, factors = g.copy(), []
    for moved, change, inverse in reversed(pairs):
        factors.append(inverse * float(moved @ found))
        found -= factors[-1] * change
    if pairs:
        _, change, inverse = pairs[-1]
        found /= inverse * float(change @ change)
    for (moved, change, inverse), factor in zip(pairs, reversed(factors), strict=True):
        found += (factor - inverse * float(change @ found)) * moved
    return found
