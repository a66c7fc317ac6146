"""Non-convex problems: the gradient at a random iterate of MAG against samples, for every p."""

from typing import Any

import numpy as np

from mixfree.experiments.nonconvex_problems import PROBLEMS
from mixfree.experiments.problem import mixing_time
from mixfree.experiments.report import Claim, Report, Row, Table, curves
from mixfree.experiments.settings import Settings
from mixfree.experiments.statistics import Estimate, estimate, exponent
from mixfree.figures import log_log, new_figure
from mixfree.minimize import minimize
from mixfree.numerics import whole
from mixfree.optimizer import Optimizer

FULL = Settings(samples=100_000, seeds=8, p=(0.5, 1e-2, 1e-3))
QUICK = FULL.changed(samples=3162, seeds=2, p=(0.5, 1e-2))

FIRST = 100  # samples at which curves begin


def cells(settings: Settings) -> list[dict[str, Any]]:
    """One for each problem, p and seed."""
    whole(settings.samples, "samples", least=10 * FIRST)
    return [
        {"problem": name, "p": p, "seed": seed, "samples": settings.samples}
        for name in PROBLEMS
        for p in settings.p
        for seed in range(settings.seeds)
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """‖∇F‖ at the random iterate, and the mean of ‖∇F‖² over all iterates, as samples come in.

    ∇F is exact, over the data of both states. Iterates are looked at on the grid of the
    history, and each stands for those since the one before.
    """
    seed, p = cell["seed"], cell["p"]
    problem = PROBLEMS[cell["problem"]]
    regression = problem.draw(seed)
    data = problem.rows(regression)
    rows: list[Row] = []
    total, counted = 0.0, 0

    def look(opt: Optimizer) -> None:
        nonlocal total, counted
        total += (opt.steps - counted) * float(np.sum(problem.gradient(opt.x, data) ** 2))
        counted = opt.steps
        if opt.samples >= FIRST and counted:
            rows.append(
                {
                    "problem": cell["problem"],
                    "p": p,
                    "seed": seed,
                    "samples": opt.samples,
                    "steps": counted,
                    "random": float(np.linalg.norm(problem.gradient(opt.average, data))),
                    "mean_square": total / counted,
                }
            )

    minimize(
        lambda w, row: problem.gradient(w, row[None]),
        data[regression.order(seed, p, cell["samples"])],
        problem.start(seed),
        "mag",
        alpha=1.0,
        output="random",
        seed=seed,
        callback=look,
    )
    return rows


def report(rows: list[Row], settings: Settings) -> Report:
    """The fall of the gradient on every problem at every p."""
    rows = [{**row, "root": row["mean_square"] ** 0.5} for row in rows]
    figure, axes = new_figure(1, len(PROBLEMS), width=12.0, height=3.4, sharey=True)
    for place, name in zip(axes, PROBLEMS, strict=True):
        shown = [{**row, "series": f"p = {row['p']:g}"} for row in rows if row["problem"] == name]
        curves(place, shown, "series", "samples", "root")
        log_log(place, "samples", "root mean square of ‖∇F‖" if place is axes[0] else "")
        place.set_title(name, fontsize="medium")
    axes[0].legend(frameon=False, fontsize="small")
    fits = {
        (name, p): _fit([row for row in rows if row["problem"] == name and row["p"] == p])
        for name in PROBLEMS
        for p in settings.p
    }
    last = max(row["samples"] for row in rows)
    return Report(
        [_table(rows, fits, last, settings)],
        {"nonconvex": figure},
        _claims(fits),
        [
            "MAG with α = 1, five levels and no domain; it is not told p.",
            "The exponent is that of the root mean ‖∇F‖² in the samples, over the last decade.",
        ],
    )


def _fit(rows: list[Row]) -> Estimate:
    """Exponent in the samples of the root mean square over the iterates: one fit a seed.

    Over the last decade: before it, some runs still look for a way down.
    """
    last = max(row["samples"] for row in rows)
    rows = [row for row in rows if row["samples"] >= last / 10]
    seeds = {row["seed"] for row in rows}
    return estimate(
        [
            exponent(
                *zip(*((r["samples"], r["root"]) for r in rows if r["seed"] == seed), strict=True)
            )
            for seed in sorted(seeds)
        ]
    )


def _table(
    rows: list[Row], fits: dict[tuple[str, float], Estimate], last: int, settings: Settings
) -> Table:
    lines = []
    for (name, p), fit in fits.items():
        found = [r for r in rows if r["problem"] == name and r["p"] == p and r["samples"] == last]
        lines.append(
            (
                name,
                f"{p:g}",
                f"{mixing_time(p):,}",
                estimate([r["root"] for r in found]),
                estimate([r["random"] for r in found]),
                f"{fit.mean:.2f} ± {fit.half:.2f}",
            )
        )
    return Table(
        f"After {last:,} samples, {settings.seeds} seeds, 95 %",
        ["problem", "p", "mixing time", "root mean ‖∇F‖²", "‖∇F‖ at w̃", "exponent"],
        lines,
    )


def _claims(fits: dict[tuple[str, float], Estimate]) -> list[Claim]:
    claims = []
    for name in PROBLEMS:
        found = {p: fit for (problem, p), fit in fits.items() if problem == name}
        worst = max(found, key=lambda p: found[p].mean)
        claims.append(
            Claim(
                f"{name}: falls with exponent −1/4 or below at every p",
                f"at most {found[worst].mean:.2f} ± {found[worst].half:.2f} (p = {worst:g})",
                found[worst].mean <= -0.25,
            )
        )
    return claims
