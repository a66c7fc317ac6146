"""The methods compared, and the suboptimality of one on a stream."""

import math
from collections.abc import Callable

import mixfree as mf
from mixfree.base.arithmetic import Array
from mixfree.core.optimizer import GradientRefused, Optimizer
from mixfree.reproduce.ladder.problem import Problem

__all__ = ["CONTENDERS", "gap_of"]

CONTENDERS: dict[str, Callable[[Array], Optimizer]] = {
    "ladder": mf.Ladder,
    "ladder, one rate": lambda x0: mf.Ladder(x0, per_coordinate=False),
    "mag": mf.MAG,
    "adagrad": mf.AdaGrad,
    "adagrad, DoG": lambda x0: mf.Ladder(
        x0, per_coordinate=False, max_levels=0, distance=mf.Distance(of="iterate")
    ),
    "sgd": mf.SGD,
}


def gap_of(problem: Problem, order: Array, opt: Optimizer) -> float:
    """Suboptimality of a method's output; infinite when the run diverged.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfree.reproduce.ladder.problem import between_two
    >>> problem = between_two(0, p=0.5, dimension=100)
    >>> gap_of(problem, problem.order(0, 10_000), mf.SGD(np.zeros(100))) > 1e100
    True
    """
    try:
        problem.advance(opt, order)
    except GradientRefused:
        return math.inf
    gap = float(problem.gap(opt.average[None])[0])
    return gap if math.isfinite(gap) else math.inf
