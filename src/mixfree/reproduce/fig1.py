"""Figure 1: suboptimality of the average iterate against samples observed, on a slow chain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mixfree.base.figures import log_log, new_figure
from mixfree.reproduce.problem import mixing_time
from mixfree.reproduce.report import CAVEAT, Claim, Report, Row, Table, curves, gather
from mixfree.reproduce.runs import PAPER_METHODS, measure_run, regression_cells
from mixfree.reproduce.settings import Settings
from mixfree.reproduce.statistics import Estimate, estimate, paired_ratio

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FULL = Settings(samples=5_000_000, seeds=5, methods=PAPER_METHODS, p=(1e-4,))
QUICK = FULL.changed(samples=500_000, seeds=3)

cells = regression_cells
measure = measure_run


def report(rows: list[Row], settings: Settings) -> Report:
    """A figure and a table for each p."""
    figures, tables, claims = {}, [], []
    for p in settings.p:
        at_p = [row for row in rows if row["p"] == p]
        title = f"p = {p:g}, mixing time {mixing_time(p):,}"
        name = "fig1" if len(settings.p) == 1 else f"fig1-{mixing_time(p)}"
        figures[name] = draw(at_p, title)
        last = final(at_p)
        best = min(found.mean for found in last.values())
        tables.append(
            Table(
                f"After {settings.samples:,} samples, {title}, {settings.seeds} seeds",
                ["method", "suboptimality, 95 %", "times the best"],
                [(name, found, f"{found.mean / best:.2f}") for name, found in last.items()],
            )
        )
        if p == FULL.p[0] and set(PAPER_METHODS) <= last.keys():
            claims += paper_claims(at_end(at_p))
    return Report(tables, figures, claims, [CAVEAT])


def draw(rows: list[Row], title: str) -> Figure:
    """Suboptimality against samples observed."""
    figure, axes = new_figure()
    curves(axes, rows, "method", "samples", "suboptimality")
    log_log(axes, "samples observed", "suboptimality of the average iterate")
    axes.set_title(title, fontsize="medium")
    axes.legend(frameon=False)
    return figure


def final(rows: list[Row]) -> dict[str, Estimate]:
    """Suboptimality of each method after its last sample."""
    return {method: estimate(values) for method, values in at_end(rows).items()}


def at_end(rows: list[Row]) -> dict[str, list[float]]:
    """Suboptimality of each method after its last sample, one value a seed."""
    return {
        method: values[max(values)]
        for method, values in gather(rows, "method", "samples", "suboptimality").items()
    }


def paper_claims(ends: dict[str, list[float]]) -> list[Claim]:
    """What the paper says of its Figure 1."""
    last = {name: estimate(ends[name]) for name in PAPER_METHODS}
    mag = last.pop("mag")
    nearest = min(last, key=lambda name: last[name].mean)
    apart = all(mag.high < found.low for found in last.values())
    return [
        Claim(
            "MAG outperforms the other methods, its interval apart from theirs",
            f"mag {mag}; {nearest} {last[nearest]}",
            apart if mag.half < math.inf else None,
        ),
        *(
            Claim(f"{name} is better than {other}", f"{ratio} of it", ratio.below_one)
            for name, other in (("mag", "adagrad"), ("sgd-mlmc", "sgd"), ("adagrad", "sgd"))
            for ratio in [paired_ratio(ends[name], ends[other])]
        ),
    ]
