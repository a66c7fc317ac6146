"""The lemmas and Theorem 3.3 as measurements, beside their bounds (:mod:`.theory`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.gradients import MLMC
from mixfree.reproduce import theory
from mixfree.reproduce.problem import Regression, mixing_time, problem_of
from mixfree.reproduce.report import Report, Row
from mixfree.reproduce.runs import run_cell
from mixfree.reproduce.settings import Settings
from mixfree.reproduce.windows import Windows

FULL = Settings(samples=1 << 16, seeds=20, p=(0.5, 0.1, 1e-2, 1e-3, 1e-4))
QUICK = Settings(samples=1 << 10, seeds=4, p=(0.5, 0.1, 1e-2))

DIAMETER = 2.0
PATHS = 25  # windows of full length a cell
ESTIMATES = 50_000  # single MLMC estimates a cell
STEPS = 20_000  # draws of a level a cell
DELTA = 0.05


def cells(settings: Settings) -> list[dict[str, Any]]:
    """One cell for each measurement, p and seed."""
    check_whole(
        settings.samples, "samples", least=64
    )  # of which the shortest rate is measured at one
    common = {"horizon": settings.samples}
    return [
        *(
            {"what": what, "p": p, "seed": seed, **common}
            for what in ("windows", "bias")
            for p in settings.p
            for seed in range(settings.seeds)
        ),
        *({"what": "cost", "p": 0.5, "seed": seed, **common} for seed in range(settings.seeds)),
        *(
            {"what": "rate", "p": p, "seed": seed, "horizon": settings.samples * 4 // shorter}
            for p in settings.p
            for seed in range(settings.seeds)
            for shorter in (256, 64, 16, 4, 1)
        ),
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """Rows of one measurement: which quantity, at which size, with which value."""
    found = _MEASURES[cell["what"]](cell)
    return [
        {"quantity": quantity, "p": cell["p"], "seed": cell["seed"], "size": size, "value": value}
        for quantity, size, value in found
    ]


def report(rows: list[Row], settings: Settings) -> Report:
    """Every claim with its verdict, and six panels."""
    from mixfree.reproduce.theory_figure import draw
    from mixfree.reproduce.theory_report import claims, tables

    return Report(
        tables(rows, settings),
        {"theory": draw(rows, settings)},
        claims(rows, settings),
        ["Measured at the origin, from a known state; G is the largest gradient on the ball."],
    )


def largest_gradient(problem: Regression) -> float:
    """G: the largest norm of a row's gradient on the ball, ‖x‖(r‖x‖ + |y|)."""
    sizes = np.linalg.norm(problem.rows, axis=1)
    return float(np.max(sizes * (problem.radius * sizes + np.abs(problem.targets))))


def second_moments(means: Array) -> Array:
    """E‖g^MLMC‖² of each window over its level, from the means of 1, 2, 4, … of its samples.

    The level is drawn apart from the data, so its law can be summed instead of sampled.
    """
    levels = np.arange(1, means.shape[1])
    estimates = means[:, :1] + np.diff(means, axis=1) * (1 << levels)[:, None]
    alone = 0.5 ** len(levels) * np.sum(means[:, 0] ** 2, axis=1)
    return np.sum(estimates**2, axis=2) @ 0.5**levels + alone


def _windows(cell: dict[str, Any]) -> list[tuple[str, int, float]]:
    """Errors of means of 1, 2, 4, … samples, and the MLMC estimate's second moment."""
    problem, levels = problem_of(cell["seed"]), cell["horizon"].bit_length() - 1
    windows = Windows(problem, cell["p"])
    rng = np.random.default_rng([cell["seed"], 3])
    means = windows.doubling_means(rng, PATHS, levels)
    errors = np.linalg.norm(means - windows.gradients.mean(axis=0), axis=2)
    bound, tau = largest_gradient(problem), mixing_time(cell["p"])
    rows = []
    for level in range(levels + 1):
        size = 1 << level
        allowed = theory.deviation(
            size, bound, DELTA, tau, theory.decorrelation_time(tau, cell["horizon"])
        )
        rows += [
            ("error", size, float(errors[:, level].mean())),
            ("beyond", size, float(np.mean(errors[:, level] > allowed))),
        ]
    return [*rows, ("second moment", cell["horizon"], float(second_moments(means).mean()))]


def _bias(cell: dict[str, Any]) -> list[tuple[str, int, float]]:
    """Mean of MLMC estimates along the one direction in which they can be off."""
    windows = Windows(problem_of(cell["seed"]), cell["p"])
    rng = np.random.default_rng([cell["seed"], 4])
    levels = min(12, cell["horizon"].bit_length() - 1)
    law = MLMC(levels=None, horizon=1 << levels, seed=cell["seed"])
    drawn = np.bincount([law.level(t) for t in range(1, ESTIMATES + 1)], minlength=levels + 1)
    ends = windows.state_gradients()
    slopes = windows.gradients @ ((ends[0] - ends[1]) / np.linalg.norm(ends[0] - ends[1]))
    first, corrections = 0.0, np.zeros(levels + 1)
    for level, count in enumerate(drawn):
        values = slopes[windows.rows(rng, count, 1 << level)]
        first += values[:, 0].sum()
        if level > 0:
            half = 1 << (level - 1)
            corrections[level] = values[:, half:].sum() - values[:, :half].sum()
    # With a smaller largest level the same estimates just lack the corrections above it.
    means = (first + np.cumsum(corrections)) / ESTIMATES - slopes.mean()
    return [("bias", 1 << level, float(mean)) for level, mean in enumerate(means)]


def _cost(cell: dict[str, Any]) -> list[tuple[str, int, float]]:
    """Samples a step of Algorithm 1, for horizons 1, 2, 4, …."""
    law = MLMC(levels=None, horizon=cell["horizon"], seed=cell["seed"])
    drawn = np.array([law.level(t) for t in range(1, STEPS + 1)])
    return [
        # A level beyond the horizon takes one sample.
        ("cost", 1 << level, float(np.mean(1 << np.where(drawn <= level, drawn, 0))))
        for level in range(cell["horizon"].bit_length())
    ]


def _rate(cell: dict[str, Any]) -> list[tuple[str, int, float]]:
    """Suboptimality of Algorithm 1 after about T steps, with α = D/√2."""
    horizon = cell["horizon"]
    run = {
        "method": "mag",
        "options": {"levels": None, "horizon": horizon, "alpha": DIAMETER / math.sqrt(2.0)},
        "samples": round(horizon * theory.expected_cost(horizon)),
    }
    found = run_cell({**cell, **run})
    return [("suboptimality", horizon, float(found.suboptimality[-1]))]


_MEASURES: dict[str, Callable[[dict[str, Any]], list[tuple[str, int, float]]]] = {
    "windows": _windows,
    "bias": _bias,
    "cost": _cost,
    "rate": _rate,
}
