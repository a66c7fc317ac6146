"""The oracle: the constant step and the average that are best on the very streams."""

from collections.abc import Sequence

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.reproduce.ladder.problem import Problem

__all__ = ["AVERAGES", "POWERS", "gaps_in_hindsight"]

POWERS = np.arange(-6.0, 1.1, 0.25)  # powers of 10 of the step, in units of 1/mean ‖row‖²
AVERAGES = ("uniform", "weighted", "tail")


def gaps_in_hindsight(problem: Problem, orders: Sequence[Array]) -> Array:
    """Suboptimality of SGD with constant steps, from the origin, on each of several streams.

    Returns
    -------
    array
        By stream, by step, and by the average: of the whole path, weighted by t, of its second
        half. Infinite where a run diverged.

    Examples
    --------
    >>> from mixfree.reproduce.ladder.problem import between_two
    >>> problem = between_two(0, p=0.5, dimension=100)
    >>> gaps = gaps_in_hindsight(problem, [problem.order(0, 10_000)])
    >>> gaps.shape == (1, len(POWERS), 3) and 1e-3 < float(gaps.min()) < 1e-2
    True
    """
    from mixfree.linear.losses import loss_twin
    from mixfree.reproduce.ladder.hindsight_kernel import constant_step

    unit = 1.0 / float(np.mean(np.einsum("ij,ij->i", problem.rows, problem.rows)))
    data = (problem.rows, problem.targets)
    gaps = np.full((len(orders), len(POWERS), len(AVERAGES)), np.inf)
    for i, order in enumerate(orders):
        for j, power in enumerate(POWERS):
            points = constant_step(loss_twin(problem.loss), unit * 10.0**power, *data, order)
            if np.isfinite(points).all():
                gaps[i, j] = problem.gap(points)
    return gaps
