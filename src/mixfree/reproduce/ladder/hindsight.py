"""The oracle: the constant step and the average that are best on the very stream."""

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.reproduce.ladder.suite import Problem

__all__ = ["AVERAGES", "COARSE", "gaps_in_hindsight"]

COARSE = np.arange(-6.0, 0.6, 0.5)  # powers of 10 of the step, in units of 1/mean ‖row‖²
FINE = np.array([-0.375, -0.25, -0.125, 0.125, 0.25, 0.375])
AVERAGES = ("uniform", "weighted", "tail")


def gaps_in_hindsight(problem: Problem, order: Array) -> dict[float, Array]:
    """Suboptimality of SGD with constant steps, by the power of 10 of the step.

    For each power of a coarse grid, and of a fine one around its best, an array with one entry
    per average: of the whole path, weighted by t, and of the second half.

    Examples
    --------
    >>> from mixfree.reproduce.ladder.suite import CASES
    >>> problem = CASES["regression p=0.5"](0)
    >>> gaps = gaps_in_hindsight(problem, problem.order(0, 10_000))
    >>> 1e-3 < float(min(each.min() for each in gaps.values())) < 1e-2
    True
    """
    unit = 1.0 / float(np.mean(np.einsum("ij,ij->i", problem.rows, problem.rows)))
    gaps = {power: _at(problem, order, unit * 10.0**power) for power in COARSE.tolist()}
    best = min(gaps, key=lambda power: gaps[power].min())
    for power in (best + FINE).tolist():
        gaps[power] = _at(problem, order, unit * 10.0**power)
    return gaps


def _at(problem: Problem, order: Array, step: float) -> Array:
    from mixfree.linear.losses import loss_twin
    from mixfree.reproduce.ladder.hindsight_kernel import constant_step

    points = constant_step(
        loss_twin(problem.loss), step, problem.rows, problem.seen, problem.targets, order
    )
    return problem.gap(points) if np.isfinite(points).all() else np.full(len(AVERAGES), np.inf)
