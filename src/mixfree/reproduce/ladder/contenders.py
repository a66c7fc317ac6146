"""The methods compared on the suite, and the suboptimality of one on a stream."""

import math
from collections.abc import Callable

import mixfree as mf
from mixfree.base.arithmetic import Array
from mixfree.core.optimizer import GradientRefused, Optimizer
from mixfree.reproduce.ladder.suite import Problem

__all__ = ["CONTENDERS", "gap_of"]

CONTENDERS: dict[str, Callable[[Array], Optimizer]] = {
    "ladder": mf.Ladder,
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
    >>> from mixfree.reproduce.ladder.suite import CASES
    >>> problem = CASES["regression p=0.5"](0)
    >>> gap_of(problem, problem.order(0, 1000), mf.SGD(np.zeros(100)))
    inf
    """
    try:
        problem.advance(opt, order)
    except GradientRefused:
        return math.inf
    gap = float(problem.gap(opt.average[None])[0])
    return gap if gap < 1e6 else math.inf
