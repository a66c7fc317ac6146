"""Twin of the steps with one size for all coordinates: see :mod:`mixfree.steps`."""

import math
from typing import NamedTuple

from mixfree.kernels.jit import inline
from mixfree.kernels.run import ROOT, STEPS
from mixfree.steps import AdaGradNorm, Constant, Inverse, InverseSqrt

CONSTANT, INVERSE_SQRT, INVERSE, ADAGRAD = range(4)
_KINDS = {
    Constant: CONSTANT,
    InverseSqrt: INVERSE_SQRT,
    Inverse: INVERSE,
    AdaGradNorm: ADAGRAD,
}


class StepPlan(NamedTuple):
    """Any of these steps, so that one kernel serves all of them."""

    kind: int
    alpha: float


PLANS = dict.fromkeys(_KINDS, lambda step, x: StepPlan(_KINDS[type(step)], float(step.alpha)))


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
