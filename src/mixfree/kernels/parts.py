"""Compiled steps of one size, domains and outputs.

See :mod:`mixfree.steps`, :mod:`mixfree.domains` and :mod:`mixfree.outputs`.
"""

import math
from typing import NamedTuple

import numpy as np

from mixfree.domains import AllSpace, Ball
from mixfree.kernels.draws import one_in
from mixfree.kernels.jit import inline, out_of_line
from mixfree.kernels.run import COUNT, REACH, ROOT, STEPS
from mixfree.kernels.vectors import copy, sum_of_squares
from mixfree.outputs import Average, Last, RandomIterate, TailAverage, WeightedAverage
from mixfree.steps import AdaGradNorm, Constant, Inverse, InverseSqrt

CONSTANT, INVERSE_SQRT, INVERSE, ADAGRAD = range(4)
AVERAGE, WEIGHTED, TAIL, LAST, RANDOM = range(5)
_STEPS = {Constant: CONSTANT, InverseSqrt: INVERSE_SQRT, Inverse: INVERSE, AdaGradNorm: ADAGRAD}
_OUTPUTS = {
    Average: AVERAGE,
    WeightedAverage: WEIGHTED,
    TailAverage: TAIL,
    Last: LAST,
    RandomIterate: RANDOM,
}


class StepPlan(NamedTuple):
    """Any of these steps, so that one kernel serves all of them."""

    kind: int
    alpha: float


class BallPlan(NamedTuple):
    """See :class:`Ball`; all space is a ball of infinite radius, so that one kernel serves both."""

    radius: float
    slack: float  # largest factor by which rounding can lengthen a move
    center: np.ndarray  # empty: the origin


class OutputPlan(NamedTuple):
    """Any output: the code is short, and a kernel that has all of it serves all of them."""

    kind: int
    key: tuple[int, int]  # of the random iterate


def _step(step, x):
    return StepPlan(_STEPS[type(step)], float(step.alpha))


def _ball(domain, x):
    slack = 1.0 + (x.size + 8) * float(np.finfo(x.dtype).eps)
    center = getattr(domain, "center", None)
    at = np.zeros(0) if center is None else np.array(center, dtype=np.float64)
    return BallPlan(float(getattr(domain, "radius", np.inf)), slack, at)


def _output(output, x):
    return OutputPlan(_OUTPUTS[type(output)], tuple(getattr(output, "key", (0, 0))))


PLANS = {
    **dict.fromkeys(_STEPS, _step),
    **dict.fromkeys((AllSpace, Ball), _ball),
    **dict.fromkeys(_OUTPUTS, _output),
}


@inline
def step_size(step, run, square):
    """η_t for a direction with this sum of squares; updates the state of the step."""
    if step.kind == ADAGRAD:
        root = math.sqrt(run.numbers[ROOT] * run.numbers[ROOT] + square)
        run.numbers[ROOT] = root
        return step.alpha / root if root > 0.0 else 0.0
    if step.kind == INVERSE:
        return step.alpha / run.counts[STEPS]
    if step.kind == INVERSE_SQRT:
        return step.alpha / math.sqrt(run.counts[STEPS])
    return step.alpha


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


@out_of_line
def shorten(x, radius):
    """Project onto the ball around the origin; an upper bound of the norm, if it is known."""
    distance = math.sqrt(sum_of_squares(x))
    if distance <= radius:
        return distance
    shrink = radius / distance
    for k in range(x.size):
        x[k] *= shrink
    return np.inf


@out_of_line
def project_around(x, radius, center):
    """The same around another point."""
    for k in range(x.size):
        x[k] -= center[k]
    shorten(x, radius)
    for k in range(x.size):
        x[k] += center[k]


@inline
def recording_weight(output, run):
    """Count an iterate and prepare the output for it; its weight in the sums."""
    run.counts[COUNT] += 1
    count = run.counts[COUNT]
    if output.kind == AVERAGE:
        return 1.0
    if output.kind == WEIGHTED:
        return float(count)
    if output.kind == TAIL:
        if count & (count - 1) == 0:
            turn_tail(run.sums)
        return 1.0
    if output.kind == RANDOM and one_in(output.key[0], output.key[1], count):
        copy(run.x, run.kept)
    return 0.0


@out_of_line
def turn_tail(sums):
    """Begin a new sum and keep the one before."""
    for k in range(sums.shape[1]):  # Numba takes seconds to compile an assignment to a slice
        sums[1, k] = sums[0, k]
        sums[0, k] = 0.0
