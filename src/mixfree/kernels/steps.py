"""Twins of the steps with one size for all coordinates: see :mod:`mixfree.steps`."""

import math
from typing import NamedTuple

from mixfree.kernels.jit import chosen
from mixfree.kernels.run import ROOT, STEPS
from mixfree.kernels.vectors import longer
from mixfree.steps import AdaGradNorm, Constant, Inverse, InverseSqrt

CONSTANT, INVERSE_SQRT, INVERSE = range(3)
_SCHEDULES = {Constant: CONSTANT, InverseSqrt: INVERSE_SQRT, Inverse: INVERSE}


class SchedulePlan(NamedTuple):
    """See :class:`Constant`, :class:`InverseSqrt` and :class:`Inverse`."""

    kind: int
    alpha: float


class AdaGradPlan(NamedTuple):
    """See :class:`AdaGradNorm`."""

    alpha: float


def _schedule(step, x):
    return SchedulePlan(_SCHEDULES[type(step)], float(step.alpha))


PLANS = {
    **dict.fromkeys(_SCHEDULES, _schedule),
    AdaGradNorm: lambda step, x: AdaGradPlan(float(step.alpha)),
}


@chosen
def step_size(step, run, row, factor, square):
    """η_t for the direction factor · row; updates the state of the step."""
    size = step.alpha
    if step.kind == INVERSE:
        size /= run.counts[STEPS]
    elif step.kind == INVERSE_SQRT:
        size /= math.sqrt(run.counts[STEPS])
    return size


@step_size.register(AdaGradPlan)
def _(step, run, row, factor, square):
    root = longer(run.numbers[ROOT], row, factor, square)
    run.numbers[ROOT] = root
    return step.alpha / root if root > 0.0 else 0.0


@chosen
def as_ratio(step, run, size):
    """η as a ratio of two numbers, neither of which overflows."""
    return 1.0, 1.0 / size


@as_ratio.register(AdaGradPlan)
def _(step, run, size):
    return step.alpha, run.numbers[ROOT]
