"""The oracle: the best constant step and average in hindsight."""

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.reproduce.ladder.problem import Problem

__all__ = ["AVERAGES", "POWERS", "gaps_in_hindsight"]

POWERS = np.arange(-6.0, 1.1, 0.25)  # powers of 10 of the step, in units of 1/mean ‖row‖²
AVERAGES = ("uniform", "weighted", "tail")


def gaps_in_hindsight(problem: Problem, order: Array) -> Array:
    """Compute the suboptimality of SGD with constant steps, from the origin, on a stream.

    Returns
    -------
    array
        By step, and by the average: of the whole path, weighted by t, of its second half.
        Infinite where a run diverged.

    Examples
    --------
    >>> from mixfree.reproduce.ladder.problem import between_two
    >>> problem = between_two(0, p=0.5)
    >>> gaps = gaps_in_hindsight(problem, problem.order(0, 10_000))
    >>> gaps.shape == (len(POWERS), 3) and 1e-3 < float(gaps.min()) < 1e-2
    True
    """
    from mixfree.linear.losses import loss_twin
    from mixfree.reproduce.ladder.hindsight_kernel import constant_step

    unit = 1.0 / float(np.mean(np.einsum("ij,ij->i", problem.rows, problem.rows)))
    gaps = np.full((len(POWERS), len(AVERAGES)), np.inf)
    twin = loss_twin(problem.loss)
    for i, power in enumerate(POWERS):
        points = constant_step(twin, unit * 10.0**power, problem.rows, problem.targets, order)
        if np.isfinite(points).all():
            gaps[i] = problem.gap(points)
    return gaps
