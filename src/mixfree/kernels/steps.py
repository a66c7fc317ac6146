"""Twins of the steps with one size for all coordinates: see :mod:`mixfree.steps`."""

import math
from typing import NamedTuple

from mixfree.base.arithmetic import largest_of
from mixfree.kernels.jit import apart, chosen, inline
from mixfree.kernels.run import ROOT, STEPS
from mixfree.kernels.vectors import longer, size_along
from mixfree.steps import AdaGradNorm, Constant, Inverse, InverseSqrt


class ConstantPlan(NamedTuple):
    """See :class:`Constant`."""

    alpha: float
    largest: float


class InverseSqrtPlan(NamedTuple):
    """See :class:`InverseSqrt`."""

    alpha: float
    largest: float


class InversePlan(NamedTuple):
    """See :class:`Inverse`."""

    alpha: float
    largest: float


class AdaGradPlan(NamedTuple):
    """See :class:`AdaGradNorm`."""

    alpha: float


def _scheduled(kind):
    return lambda step, x: kind(float(step.alpha), largest_of(x.dtype))


PLANS = {
    Constant: _scheduled(ConstantPlan),
    InverseSqrt: _scheduled(InverseSqrtPlan),
    Inverse: _scheduled(InversePlan),
    AdaGradNorm: lambda step, x: AdaGradPlan(float(step.alpha)),
}


@chosen
def step_size(step, run, row, factor, square):
    """η_t along the direction factor · row, with the step's own state brought up to date."""
    return bounded(step.alpha, step.largest, row, factor, square)


@step_size.register(InverseSqrtPlan)
def _(step, run, row, factor, square):
    size = step.alpha / math.sqrt(run.counts[STEPS])
    return bounded(size, step.largest, row, factor, square)


@step_size.register(InversePlan)
def _(step, run, row, factor, square):
    return bounded(step.alpha / run.counts[STEPS], step.largest, row, factor, square)


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


@inline
def bounded(size, largest, row, factor, square):
    """The size itself, or the largest that can be taken along factor · row."""
    return size if size <= 1.0 else finite_size(size, largest, row, factor, square)


@apart
def finite_size(size, largest, row, factor, square):
    """See :func:`mixfree.base.arithmetic.stretched`."""
    length = size_along(row, factor, square)
    return min(size, largest / length) if length > 0.0 else 0.0
