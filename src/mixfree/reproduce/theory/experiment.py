"""Measurements of the lemmas and of Theorem 3.3, with their bounds."""

from typing import Any

from mixfree.base.checks import check_whole
from mixfree.reproduce.engine.report import Report, Row
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.theory.figure import draw
from mixfree.reproduce.theory.measures import MEASURES
from mixfree.reproduce.theory.report import claims, tables

__all__ = ["FULL", "QUICK", "cells", "measure", "report"]

FULL = Settings(samples=1 << 16, seeds=30, p=(0.5, 0.1, 1e-2, 1e-3, 1e-4), first_seed=1000)
QUICK = Settings(samples=1 << 10, seeds=4, p=(0.5, 0.1, 1e-2))


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per measurement, p and seed."""
    # The shortest run of the rate has 4/256 of the samples: at least one.
    check_whole(settings.samples, "samples", least=64)
    common = {"horizon": settings.samples}
    return [
        *(
            {"what": what, "p": p, "seed": seed, **common}
            for what in ("windows", "concentration", "bias", "regret")
            for p in settings.p
            for seed in settings.seed_numbers
        ),
        *({"what": "cost", "p": 0.5, "seed": seed, **common} for seed in settings.seed_numbers),
        *(
            {"what": "rate", "p": p, "seed": seed, "horizon": settings.samples * 4 // shorter}
            for p in settings.p
            for seed in settings.seed_numbers
            for shorter in (256, 64, 16, 4, 1)
        ),
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """Return the rows of one measurement: quantity, size and value."""
    return [
        {"quantity": quantity, "p": cell["p"], "seed": cell["seed"], "size": size, "value": value}
        for quantity, size, value in MEASURES[cell["what"]](cell)
    ]


def report(rows: list[Row], settings: Settings) -> Report:
    """Judge every claim, and draw six panels."""
    return Report(
        tables(rows, settings),
        {"theory": draw(rows, settings)},
        claims(rows, settings),
        ["Measured at the origin, from a known state; G is the largest gradient norm on the ball."],
    )
