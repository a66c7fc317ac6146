"""Twin of all space and of the ball: see :mod:`mixfree.domains`."""

import math
from typing import NamedTuple

import numpy as np

from mixfree.domains import AllSpace, Ball
from mixfree.kernels.jit import apart, inline
from mixfree.kernels.run import REACH
from mixfree.kernels.vectors import sum_of_squares


class BallPlan(NamedTuple):
    """See :class:`Ball`; all space is a ball of infinite radius, so that one kernel serves both."""

    radius: float
    slack: float  # largest factor by which rounding can lengthen a move
    center: np.ndarray  # empty: the origin


def _ball(domain, x):
    slack = 1.0 + (x.size + 8) * float(np.finfo(x.dtype).eps)
    center = getattr(domain, "center", None)
    at = np.zeros(0) if center is None else np.array(center, dtype=np.float64)
    return BallPlan(float(getattr(domain, "radius", np.inf)), slack, at)


PLANS = {AllSpace: _ball, Ball: _ball}


@inline
def displace(domain, run, step, row, weight, length):
    """Add weight · x to the output's sum, then move x by −step · row, of at most this length."""
    x, sums = run.x, run.sums[0]
    for k in range(x.size):
        before = x[k]
        sums[k] += weight * before
        x[k] = before - step * row[k]
    project(domain, run, length)


@inline
def project(domain, run, length):
    """Project the point after a move of at most this length.

    An upper bound of the norm saves most computations of the norm itself. How a run is cut
    determines when the norm was last computed, so the bound must hold to the last bit.
    """
    if domain.radius == np.inf:
        return
    reach = (run.numbers[REACH] + length) * domain.slack
    if domain.center.size > 0:
        project_around(run.x, domain.radius, domain.center)
    elif reach <= domain.radius:
        run.numbers[REACH] = reach
    else:
        run.numbers[REACH] = shorten(run.x, domain.radius)


@apart
def shorten(x, radius):
    """Project onto the ball around the origin; an upper bound of the norm, if it is known."""
    distance = math.sqrt(sum_of_squares(x))
    if distance <= radius:
        return distance
    shrink = radius / distance
    for k in range(x.size):
        x[k] *= shrink
    return np.inf


@apart
def project_around(x, radius, center):
    """The same around another point."""
    for k in range(x.size):
        x[k] -= center[k]
    shorten(x, radius)
    for k in range(x.size):
        x[k] += center[k]
