"""Methods after the paper: averaged TD, Richardson–Romberg, actor-critic with MLMC.

There are four parts. ``error``: TD with a step that depends on γ alone, against transitions.
``bias``: the limits of averages with constant steps, for several steps and mixing times.
``coverage``: intervals from batch means. ``control``: MAC beside actor-critic without MLMC.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from mixfree import RichardsonRomberg
from mixfree.base.arithmetic import Array
from mixfree.gradients import MLMC, MiniBatch, Window
from mixfree.reproduce.after_td.control import CONTROLS, control_of, coordinates, learning
from mixfree.reproduce.after_td.exact import limit, process_of, universal_step
from mixfree.reproduce.after_td.report import (
    AVERAGED,
    BATCH,
    CRITICS,
    EXTRAPOLATED,
    LONG,
    MAC,
    SINGLE,
    SKIP,
    after_td_report,
)
from mixfree.reproduce.engine.report import Row
from mixfree.reproduce.engine.settings import Settings
from mixfree.td import RewardProcess, TDLearner, tabular

__all__ = ["FULL", "QUICK", "cells", "measure", "report"]

# Seeds below 1,000 were used to choose the methods and the steps of control.
FULL = Settings(samples=2_000_000, seeds=30, first_seed=1100)
QUICK = Settings(samples=20_000, seeds=3)

SHORTER = 10  # factor by which the runs of coverage and control are shorter
STREAMS = 10  # streams per seed, for coverage
BATCHES = 40
STEPS = {"sticky": (0.1, 0.2, 0.4, 0.8), "least squares": (0.005, 0.01, 0.02, 0.04)}
COVERED = {"sticky": 0.2, "least squares": 0.01}
SLOW = (0.1, 0.03, 0.01, 0.003)  # p of the chains whose biases are compared
SMALL = 1e-3  # step on these chains
T_MAX = 32
GRADIENTS = {MAC: None, SINGLE: 1, BATCH: 5, LONG: T_MAX}  # transitions per step, without MLMC
RATE = 3.0  # α and β: best for each method, or within 0.01 of it, on seeds 0 to 3

report = after_td_report


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per part, process and seed."""
    short = settings.samples // SHORTER
    work: list[dict[str, Any]] = [
        *(
            {"part": "error", "process": name, "p": p, "samples": settings.samples}
            for name, p in (("reversed streak", 0), ("sticky", 0.05), ("sticky", 0.005))
        ),
        *(
            {"part": "bias", "process": name, "p": 0.05, "steps": steps}
            for name, steps in STEPS.items()
        ),
        *({"part": "bias", "process": "least squares", "p": p, "steps": (SMALL,)} for p in SLOW),
        *({"part": "coverage", "process": name, "samples": short} for name in COVERED),
        *(
            {"part": "control", "process": name, "critic": critic, "samples": short}
            for name in CONTROLS
            for critic in CRITICS
        ),
    ]
    return [
        {"samples": settings.samples, **each, "seed": seed}
        for each in work
        for seed in settings.seed_numbers
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """Return the rows of one cell, labelled with its part, process and seed."""
    parts = {"error": _error, "bias": _bias, "coverage": _coverage, "control": _control}
    about: Row = {
        key: cell[key] for key in ("part", "process", "p", "critic", "seed") if key in cell
    }
    return [{**about, **row} for row in parts[cell["part"]](cell)]


def looks_until(samples: int) -> list[int]:
    """Return four evaluation times per decade, in the last two decades."""
    return sorted({round(samples * 10 ** (-k / 4)) for k in range(8)})


def _learner(process: RewardProcess, alpha: float, **options: Any) -> TDLearner:
    return TDLearner(process.features, process.gamma, method="averaged-td", alpha=alpha, **options)


def _error(cell: dict[str, Any]) -> list[Row]:
    """Measure relative errors of tail averages at the evaluation times."""
    process = process_of(cell["process"], cell["p"])
    alpha, gap = universal_step(process), process.chain.mixing_time()
    runs = [
        _learner(process, alpha),
        _learner(process, 2.0 * alpha),
        _learner(process, alpha, gap=gap),
    ]
    looks = looks_until(cell["samples"])
    scale, rows = process.error(np.zeros_like(process.theta_star)), []
    lengths = np.diff([0, *looks]).tolist()
    for done, piece in zip(looks, process.pieces(lengths, cell["seed"]), strict=True):
        for run in runs:
            run.update_many(*piece)
        once, twice, skipped = (run.average for run in runs)
        found = {AVERAGED: once, EXTRAPOLATED: 2.0 * once - twice, SKIP: skipped}
        rows += [
            {"method": name, "samples": done, "value": process.error(theta) / scale}
            for name, theta in found.items()
        ]
    return rows


def _bias(cell: dict[str, Any]) -> list[Row]:
    """Measure distances of averages to the least-squares fixed point of the same transitions.

    They are taken along the exact bias. Most of the sampling error is common to the average and
    the fixed point, and cancels.
    """
    process = process_of(cell["process"], cell["p"])
    steps, samples = cell["steps"], cell["samples"]
    burn_in = samples // 5
    first, rest = process.pieces([burn_in, samples - burn_in], cell["seed"])
    exact = TDLearner(process.features, process.gamma)
    exact.update_many(*rest)
    means, biases = {}, {}
    for alpha in steps:
        run = _learner(process, alpha, output="average")
        run.update_many(*first)
        before = burn_in * run.average
        run.update_many(*rest)
        means[alpha] = (samples * run.average - before) / (samples - burn_in) - exact.theta
        biases[alpha] = limit(process, alpha) - process.theta_star
    found = [(AVERAGED, alpha, means[alpha], biases[alpha]) for alpha in steps]
    found += [
        (EXTRAPOLATED, a, 2.0 * means[a] - means[twice], 2.0 * biases[a] - biases[twice])
        for a, twice in pairwise(steps)
    ]
    return [
        {
            "method": name,
            "alpha": alpha,
            "samples": samples,
            "value": float(along @ measured / np.linalg.norm(along)),
        }
        for name, alpha, measured, along in found
    ]


def _coverage(cell: dict[str, Any]) -> list[Row]:
    """Measure the share of the coordinates of θ* within their 95 % intervals, per stream."""
    process, alpha = process_of(cell["process"]), COVERED[cell["process"]]
    kinds = {AVERAGED: (1.0,), EXTRAPOLATED: (1.0, 2.0)}
    rows = []
    for stream in range(STREAMS):
        found = {
            name: RichardsonRomberg(
                lambda a: _learner(process, a, output="average"), alpha, multiples
            )
            for name, multiples in kinds.items()
        }
        seed = np.random.default_rng((cell["seed"], stream))
        for piece in process.pieces([cell["samples"] // BATCHES] * BATCHES, seed):
            for kind in found.values():
                kind.advance(lambda run: run.update_many(*piece))  # noqa: B023
        rows += [
            {
                "method": name,
                "alpha": alpha,
                "samples": cell["samples"],
                "stream": stream,
                "value": _covered(kind.interval(), process.theta_star),
            }
            for name, kind in found.items()
        ]
    return rows


def _covered(interval: Array, truth: Array) -> float:
    return float(np.mean((interval[:, 0] <= truth) & (truth <= interval[:, 1])))


def _control(cell: dict[str, Any]) -> list[Row]:
    """Measure the missing share of the best average reward at the evaluation times."""
    control = control_of(cell["process"])
    features = tabular(control.states) if cell["critic"] == CRITICS[0] else coordinates(control)
    looks, rows = looks_until(cell["samples"]), []
    for name, batch in GRADIENTS.items():
        law: Window = MLMC(None, horizon=T_MAX, seed=cell["seed"])
        gradient = law if batch is None else MiniBatch(batch)
        rewards = learning(control, features, gradient, looks, cell["seed"], RATE, RATE)
        rows += [
            {"method": name, "samples": done, "value": 1.0 - reward / control.best}
            for done, reward in zip(looks, rewards, strict=True)
        ]
    return rows
