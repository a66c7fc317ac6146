"""Figure 2: suboptimality of the last average iterate against the mixing time."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mixfree.base.figures import label_ends, log_log, new_figure
from mixfree.reproduce.engine.report import Claim, Report, Row, Table, curves, every, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import (
    Ratio,
    bootstrap_mean,
    estimate,
    paired_ratio,
    spread,
)
from mixfree.reproduce.paper.fig1 import at_end
from mixfree.reproduce.paper.problem import mixing_time
from mixfree.reproduce.paper.runs import CAVEAT, PAPER_METHODS, measure_run, regression_cells

__all__ = ["FULL", "QUICK", "cells", "measure", "report"]

FULL = Settings(
    samples=5_000_000,
    seeds=30,
    methods=PAPER_METHODS,
    p=(0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-5),
    first_seed=1000,
)
QUICK = FULL.changed(samples=500_000, seeds=3, first_seed=0)

cells = regression_cells


def measure(cell: dict[str, Any]) -> list[Row]:
    """Do the run of a cell; return one row, for its end."""
    return measure_run(cell)[-1:]


def report(rows: list[Row], settings: Settings) -> Report:
    """Make one figure, and a table with one line per mixing time."""
    rows = [{**row, "mixing_time": mixing_time(row["p"])} for row in rows]
    figure, axes = new_figure(width=7.0)
    curves(axes, rows, "method", "mixing_time", "suboptimality", marker="o", markersize=4)
    log_log(axes, "exact mixing time", f"suboptimality after {settings.samples:,} samples")
    axes.set_title("Error against the mixing time, lower is better", loc="left", fontsize="medium")
    label_ends(axes)
    ends = {p: at_end(where(rows, p=p)) for p in settings.p}
    about = f"suboptimality after {settings.samples:,} samples, {settings.seeds} seeds"
    tables = [
        _table(about.capitalize() + ", 95 %", "", estimate, ends),
        _table(f"Median (10 % to 90 %) of the {about}", ", median", spread, ends),
        _table(
            f"The same means with 95 % by bootstrap: {about}",
            ", bootstrap",
            lambda values: bootstrap_mean(values).ends(),
            ends,
        ),
    ]
    complete = set(PAPER_METHODS) <= set(settings.methods)
    return Report(tables, {"fig2": figure}, _claims(ends) if complete else [], [CAVEAT])


def _table(
    title: str,
    kind: str,
    described: Callable[[list[float]], object],
    ends: dict[float, dict[str, list[float]]],
) -> Table:
    """Return a table with one line per mixing time and one column per method."""
    methods = list(next(iter(ends.values())))
    return Table(
        title,
        ["p", "mixing time", *(f"{name}{kind}" for name in methods)],
        [
            (f"{p:g}", f"{mixing_time(p):,}", *(described(found[name]) for name in methods))
            for p, found in ends.items()
        ],
    )


def _claims(ends: dict[float, dict[str, list[float]]]) -> list[Claim]:
    """Return the paper's claims about Figure 2."""
    slow = [p for p in ends if p <= 1e-3]
    fast = [p for p in ends if p >= 1e-2]

    def ratios(name: str, *others: str, at: Iterable[float]) -> dict[float, list[Ratio]]:
        return {p: [paired_ratio(ends[p][name], ends[p][other]) for other in others] for p in at}

    claims = [
        _below_one(
            "MAG outperforms the others at large mixing times (p ≤ 1e-3)",
            ratios("mag", *PAPER_METHODS[:-1], at=slow),
        ),
        _below_one(
            "AdaGrad is better than MAG at small mixing times (p ≥ 0.01)",
            ratios("adagrad", "mag", at=fast),
        ),
        _below_one("MAG is better than SGD-MLMC at every p", ratios("mag", "sgd-mlmc", at=ends)),
    ]
    if {0.5, 1e-4} <= ends.keys():
        growth = {name: np.divide(ends[1e-4][name], ends[0.5][name]) for name in PAPER_METHODS}
        others = ("adagrad", "sgd")
        claims.append(
            Claim(
                "MAG degrades more gracefully (growth from p = 0.5 to 1e-4)",
                ", ".join(
                    f"{name} ×{paired_ratio(growth[name], 1.0).value:,.0f}"
                    for name in ("mag", *others)
                ),
                every(paired_ratio(growth["mag"], growth[name]).below(1.0) for name in others),
            )
        )
    return [claim for claim in claims if claim.measured]


def _below_one(text: str, ratios: dict[float, list[Ratio]]) -> Claim:
    """Claim that all ratios are below one, showing the largest at each p."""
    largest = {p: max(found, key=lambda ratio: ratio.value) for p, found in ratios.items()}
    return Claim(
        text,
        ", ".join(f"{ratio} at {p:g}" for p, ratio in largest.items()),
        every(ratio.below(1.0) for found in ratios.values() for ratio in found),
    )
