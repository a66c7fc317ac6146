"""Non-convex problems: the gradient at a random iterate of MAG against samples, for every p."""

from typing import Any

import numpy as np

from mixfree.base.checks import check_whole
from mixfree.core.history import follow
from mixfree.core.methods import MAG
from mixfree.core.optimizer import Optimizer
from mixfree.reproduce.nonconvex_problems import PROBLEMS
from mixfree.reproduce.nonconvex_report import nonconvex_report
from mixfree.reproduce.report import Report, Row
from mixfree.reproduce.settings import Settings

FULL = Settings(samples=10_000_000, seeds=8, p=(0.5, 1e-2, 1e-3))
QUICK = FULL.changed(samples=3162, seeds=2, p=(0.5, 1e-2))

FIRST = 100  # samples at which curves begin
LOOKS = 1000  # at the iterates, evenly over the run, besides those at the marks of the history
# Where noise never fades, the rate is seen only after many mixing times.
LONGER = {"robust, two truths": 10}


def cells(settings: Settings) -> list[dict[str, Any]]:
    """One for each problem, p and seed."""
    check_whole(settings.samples, "samples", least=10 * FIRST)
    return [
        {"problem": name, "p": p, "seed": seed, "samples": settings.samples * LONGER.get(name, 1)}
        for name in PROBLEMS
        for p in settings.p
        for seed in range(settings.seeds)
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """‖∇F‖ at the random iterate, and the mean of ‖∇F‖² over all iterates, as samples come in.

    ∇F is exact, over the data of both states. An iterate that is looked at stands for those since
    the one before. Besides: √Σ‖g_t‖² of the steps, and the largest curvature of F at the point.
    """
    seed, p, samples = cell["seed"], cell["p"], cell["samples"]
    problem = PROBLEMS[cell["problem"]]
    regression = problem.draw(seed)
    data, stream = problem.rows(regression), regression.stream(seed, p)
    rows: list[Row] = []
    total, counted = 0.0, 0

    def look(opt: Optimizer, at_mark: bool) -> None:
        nonlocal total, counted
        total += (opt.steps - counted) * float(np.sum(problem.gradient(opt.x, data) ** 2))
        counted = opt.steps
        if (at_mark or opt.samples == samples) and opt.samples >= FIRST and counted:
            rows.append(
                {
                    "problem": cell["problem"],
                    "p": p,
                    "seed": seed,
                    "samples": opt.samples,
                    "steps": counted,
                    "random": float(np.linalg.norm(problem.gradient(opt.average, data))),
                    "mean_square": total / counted,
                    "gradients": float(opt.export_run().step.root),
                    "curvature": problem.curvature(opt.x, data),
                }
            )

    opt = MAG(problem.start(seed), alpha=1.0, output="random", seed=seed)

    def advance(start: int, stop: int) -> None:
        problem.advance(opt, data, stream.take(stop - start))

    follow(opt, advance, samples, look, chunk=max(1, samples // LOOKS))
    return rows


def report(rows: list[Row], settings: Settings) -> Report:
    """The fall of the gradient on every problem at every p, and its growth with the mixing time."""
    return nonconvex_report(rows, settings)
