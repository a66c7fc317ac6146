"""TD learning: the error against samples and mixing time, compared with Bhandari's TD.

MAG draws its levels as Algorithm 1 does, capped by the samples seen so far. MAG and TD with the
step 1/√T run ten times as long as the others, because the effect of the start vanishes slowly on
the reversed streak.
"""

from typing import Any

import numpy as np

from mixfree.reproduce.engine.report import Row
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.td.processes import FAMILIES, STREAKS, process_of
from mixfree.reproduce.td.report import BASELINE, OURS, SHORTER, td_report
from mixfree.td import RewardProcess, TDLearner

__all__ = ["FULL", "QUICK", "cells", "measure", "methods", "report"]

FULL = Settings(samples=10_000_000, seeds=30, p=(0.5, 5e-2, 5e-3, 5e-4, 5e-5), first_seed=1000)
QUICK = FULL.changed(samples=100_000, seeds=3, first_seed=0)

FIRST = 1000  # transitions at which curves begin
PIECE = 1_000_000  # transitions held in memory at a time

report = td_report


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return two cells per process and seed: the two methods compared, and all others."""
    parameters = {"reversed streak": STREAKS, "sticky": settings.p, "Boyan": (0,)}
    return [
        {
            "chain": family,
            "parameter": parameter,
            "seed": seed,
            "compared": compared,
            "samples": settings.samples if compared else settings.samples // SHORTER,
        }
        for family in FAMILIES
        for parameter in parameters[family]
        for seed in settings.seed_numbers
        for compared in (True, False)
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """Measure errors of the cell's methods on one trajectory, at two horizons per decade."""
    process = process_of(cell["chain"], cell["parameter"])
    grid = horizons(cell["samples"])
    runs = [
        (name, looks, learner)
        for name, settings in methods(process).items()
        if (name in (OURS, BASELINE)) == cell["compared"]
        for looks, learner in _started(process, settings, grid, cell["seed"])
    ]
    scale = process.error(np.zeros_like(process.theta_star))
    time = process.chain.mixing_time()
    stops = sorted({*grid, *range(PIECE, cell["samples"], PIECE)})
    pieces = process.pieces(np.diff([0, *stops]).tolist(), cell["seed"])
    rows = []
    for done, piece in zip(stops, pieces, strict=True):
        transitions = runs[0][2].look_up(*piece)
        for name, looks, learner in runs:
            if done <= looks[-1]:
                learner.advance(*transitions)
            if done in looks:
                rows.append(
                    {
                        "chain": cell["chain"],
                        "parameter": cell["parameter"],
                        "mixing_time": time,
                        "method": name,
                        "seed": cell["seed"],
                        "samples": done,
                        "steps": learner.optimizer.steps,
                        "error": process.error(learner.average) / scale,
                    }
                )
    return rows


def methods(process: RewardProcess) -> dict[str, dict[str, Any]]:
    """Return the settings of each learner; all are given the radius, and MAG nothing else."""
    return {
        OURS: {"method": "mag", "levels": None},
        BASELINE: {"method": "projected-td", "horizon": None},
        "MAG, 10 levels": {"method": "mag", "levels": 10},
        "MAG, 5 levels": {"method": "mag", "levels": 5},
        "ladder": {"method": "ladder"},
        "TD 0.1": {"method": "projected-td", "step_size": 0.1},
        "TD 1/(ω(1−γ)t)": {"method": "projected-td", "omega": process.omega},
    }


def horizons(samples: int) -> list[int]:
    """Return two horizons per decade, up to all samples; at least the last decade."""
    first = max(1, min(FIRST, samples // 10))
    grid = [round(first * 10 ** (k / 2)) for k in range(20)]
    return [each for each in grid if each < samples] + [samples]


def _started(
    process: RewardProcess, settings: dict[str, Any], grid: list[int], seed: int
) -> list[tuple[list[int], TDLearner]]:
    """Start learners, each with the horizons at which its error is measured."""
    radius = 2.0 * float(np.linalg.norm(process.theta_star))

    def start(**given: Any) -> TDLearner:
        return TDLearner(process.features, process.gamma, radius, seed=seed, **given)

    if "horizon" not in settings:
        return [(grid, start(**settings))]
    # A step size that depends on T needs a separate run for every T.
    return [([horizon], start(**{**settings, "horizon": horizon})) for horizon in grid]
