"""The oracle: the constant step and the average that turn out best on the very stream."""

import numpy as np

from mixfree.experiments.suite import Problem
from mixfree.numerics import Array

COARSE = np.arange(-6.0, 0.6, 0.5)  # logarithms of the step, times the mean of ‖row‖²
FINE = np.array([-0.375, -0.25, -0.125, 0.125, 0.25, 0.375])


def best_in_hindsight(problem: Problem, order: Array) -> float:
    """Least suboptimality over a fine grid of constant steps, and whole, weighted, tail averages.

    Examples
    --------
    >>> from mixfree.experiments.suite import CASES
    >>> problem = CASES["regression p=0.5"](0)
    >>> best = best_in_hindsight(problem, problem.order(0, 10_000))
    >>> 1e-3 < best < 1e-2
    True
    """
    unit = 1.0 / float(np.mean(np.einsum("ij,ij->i", problem.rows, problem.rows)))
    coarse = [_at(problem, order, unit * 10.0**power) for power in COARSE]
    around = COARSE[int(np.argmin(coarse))]
    return min(coarse + [_at(problem, order, unit * 10.0 ** (around + power)) for power in FINE])


def _at(problem: Problem, order: Array, step: float) -> float:
    from mixfree.compiled.hindsight import constant_step
    from mixfree.compiled.losses import loss_code

    points = constant_step(
        loss_code(problem.loss), step, problem.rows, problem.seen, problem.targets, order
    )
    return float(np.min(problem.gap(points))) if np.isfinite(points).all() else np.inf
