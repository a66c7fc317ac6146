"""Non-convex problems: the gradient at a random iterate of MAG against samples, at every p.

Where the constants of the theorem are known, short runs are also followed step by step: Lemmas
4.1 and 4.2 and Eq. (11) are inequalities of every run.
"""

from typing import Any

import numpy as np

from mixfree.base.checks import check_whole
from mixfree.base.figures import log_log, new_figure, plain_ticks
from mixfree.base.table import Table
from mixfree.core.history import follow
from mixfree.core.methods import MAG
from mixfree.core.optimizer import Optimizer
from mixfree.reproduce.engine.report import DOTS, Claim, Figure, Report, Row, curves, grid, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import Interval, bootstrap, exponent, spread
from mixfree.reproduce.nonconvex.problems import PROBLEMS, Problem
from mixfree.reproduce.paper.problem import mixing_time
from mixfree.reproduce.paper.runs import directions, gradient_norm
from mixfree.reproduce.theory import bounds

__all__ = ["FULL", "QUICK", "cells", "measure", "report"]

FULL = Settings(samples=1_000_000, seeds=30, p=(0.5, 1e-2, 1e-3), first_seed=1000)
QUICK = FULL.changed(samples=3162, seeds=2, p=(0.5, 1e-2), first_seed=0)

FIRST = 100  # samples at which curves begin
EVALUATIONS = 1000  # gradient evaluations per run, evenly spaced, besides those of the history
# Factors on the samples: with persistent noise, the rate shows only after many mixing times.
LONGER = {"robust, two truths": 10}
FOLLOWED = 4000  # samples of a run that is followed step by step
THEOREM = 0.25  # exponent of τ/T in Corollary 4.4
LEMMAS = {
    "Lemma 4.1": "Σ‖∇F‖² ≤ Δ_max/η_T + ½L Σ η‖g‖² + Σ(∇F − g)·∇F",
    "Lemma 4.2": "Σ η‖g‖² ≤ 2√Σ‖g‖²",
    "Eq. (11)": "Σ‖∇F‖² ≤ (Δ_max + L)√Σ‖g‖² + Σ(∇F − g)·∇F",
}


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per problem, p and seed, and another if the run is followed step by step."""
    check_whole(settings.samples, "samples", least=10 * FIRST)
    return [
        {"problem": name, "p": p, "seed": seed, "samples": samples, "followed": followed}
        for name, problem in PROBLEMS.items()
        for p in settings.p
        for seed in settings.seed_numbers
        for samples, followed in (
            (settings.samples * LONGER.get(name, 1), False),
            *([(FOLLOWED, True)] if problem.constants is not None else []),
        )
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """Evaluate a run at marks, or follow it step by step."""
    return (_steps if cell["followed"] else _marks)(cell)


def start(problem: Problem, seed: int) -> Optimizer:
    """Start MAG as in Corollary 4.4 but for the number of levels: α = 1, and a random iterate."""
    return MAG(problem.start(seed), alpha=1.0, output="random", seed=seed)


def _marks(cell: dict[str, Any]) -> list[Row]:
    """Measure ‖∇F‖ at the random iterate, and the mean of ‖∇F‖² over all iterates, at marks.

    ∇F is exact, over the data of both states. An evaluated iterate stands for all iterates since
    the previous evaluation. Also √Σ‖g_t‖² of the steps, and the largest curvature of F at w_t.
    """
    seed, p, samples = cell["seed"], cell["p"], cell["samples"]
    problem = PROBLEMS[cell["problem"]]
    regression = problem.draw(seed)
    data, stream = problem.rows(regression), regression.stream(seed, p)
    rows: list[Row] = []
    total, counted = 0.0, 0

    def evaluate(opt: Optimizer, at_mark: bool) -> None:
        nonlocal total, counted
        total += (opt.steps - counted) * float(np.sum(problem.gradient(opt.x, data) ** 2))
        counted = opt.steps
        if (at_mark or opt.samples == samples) and opt.samples >= FIRST and counted:
            rows.append(
                {
                    "problem": cell["problem"],
                    "p": p,
                    "seed": seed,
                    "samples": opt.samples,
                    "steps": counted,
                    "random": float(np.linalg.norm(problem.gradient(opt.average, data))),
                    "mean_square": total / counted,
                    "gradients": gradient_norm(opt),
                    "curvature": problem.curvature(opt.x, data),
                }
            )

    opt = start(problem, seed)

    def advance(first: int, stop: int) -> None:
        problem.advance(opt, data, stream.take(stop - first))

    follow(opt, advance, samples, evaluate, chunk=max(1, samples // EVALUATIONS))
    return rows


def _steps(cell: dict[str, Any]) -> list[Row]:
    """Return the largest ratio of the left to the right side of each lemma over all steps.

    Lemma 4.1 and Eq. (11) with their last sum on the left, which then is Σ g_t·∇F(w_t); Δ is
    measured from the least F of the run, for which they hold as well. η_t = 1/√Σ‖g‖² is that of
    Algorithm 1 in these two, and in Lemma 4.2 it is the step that the run has taken.
    """
    seed, problem = cell["seed"], PROBLEMS[cell["problem"]]
    regression = problem.draw(seed)
    data = problem.rows(regression)
    assert problem.constants is not None
    smoothness = problem.constants(data).smoothness
    opt = start(problem, seed)
    order = regression.stream(seed, cell["p"]).take(cell["samples"])
    run = directions(opt, lambda w, row: problem.gradient(w, data[row : row + 1]), order)
    points, taken = map(np.array, zip(*run, strict=True))
    points = np.vstack([points, opt.x])
    values = np.array([problem.value(w, data) for w in points])
    along = [problem.gradient(w, data) @ g for w, g in zip(points, taken, strict=False)]
    # Δ_max after each step.
    gap = np.maximum.accumulate(values[:-1]) - np.minimum.accumulate(values)[1:]
    squares, total = np.sum(taken**2, axis=1), np.cumsum(along)
    root = np.sqrt(np.cumsum(squares))
    moved = np.linalg.norm(np.diff(points, axis=0), axis=1) * np.sqrt(squares)
    ratios = {
        "Lemma 4.1": total / (gap * root + 0.5 * smoothness * np.cumsum(squares / root)),
        "Lemma 4.2": np.cumsum(moved) / (2.0 * root),
        "Eq. (11)": total / ((gap + smoothness) * root),
    }
    names = {name: cell[name] for name in ("problem", "p", "seed", "samples")}
    return [
        {**names, "lemma": lemma, "steps": len(taken), "ratio": float(np.max(found))}
        for lemma, found in ratios.items()
    ]


def report(rows: list[Row], settings: Settings) -> Report:
    """Make tables, figures and claims."""
    followed = [row for row in rows if row.get("lemma") is not None]
    rows = [
        {
            **row,
            "root": row["mean_square"] ** 0.5,
            "mixing_time": mixing_time(row["p"]),
            "ratio": row["mean_square"] * row["steps"] / row["gradients"],
        }
        for row in rows
        if row.get("lemma") is None
    ]
    last = {name: max(r["samples"] for r in where(rows, problem=name)) for name in PROBLEMS}
    final = [row for row in rows if row["samples"] == last[row["problem"]]]
    ends = sorted({end // 10**k for end in last.values() for k in range(12)} - {0})
    ends = [end for end in ends if end // 10 >= min(r["samples"] for r in rows)]
    decades = {
        (name, f"{p:g}"): {
            f"to {end:,}": _halved(_decade(where(rows, problem=name, p=p), end), "samples")
            for end in ends
            if end <= last[name]
        }
        for name in PROBLEMS
        for p in settings.p
    }
    # Over the last decade: before it, some runs are still on a plateau.
    decay = {
        name: {f"p = {p:g}": [*decades[name, f"{p:g}"].values()][-1] for p in settings.p}
        for name in PROBLEMS
    }
    growth = {name: _halved(where(final, problem=name), "mixing_time") for name in PROBLEMS}
    return Report(
        [
            _final_table(final, decay, settings),
            grid("Exponent decade by decade", ["problem", "p"], decades, lambda f: f.text("+.2f")),
            _constants(rows, ends),
            Table(
                "Exponent of the final root mean square ‖∇F‖ in the mixing time",
                ["problem", "exponent"],
                [(name, fit.text("+.2f")) for name, fit in growth.items()],
            ),
        ],
        {"nonconvex": _against_samples(rows), "nonconvex-mixing-time": _against_time(final)},
        [
            *inequality_claims(followed),
            random_claim(final),
            *(
                Claim.below(
                    f"Theorem 4.3, {name}: falls at least like T^−¼ at every p", fits, -THEOREM
                )
                for name, fits in decay.items()
            ),
            *(
                Claim.below(
                    f"Theorem 4.3, {name}: grows at most like τ^¼, without knowing p", fit, THEOREM
                )
                for name, fit in growth.items()
            ),
            _bound_claim(final, settings),
        ],
        [
            "MAG with α = 1, five levels and no domain, without knowledge of p.",
            "The exponent is that of the root of the mean of ‖∇F‖² over iterates and seeds, in the "
            "samples, over the last decade.",
        ],
    )


def _decade(rows: list[Row], end: int) -> list[Row]:
    return [row for row in rows if end // 10 <= row["samples"] <= end]


def _halved(rows: list[Row], x: str) -> Interval:
    """Fit the exponent of the root of the mean square over all seeds, as bounded by Theorem 4.3."""
    return Interval(*(0.5 * end for end in exponent(rows, x, "mean_square")))


def _final_table(
    final: list[Row], decay: dict[str, dict[str, Interval]], settings: Settings
) -> Table:
    lines = []
    for name, fits in decay.items():
        for p, fit in zip(settings.p, fits.values(), strict=True):
            found = where(final, problem=name, p=p)
            root, random = ([row[key] for row in found] for key in ("root", "random"))
            lines.append(
                (name, f"{found[0]['samples']:,}", f"{p:g}", f"{mixing_time(p):,}",
                 bootstrap(root), bootstrap(random), spread(random), fit.text("+.2f"))
            )  # fmt: skip
    return Table(
        f"The gradient at the end, {settings.seeds} seeds, 95 % by bootstrap",
        ["problem", "samples", "p", "mixing time", "root mean square ‖∇F‖", "‖∇F‖ at w̃",
         "its median (10 % to 90 %)", "exponent"],
        lines,
    )  # fmt: skip


def _constants(rows: list[Row], ends: list[int]) -> Table:
    """Tabulate the constants of Theorem 4.3: Σ‖∇F‖² ≤ (Δ + L)√Σ‖g‖², apart from the bias."""
    quantities = {"largest curvature at w_T": "curvature", "Σ‖∇F‖² / √Σ‖g‖²": "ratio"}
    found = {
        (name, what): {
            f"{end:,}": [
                row[key] for row in rows if (row["problem"], row["samples"]) == (name, end)
            ]
            for end in ends
        }
        for name in PROBLEMS
        for what, key in quantities.items()
    }
    title = "Constants of the bound along the run, means over p and seeds"
    return grid(title, ["problem", ""], found, lambda v: f"{np.mean(v):.2g}" if v else "")


def inequality_claims(followed: list[Row]) -> list[Claim]:
    """Claim the inequalities that hold for every run, not only in the mean."""
    claims = []
    for lemma, text in LEMMAS.items():
        found = [row["ratio"] for row in where(followed, lemma=lemma)]
        measured = f"{max(found):.2f} of it at most, in {len(found)} runs" if found else ""
        holds = max(found) <= 1.0 if found else None
        claims.append(Claim(f"{lemma}: {text} in every run", measured, holds))
    return claims


def random_claim(final: list[Row]) -> Claim:
    """Claim E‖∇F(w̃)‖² = E (1/T) Σ‖∇F(w_t)‖², on which Corollary 4.4 rests."""
    # A seed chooses the same w̃ on every problem, so it counts as one observation.
    by_seed: dict[int, list[float]] = {}
    for row in final:
        by_seed.setdefault(row["seed"], []).append(row["random"] ** 2 / row["mean_square"])
    ratios = [float(np.mean(found)) for found in by_seed.values()]
    text = "Corollary 4.4: ‖∇F(w̃)‖² is, in the mean, that of all iterates"
    return Claim.equal(text, [(ratios, 1.0)])


def _bound_claim(final: list[Row], settings: Settings) -> Claim:
    """Claim Theorem 4.3 with its constants, where it is sharper than ‖∇F‖ ≤ G."""
    shares: dict[str, Interval] = {}
    for name, problem in PROBLEMS.items():
        if problem.constants is None:
            continue
        drawn = [problem.rows(problem.draw(seed)) for seed in settings.seed_numbers]
        G, M, L = (max(each) for each in zip(*map(problem.constants, drawn), strict=True))
        for p in settings.p:
            found = where(final, problem=name, p=p)
            steps = min(row["steps"] for row in found)
            limit = bounds.nonconvex_rate(G, M, L, mixing_time(p), steps)
            if limit < G**2:
                squares = [row["mean_square"] / limit for row in found]
                shares[f"{name}, p = {p:g}"] = bootstrap(squares)
    text = "Theorem 4.3: the mean of ‖∇F‖² is at most the bound, with its constants"
    trivial = "trivial here: no bound is below that of ‖∇F‖ ≤ G"
    return Claim.below(text, shares, 1.0, ".1e", empty=trivial)


def _against_samples(rows: list[Row]) -> Figure:
    figure, axes = new_figure(1, len(PROBLEMS), width=14.0, height=3.4, sharey=True)
    for place, name in zip(axes, PROBLEMS, strict=True):
        shown = [{**row, "series": f"p = {row['p']:g}"} for row in where(rows, problem=name)]
        curves(place, shown, "series", "samples", "root")
        log_log(place, "samples", "root mean square of ‖∇F‖" if place is axes[0] else "")
        place.set_title(name, fontsize="medium")
    axes[0].legend(frameon=False, fontsize="small")
    return figure


def _against_time(final: list[Row]) -> Figure:
    """Plot the final value against the mixing time, relative to the fastest mixing chain."""
    figure, axes = new_figure(width=6.0, height=3.8)
    times = sorted({row["mixing_time"] for row in final})
    base = {(r["problem"], r["seed"]): r["root"] for r in final if r["mixing_time"] == times[0]}
    shown = [{**r, "times": r["root"] / base[r["problem"], r["seed"]]} for r in final]
    curves(axes, shown, "problem", "mixing_time", "times", **DOTS)
    bound = [(time / times[0]) ** THEOREM for time in times]
    axes.plot(times, bound, color="0.5", lw=1.0, label="τ to the power 1/4")
    log_log(axes, "exact mixing time", "root mean square of ‖∇F‖, relative")
    plain_ticks(axes.yaxis)
    axes.legend(frameon=False, fontsize="small")
    return figure
