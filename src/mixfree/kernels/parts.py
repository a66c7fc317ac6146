"""Compiled gradients, steps of one size, domains and outputs.

See :mod:`mixfree.gradients`, :mod:`mixfree.steps`, :mod:`mixfree.domains` and
:mod:`mixfree.outputs`.
"""

import math
from typing import NamedTuple

import numpy as np

from mixfree.domains import AllSpace, Ball
from mixfree.gradients import (
    MLMC,
    DataDrop,
    ForwardReplay,
    MiniBatch,
    Plain,
    Reservoir,
    ReverseReplay,
)
from mixfree.gradients.mlmc import MAX_LEVEL
from mixfree.kernels.draws import one_in, trailing_zeros
from mixfree.kernels.jit import inline, out_of_line
from mixfree.kernels.run import COUNT, LENGTH, REACH, ROOT, SAMPLES, SEEN, STEPS, TURN
from mixfree.kernels.vectors import add_scaled, copy, sum_of_squares
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


class WindowPlan(NamedTuple):
    """Any gradient, so that one kernel serves all; by default :class:`Plain`."""

    length: int = 1  # samples of a window; 0: drawn by :class:`MLMC`
    scale: float = 1.0
    others: float = 1.0  # weight of every sample of a window but the last
    levels: int = 0  # of :class:`MLMC`; 0: all, geometric
    horizon: int = 0  # of the geometric levels; 0: the samples seen so far
    max_steps: int = 0  # after which the run has ended; 0: no end
    key: tuple[int, int] = (0, 0)
    buffer: int = 0  # of :class:`Replay`, whose samples come in the order of their replay
    draws: int = 0  # of :class:`Reservoir`, which follow each sample
    share: float = 1.0


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
    Plain: lambda rule, x: WindowPlan(),
    MiniBatch: lambda rule, x: WindowPlan(rule.batch, rule.scale(rule.batch)),
    DataDrop: lambda rule, x: WindowPlan(rule.mixing_time, 1.0, 0.0),
    MLMC: lambda rule, x: WindowPlan(
        length=0,
        scale=rule.scale(2),
        levels=rule.levels or 0,
        horizon=rule.horizon or 0,
        max_steps=rule.max_steps or 0,
        key=tuple(rule.key),
    ),
    ForwardReplay: lambda rule, x: WindowPlan(buffer=int(rule.buffer)),
    ReverseReplay: lambda rule, x: WindowPlan(buffer=int(rule.buffer)),
    Reservoir: lambda rule, x: PLANS[type(rule.inner)](rule.inner, x)._replace(
        draws=rule.draws, share=rule.share
    ),
    **dict.fromkeys(_STEPS, _step),
    **dict.fromkeys((AllSpace, Ball), _ball),
    **dict.fromkeys(_OUTPUTS, _output),
}


@inline
def window_length(rule, steps, samples):
    """Length of the window that opens now."""
    if rule.length > 0:
        return rule.length
    if 0 < rule.max_steps <= steps:
        return 1 << MAX_LEVEL
    zeros = trailing_zeros(rule.key[0], rule.key[1], steps + 1)
    if rule.levels > 0:
        return 1 << (1 + zeros % rule.levels)
    horizon = rule.horizon if rule.horizon > 0 else samples
    return 1 << (1 + zeros) if zeros < 61 and (1 << (1 + zeros)) <= horizon else 1


@inline
def window_weight(rule, position, length):
    """Weight of a sample in the window's sum."""
    if rule.length > 0:
        return 1.0 if position + 1 == length else rule.others
    if 2 * position >= length or length == 1:
        return 1.0
    return -1.0 if position else 1.0 / rule.scale - 1.0


@inline
def add(rule, run, row, factor, square):
    """Add a gradient; return whether the window is full, and the direction as factor · row."""
    counts, group, full = run.counts, run.group, True
    if rule.draws > 0:
        turn = counts[TURN]
        if turn == 0:
            for k in range(group.size):
                group[k] = factor * row[k]
        else:
            for k in range(group.size):
                group[k] += factor * row[k]
        full = turn == rule.draws
        counts[TURN] = 0 if full else turn + 1
        row, factor = group, group.dtype.type(rule.share)
        if full:
            square = rule.share * rule.share * sum_of_squares(group)
    if full:
        full, row, factor, square = add_to_window(rule, run, row, factor, square)
    return full, row, factor, square


@inline
def add_to_window(rule, run, row, factor, square):
    """The same without draws."""
    counts, total = run.counts, run.total
    seen = counts[SEEN]
    if seen == 0:
        counts[LENGTH] = window_length(rule, counts[STEPS], counts[SAMPLES])
    length = counts[LENGTH]
    counts[SAMPLES] += 1
    if length == 1:
        return True, row, factor, square
    weight = total.dtype.type(window_weight(rule, seen, length) * factor)
    if seen == 0:
        for k in range(total.size):
            total[k] = weight * row[k]
    elif weight != 0.0:
        for k in range(total.size):
            total[k] += weight * row[k]
    full = seen + 1 == length
    counts[SEEN] = 0 if full else seen + 1
    if full:
        square = rule.scale * rule.scale * sum_of_squares(total)
    return full, total, total.dtype.type(rule.scale), square


@inline
def weight_before(rule, output, run):
    """Weight in the output of the point before a step; replay records points after steps."""
    return recording_weight(output, run) if rule.buffer == 0 else 0.0


@inline
def record_after(rule, output, run):
    """Pass the point after a step to the output, at the end of a replayed block."""
    if rule.buffer > 0:
        run.counts[TURN] += 1
        if run.counts[TURN] == rule.buffer:
            run.counts[TURN] = 0
            add_scaled(run.sums[0], recording_weight(output, run), run.x)


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
