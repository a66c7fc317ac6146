"""Figure 2: suboptimality of the last average iterate against the mixing time."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from mixfree.base.figures import label_ends, log_log, new_figure
from mixfree.reproduce.engine.report import DOTS, Claim, Report, Row, curves, grid, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import bootstrap, estimate, paired_ratio, spread
from mixfree.reproduce.paper.fig1 import at_end
from mixfree.reproduce.paper.problem import mixing_time
from mixfree.reproduce.paper.runs import CAVEAT, PAPER_METHODS, measure_run, regression_cells

__all__ = ["FULL", "QUICK", "cells", "measure", "report"]

SWITCHING = (0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-5)
FULL = Settings(samples=5_000_000, seeds=30, methods=PAPER_METHODS, p=SWITCHING, first_seed=1000)
QUICK = FULL.changed(samples=500_000, seeds=3, first_seed=0)

Ends = dict[float, dict[str, list[float]]]  # by p and method, one value per seed

cells = regression_cells


def measure(cell: dict[str, Any]) -> list[Row]:
    """Do the run of a cell; return one row, for its end."""
    return measure_run(cell)[-1:]


def report(rows: list[Row], settings: Settings) -> Report:
    """Make one figure, and tables with one line per mixing time."""
    rows = [{**row, "mixing_time": mixing_time(row["p"])} for row in rows]
    figure, axes = new_figure(width=7.0)
    curves(axes, rows, "method", "mixing_time", "suboptimality", **DOTS)
    log_log(axes, "exact mixing time", f"suboptimality after {settings.samples:,} samples")
    axes.set_title("Error against the mixing time, lower is better", loc="left", fontsize="medium")
    label_ends(axes)
    ends = {p: at_end(where(rows, p=p)) for p in settings.p}
    about = f"suboptimality after {settings.samples:,} samples, {settings.seeds} seeds"
    tables = [
        grid(
            title,
            ["p", "mixing time"],
            {
                (f"{p:g}", f"{mixing_time(p):,}"): {f"{name}{kind}": v for name, v in found.items()}
                for p, found in ends.items()
            },
            described,
        )
        for title, kind, described in (
            (f"{about.capitalize()}, 95 %", "", lambda v: estimate(v).plus_minus()),
            (f"Median (10 % to 90 %) of the {about}", ", median", spread),
            (
                f"The same means with 95 % by bootstrap: {about}",
                ", bootstrap",
                lambda v: bootstrap(v).ends(),
            ),
        )
    ]
    complete = set(PAPER_METHODS) <= set(settings.methods)
    return Report(tables, {"fig2": figure}, _claims(ends) if complete else [], [CAVEAT])


def _claims(ends: Ends) -> list[Claim]:
    """Return the paper's claims about Figure 2."""
    slow, fast = [p for p in ends if p <= 1e-3], [p for p in ends if p >= 1e-2]
    cases = (
        ("MAG outperforms the others at large mixing times (p ≤ 1e-3)",
         "mag", PAPER_METHODS[:-1], slow),
        ("AdaGrad is better than MAG at small mixing times (p ≥ 0.01)", "adagrad", ["mag"], fast),
        ("MAG is better than SGD-MLMC at every p", "mag", ["sgd-mlmc"], ends),
    )  # fmt: skip
    claims = [_below_one(text, ends, name, others, at) for text, name, others, at in cases if at]
    if {0.5, 1e-4} <= ends.keys():
        growth = {name: np.divide(ends[1e-4][name], ends[0.5][name]) for name in PAPER_METHODS}
        factors = {
            name: paired_ratio(growth[name], 1.0).value for name in ("mag", "adagrad", "sgd")
        }
        claims.append(
            Claim.below(
                "MAG degrades more gracefully (growth from p = 0.5 to 1e-4)",
                {name: paired_ratio(growth["mag"], growth[name]) for name in ("adagrad", "sgd")},
                1.0,
                measured=", ".join(f"{name} ×{factor:,.0f}" for name, factor in factors.items()),
            )
        )
    return claims


def _below_one(
    text: str, ends: Ends, name: str, others: Iterable[str], at: Iterable[float]
) -> Claim:
    """Claim that the ratios of a method to others are below one, showing the largest at each p."""
    ratios = {(p, each): paired_ratio(ends[p][name], ends[p][each]) for p in at for each in others}
    largest = {p: max(ratio for (here, _), ratio in ratios.items() if here == p) for p in at}
    shown = ", ".join(f"{ratio.text('.2f')} at {p:g}" for p, ratio in largest.items())
    return Claim.below(text, ratios, 1.0, measured=shown)
