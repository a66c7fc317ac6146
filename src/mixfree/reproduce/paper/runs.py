"""Run a method on a regression stream and record the suboptimality of its output."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.core.history import follow, marks
from mixfree.core.methods import find_method
from mixfree.core.optimizer import Optimizer
from mixfree.domains import Ball
from mixfree.gradients import MLMC
from mixfree.linear.advance import advance_linear
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.losses import Squared
from mixfree.reproduce.engine.report import Axes, Row
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.paper.problem import Regression, mixing_time, problem_of, stream_of

__all__ = [
    *("CAVEAT", "LIMIT", "PAPER_METHODS", "Trace", "draw_limit", "exact_trace"),
    *("horizon_for", "limits_of", "measure_run"),
    *("regression_cells", "run_cell", "start", "trace"),
]

# Printed with every result of the paper's experiment, whose gain the theory explains only in part.
CAVEAT = (
    "With 5 levels a window has at most 32 samples, while the mixing time at p = 1e-4 is 3,466: "
    "much of MAG's gain here comes from smaller steps."
)
PAPER_METHODS = ("sgd", "adagrad", "sgd-mlmc", "mag")
LIMIT = "limit"  # the name of the asymptotic error of the fit to all samples, in every figure


class Trace(NamedTuple):
    """Steps and suboptimality of a run, on a logarithmic grid of samples observed."""

    samples: Array
    steps: Array
    suboptimality: Array


def start(problem: Regression, method: str, p: float, **settings: Any) -> Optimizer:
    """Start an optimiser at the origin, on the problem's ball; give the mixing time if needed.

    As in the paper's experiment, α = 1 unless given in ``settings``.
    """
    made_by = find_method(method)
    if made_by.needs_mixing_time():
        settings.setdefault("mixing_time", mixing_time(p))
    settings.setdefault("alpha", 1.0)
    return made_by(np.zeros(problem.rows.shape[1]), domain=Ball(problem.radius), **settings)


def trace(opt: Optimizer, problem: Regression, order: Array) -> Trace:
    """Run over the stream and record the suboptimality of the output."""

    def advance(first: int, stop: int) -> None:
        rows = order[first:stop]
        advance_linear(opt, Squared(), problem.rows, problem.targets, order=rows)

    history = follow(opt, advance, len(order))
    return Trace(history.samples, history.steps, problem.suboptimality(history.points))


def exact_trace(problem: Regression, order: Array) -> tuple[Array, Array]:
    """Return sample counts and suboptimality of the exact fit, on the grid of the other methods."""
    learner = ExactLearner(Squared(), problem.rows.shape[1], intercept=False, radius=problem.radius)
    counts = [*takewhile(lambda count: count < len(order), marks(0)), len(order)]
    gaps, before = list[float](), 0
    for count in counts:
        # Rows recur, so the sums are over distinct rows, weighted by their counts.
        times = np.bincount(order[before:count], minlength=len(problem.rows))
        learner.advance(problem.rows, problem.targets, times.astype(float))
        gaps.append(float(problem.suboptimality(learner.weights)[0]))
        before = count
    return np.array(counts), np.array(gaps)


def limits_of(settings: Settings, p: float) -> list[float]:
    """Return the asymptotic error of the fit to all samples of the stream of each seed."""
    return [problem_of(seed).limit(p) / settings.samples for seed in settings.seed_numbers]


def draw_limit(axes: Axes, at: Sequence[float], errors: Sequence[float]) -> None:
    """Draw the limit as a thin line; short runs are far from it, which the axes do not show."""
    low, high = axes.get_ylim()
    shown = [(x, y) for x, y in zip(at, errors, strict=True) if y <= high]
    if shown:
        axes.plot(*zip(*shown, strict=True), label=LIMIT, color="#8A8A8A", linewidth=0.9)
    axes.set_ylim(min(low, 0.7 * min(errors)), high)


def regression_cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one run per p, seed and method; runs on the same stream are adjacent."""
    return [
        {"method": method, "seed": seed, "p": p, "samples": settings.samples}
        for p in settings.p
        for seed in settings.seed_numbers
        for method in settings.methods
    ]


def run_cell(cell: dict[str, Any]) -> Trace:
    """Do the run of a cell, whose ``options`` go to the method."""
    problem = problem_of(cell["seed"])
    opt = start(problem, cell["method"], cell["p"], seed=cell["seed"], **cell.get("options", {}))
    return trace(opt, problem, stream_of(cell["seed"], cell["p"], cell["samples"]))


def measure_run(cell: dict[str, Any]) -> list[Row]:
    """Do the run of a cell; return one row per point of its trace."""
    found = run_cell(cell)
    names = {"method": cell["method"], "seed": cell["seed"], "p": cell["p"]}
    return [
        {**names, "samples": samples, "steps": steps, "suboptimality": gap}
        for samples, steps, gap in zip(*(part.tolist() for part in found), strict=True)
    ]


def horizon_for(samples: int) -> int:
    """Return T of Algorithm 1 for a number of samples: the largest whose T steps need no more.

    Examples
    --------
    >>> horizon_for(1000), round(142 * MLMC(None, horizon=142).expected_samples)
    (142, 995)
    """
    low, high = 1, samples
    while low < high:
        middle = (low + high + 1) // 2
        if middle * MLMC(None, horizon=middle).expected_samples <= samples:
            low = middle
        else:
            high = middle - 1
    return low
