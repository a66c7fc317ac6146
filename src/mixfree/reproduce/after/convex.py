"""Acceleration without strong convexity: AC-SA (Lan 2012) with random batches of 2^J·B samples.

A quadratic with curvatures from 1e-6 to 1 whose minimum is at distance 1 in every coordinate, so
that gradient descent comes no closer than about 1/t. Its gradient has the noise ±σu by the state of
a two-state chain.
"""

from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.figures import log_log, new_figure
from mixfree.core.later import ACSA
from mixfree.core.optimizer import Optimizer
from mixfree.gradients import MLMC
from mixfree.outputs import Last
from mixfree.reproduce.engine.report import Claim, Figure, Report, Row, Table, curves, gather, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import exponent_of_mean, spread
from mixfree.reproduce.paper.problem import Stream, mixing_time
from mixfree.steps import Constant

__all__ = ["FULL", "QUICK", "cells", "make", "measure", "report"]

FULL = Settings(samples=1_000, seeds=30, p=(0.1, 0.03, 0.01, 0.003), first_seed=1000)
QUICK = FULL.changed(first_seed=0, samples=200, seeds=2, p=(0.1, 0.03))

CURVATURE = np.geomspace(1e-6, 1.0, 25)
FAST = 0.1  # p of the runs along which the gap is followed
LONG = 16  # times as many steps in the runs that are followed with noise
FAINT, LOUD = 1e-7, 0.1  # σ of the runs with little noise and of the others
HORIZON = 4  # levels J ≤ 2: about 3B samples per step
EXACT, DESCENT = "ac-sa, growing steps", "the same without acceleration"
KNOWN, FIXED = "ac-sa, B = 2τ", "ac-sa, B = 2"
GROWING = "ac-sa, B = 2τ, growing steps"
TOLERANCE = 0.1  # of a fitted exponent


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Runs with little noise, long runs with noise, and runs with noise at several p.

    ``settings.samples`` counts steps here.
    """
    steps = settings.samples
    parts = {
        "little noise": (FAINT, (EXACT, DESCENT), (FAST,), steps),
        "noise": (LOUD, (KNOWN, GROWING), (FAST,), LONG * steps),
        "mixing time": (LOUD, (KNOWN, FIXED), settings.p, steps),
    }
    return [
        {"part": part, "noise": noise, "method": method, "p": p, "seed": seed, "most": most}
        for part, (noise, methods, chains, most) in parts.items()
        for seed in settings.seed_numbers
        for p in chains
        for method in methods
    ]


def make(method: str, p: float, seed: int) -> Optimizer:
    """Start a run at 0, with L = 1."""
    start, batch = np.zeros(CURVATURE.size), 2 * (1 if method == FIXED else mixing_time(p))
    if method == DESCENT:
        law = MLMC(None, horizon=HORIZON, batch=batch, seed=seed)
        return Optimizer(start, law, Constant(1.0), output=Last())
    growing = None if method in (EXACT, GROWING) else 10
    return ACSA(start, growing=growing, batch=batch, horizon=HORIZON, seed=seed)


def measure(cell: dict[str, Any]) -> list[Row]:
    """The gap f − f* at steps that double, up to the last."""
    opt, most = make(cell["method"], cell["p"], cell["seed"]), cell["most"]
    marks = {most >> k for k in range(most.bit_length()) if most >> k >= 8}
    gaps: dict[int, float] = {}
    rng = np.random.default_rng([cell["seed"], 6])
    along = rng.standard_normal(CURVATURE.size)
    along *= cell["noise"] / np.linalg.norm(along)
    states = Stream(1, cell["seed"], cell["p"])
    slope = -CURVATURE
    while opt.steps < most:
        for sign in 2.0 * states.take(4096) - 1.0:
            if opt.take(slope + sign * along):
                away: Array = opt.x - 1.0
                slope = CURVATURE * away
                if opt.steps in marks:
                    gaps[opt.steps] = 0.5 * float(slope @ away)
                if opt.steps == most:
                    break
    time = mixing_time(cell["p"])
    return [{**cell, "mixing_time": time, "steps": t, "gap": gap} for t, gap in gaps.items()]


def report(rows: list[Row], settings: Settings) -> Report:
    """Exponents of the mean gap in the steps and in the mixing time."""
    faint, loud = where(rows, part="little noise"), where(rows, part="noise")
    final = where(rows, part="mixing time", steps=settings.samples)
    runs = {name: where(faint, method=name) for name in (EXACT, DESCENT)}
    runs |= {name: where(loud, method=name) for name in (KNOWN, GROWING)}
    in_steps = {name: exponent_of_mean(own, "steps", "gap") for name, own in runs.items()}
    in_time = {
        name: exponent_of_mean(where(final, method=name), "mixing_time", "gap")
        for name in (KNOWN, FIXED)
    }
    seeds = f"seeds {settings.seed_numbers[0]} to {settings.seed_numbers[-1]}"
    return Report(
        [
            Table(
                f"f − f*, τ = {mixing_time(FAST)}, {seeds}: median (10 % to 90 %)",
                ["method", "σ", "steps", "first", "last", "exponent in the steps"],
                [
                    (
                        name,
                        f"{own[0]['noise']:g}",
                        f"{ends[0]:,} to {ends[1]:,}",
                        *(spread([r["gap"] for r in own if r["steps"] == t]) for t in ends),
                        in_steps[name].short(),
                    )
                    for name, own in runs.items()
                    for ends in [(min(r["steps"] for r in own), max(r["steps"] for r in own))]
                ],
            ),
            Table(
                f"f − f* after {settings.samples:,} steps, σ = {LOUD:g}, {seeds}: "
                "median (10 % to 90 %)",
                ["method", *(f"τ = {mixing_time(p)}" for p in settings.p), "exponent in τ"],
                [
                    (name, *map(spread, by.values()), in_time[name].short())
                    for name, by in gather(final, "method", "mixing_time", "gap").items()
                ],
            ),
        ],
        {"convex": _figure(faint, loud, final)},
        [
            Claim.below(
                "with little noise, the gap falls at least like 1/t²",
                in_steps[EXACT],
                -2.0 + TOLERANCE,
            ),
            Claim.below(
                "the same gradients without acceleration do not pass that check",
                in_steps[DESCENT],
                -2.0 + TOLERANCE,
                passes=False,
            ),
            Claim.below(
                "with noise, the gap falls at least like 1/√t", in_steps[KNOWN], -0.5 + TOLERANCE
            ),
            Claim.below(
                "steps that grow without end do not pass that check",
                in_steps[GROWING],
                -0.5 + TOLERANCE,
                passes=False,
            ),
            Claim.below(
                "with B = 2τ the gap after a number of steps does not grow with τ",
                in_time[KNOWN],
                TOLERANCE,
            ),
            Claim.below("B = 2 does not pass that check", in_time[FIXED], TOLERANCE, passes=False),
        ],
        ["Exponents are those of the mean gap, with intervals from a bootstrap over the seeds."],
    )


def _figure(faint: list[Row], loud: list[Row], final: list[Row]) -> Figure:
    figure, axes = new_figure(1, 3, width=12.0, height=3.6)
    titles = (f"Noise σ = {FAINT:g}", f"Noise σ = {LOUD:g}", "The same, by mixing time")
    places = (("steps", "steps t"), ("steps", "steps t"), ("mixing_time", "mixing time τ"))
    for place, rows, title, (x, label) in zip(
        axes, (faint, loud, final), titles, places, strict=True
    ):
        curves(place, rows, "method", x, "gap", marker="o", markersize=4)
        log_log(place, label, "f − f*")
        place.set_title(title)
        place.set_ylim(top=30.0 * place.get_ylim()[1])  # room for the legend
        place.legend(frameon=False, fontsize="small", loc="upper right")
    return figure
