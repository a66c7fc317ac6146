"""Beznosikov et al. (2023): steps that grow like √κ, and samples that grow like the mixing time.

A quadratic with curvatures from 1/κ to 1 and its minimum at 0, whose gradient has the noise ±σu by
the state of a two-state chain. "Samples" are per unit of the mixing time.
"""

from math import ceil, log2
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.figures import log_log, new_figure
from mixfree.core.later import RASGD
from mixfree.core.optimizer import Optimizer
from mixfree.gradients import MLMC, Gradient, MiniBatch
from mixfree.outputs import Last
from mixfree.reproduce.engine.report import Claim, Figure, Report, Row, Table, curves, gather, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import Estimate, estimate, exponent_over_seeds
from mixfree.reproduce.paper.problem import Stream, mixing_time
from mixfree.steps import Constant

__all__ = ["FULL", "QUICK", "cells", "make", "measure", "report"]

FULL = Settings(samples=1_500, seeds=30, p=(0.1, 0.03, 0.01, 0.003), first_seed=1000)
QUICK = FULL.changed(first_seed=0, samples=200, seeds=2, p=(0.1, 0.03))

DIMENSION = 20
CONDITIONS = (25.0, 100.0, 400.0, 1600.0)
CONDITION = 100.0  # κ of the runs that begin at the minimum
FAST = 0.1  # p of the runs that begin far away
FAR, NEAR = 1e-4, 1.0  # σ of the runs that begin far away, and of those at the minimum
SHRUNK = 1e-3  # factor on ‖x − x*‖² at which runs that begin far away end
RESAMPLES = 400  # resamples per bootstrap
OURS, PLAIN = "rasgd", "the same without acceleration"
KNOWN, FIXED, MEAN = "rasgd, B ∝ τ", "rasgd, B fixed", "plain batches of that size"
TOLERANCE = 0.1  # of a fitted exponent, for the short range and logarithmic factors


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return runs from far away at several κ, and runs from the minimum at several p."""
    seeds = settings.seed_numbers
    return [
        *(
            {"start": "far", "method": method, "condition": condition, "p": FAST, "seed": seed}
            for seed in seeds
            for condition in CONDITIONS
            for method in (OURS, PLAIN)
        ),
        *(
            {"start": "minimum", "method": method, "condition": CONDITION, "p": p, "seed": seed}
            | {"samples": settings.samples * mixing_time(p)}
            for seed in seeds
            for p in settings.p
            for method in (KNOWN, FIXED, MEAN)
        ),
    ]


def make(method: str, condition: float, p: float, seed: int) -> Optimizer:
    """Start a run from the point (1, …, 1)."""
    start = np.ones(DIMENSION)
    horizon = int(RASGD(start, condition=condition).gradient.horizon)  # type: ignore[attr-defined]
    time = 1 if method == FIXED else mixing_time(p)
    batch = ceil(time * log2(horizon))
    made = RASGD(start, condition=condition, batch=batch, seed=seed)
    law: Gradient = MLMC(None, horizon=horizon, batch=batch, seed=seed)
    if method == PLAIN:
        return Optimizer(start, law, Constant(1.0), output=Last())
    if method == MEAN:
        law = MiniBatch(round(MLMC(None, horizon=horizon, batch=batch).expected_samples))
        return Optimizer(start, law, made.step, output=Last())
    return made


def measure(cell: dict[str, Any]) -> list[Row]:
    """Count the steps until ‖x − x*‖² has shrunk, or average it over the last half."""
    opt = make(cell["method"], cell["condition"], cell["p"], cell["seed"])
    far = cell["start"] == "far"
    found = list(_squares(opt, cell, FAR if far else NEAR))
    row = {**cell, "mixing_time": mixing_time(cell["p"]), "steps": opt.steps}
    row["samples"] = opt.samples
    row["error"] = None if far else float(np.mean(found[len(found) // 2 :]))
    return [row]


def _squares(opt: Optimizer, cell: dict[str, Any], noise: float) -> Any:
    """Yield ‖x − x*‖² after each step, until the run ends."""
    curvature = np.geomspace(1.0 / cell["condition"], 1.0, DIMENSION)
    rng = np.random.default_rng([cell["seed"], 5])
    along = rng.standard_normal(DIMENSION)
    along *= noise / np.linalg.norm(along)
    states = Stream(1, cell["seed"], cell["p"])
    far = cell["start"] == "far"
    offset: Array = np.zeros(DIMENSION) if far else np.ones(DIMENSION)  # where the minimum is
    start = float(np.sum((opt.x - offset) ** 2))
    while True:
        signs = 2.0 * states.take(4096) - 1.0
        slope = curvature * (opt.x - offset)
        for sign in signs:
            if opt.take(slope + sign * along):
                away = opt.x - offset
                slope = curvature * away
                square = float(away @ away)
                yield square
                if far and square <= SHRUNK * start:
                    return
            if not far and opt.samples == cell["samples"]:
                return


def report(rows: list[Row], settings: Settings) -> Report:
    """Report the exponents in κ and in τ."""
    far = where(rows, start="far")
    near = where(rows, start="minimum")
    in_condition = {
        name: exponent_over_seeds(where(far, method=name), "condition", "steps")
        for name in (OURS, PLAIN)
    }
    in_time = {name: _exponent_of_means(where(near, method=name)) for name in (KNOWN, FIXED, MEAN)}
    seeds = settings.seed_numbers
    return Report(
        [
            Table(
                f"Steps until ‖x − x*‖² is {SHRUNK:g} of what it was, seeds {seeds[0]} to "
                f"{seeds[-1]}, p = {FAST:g}",
                ["method", *(f"κ = {c:g}" for c in CONDITIONS), "exponent in κ"],
                [
                    (name, *(f"{np.mean(v):,.0f}" for v in by.values()), in_condition[name].short())
                    for name, by in gather(far, "method", "condition", "steps").items()
                ],
            ),
            Table(
                f"Stationary E‖x − x*‖², κ = {CONDITION:g}, {settings.samples:,}τ samples",
                ["method", *(f"τ = {mixing_time(p)}" for p in settings.p), "exponent in τ"],
                [
                    (name, *map(estimate, by.values()), in_time[name].short())
                    for name, by in gather(near, "method", "mixing_time", "error").items()
                ],
            ),
        ],
        {"accelerated": _figure(far, near)},
        [
            Claim.below(
                "acceleration: the number of steps grows like √κ at most",
                in_condition[OURS],
                0.5 + TOLERANCE,
            ),
            Claim.below(
                "the same gradients without acceleration do not pass that check",
                in_condition[PLAIN],
                0.5 + TOLERANCE,
                passes=False,
            ),
            Claim.below(
                "with B ∝ τ the stationary error does not grow with τ, so that samples grow like τ",
                in_time[KNOWN],
                TOLERANCE,
            ),
            Claim.below(
                "B fixed does not pass that check", in_time[FIXED], TOLERANCE, passes=False
            ),
        ],
        [
            "Gradients ±σu by the state of the chain, σ = 1e-4 from afar and 1 at the minimum.",
            f"“{MEAN}” are as many samples per step as RASGD has on average.",
        ],
    )


def _exponent_of_means(rows: list[Row]) -> Estimate:
    """Fit the exponent in τ of the mean error, with a bootstrap interval over the seeds."""
    (by,) = gather(rows, "method", "mixing_time", "error").values()
    times, errors = list(by), np.array(list(by.values()))
    if len(times) < 2:
        return Estimate(float("nan"), float("inf"))
    rng = np.random.default_rng(0)
    picked = rng.integers(errors.shape[1], size=(RESAMPLES, errors.shape[1]))
    logs = np.log(np.vstack([errors.mean(axis=1), errors[:, picked].mean(axis=2).T]))
    slopes = np.polyfit(np.log(times), logs.T, 1)[0]
    return Estimate(float(slopes[0]), 1.96 * float(slopes[1:].std()))


def _figure(far: list[Row], near: list[Row]) -> Figure:
    figure, axes = new_figure(1, 2, width=9.5, height=3.6)
    curves(axes[0], far, "method", "condition", "steps", marker="o", markersize=4)
    log_log(axes[0], "condition number κ", "steps to a thousandth")
    curves(axes[1], near, "method", "mixing_time", "error", marker="o", markersize=4)
    log_log(axes[1], "mixing time τ", "stationary E‖x − x*‖²")
    axes[1].set_ylim(top=10.0 * axes[1].get_ylim()[1])  # room for the legend
    for place in axes:
        place.legend(frameon=False, fontsize="small")
    return figure
