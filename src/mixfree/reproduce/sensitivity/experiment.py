"""Figure 1 with each choice that the paper leaves open made differently.

The setting of Figure 1 is "as set" (``docs/reproduction.md``). Each line of
:mod:`mixfree.reproduce.sensitivity.choices` changes one thing, and the four methods run on the
same streams as before.
"""

import math
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.core.methods import Algorithm1, find_method
from mixfree.core.optimizer import Optimizer
from mixfree.domains import Ball
from mixfree.gradients import MLMC
from mixfree.reproduce.engine.report import Report, Row
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.paper.runs import PAPER_METHODS
from mixfree.reproduce.sensitivity.choices import CHOICES, Choice
from mixfree.reproduce.sensitivity.problems import Problem, problem_of
from mixfree.reproduce.sensitivity.report import sensitivity_report
from mixfree.steps import Constant

__all__ = ["FULL", "QUICK", "cells", "horizon_for", "measure", "report", "start"]

FULL = Settings(samples=1_000_000, seeds=30, p=(1e-4,), first_seed=1000)
QUICK = Settings(samples=10_000, seeds=2, p=(1e-3,))


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per p, seed and choice, with fewer seeds where errors have light tails."""
    fewer = settings.seed_numbers[: max(2, settings.seeds * 2 // 5)]
    return [
        {"choice": name, "p": p, "seed": seed, "samples": round(settings.samples * choice.share)}
        for p in settings.p
        for seed in settings.seed_numbers
        for name, choice in CHOICES.items()
        if choice.heavy or seed in fewer
    ]


def report(rows: list[Row], settings: Settings) -> Report:
    """Report one table of ratios of means per p, one of medians, and a claim per choice."""
    return sensitivity_report(rows, settings, FULL)


def measure(cell: dict[str, Any]) -> list[Row]:
    """Return one row per method: its suboptimality at the end of the stream."""
    choice = CHOICES[cell["choice"]]
    problem = problem_of(choice, cell["seed"], cell["p"], cell["samples"])
    x0 = _first_point(choice, problem, cell["seed"])
    names = list(choice.own) or list(PAPER_METHODS)
    opts = [start(name, choice, x0, problem.radius, cell) for name in names]
    problem.feed(opts)
    return [
        {
            **cell,
            "method": name,
            "steps": opt.steps,
            "suboptimality": float(problem.suboptimality(opt.average[None])[0]),
        }
        for name, opt in zip(names, opts, strict=True)
    ]


def start(name: str, choice: Choice, x0: Array, radius: float, cell: dict[str, Any]) -> Optimizer:
    """Start a method with the options of a choice, and α = 1 by default."""
    options = {"alpha": 1.0, **choice.common, **choice.own.get(name, {})}
    constant = options.pop("constant", False)
    published = name == "mag" and "horizon" in options and "levels" not in options
    if options.get("horizon") == "T":
        options["horizon"] = horizon_for(cell["samples"])
    made_by: Any = Algorithm1 if published else find_method(name)
    opt: Optimizer = made_by(x0, domain=Ball(radius), seed=cell["seed"], **options)
    if not constant:
        return opt
    law = opt.gradient
    steps = cell["samples"] / (law.expected_samples if isinstance(law, MLMC) else 1.0)
    step = Constant(options["alpha"] / math.sqrt(steps))
    return Optimizer(x0, law, step, opt.domain, opt.output, name=name)


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


def _first_point(choice: Choice, problem: Any, seed: int) -> Array:
    if choice.start == "one state":
        assert isinstance(problem, Problem)
        return problem.optimum_of_a_state()
    origin = np.zeros(problem.minimizer.size if hasattr(problem, "minimizer") else 100)
    if choice.start == "origin":
        return origin
    away = np.random.default_rng([seed, 3]).standard_normal(origin.size)
    point: Array = problem.radius * away / np.linalg.norm(away)
    return point
