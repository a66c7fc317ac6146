"""Non-convex problems: the gradient at a random iterate of MAG against samples, at every p.

Where the constants of the theorem are known, short runs are also followed step by step: Lemmas
4.1 and 4.2 and Eq. (11) are inequalities of every run.
"""

from typing import Any

import numpy as np

from mixfree.base.checks import check_whole
from mixfree.core.history import follow
from mixfree.core.methods import MAG
from mixfree.core.optimizer import Optimizer
from mixfree.reproduce.engine.report import Row
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.nonconvex.problems import PROBLEMS, Problem
from mixfree.reproduce.nonconvex.report import nonconvex_report
from mixfree.reproduce.paper.runs import gradient_norm
from mixfree.reproduce.theory.directions import directions

__all__ = ["FULL", "QUICK", "cells", "measure", "report"]

FULL = Settings(samples=1_000_000, seeds=30, p=(0.5, 1e-2, 1e-3), first_seed=1000)
QUICK = FULL.changed(samples=3162, seeds=2, p=(0.5, 1e-2), first_seed=0)

FIRST = 100  # samples at which curves begin
EVALUATIONS = 1000  # gradient evaluations per run, evenly spaced, besides those of the history
# Factors on the samples: with persistent noise, the rate shows only after many mixing times.
LONGER = {"robust, two truths": 10}
FOLLOWED = 4000  # samples of a run that is followed step by step

report = nonconvex_report


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per problem, p and seed, and another if the run is followed step by step."""
    check_whole(settings.samples, "samples", least=10 * FIRST)
    return [
        {"problem": name, "p": p, "seed": seed, "samples": samples, "followed": followed}
        for name, problem in PROBLEMS.items()
        for p in settings.p
        for seed in settings.seed_numbers
        for samples, followed in (
            (settings.samples * LONGER.get(name, 1), False),
            *([(FOLLOWED, True)] if problem.constants is not None else []),
        )
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """Evaluate a run at marks, or follow it step by step."""
    return (_steps if cell["followed"] else _marks)(cell)


def start(problem: Problem, seed: int) -> Optimizer:
    """Start MAG as in Corollary 4.4 but for the number of levels: α = 1, and a random iterate."""
    return MAG(problem.start(seed), alpha=1.0, output="random", seed=seed)


def _marks(cell: dict[str, Any]) -> list[Row]:
    """Measure ‖∇F‖ at the random iterate, and the mean of ‖∇F‖² over all iterates, at marks.

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

    opt = start(problem, seed)

    def advance(first: int, stop: int) -> None:
        problem.advance(opt, data, stream.take(stop - first))

    follow(opt, advance, samples, evaluate, chunk=max(1, samples // EVALUATIONS))
    return rows


def _steps(cell: dict[str, Any]) -> list[Row]:
    """Return the largest ratio of the left to the right side of each lemma over all steps.

    Lemma 4.1 and Eq. (11) with their last sum on the left, which then is Σ g_t·∇F(w_t); Δ is
    measured from the least F of the run, for which they hold as well. η_t = 1/√Σ‖g‖² is that of
    Algorithm 1 in these two, and in Lemma 4.2 it is the step that the run has taken.
    """
    seed, problem = cell["seed"], PROBLEMS[cell["problem"]]
    regression = problem.draw(seed)
    data = problem.rows(regression)
    assert problem.constants is not None
    smoothness = problem.constants(data).smoothness
    opt = start(problem, seed)
    order = regression.stream(seed, cell["p"]).take(cell["samples"])
    run = directions(opt, lambda w, row: problem.gradient(w, data[row : row + 1]), order)
    points, taken = map(np.array, zip(*run, strict=True))
    points = np.vstack([points, opt.x])
    values = np.array([problem.value(w, data) for w in points])
    along = [problem.gradient(w, data) @ g for w, g in zip(points, taken, strict=False)]
    # Δ_max after each step.
    gap = np.maximum.accumulate(values[:-1]) - np.minimum.accumulate(values)[1:]
    squares, total = np.sum(taken**2, axis=1), np.cumsum(along)
    root = np.sqrt(np.cumsum(squares))
    moved = np.linalg.norm(np.diff(points, axis=0), axis=1) * np.sqrt(squares)
    ratios = {
        "Lemma 4.1": total / (gap * root + 0.5 * smoothness * np.cumsum(squares / root)),
        "Lemma 4.2": np.cumsum(moved) / (2.0 * root),
        "Eq. (11)": total / ((gap + smoothness) * root),
    }
    names = {name: cell[name] for name in ("problem", "p", "seed", "samples")}
    return [
        {**names, "lemma": lemma, "steps": len(taken), "ratio": float(np.max(found))}
        for lemma, found in ratios.items()
    ]
