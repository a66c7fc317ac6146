"""Twins of all space and of the ball: see :mod:`mixfree.domains`."""

import math
from typing import NamedTuple

import numpy as np

from mixfree.base.arithmetic import LEAST, MOST
from mixfree.domains import AllSpace, Ball
from mixfree.kernels.jit import apart, chosen, inline
from mixfree.kernels.run import REACH
from mixfree.kernels.vectors import size_along, sum_of_squares


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


def _ball(domain, x):
    if domain.center is None:
        return BallPlan(float(domain.radius), 1.0 + (x.size + 8) * float(np.finfo(x.dtype).eps))
    return CentredBallPlan(float(domain.radius), np.array(domain.center, dtype=np.float64))


PLANS = {
    AllSpace: lambda domain, x: SpacePlan(),
    Ball: _ball,
}


@inline
def displace(domain, run, step, row, weight, length):
    """Add weight · x to the output's sum, then move x by −step · row, of at most this length."""
    x, sums = run.x, run.sums[0]
    for k in range(x.size):
        before = x[k]
        sums[k] += weight * before
        x[k] = before - step * row[k]
    project(domain, run, length)


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
