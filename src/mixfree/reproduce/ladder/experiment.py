"""The ladder against the best constant step in hindsight, on streams drawn at random.

Every method runs without any prior knowledge: no domain, no scale, no mixing time. The oracle
takes the best of a grid of constant steps with the best of three averages, one choice for all
streams of a case: it knows everything but the random draws of each. On the paper's problem its
best choice for each seed stands beside it.
"""

from typing import Any

import numpy as np

import mixfree as mf
from mixfree.reproduce.engine.report import Row
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.ladder.contenders import CONTENDERS, gap_of
from mixfree.reproduce.ladder.draws import STREAMS, draw
from mixfree.reproduce.ladder.hindsight import gaps_in_hindsight
from mixfree.reproduce.ladder.problem import between_two
from mixfree.reproduce.ladder.report import EACH, ORACLE, TUNED, ladder_report

__all__ = ["FULL", "QUICK", "cells", "measure", "report"]

FULL = Settings(samples=200_000, seeds=200, first_seed=1000)
QUICK = Settings(samples=10_000, seeds=4)

PAPER = (0.5, 1e-2, 1e-3, 1e-4, 1e-5)  # switching probabilities
PAPER_LENGTH = 25  # times as long as the longest stream that is drawn
PAPER_SEEDS = 5
ALPHAS = tuple(10.0 ** (k / 4) for k in range(-12, 5))

report = ladder_report


def cells(settings: Settings) -> list[dict[str, Any]]:
    """One per stream that is drawn, per seed of the paper's problem, and per profile."""
    first, samples = settings.first_seed, PAPER_LENGTH * settings.samples
    drawn = [
        {"study": "drawn", "longest": settings.samples, "seed": first + i}
        for i in range(settings.seeds)
    ]
    paper = [
        {
            "study": "paper",
            "p": p,
            "samples": samples,
            "seeds": [first + i for i in range(PAPER_SEEDS)],
        }
        for p in PAPER
    ]
    profiles = [
        {"study": "profile", "p": p, "samples": samples // 5, "seed": first} for p in PAPER[:-1]
    ]
    return drawn + paper + profiles


def measure(cell: dict[str, Any]) -> list[Row]:
    """One row per method and for the oracle, or one per level of a profile."""
    return {"drawn": _drawn, "paper": _paper, "profile": _profile}[cell["study"]](cell)


def _drawn(cell: dict[str, Any]) -> list[Row]:
    """Mean suboptimality over the streams of a case."""
    case = draw(cell["seed"], cell["longest"])
    problem = case.problem()
    orders = [problem.order(stream, case.samples) for stream in range(STREAMS)]
    start = np.zeros(case.dimension)
    found = {ORACLE: float(gaps_in_hindsight(problem, orders).mean(axis=0).min())}
    for name, make in CONTENDERS.items():
        found[name] = float(np.mean([gap_of(problem, order, make(start)) for order in orders]))
    about = {"family": case.family, "case": str(case)}
    return [{**cell, **about, "method": name, "suboptimality": v} for name, v in found.items()]


def _paper(cell: dict[str, Any]) -> list[Row]:
    """Mean suboptimality over the seeds of the paper's problem."""
    problems = [between_two(seed, p=cell["p"], dimension=100) for seed in cell["seeds"]]
    found: dict[str, list[float]] = {name: [] for name in (*CONTENDERS, TUNED)}
    hindsight = []
    for seed, problem in zip(cell["seeds"], problems, strict=True):
        order, start = problem.order(seed, cell["samples"]), np.zeros(100)
        hindsight.append(gaps_in_hindsight(problem, [order])[0])
        for name, make in CONTENDERS.items():
            found[name].append(gap_of(problem, order, make(start)))
        found[TUNED].append(
            min(gap_of(problem, order, mf.AdaGrad(start, alpha=alpha)) for alpha in ALPHAS)
        )
    means = {name: float(np.mean(gaps)) for name, gaps in found.items()}
    means[ORACLE] = float(np.mean(hindsight, axis=0).min())
    means[EACH] = float(np.mean([gaps.min() for gaps in hindsight]))
    return [{**cell, "method": name, "suboptimality": v} for name, v in means.items()]


def _profile(cell: dict[str, Any]) -> list[Row]:
    """The ladder's levels on the paper's problem."""
    problem = between_two(cell["seed"], p=cell["p"], dimension=100)
    opt = mf.Ladder(np.zeros(100))
    problem.advance(opt, problem.order(cell["seed"], cell["samples"]))
    levels = zip(*(column.tolist() for column in opt.profile()), strict=True)
    return [{**cell, "length": n, "ratio": ratio, "blocks": many} for n, ratio, many in levels]
