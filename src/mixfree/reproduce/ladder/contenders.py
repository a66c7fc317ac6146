"""The methods compared, and the suboptimality of one on a stream."""

import math
from collections.abc import Callable

import numpy as np

import mixfree as mf
from mixfree.base.arithmetic import Array
from mixfree.core.optimizer import GradientRefused, Optimizer
from mixfree.linear.learner_for import learner_for
from mixfree.reproduce.ladder.problem import Problem

__all__ = ["CONTENDERS", "MEMORY", "WITHOUT", "gap_of"]

WITHOUT = "ladder, estimator"
MEMORY = "ladder, memory"
PIECE = 1 << 16  # rows given to a learner at a time, to bound the memory
Contender = Callable[[Problem, Array], Array]


def run_of(make: Callable[[Array], Optimizer]) -> Contender:
    """Return a contender: the output of an optimiser started at the origin."""

    def run(problem: Problem, order: Array) -> Array:
        opt = make(np.zeros(problem.rows.shape[1]))
        problem.advance(opt, order)
        return opt.average

    return run


def learner_of(memory: int | str) -> Contender:
    """Return a contender: the weights of the estimators' ladder."""

    def run(problem: Problem, order: Array) -> Array:
        columns = problem.rows.shape[1]
        learner = learner_for(
            problem.loss,
            columns,
            method="ladder",
            memory=memory,
            scale=None,
            fit_intercept=False,
        )
        for start in range(0, len(order), PIECE):
            piece = order[start : start + PIECE]
            learner.advance(problem.rows[piece], problem.targets[piece])
        return learner.weights.ravel()

    return run


CONTENDERS: dict[str, Contender] = {
    "ladder": run_of(mf.Ladder),
    WITHOUT: learner_of(0),
    MEMORY: learner_of("auto"),
    "ladder, one rate": run_of(lambda x0: mf.Ladder(x0, per_coordinate=False)),
    "mag": run_of(mf.MAG),
    "adagrad": run_of(mf.AdaGrad),
}


def gap_of(problem: Problem, order: Array, run: Contender) -> float:
    """Return the suboptimality of a method's output, infinite if the run diverged.

    Examples
    --------
    >>> from mixfree.reproduce.ladder.problem import between_two
    >>> problem = between_two(0, p=0.5)
    >>> gap_of(problem, problem.order(0, 10_000), run_of(mf.SGD)) > 1e100
    True
    """
    try:
        gap = float(problem.gap(run(problem, order)[None])[0])
    except GradientRefused:
        return math.inf
    return gap if math.isfinite(gap) else math.inf
