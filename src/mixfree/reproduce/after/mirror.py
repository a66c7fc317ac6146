"""MAG on the simplex in three geometries: samples needed against the dimension.

A sample is a vector a of d random signs and y = a_s, where the state of a two-state chain selects
one of two coordinates s. Then F(x) = ½E(aᵀx − y)² is ½‖x − x*‖² plus a constant, where x* has ½ in
both coordinates. A gradient has d entries of the same size, so its Euclidean norm is √d times its
largest entry: the bounds are of order √(d/T) and √(log d/T), respectively.
"""

from typing import Any

import numpy as np

from mixfree.base.figures import log_log, new_figure, plain_ticks
from mixfree.core.methods import MAG
from mixfree.core.optimizer import Optimizer
from mixfree.domains import Entropic, Simplex
from mixfree.gradients import MLMC
from mixfree.reproduce.engine.report import Claim, Figure, Report, Row, Table, curves, gather, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import Estimate, estimate, exponent_over_seeds
from mixfree.reproduce.paper.problem import Stream, mixing_time
from mixfree.steps import AdaGradNorm

__all__ = ["FULL", "QUICK", "cells", "make", "measure", "report"]

FULL = Settings(samples=1_000_000, seeds=30, p=(0.01,), first_seed=1000)
QUICK = FULL.changed(first_seed=0, samples=20_000, seeds=2)

DIMENSIONS = (30, 100, 300)
LEFT = 0.5  # fraction of the initial F − F* at which a run ends
EUCLIDEAN, ENTROPIC, WRONG = "MAG", "MAG, entropic", "entropic, ‖g‖₂"
AT_ONCE = 64  # samples between two evaluations of the average
LIMIT = 0.5  # exponent in d between that of log d, about 0.22 here, and 1


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per method, dimension, p and seed."""
    return [
        {"method": method, "dimension": dimension, "p": p, "seed": seed, "most": settings.samples}
        for p in settings.p
        for seed in settings.seed_numbers
        for dimension in DIMENSIONS
        for method in (EUCLIDEAN, ENTROPIC, WRONG)
    ]


def make(method: str, dimension: int, seed: int) -> Optimizer:
    """Start a run at the uniform point; ``WRONG`` uses the Euclidean norm in an entropic step."""
    start = np.full(dimension, 1.0 / dimension)
    if method == WRONG:
        law = MLMC(seed=seed)
        return Optimizer(start, law, AdaGradNorm(1.0), Simplex(), mirror=Entropic())
    mirror = "entropic" if method == ENTROPIC else None
    return MAG(start, domain=Simplex(), mirror=mirror, seed=seed)


def measure(cell: dict[str, Any]) -> list[Row]:
    """Count the samples until F − F* at the average has halved."""
    size = cell["dimension"]
    opt = make(cell["method"], size, cell["seed"])
    signs = np.random.default_rng([cell["seed"], 7])
    states = Stream(1, cell["seed"], cell["p"])
    solution = np.zeros(size)
    solution[:2] = 0.5
    begun = np.sum((opt.x - solution) ** 2)
    while opt.samples < cell["most"]:
        bits = signs.integers(2, size=(AT_ONCE, size), dtype=np.int8)
        for a, state in zip(2.0 * bits - 1.0, states.take(AT_ONCE), strict=True):
            opt.take((a @ opt.x - a[state]) * a)
        if np.sum((opt.average - solution) ** 2) <= LEFT * begun:
            break
    row = {name: cell[name] for name in ("method", "dimension", "p", "seed")}
    return [{**row, "samples": opt.samples}]


def report(rows: list[Row], settings: Settings) -> Report:
    """Report the growth of the samples with the dimension."""
    found = {
        (p, name): where(rows, p=p, method=name)
        for p in settings.p
        for name in (EUCLIDEAN, ENTROPIC, WRONG)
    }
    growth = {key: exponent_over_seeds(of, "dimension", "samples") for key, of in found.items()}
    seeds = settings.seed_numbers
    cut = sum(row["samples"] >= settings.samples for row in rows)
    return Report(
        [
            Table(
                f"Samples until F − F* at the average has halved, seeds {seeds[0]} to {seeds[-1]}",
                ["method", "p", "τ", *(f"d = {d}" for d in DIMENSIONS), "exponent in d"],
                [
                    (
                        name,
                        f"{p:g}",
                        mixing_time(p),
                        *(_shown(v) for v in gather(of, "p", "dimension", "samples")[p].values()),
                        growth[p, name].short(),
                    )
                    for (p, name), of in found.items()
                ],
            )
        ],
        {"mirror": _figure(rows, settings)},
        [claim for p in settings.p for claim in _claims(p, growth)],
        [f"{cut} of {len(rows)} runs were cut off at {settings.samples:,} samples."] if cut else [],
    )


def _shown(samples: list[int]) -> str:
    found = estimate(samples)
    return f"{found.mean:,.0f} ± {found.half:,.0f}"


def _claims(p: float, growth: dict[tuple[float, str], Estimate]) -> list[Claim]:
    others = [growth[p, name] for name in (EUCLIDEAN, WRONG)]
    verdicts = [fit.below(LIMIT) for fit in others]
    return [
        Claim.below(
            f"p = {p:g}: entropic MAG needs samples like log d: exponent below {LIMIT:g}",
            growth[p, ENTROPIC],
            LIMIT,
        ),
        Claim(
            f"p = {p:g}: MAG, and entropic steps with ‖g‖₂, do not pass that check",
            " and ".join(fit.short() for fit in others),
            None if None in verdicts else not any(verdicts),
        ),
    ]


def _figure(rows: list[Row], settings: Settings) -> Figure:
    figure, axes = new_figure(1, len(settings.p), width=9.5, height=3.6, sharey=True, squeeze=False)
    for place, p in zip(axes[0], settings.p, strict=True):
        found = where(rows, p=p)
        curves(place, found, "method", "dimension", "samples", marker="o", markersize=4)
        log_log(place, "dimension d", "samples to half" if p == settings.p[0] else "")
        plain_ticks(place.xaxis)
        place.set_title(f"p = {p:g}", fontsize="medium")
    axes[0][0].legend(frameon=False, fontsize="small")
    return figure
