"""Figure 2: suboptimality of the last average iterate against the mixing time."""

from typing import Any

import numpy as np

from mixfree.base.figures import label_ends, log_log, new_figure
from mixfree.reproduce.engine.report import Claim, Report, Settings
from mixfree.reproduce.engine.rows import DOTS, Row, curves, grid, where
from mixfree.reproduce.engine.statistics import Interval, bootstrap, ratio
from mixfree.reproduce.paper.fig1 import at_end
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

SWITCHING = (0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-5)
FULL = Settings(samples=5_000_000, seeds=30, methods=PAPER_METHODS, p=SWITCHING, first_seed=6000)
QUICK = FULL.changed(samples=500_000, seeds=3, first_seed=0)

Ends = dict[float, dict[str, list[float]]]  # by p and method, one value per seed

cells = regression_cells


def measure(cell: dict[str, Any]) -> list[Row]:
    """Do the run of a cell; return one row, for its end."""
    return measure_run(cell)[-1:]


def report(rows: list[Row], settings: Settings) -> Report:
    """Make one figure, and a table with one line per mixing time."""
    rows = [{**row, "mixing_time": mixing_time(row["p"])} for row in rows]
    ends = {p: at_end(where(rows, p=p)) for p in settings.p}
    limits = {p: limits_of(settings, p) for p in settings.p}
    figure, axes = new_figure(width=7.0)
    curves(axes, rows, "method", "mixing_time", "suboptimality", **DOTS)
    log_log(axes, "exact mixing time", f"suboptimality after {settings.samples:,} samples")
    means = {mixing_time(p): float(np.mean(found)) for p, found in limits.items()}
    draw_limit(axes, list(means), list(means.values()))
    axes.set_title("Error against the mixing time, lower is better", loc="left", fontsize="medium")
    label_ends(axes)
    table = grid(
        f"Mean suboptimality after {settings.samples:,} samples, {settings.seeds} seeds, 95 %",
        ["p", "mixing time"],
        {
            (f"{p:g}", f"{mixing_time(p):,}"): {**found, LIMIT: limits[p]}
            for p, found in ends.items()
        },
        bootstrap,
    )
    complete = set(PAPER_METHODS) <= set(settings.methods)
    return Report([table], {"fig2": figure}, _claims(ends) if complete else [], [CAVEAT])


def _claims(ends: Ends) -> list[Claim]:
    """Return the paper's claims about Figure 2, showing the largest ratio of each."""
    slow, fast = [p for p in ends if p <= 1e-3], [p for p in ends if p >= 1e-2]
    cases = (
        ("MAG outperforms the others at large mixing times (p ≤ 1e-3)",
         "mag", PAPER_METHODS[:-1], slow),
        ("AdaGrad is better than MAG at small mixing times (p ≥ 0.01)", "adagrad", ["mag"], fast),
        ("MAG is better than SGD-MLMC at every p", "mag", ["sgd-mlmc"], list(ends)),
    )  # fmt: skip
    claims = []
    for text, name, others, at in cases:
        ratios = {
            f"over {each}, p = {p:g}": ratio(ends[p][name], ends[p][each])
            for p in at
            for each in others
        }
        claims.append(Claim.below(text, ratios, 1.0, ".2f"))
    if {0.5, 1e-4} <= ends.keys():
        less = {name: _growth(ends, "mag", name) for name in ("adagrad", "sgd")}
        factors = {
            name: np.mean(ends[1e-4][name]) / np.mean(ends[0.5][name]) for name in ("mag", *less)
        }
        measured = ", ".join(f"{name} ×{factor:,.0f}" for name, factor in factors.items())
        text = "MAG degrades more gracefully (growth from p = 0.5 to 1e-4)"
        claims.append(Claim.below(text, less, 1.0, measured=measured))
    return claims


def _growth(ends: Ends, name: str, other: str) -> Interval:
    """Return the growth of the mean of a method from p = 0.5 to 1e-4, over that of another."""
    values = [ends[p][each] for each in (name, other) for p in (1e-4, 0.5)]
    return bootstrap(np.transpose(values), lambda m: m[:, 0] / m[:, 1] / (m[:, 2] / m[:, 3]))
