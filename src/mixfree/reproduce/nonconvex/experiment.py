"""Non-convex problems: the gradient at a random iterate of MAG against samples, at every p."""

from typing import Any

import numpy as np

from mixfree.base.checks import check_whole
from mixfree.core.history import follow
from mixfree.core.methods import MAG
from mixfree.core.optimizer import Optimizer
from mixfree.reproduce.engine.report import Row
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.nonconvex.problems import PROBLEMS
from mixfree.reproduce.nonconvex.report import nonconvex_report
from mixfree.reproduce.paper.runs import gradient_norm

__all__ = ["FULL", "QUICK", "cells", "measure", "report"]

FULL = Settings(samples=10_000_000, seeds=8, p=(0.5, 1e-2, 1e-3))
QUICK = FULL.changed(samples=3162, seeds=2, p=(0.5, 1e-2))

FIRST = 100  # samples at which curves begin
EVALUATIONS = 1000  # gradient evaluations per run, evenly spaced, besides those of the history
# Factors on the samples: where the noise does not vanish, the rate shows after many mixing times.
LONGER = {"robust, two truths": 10}

report = nonconvex_report


def cells(settings: Settings) -> list[dict[str, Any]]:
    """One cell per problem, p and seed."""
    check_whole(settings.samples, "samples", least=10 * FIRST)
    return [
        {"problem": name, "p": p, "seed": seed, "samples": settings.samples * LONGER.get(name, 1)}
        for name in PROBLEMS
        for p in settings.p
        for seed in range(settings.seeds)
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """‖∇F‖ at the random iterate, and the mean of ‖∇F‖² over all iterates, as samples come in.

    ∇F is exact, over the data of both states. An evaluated iterate stands for all iterates since
    the previous evaluation. Also √Σ‖g_t‖² of the steps, and the largest curvature of F at w_t.
    """
    seed, p, samples = cell["seed"], cell["p"], cell["samples"]
    problem = PROBLEMS[cell["problem"]]
    regression = problem.draw(seed)
    data, stream = problem.rows(regression), regression.stream(seed, p)
    rows: list[Row] = []
    total, counted = 0.0, 0

    def evaluate(opt: Optimizer, at_mark: bool) -> None:
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
                    "gradients": gradient_norm(opt),
                    "curvature": problem.curvature(opt.x, data),
                }
            )

    opt = MAG(problem.start(seed), alpha=1.0, output="random", seed=seed)

    def advance(start: int, stop: int) -> None:
        problem.advance(opt, data, stream.take(stop - start))

    follow(opt, advance, samples, evaluate, chunk=max(1, samples // EVALUATIONS))
    return rows
