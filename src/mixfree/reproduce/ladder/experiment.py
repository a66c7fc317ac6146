"""The ladder against the best step in hindsight, on streams from independent to hardly mixing.

Every method runs without any prior knowledge: no domain, no scale, no mixing time. The oracle
knows everything: it takes the best of a fine grid of constant steps with the best of three
averages, or EMD given the mixing time, on the very stream that the methods see. Beside it, on the
paper's problem, stands the best step and average common to all seeds: the choice of one who knows
everything but the random draws.
"""

from typing import Any

import numpy as np

import mixfree as mf
from mixfree.base.checks import check_whole
from mixfree.reproduce.engine.report import Row
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.ladder.contenders import CONTENDERS, gap_of
from mixfree.reproduce.ladder.hindsight import COARSE, gaps_in_hindsight
from mixfree.reproduce.ladder.report import STEPS, TUNED, ladder_report
from mixfree.reproduce.ladder.suite import CASES, LONGEST

__all__ = ["FULL", "QUICK", "cells", "measure", "report"]

FULL = Settings(samples=1_000_000, seeds=3)
QUICK = Settings(samples=10_000, seeds=1)

PAPER_CASES = [name for name in CASES if name.startswith("regression")]
PAPER_SEEDS = 5
PROFILES = ("regression p=0.5", "regression p=0.01", "regression p=0.001", "regression p=0.0001")
ALPHAS = tuple(10.0 ** (k / 4) for k in range(-12, 5))

report = ladder_report


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Every case at three lengths, the paper's problem also at five times the longest.

    Then the ladder's profile of a few streams, for a figure.
    """
    check_whole(settings.samples, "samples", most=LONGEST)
    suite = [
        {"study": "suite", "case": case, "samples": settings.samples // shorter, "seed": seed}
        for case in CASES
        for shorter in (100, 10, 1)
        for seed in range(settings.seeds)
    ]
    paper = [
        {"study": "paper", "case": case, "samples": 5 * settings.samples, "seed": seed}
        for case in PAPER_CASES
        for seed in range(max(settings.seeds, PAPER_SEEDS))
    ]
    profiles = [
        {"study": "profile", "case": case, "samples": settings.samples, "seed": 0}
        for case in PROFILES
    ]
    return suite + paper + profiles


def measure(cell: dict[str, Any]) -> list[Row]:
    """One row per method and for the oracle, or one per level of a profile."""
    problem = CASES[cell["case"]](cell["seed"])
    order = problem.order(cell["seed"], cell["samples"])
    start = np.zeros(problem.rows.shape[1])
    if cell["study"] == "profile":
        opt = mf.Ladder(start)
        problem.advance(opt, order)
        levels = zip(*(column.tolist() for column in opt.profile()), strict=True)
        return [{**cell, "length": n, "ratio": ratio, "blocks": many} for n, ratio, many in levels]
    emd = gap_of(problem, order, mf.EMD(start, mixing_time=problem.mixing_time))
    steps = gaps_in_hindsight(problem, order)
    found = {"oracle": min(emd, *(gaps.min() for gaps in steps.values()))}
    for name, make in CONTENDERS.items():
        found[name] = gap_of(problem, order, make(start))
    if cell["study"] == "paper":
        found[TUNED] = min(gap_of(problem, order, mf.AdaGrad(start, alpha=a)) for a in ALPHAS)
        coarse = np.concatenate([steps[power] for power in COARSE])
        found |= dict(zip(STEPS, coarse, strict=True))
    return [{**cell, "method": name, "suboptimality": float(gap)} for name, gap in found.items()]
