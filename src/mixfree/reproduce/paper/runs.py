"""Run a method on a regression stream and record the suboptimality of its output."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.core.history import follow
from mixfree.core.methods import find_method
from mixfree.core.optimizer import Optimizer
from mixfree.domains import Ball
from mixfree.gradients import MLMC, Replay
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Squared
from mixfree.reproduce.engine.report import Row
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.paper.problem import Regression, mixing_time, problem_of, stream_of

__all__ = [
    "CAVEAT",
    "PAPER_METHODS",
    "Trace",
    "directions",
    "feed_states",
    "gradient_norm",
    "horizon_for",
    "measure_run",
    "regression_cells",
    "run_cell",
    "start",
    "trace",
]

# Printed with every result of the paper's experiment, whose gain the theory explains only in part.
CAVEAT = (
    "With 5 levels a window has at most 32 samples, while the mixing time at p = 1e-4 is 3,466: "
    "much of MAG's gain here comes from smaller steps."
)
PAPER_METHODS = ("sgd", "adagrad", "sgd-mlmc", "mag")


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


def trace(
    opt: Optimizer,
    problem: Regression,
    order: Array,
    each: Callable[[Optimizer], bool | None] | None = None,
) -> Trace:
    """Run over the stream and record the suboptimality of the output."""
    block = opt.gradient.block_size if isinstance(opt.gradient, Replay) else 1
    fed = 0

    def advance(first: int, stop: int) -> None:
        # Replay waits for complete blocks, so feeding only complete blocks avoids a copy.
        nonlocal fed
        stop -= stop % block
        if stop > fed:
            rows = order[fed:stop]
            advance_linear(opt, Squared(), problem.rows, problem.targets, order=rows)
            fed = stop

    history = follow(opt, advance, len(order), None if each is None else lambda at, _: each(at))
    started = history.samples > 0
    gaps = problem.suboptimality(history.points[started])
    return Trace(history.samples[started], history.steps[started], gaps)


def feed_states(opt: Optimizer, problem: Regression, order: Array) -> None:
    """Feed, for each row number, the mean gradient of all rows of its state."""
    n, d = problem.per_state, problem.rows.shape[1]
    rows, targets = problem.rows.reshape(-1, n, d), problem.targets.reshape(-1, n)
    curvature = [each.T @ each / n for each in rows]
    linear = [each.T @ y / n for each, y in zip(rows, targets, strict=True)]
    for state in order // n:
        opt.tell(curvature[state] @ opt.x - linear[state])


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


def gradient_norm(opt: Optimizer) -> float | None:
    """Return √Σ‖g_t‖² over the steps so far, None for a step that does not accumulate it."""
    root = getattr(opt.export_run().step, "root", None)
    return None if root is None else float(root)


def directions(
    opt: Optimizer, gradient: Callable[[Array, Any], Array], samples: Iterable[Any]
) -> Iterator[tuple[Array, Array]]:
    """Run over the samples; yield w_t and g_t of each step, after it was taken.

    g_t is summed here with the weights of the gradient part, so that checks of g_t are independent
    of the optimiser's own sums.
    """
    law: Any = opt.gradient
    direction = np.zeros_like(opt.x)
    for sample in samples:
        position, w = opt.pending, opt.x
        length = law.length(opt.steps, opt.samples - position)
        slope = gradient(w, sample)
        direction = direction + law.weight(position, length) * law.scale(length) * slope
        if opt.tell(slope):
            yield w, direction
            direction = np.zeros_like(w)


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
