"""Twins of :mod:`mixfree.domains`: projections and mirror steps."""

import math
from typing import NamedTuple

import numpy as np

from mixfree.base.arithmetic import LEAST, MOST
from mixfree.domains import AllSpace, Ball, Box, Entropic, Simplex
from mixfree.kernels.jit import apart, chosen, inline
from mixfree.kernels.run import REACH
from mixfree.kernels.vectors import add_scaled, size_along, sum_of_squares


class SpacePlan(NamedTuple):
    """See :class:`AllSpace`."""


class BallPlan(NamedTuple):
    """See :class:`Ball`, around the origin."""

    radius: float
    slack: float  # largest factor by which rounding can lengthen a move


class CentredBallPlan(NamedTuple):
    """See :class:`Ball`, around another point."""

    radius: float
    center: np.ndarray


class BoxPlan(NamedTuple):
    """See :class:`Box`."""

    low: np.ndarray
    high: np.ndarray


class SimplexPlan(NamedTuple):
    """See :class:`Simplex`."""

    total: float


class EntropicPlan(NamedTuple):
    """See :class:`Entropic`."""

    tiny: float


def _ball(domain, x):
    if domain.center is None:
        return BallPlan(float(domain.radius), 1.0 + (x.size + 8) * float(np.finfo(x.dtype).eps))
    return CentredBallPlan(float(domain.radius), np.array(domain.center, dtype=np.float64))


def _box(domain, x):
    low, high = (np.array(side, dtype=np.float64) for side in (domain.low, domain.high))
    return BoxPlan(low, high)


PLANS = {
    AllSpace: lambda domain, x: SpacePlan(),
    Ball: _ball,
    Box: _box,
    Simplex: lambda domain, x: SimplexPlan(float(domain.total)),
    Entropic: lambda mirror, x: EntropicPlan(float(np.finfo(x.dtype).tiny)),
}


@chosen
def is_straight(domain):
    """Whether a step is a straight line, unlike that of a mirror map."""
    return True


@is_straight.register(EntropicPlan)
def _(domain):
    return False


@chosen
def displace(domain, run, step, row, weight, length):
    """Add weight · x to the output's sum, then move x by −step · row, of at most this length."""
    x, sums = run.x, run.sums[0]
    for k in range(x.size):
        before = x[k]
        sums[k] += weight * before
        x[k] = before - step * row[k]
    project(domain, run, length)


@displace.register(EntropicPlan)
def _(domain, run, step, row, weight, length):
    add_scaled(run.sums[0], weight, run.x)
    move_entropic(run.x, row, step, domain.tiny)


@chosen
def project(domain, run, length):
    """Project the point after a move of at most this length."""


@project.register(BallPlan)
def _(domain, run, length):
    if not surely_inside(domain, run, length):
        square = sum_of_squares(run.x)
        run.numbers[REACH] = math.sqrt(square) if LEAST < square < MOST else np.inf
        if square < LEAST or square > min(domain.radius * domain.radius, MOST):
            shorten(run.x, square, domain.radius)
            run.numbers[REACH] = np.inf


@project.register(CentredBallPlan)
def _(domain, run, length):
    project_around(run.x, domain.radius, domain.center)


@project.register(BoxPlan)
def _(domain, run, length):
    x = run.x
    for k in range(x.size):
        x[k] = min(max(x[k], domain.low[k]), domain.high[k])


@project.register(SimplexPlan)
def _(domain, run, length):
    project_simplex(run.x, domain.total)


@inline
def surely_inside(domain, run, length):
    """Whether a ball around the origin certainly contains the point after a move of this length.

    An upper bound of the norm saves most computations of the norm itself. How a run is cut
    determines when the norm was last computed, so the bound must hold to the last bit.
    """
    reach = (run.numbers[REACH] + length) * domain.slack
    run.numbers[REACH] = reach
    return reach <= domain.radius


@apart
def shorten(x, square, radius):
    """Project onto the ball around the origin: see :class:`mixfree.domains.Ball`."""
    distance = size_along(x, 1.0, square)
    shrink = radius / distance if distance > radius else 1.0
    for k in range(x.size):
        x[k] *= shrink


@apart
def project_around(x, radius, center):
    """The same around another point."""
    for k in range(x.size):
        x[k] -= center[k]
    shorten(x, sum_of_squares(x), radius)
    for k in range(x.size):
        x[k] += center[k]


@apart
def project_simplex(x, total):
    """See :class:`mixfree.domains.Simplex`."""
    least, largest, found = x[0], x[0], 0.0
    for k in range(x.size):
        least, largest = min(least, x[k]), max(largest, x[k])
        found += x[k]
    if least >= 0.0 and abs(found - total) <= 1e-15 * total:
        return
    for k in range(x.size):
        x[k] -= largest
    # Dropping the entries below the threshold raises it, until no further entry is below.
    threshold, kept, before = -np.inf, x.size + 1, 0
    while kept != before:
        before, kept, found = kept, 0, 0.0
        for k in range(x.size):
            if x[k] > threshold:
                found += x[k]
                kept += 1
        threshold = (found - total) / kept
    for k in range(x.size):
        x[k] = max(x[k] - threshold, 0.0)


@apart
def move_entropic(x, row, size, tiny):
    """See :class:`mixfree.domains.Entropic`."""
    least, before, after = row[0], 0.0, 0.0
    for k in range(x.size):
        least = min(least, row[k]) if size > 0.0 else max(least, row[k])
        before += x[k]
    # Subtract first: a fused multiply-add would leave its rounding error in the exponent.
    for k in range(x.size):
        x[k] *= math.exp(size * (least - row[k]))
    for k in range(x.size):
        after += x[k]
    for k in range(x.size):
        x[k] = max(x[k] * (before / after), tiny)
