"""Figure 1: suboptimality of the average iterate against samples observed, on a slow chain."""

import numpy as np

from mixfree.base.figures import label_ends, log_log, new_figure
from mixfree.base.terminal import Table
from mixfree.reproduce.engine.report import Claim, Report, Settings
from mixfree.reproduce.engine.rows import Figure, Row, curves, gather, where
from mixfree.reproduce.engine.statistics import bootstrap, ratio
from mixfree.reproduce.paper.problem import (
    CAVEAT,
    LIMIT,
    PAPER_METHODS,
    draw_limit,
    limits_of,
    measure_run,
    mixing_time,
    regression_cells,
)

FULL = Settings(samples=5_000_000, seeds=30, methods=PAPER_METHODS, p=(1e-4,), first_seed=6000)
QUICK = FULL.changed(samples=500_000, seeds=3, first_seed=0)
FIRST = 100  # samples before which no method has learnt anything

cells = regression_cells
measure = measure_run


def report(rows: list[Row], settings: Settings) -> Report:
    """Make a figure and a table for each p."""
    figures, tables, claims = {}, [], []
    for p in settings.p:
        title = f"p = {p:g}, mixing time {mixing_time(p):,}"
        name = "fig1" if len(settings.p) == 1 else f"fig1-{mixing_time(p)}"
        limits = limits_of(settings, p)
        figures[name] = _draw(where(rows, p=p), title, settings.samples * float(np.mean(limits)))
        ends = at_end(where(rows, p=p))
        lines = [
            (method, bootstrap(values), ratio(values, limits).text(".3g"))
            for method, values in {**ends, LIMIT: limits}.items()
        ]
        about = f"After {settings.samples:,} samples, {title}, {settings.seeds} seeds"
        head = ["method", "mean suboptimality, 95 %", "over the limit"]
        tables.append(Table(about, head, lines))
        if p == FULL.p[0] and set(PAPER_METHODS) <= ends.keys():
            claims += _claims(ends)
    return Report(tables, figures, claims, [CAVEAT])


def at_end(rows: list[Row]) -> dict[str, list[float]]:
    """Return the suboptimality of each method after the last sample, one value per seed."""
    return {
        method: values[max(values)]
        for method, values in gather(rows, "method", "samples", "suboptimality").items()
    }


def _claims(ends: dict[str, list[float]]) -> list[Claim]:
    """Return the paper's claims about Figure 1."""
    others = {f"over {name}": ratio(ends["mag"], ends[name]) for name in PAPER_METHODS[:-1]}
    pairs = (("mag", "adagrad"), ("sgd-mlmc", "sgd"), ("adagrad", "sgd"))
    return [
        Claim.below("MAG outperforms the other methods", others, 1.0, ".2f"),
        *(
            Claim.below(f"{a} is better than {b}", ratio(ends[a], ends[b]), 1.0, ".2f")
            for a, b in pairs
        ),
    ]


def _draw(rows: list[Row], title: str, limit: float) -> Figure:
    """Plot suboptimality against samples observed, and the limit over the samples."""
    figure, axes = new_figure(width=7.0)
    shown = [row for row in rows if row["samples"] >= FIRST] or rows
    curves(axes, shown, "method", "samples", "suboptimality")
    log_log(axes, "samples observed", "suboptimality of the average iterate")
    at = sorted({row["samples"] for row in shown})
    draw_limit(axes, at, np.divide(limit, at).tolist())
    axes.margins(x=0.0)
    above = f"Error after n samples, lower is better\n{title}"
    axes.set_title(above, loc="left", fontsize="medium")
    label_ends(axes)
    return figure
