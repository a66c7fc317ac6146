"""The ladder against the best step in hindsight, on streams from independent to hardly mixing.

Every method runs without being told anything: no domain, no scale, no mixing time. The oracle is
told everything: the best of a fine grid of constant steps with the best of three averages, and
EMD given the mixing time, on the very stream that the methods see. Beside it, on the paper's
problem, the best step and average that are the same for all seeds: those of one who knows all but
the draws.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import mixfree as mf
from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.core.optimizer import GradientRefused, Optimizer
from mixfree.reproduce.hindsight import AVERAGES, COARSE, gaps_in_hindsight
from mixfree.reproduce.report import Report, Row
from mixfree.reproduce.settings import Settings
from mixfree.reproduce.suite import CASES, LONGEST, Problem

FULL = Settings(samples=1_000_000, seeds=3)
QUICK = Settings(samples=10_000, seeds=1)

PAPER_CASES = [name for name in CASES if name.startswith("regression")]
PAPER_SEEDS = 5
PROFILES = ("regression p=0.5", "regression p=0.01", "regression p=0.001", "regression p=0.0001")
ALPHAS = tuple(10.0 ** (k / 4) for k in range(-12, 5))
CONTENDERS: dict[str, Callable[[Array], Optimizer]] = {
    "ladder": mf.Ladder,
    "mag": mf.MAG,
    "adagrad": mf.AdaGrad,
    "adagrad, DoG": lambda x0: mf.Ladder(
        x0, per_coordinate=False, max_levels=0, distance=mf.Distance(of="iterate")
    ),
    "sgd": mf.SGD,
}
TUNED = "adagrad, best α"
STEPS = [f"{average} average, step {power:g}" for power in COARSE for average in AVERAGES]


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Every case at three lengths; the paper's problem also at five times the longest.

    Then the ladder's profile of a few streams, to be drawn.
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
    """A row each for the oracle and the methods, or for the levels of a profile."""
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


def gap_of(problem: Problem, order: Array, opt: Optimizer) -> float:
    """Suboptimality of a method's output; infinite when the run diverged.

    Examples
    --------
    >>> problem = CASES["regression p=0.5"](0)
    >>> gap_of(problem, problem.order(0, 1000), mf.SGD(np.zeros(100)))
    inf
    """
    try:
        problem.advance(opt, order)
    except GradientRefused:
        return math.inf
    gap = float(problem.gap(opt.average[None])[0])
    return gap if gap < 1e6 else math.inf


def report(rows: list[Row], settings: Settings) -> Report:
    """Ratios to the oracle, the paper's problem, and what was aimed at."""
    from mixfree.reproduce.ladder_report import about

    return about(rows, settings)
