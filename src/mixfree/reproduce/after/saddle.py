"""Extragradient on a matrix game: rock, paper, scissors, lizard, Spock.

Each beats two of the others, so A is circulant and skew-symmetric, and the uniform mixture is the
equilibrium. The payoffs follow a two-state chain, A ± N, and the operator is F(x) = (A ± N + μI)x
on the simplex; μ = 0 is the game itself, μ > 0 makes it strongly monotone with the same solution.
"Samples" are per unit of the mixing time.
"""

from math import sqrt
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.figures import log_log, new_figure, plain_ticks
from mixfree.core.later import REG
from mixfree.core.optimizer import Optimizer
from mixfree.domains import Simplex
from mixfree.gradients import MLMC
from mixfree.reproduce.engine.report import Claim, Figure, Report, Row, Table, curves, gather, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import estimate, exponent_over_seeds
from mixfree.reproduce.paper.problem import Stream, mixing_time
from mixfree.steps import Constant

__all__ = ["FULL", "PAYOFFS", "QUICK", "cells", "measure", "report"]

FULL = Settings(samples=16_000, seeds=30, p=(0.1, 0.03), first_seed=1000)
QUICK = FULL.changed(first_seed=0, samples=640, seeds=2)

WINS = np.array([0.0, 1.0, -1.0, 1.0, -1.0])
PAYOFFS: Array = np.array([np.roll(WINS, k) for k in range(5)])
LIPSCHITZ = float(np.linalg.norm(PAYOFFS, 2))
START, SOLUTION = np.array([0.6, 0.1, 0.1, 0.1, 0.1]), np.full(5, 0.2)
CONDITIONS = (5.0, 10.0, 20.0, 40.0)  # L/μ
QUIET, LOUD = 0.01, 1.0  # size of N in the strongly monotone runs, and in the game itself
SHRUNK = 1e-2  # factor on ‖x − x*‖² at which strongly monotone runs end
SHORTER = (64, 16, 4, 1)  # divisors of the samples that give the lengths of the game's runs
REGULAR, DESCENT = "reg", "descent"
EUCLIDEAN, ENTROPIC = "euclidean", "entropic"
TOLERANCE = 0.15  # of a fitted exponent, for the short range and logarithmic factors


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return strongly monotone runs at several κ, and runs of the game of several lengths."""
    seeds = settings.seed_numbers
    return [
        *(
            {"game": False, "method": method, "condition": condition, "p": 0.1, "seed": seed}
            for seed in seeds
            for condition in CONDITIONS
            for method in (REGULAR, DESCENT)
        ),
        *(
            {"game": True, "method": method, "p": p, "seed": seed}
            | {"samples": settings.samples * mixing_time(p) // shorter}
            for seed in seeds
            for p in settings.p
            for method in (EUCLIDEAN, ENTROPIC)
            for shorter in SHORTER
        ),
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """Count the steps to the solution, or measure the exploitability of the average."""
    row = {**cell, "mixing_time": mixing_time(cell["p"])}
    if cell["game"]:
        opt = _game(cell)
        _play(opt, cell, 0.0, LOUD)
        return [{**row, "exploitability": float(np.max(-PAYOFFS @ opt.average))}]
    opt = _monotone(cell)
    _play(opt, cell, LIPSCHITZ / cell["condition"], QUIET)
    return [{**row, "samples": opt.samples, "steps": opt.steps}]


def _monotone(cell: dict[str, Any]) -> Optimizer:
    """Start extragradient with step 1/(2L), or descent with μ/L², its largest stable step."""
    law = {"horizon": 16, "batch": mixing_time(cell["p"]), "seed": cell["seed"]}
    if cell["method"] == REGULAR:
        return REG(START, domain=Simplex(), alpha=0.5 / LIPSCHITZ, **law)
    step = Constant(1.0 / (cell["condition"] * LIPSCHITZ))
    return Optimizer(START, MLMC(None, **law), step, Simplex())


def _game(cell: dict[str, Any]) -> Optimizer:
    """Start extragradient with the theory's step, of order √(τ/samples)."""
    time = mixing_time(cell["p"])
    step = min(0.5, sqrt(time / cell["samples"])) / LIPSCHITZ
    step *= 1.0 if cell["method"] == EUCLIDEAN else 5.0  # an entropic step moves x by x γg
    return REG(
        START,
        domain=Simplex(),
        alpha=step,
        horizon=16,
        batch=time,
        mirror="entropic" if cell["method"] == ENTROPIC else None,
        seed=cell["seed"],
    )


def _play(opt: Optimizer, cell: dict[str, Any], mu: float, noise: float) -> None:
    """Feed the operator of each sample, for all samples or until x is near the solution."""
    rng = np.random.default_rng([cell["seed"], 6])
    other = rng.standard_normal((5, 5))
    other -= other.T
    other *= noise / np.linalg.norm(other, 2)
    operators = [PAYOFFS + sign * other + mu * np.eye(5) for sign in (-1.0, 1.0)]
    states = Stream(1, cell["seed"], cell["p"])
    near = SHRUNK * float(np.sum((START - SOLUTION) ** 2))
    while True:
        told = [operator @ opt.x for operator in operators]
        for state in states.take(4096).tolist():
            if opt.take(told[state]):
                told = [operator @ opt.x for operator in operators]
                away = opt.x - SOLUTION
                if not cell["game"] and away @ away <= near:
                    return
            if cell["game"] and opt.samples == cell["samples"]:
                return


def report(rows: list[Row], settings: Settings) -> Report:
    """Report the exponents in κ and in the samples."""
    monotone = [row for row in rows if not row["game"]]
    game = [row for row in rows if row["game"]]
    in_condition = {
        name: exponent_over_seeds(where(monotone, method=name), "condition", "steps")
        for name in (REGULAR, DESCENT)
    }
    series = [{**r, "series": f"{r['method']}, p = {r['p']:g}"} for r in game]
    in_samples = {
        name: exponent_over_seeds(where(series, series=name), "samples", "exploitability")
        for name in dict.fromkeys(r["series"] for r in series)
    }
    times = [settings.samples // shorter for shorter in SHORTER]
    whole = [r for r in game if r["samples"] == settings.samples * r["mixing_time"]]
    in_time = {
        name: exponent_over_seeds(where(whole, method=name), "mixing_time", "exploitability")
        for name in (EUCLIDEAN, ENTROPIC)
    }
    slowest = max(in_samples.values(), key=lambda fit: fit.mean)
    fastest = max(in_time.values(), key=lambda fit: fit.mean)
    seeds = settings.seed_numbers
    return Report(
        [
            Table(
                f"Steps until ‖x − x*‖² is {SHRUNK:g} of what it was, seeds {seeds[0]} to "
                f"{seeds[-1]}; an extragradient step counts twice",
                ["method", *(f"L/μ = {c:g}" for c in CONDITIONS), "exponent"],
                [
                    (name, *(f"{np.mean(v):,.0f}" for v in by.values()), in_condition[name].short())
                    for name, by in gather(monotone, "method", "condition", "steps").items()
                ],
            ),
            Table(
                "The game itself: what the best answer to the average gains",
                ["method", *(f"{n:,}τ samples" for n in times), "exponent"],
                [
                    (name, *map(estimate, by.values()), in_samples[name].short())
                    for name, by in gather(series, "series", "samples", "exploitability").items()
                ],
            ),
        ],
        {"saddle": _figure(monotone, series)},
        [
            Claim.below(
                "extragradient: the number of steps grows like L/μ at most",
                in_condition[REGULAR],
                1.0 + TOLERANCE,
            ),
            Claim.below(
                "descent on the same gradients does not pass that check",
                in_condition[DESCENT],
                1.0 + TOLERANCE,
                passes=False,
            ),
            Claim(
                "the game: the gain falls like T^−½ at least, in both geometries and at every p",
                f"slowest {slowest.short()}",
                slowest.below(-0.5 + TOLERANCE),
            ),
            Claim(
                "the game: at the same number of mixing times, it does not grow with τ",
                f"largest exponent {fastest.short()}",
                fastest.below(TOLERANCE),
            ),
        ],
        [f"Payoffs A ± N by the state of the chain, ‖N‖ = {QUIET:g} with μ, {LOUD:g} in the game."],
    )


def _figure(monotone: list[Row], game: list[Row]) -> Figure:
    figure, axes = new_figure(1, 2, width=9.5, height=3.6)
    curves(axes[0], monotone, "method", "condition", "steps", marker="o", markersize=4)
    log_log(axes[0], "condition number L/μ", "steps to a hundredth")
    plain_ticks(axes[0].xaxis)
    curves(axes[1], game, "series", "samples", "exploitability", marker="o", markersize=4)
    log_log(axes[1], "samples", "gain of the best answer")
    plain_ticks(axes[1].yaxis)
    for place in axes:
        place.legend(frameon=False, fontsize="small")
    return figure
