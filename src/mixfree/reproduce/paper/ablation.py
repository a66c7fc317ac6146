"""How much of MAG's gain on the paper's problem is less bias, and how much is smaller steps?

Six studies, each changing one thing:

``levels``, ``weights``
    MAG with 1 to 19 levels, with exact and with the paper's weights.
``law``
    The level distribution of Algorithm 1, with horizon T and anytime, against 5 levels.
``alpha``
    The scale of the steps over four decades, for MAG and AdaGrad.
``pace``
    AdaGrad at MAG's pace: its α is set so that both have the same step size per sample at the
    end of the same stream, within 1 %. The rest of MAG's gain is not due to the step size.
``observation``
    The two readings of "we observe data of the current state": one row of it, or all rows.
"""

from typing import Any

import numpy as np

from mixfree.core.optimizer import Optimizer
from mixfree.reproduce.engine.report import Row
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.paper.ablation_report import ablation_report
from mixfree.reproduce.paper.problem import problem_of, stream_of
from mixfree.reproduce.paper.runs import PAPER_METHODS, feed_states, gradient_norm, start, trace

__all__ = ["FULL", "QUICK", "cells", "measure", "pace", "report"]

FULL = Settings(samples=1_000_000, seeds=30, p=(1e-2, 1e-4), first_seed=1000)
QUICK = Settings(samples=50_000, seeds=2, p=(1e-2,))

LEVELS = (1, 2, 3, 5, 7, 10, 13, 16, 19)
ALPHAS = tuple(float(f"{10.0 ** (k / 2):.3g}") for k in range(-4, 5))
LAWS = {
    "5 levels": {"levels": 5},
    "anytime": {"levels": None},
    "horizon T": {"levels": None, "horizon": "samples"},
}
# Fraction of the samples in runs that observe all rows of a state, where a gradient costs d².
OBSERVATION_FRACTION = 1 / 10
# Studies that have all seeds, as their errors have heavy tails or a claim rests on a small
# difference. The others have a third of them.
ALL_SEEDS = ("law", "pace")

report = ablation_report


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per study, setting, p and seed."""
    fewer = settings.seed_numbers[: max(2, settings.seeds // 3)]
    studies = [
        *(("levels", "mag", k, {"levels": k}) for k in LEVELS),
        *(("weights", "mag", k, {"levels": k, "weights": "paper"}) for k in LEVELS),
        *(("law", "mag", name, options) for name, options in LAWS.items()),
        *(("alpha", method, a, {"alpha": a}) for a in ALPHAS for method in ("adagrad", "mag")),
        *(("pace", method, "", {}) for method in ("mag", "adagrad", "adagrad at MAG's pace")),
        *(
            ("observation", method, reading, {})
            for reading in ("row", "state")
            for method in PAPER_METHODS
        ),
    ]
    return [
        {
            "study": study,
            "method": method,
            "setting": setting,
            "options": options,
            "p": p,
            "seed": seed,
            "samples": _length(study, settings.samples),
        }
        for p in settings.p
        for seed in settings.seed_numbers
        for study, method, setting, options in studies
        if study in ALL_SEEDS or seed in fewer
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """Return one row: the suboptimality and the step size per sample at the end."""
    if cell["method"] == "adagrad at MAG's pace":
        opt, gap = _at_pace(cell)
    elif cell["study"] == "observation" and cell["setting"] == "state":
        opt, gap = _all_rows(cell)
    else:
        opt, gap = _run(cell, cell["method"], **_options(cell))
    names = ("study", "method", "setting", "p", "seed", "samples")
    return [
        {
            **{name: cell[name] for name in names},
            "setting": str(cell["setting"]),
            "suboptimality": gap,
            "pace": pace(opt),
        }
    ]


def pace(opt: Optimizer) -> float:
    """Return the step size per sample: η of the last step, divided by the samples per step."""
    norm = gradient_norm(opt)
    step = opt.step.alpha / (np.sqrt(opt.steps) if norm is None else norm)  # type: ignore[attr-defined]
    return float(step * opt.steps / opt.samples)


def _length(study: str, samples: int) -> int:
    return max(32, round(samples * OBSERVATION_FRACTION)) if study == "observation" else samples


def _options(cell: dict[str, Any]) -> dict[str, Any]:
    """Return the cell's options, with ``"samples"`` replaced by its number of samples."""
    return {k: cell["samples"] if v == "samples" else v for k, v in cell["options"].items()}


def _run(cell: dict[str, Any], method: str, **options: Any) -> tuple[Optimizer, float]:
    problem = problem_of(cell["seed"])
    opt = start(problem, method, cell["p"], seed=cell["seed"], **options)
    order = stream_of(cell["seed"], cell["p"], cell["samples"])
    return opt, float(trace(opt, problem, order).suboptimality[-1])


def _at_pace(cell: dict[str, Any]) -> tuple[Optimizer, float]:
    wanted = pace(_run(cell, "mag")[0])
    # The gradients, and with them the pace, depend on α: iterate a few times.
    alpha = 1.0
    for _ in range(3):
        alpha *= wanted / pace(_run(cell, "adagrad", alpha=alpha)[0])
    return _run(cell, "adagrad", alpha=alpha)


def _all_rows(cell: dict[str, Any]) -> tuple[Optimizer, float]:
    """Run with the gradient of all rows of the state as each sample."""
    problem = problem_of(cell["seed"])
    opt = start(problem, cell["method"], cell["p"], seed=cell["seed"])
    feed_states(opt, problem, stream_of(cell["seed"], cell["p"], cell["samples"]))
    return opt, float(problem.suboptimality(opt.average[None])[0])
