"""Measurements for each lemma: values by quantity and size for one p and seed."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.gradients import MLMC
from mixfree.reproduce.paper.problem import problem_of
from mixfree.reproduce.paper.runs import run_cell
from mixfree.reproduce.theory import bounds
from mixfree.reproduce.theory.windows import Windows

__all__ = ["DIAMETER", "MEASURES", "second_moments"]

DIAMETER = 2.0  # of the unit ball
WINDOWS = 25  # windows of full length per cell
ESTIMATES = 50_000  # MLMC estimates per cell

Values = list[tuple[str, int, float]]  # quantity, size, value


def second_moments(means: Array) -> Array:
    """Return E‖g^MLMC‖² over the level per window, from the means of its first 1, 2, 4, … samples.

    The level is independent of the data, so its distribution can be summed instead of sampled.
    """
    levels = np.arange(1, means.shape[1])
    estimates = means[:, :1] + np.diff(means, axis=1) * (1 << levels)[:, None]
    alone = 0.5 ** len(levels) * np.sum(means[:, 0] ** 2, axis=1)
    moments: Array = np.sum(estimates**2, axis=2) @ 0.5**levels + alone
    return moments


def _windows(cell: dict[str, Any]) -> Values:
    """Measure errors of means of 1, 2, 4, … samples, and the MLMC estimate's second moment."""
    problem, levels = problem_of(cell["seed"]), cell["horizon"].bit_length() - 1
    windows = Windows(problem, cell["p"])
    rng = np.random.default_rng([cell["seed"], 3])
    means = windows.doubling_means(rng, WINDOWS, levels)
    errors = np.linalg.norm(means - windows.gradients.mean(axis=0), axis=2)
    rows: Values = []
    for level in range(levels + 1):
        rows += [
            ("error", 1 << level, float(errors[:, level].mean())),
            ("square error", 1 << level, float(np.mean(errors[:, level] ** 2))),
        ]
    return [*rows, ("second moment", cell["horizon"], float(second_moments(means).mean()))]


def _bias(cell: dict[str, Any]) -> Values:
    """Measure the mean of MLMC estimates along the only direction in which they can be biased."""
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
    # With a smaller largest level the same estimates only lack the corrections above it.
    means = (first + np.cumsum(corrections)) / ESTIMATES - slopes.mean()
    return [("bias", 1 << level, float(mean)) for level, mean in enumerate(means)]


def algorithm(horizon: int) -> dict[str, Any]:
    """Return Algorithm 1 with α = D/√2, as in Theorem 3.3: a method and its options."""
    options = {"levels": None, "horizon": horizon, "alpha": DIAMETER / math.sqrt(2.0)}
    return {"method": "mag", "options": options}


def _rate(cell: dict[str, Any]) -> Values:
    """Measure the suboptimality of Algorithm 1 after about T steps, and the steps per T."""
    horizon = cell["horizon"]
    samples = round(horizon * bounds.expected_cost(horizon))
    found = run_cell({**cell, **algorithm(horizon), "samples": samples})
    return [
        ("suboptimality", horizon, float(found.suboptimality[-1])),
        ("steps", horizon, float(found.steps[-1]) / horizon),
    ]


MEASURES: dict[str, Callable[[dict[str, Any]], Values]] = {
    "windows": _windows,
    "bias": _bias,
    "rate": _rate,
}
