"""Figure 1: suboptimality of the average iterate against samples observed, on a slow chain."""

import math

from mixfree.base.figures import label_ends, log_log, new_figure
from mixfree.reproduce.engine.report import Claim, Figure, Report, Row, Table, curves, gather, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import (
    Estimate,
    bootstrap_mean,
    estimate,
    paired_ratio,
    spread,
)
from mixfree.reproduce.paper.problem import mixing_time
from mixfree.reproduce.paper.runs import CAVEAT, PAPER_METHODS, measure_run, regression_cells

__all__ = ["FULL", "QUICK", "at_end", "cells", "draw", "final", "measure", "report"]

FULL = Settings(samples=5_000_000, seeds=30, methods=PAPER_METHODS, p=(1e-4,), first_seed=1000)
QUICK = FULL.changed(samples=500_000, seeds=3, first_seed=0)

FIRST = 100  # samples before which no method has learnt anything

cells = regression_cells
measure = measure_run


def report(rows: list[Row], settings: Settings) -> Report:
    """Make a figure and a table for each p."""
    figures, tables, claims = {}, [], []
    for p in settings.p:
        at_p = where(rows, p=p)
        title = f"p = {p:g}, mixing time {mixing_time(p):,}"
        name = "fig1" if len(settings.p) == 1 else f"fig1-{mixing_time(p)}"
        figures[name] = draw(at_p, title)
        ends = at_end(at_p)
        best = min(estimate(values).mean for values in ends.values())
        tables.append(
            Table(
                f"After {settings.samples:,} samples, {title}, {settings.seeds} seeds",
                [
                    "method",
                    "suboptimality, 95 %",
                    "95 % by bootstrap",
                    "median (10 % to 90 %)",
                    "ratio to the best",
                ],
                [(name, *_described(values, best)) for name, values in ends.items()],
            )
        )
        if p == FULL.p[0] and set(PAPER_METHODS) <= ends.keys():
            claims += _claims(ends)
    return Report(tables, figures, claims, [CAVEAT])


def draw(rows: list[Row], title: str) -> Figure:
    """Plot suboptimality against samples observed."""
    figure, axes = new_figure(width=7.0)
    shown = [row for row in rows if row["samples"] >= FIRST] or rows
    curves(axes, shown, "method", "samples", "suboptimality")
    log_log(axes, "samples observed", "suboptimality of the average iterate")
    axes.margins(x=0.0)
    axes.set_title(
        f"Error after n samples, lower is better\n{title}", loc="left", fontsize="medium"
    )
    label_ends(axes)
    return figure


def _described(values: list[float], best: float) -> tuple[object, ...]:
    """Return the mean with two intervals, the median, and the ratio of the mean to the best."""
    mean = estimate(values)
    return mean, bootstrap_mean(values).ends(), spread(values), f"{mean.mean / best:.2f}"


def final(rows: list[Row]) -> dict[str, Estimate]:
    """Estimate the suboptimality of each method after the last sample."""
    return {method: estimate(values) for method, values in at_end(rows).items()}


def at_end(rows: list[Row]) -> dict[str, list[float]]:
    """Return the suboptimality of each method after the last sample, one value per seed."""
    return {
        method: values[max(values)]
        for method, values in gather(rows, "method", "samples", "suboptimality").items()
    }


def _claims(ends: dict[str, list[float]]) -> list[Claim]:
    """Return the paper's claims about Figure 1."""
    last = {name: estimate(ends[name]) for name in PAPER_METHODS}
    mag = last.pop("mag")
    nearest = min(last, key=lambda name: last[name].mean)
    below = all(mag.high < found.low for found in last.values())
    return [
        Claim(
            "MAG outperforms the other methods: its interval is below all of theirs",
            f"mag {mag}; {nearest} {last[nearest]}",
            below if mag.half < math.inf else None,
        ),
        *(
            Claim(f"{name} is better than {other}", f"ratio {ratio}", ratio.below(1.0))
            for name, other in (("mag", "adagrad"), ("sgd-mlmc", "sgd"), ("adagrad", "sgd"))
            for ratio in [paired_ratio(ends[name], ends[other])]
        ),
    ]
