"""The ladder against the best constant step in hindsight, on streams drawn at random.

Every method runs without prior knowledge: no domain, no scale, no mixing time. The oracle takes the
best of a grid of constant steps with the best of three averages, one choice for all streams of a
case: it knows everything but the random draws of each stream. Suboptimality is measured on the
samples of the stream itself. On the paper's problem, where it is measured under the stationary law,
the best choice per seed is also shown.
"""

from functools import partial
from typing import Any

import numpy as np

import mixfree as mf
from mixfree.reproduce.engine.report import Row
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.ladder.contenders import CONTENDERS, MEMORY, gap_of, run_of
from mixfree.reproduce.ladder.draws import STREAMS, draw
from mixfree.reproduce.ladder.hindsight import gaps_in_hindsight
from mixfree.reproduce.ladder.problem import between_two, minimizer
from mixfree.reproduce.ladder.report import (
    EACH,
    FITTED,
    ORACLE,
    SHUFFLED,
    TUNED,
    ladder_report,
)

__all__ = ["FULL", "QUICK", "cells", "measure", "report"]

FULL = Settings(samples=200_000, seeds=200, first_seed=2000)
QUICK = Settings(samples=4_000, seeds=2)

PAPER = (0.5, 1e-2, 1e-3, 1e-4, 1e-5)  # switching probabilities
PAPER_LENGTH = 25  # length of the paper's streams, in lengths of the longest random stream
PAPER_SEEDS = 5
ALPHAS = tuple(10.0 ** (k / 4) for k in range(-12, 5))

report = ladder_report


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return the cells: random cases, then the paper's problem, with memory, and profiles."""
    first, samples = settings.first_seed, PAPER_LENGTH * settings.samples
    drawn = [
        {"study": "drawn", "longest": settings.samples, "seed": first + i}
        for i in range(settings.seeds)
    ]
    seeds = [first + i for i in range(min(PAPER_SEEDS, settings.seeds))]
    paper = [{"study": "paper", "p": p, "samples": samples, "seeds": seeds} for p in PAPER]
    memory = [
        {"study": "memory", "p": p, "samples": samples // 5, "seeds": seeds[:3]} for p in PAPER
    ]
    profiles = [
        {"study": "profile", "p": p, "samples": samples // 5, "seed": first} for p in PAPER[:-1]
    ]
    return drawn + paper + memory + profiles


def measure(cell: dict[str, Any]) -> list[Row]:
    """Return one row per method and for the oracle, or one per level of a profile."""
    return STUDIES[cell["study"]](cell)


def _drawn(cell: dict[str, Any]) -> list[Row]:
    """Measure the mean suboptimality over the streams of a case, each over its own samples."""
    case = draw(cell["seed"], cell["longest"])
    problem = case.problem()
    orders = [problem.order(stream, case.samples) for stream in range(STREAMS)]
    streams = [(problem.over(order), order) for order in orders]
    hindsight = np.mean([gaps_in_hindsight(*stream) for stream in streams], axis=0)
    found = {ORACLE: float(hindsight.min())}
    for name, run in CONTENDERS.items():
        found[name] = float(np.mean([gap_of(*stream, run) for stream in streams]))
    about = {"family": case.family, "case": str(case)}
    return [{**cell, **about, "method": name, "suboptimality": v} for name, v in found.items()]


def _paper(cell: dict[str, Any]) -> list[Row]:
    """Measure the mean suboptimality over the seeds of the paper's problem."""
    hindsight, found = [], []
    for seed in cell["seeds"]:
        problem = between_two(seed, p=cell["p"])
        order = problem.order(seed, cell["samples"])
        hindsight.append(gaps_in_hindsight(problem, order))
        gaps = {name: gap_of(problem, order, run) for name, run in CONTENDERS.items()}
        tuned = (run_of(partial(mf.AdaGrad, alpha=alpha)) for alpha in ALPHAS)
        found.append({**gaps, TUNED: min(gap_of(problem, order, run) for run in tuned)})
    means = {name: float(np.mean([gaps[name] for gaps in found])) for name in found[0]}
    means[ORACLE] = float(np.mean(hindsight, axis=0).min())
    means[EACH] = float(np.mean([gaps.min() for gaps in hindsight]))
    return [{**cell, "method": name, "suboptimality": v} for name, v in means.items()]


def _memory(cell: dict[str, Any]) -> list[Row]:
    """Measure the ladder without and with memory, on the same samples shuffled, and their fit."""
    found: dict[str, list[float]] = {"ladder": [], MEMORY: [], SHUFFLED: [], FITTED: []}
    for seed in cell["seeds"]:
        problem = between_two(seed, p=cell["p"])
        order = problem.order(seed, cell["samples"])
        shuffled = np.random.default_rng(seed).permutation(order)
        for name, samples in (("ladder", order), (MEMORY, order), (SHUFFLED, shuffled)):
            run = CONTENDERS["ladder" if name == SHUFFLED else name]
            found[name].append(gap_of(problem, samples, run))
        law = np.bincount(order, minlength=len(problem.rows)) / len(order)
        fit = minimizer(problem.rows, problem.targets, problem.loss, law)
        found[FITTED].append(float(problem.gap(fit[None])[0]))
    means = {name: float(np.mean(gaps)) for name, gaps in found.items()}
    return [{**cell, "method": name, "suboptimality": v} for name, v in means.items()]


def _profile(cell: dict[str, Any]) -> list[Row]:
    """Measure the ladder's profile on the paper's problem."""
    problem = between_two(cell["seed"], p=cell["p"])
    opt = mf.Ladder(np.zeros(100))
    problem.advance(opt, problem.order(cell["seed"], cell["samples"]))
    levels = zip(*(column.tolist() for column in opt.profile()), strict=True)
    return [{**cell, "length": n, "ratio": ratio, "blocks": many} for n, ratio, many in levels]


STUDIES = {"drawn": _drawn, "paper": _paper, "memory": _memory, "profile": _profile}
