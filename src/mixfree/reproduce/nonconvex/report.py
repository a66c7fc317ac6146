"""The non-convex report: decay of the gradient, and its growth with the mixing time."""

from math import isnan

from mixfree.base.figures import log_log, new_figure, plain_ticks
from mixfree.reproduce.engine.report import Claim, Figure, Report, Row, Table, curves, every, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import (
    Interval,
    bootstrap_mean,
    estimate,
    exponent_of_mean,
    largest_t,
    spread,
    standard_errors,
)
from mixfree.reproduce.nonconvex.problems import PROBLEMS
from mixfree.reproduce.paper.problem import mixing_time
from mixfree.reproduce.theory import bounds

__all__ = ["nonconvex_report"]

THEOREM = 0.25  # exponent of τ/T in Corollary 4.4

Fits = dict[str, dict[float, Interval]]  # by problem and p


def nonconvex_report(rows: list[Row], settings: Settings) -> Report:
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
    # Over the last decade: before it, some runs are still on a plateau.
    decay = {
        name: {p: _exponent(rows, name, p, end // 10, end) for p in settings.p}
        for name, end in last.items()
    }
    growth = {name: _halved(where(final, problem=name), "mixing_time") for name in PROBLEMS}
    return Report(
        [
            _table(final, decay, last, settings),
            _decades(rows, last, settings),
            _bound(rows, last),
            Table(
                "Exponent of the final root mean square ‖∇F‖ in the mixing time",
                ["problem", "exponent"],
                [(name, fit.short()) for name, fit in growth.items()],
            ),
        ],
        {"nonconvex": _against_samples(rows), "nonconvex-mixing-time": _against_time(final)},
        [
            *_inequality_claims(followed),
            _random_claim(final, settings),
            *_decay_claims(decay),
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


def _exponent(rows: list[Row], name: str, p: float, first: int, end: int) -> Interval:
    """Fit the exponent in the samples of the root mean square gradient, between two counts."""
    kept = where(rows, problem=name, p=p)
    return _halved([r for r in kept if first <= r["samples"] <= end], "samples")


def _halved(rows: list[Row], x: str) -> Interval:
    """Fit the exponent of the root of the mean square over all seeds, as bounded by Theorem 4.3."""
    return Interval(*(0.5 * end for end in exponent_of_mean(rows, x, "mean_square")))


def _table(final: list[Row], decay: Fits, last: dict[str, int], settings: Settings) -> Table:
    lines = []
    for name, fits in decay.items():
        for p, fit in fits.items():
            found = where(final, problem=name, p=p)
            lines.append(
                (
                    name,
                    f"{last[name]:,}",
                    f"{p:g}",
                    f"{mixing_time(p):,}",
                    bootstrap_mean([r["root"] for r in found]),
                    bootstrap_mean([r["random"] for r in found]),
                    spread([r["random"] for r in found]),
                    fit.short(),
                )
            )
    return Table(
        f"The gradient at the end, {settings.seeds} seeds, 95 % by bootstrap",
        [
            "problem",
            "samples",
            "p",
            "mixing time",
            "root mean square ‖∇F‖",
            "‖∇F‖ at w̃",
            "its median (10 % to 90 %)",
            "exponent",
        ],
        lines,
    )


def _ends(rows: list[Row], last: dict[str, int]) -> list[int]:
    """Return the sample counts at which decades end."""
    ends = sorted({end // 10**k for end in last.values() for k in range(12)} - {0})
    return [end for end in ends if end // 10 >= min(r["samples"] for r in rows)]


def _decades(rows: list[Row], last: dict[str, int], settings: Settings) -> Table:
    ends = _ends(rows, last)
    return Table(
        "Exponent decade by decade",
        ["problem", "p", *(f"to {end:,}" for end in ends)],
        [
            (
                name,
                f"{p:g}",
                *(
                    _exponent(rows, name, p, end // 10, end).short() if end <= last[name] else ""
                    for end in ends
                ),
            )
            for name in PROBLEMS
            for p in settings.p
        ],
    )


def _bound(rows: list[Row], last: dict[str, int]) -> Table:
    """Tabulate the constants of Theorem 4.3: Σ‖∇F‖² ≤ (Δ + L)√Σ‖g‖², apart from the bias."""
    ends = _ends(rows, last)
    lines = []
    for name in PROBLEMS:
        for what, key in (
            ("largest curvature at w_T", "curvature"),
            ("Σ‖∇F‖² / √Σ‖g‖²", "ratio"),
        ):
            means = (
                estimate([row[key] for row in where(rows, problem=name, samples=end)]).mean
                for end in ends
            )
            lines.append((name, what, *("" if isnan(mean) else f"{mean:.2g}" for mean in means)))
    return Table(
        "Constants of the bound along the run, means over p and seeds",
        ["problem", "", *(f"{end:,}" for end in ends)],
        lines,
    )


def _inequality_claims(followed: list[Row]) -> list[Claim]:
    """Claim the inequalities that hold for every run, not only in the mean."""
    texts = {
        "Lemma 4.1": "Σ‖∇F‖² ≤ Δ_max/η_T + ½L Σ η‖g‖² + Σ(∇F − g)·∇F",
        "Lemma 4.2": "Σ η‖g‖² ≤ 2√Σ‖g‖²",
        "Eq. (11)": "Σ‖∇F‖² ≤ (Δ_max + L)√Σ‖g‖² + Σ(∇F − g)·∇F",
    }
    claims = []
    for lemma, text in texts.items():
        found = [row["ratio"] for row in where(followed, lemma=lemma)]
        measured = f"{max(found):.2f} of it at most, in {len(found)} runs" if found else ""
        claims.append(
            Claim(f"{lemma}: {text} in every run", measured, max(found) <= 1.0 if found else None)
        )
    return claims


def _random_claim(final: list[Row], settings: Settings) -> Claim:
    """Claim E‖∇F(w̃)‖² = E (1/T) Σ‖∇F(w_t)‖², on which Corollary 4.4 rests."""
    # A seed chooses the same w̃ on every problem, so it counts as one observation.
    by_seed: dict[int, list[float]] = {}
    for row in final:
        by_seed.setdefault(row["seed"], []).append(row["random"] ** 2 / row["mean_square"])
    ratios = [sum(found) / len(found) for found in by_seed.values()]
    away = standard_errors(ratios, 1.0)
    return Claim(
        "Corollary 4.4: ‖∇F(w̃)‖² is, in the mean, that of all iterates",
        f"{estimate(ratios).mean:.2f} of it, {away:.1f} standard errors from 1",
        away < largest_t(settings.seeds, 1) if settings.seeds > 1 else None,
    )


def _bound_claim(final: list[Row], settings: Settings) -> Claim:
    """Claim Theorem 4.3 with its constants, where it is sharper than ‖∇F‖ ≤ G."""
    shares: list[Interval] = []
    for name, problem in PROBLEMS.items():
        if problem.constants is None:
            continue
        given = {
            seed: problem.constants(problem.rows(problem.draw(seed)))
            for seed in settings.seed_numbers
        }
        G, M, L = (max(each) for each in zip(*given.values(), strict=True))
        for p in settings.p:
            found = where(final, problem=name, p=p)
            steps = min(r["steps"] for r in found)
            limit = bounds.nonconvex_rate(G, M, L, mixing_time(p), steps)
            if limit < G**2:
                shares.append(bootstrap_mean([r["mean_square"] / limit for r in found]))
    text = "Theorem 4.3: the mean of ‖∇F‖² is at most the bound, with its constants"
    if not shares:
        return Claim(text, "trivial here: no bound is below that of ‖∇F‖ ≤ G", None)
    largest = max(found.value for found in shares)
    return Claim(text, f"largest ratio {largest:.1e}", every(s.below(1.0) for s in shares))


def _decay_claims(decay: Fits) -> list[Claim]:
    claims = []
    for name, fits in decay.items():
        worst = max(fits, key=lambda p: fits[p].value)
        claims.append(
            Claim(
                f"Theorem 4.3, {name}: falls at least like T^−¼ at every p",
                f"slowest {fits[worst].short()} (p = {worst:g})",
                every(fit.below(-THEOREM) for fit in fits.values()),
            )
        )
    return claims


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
    fastest = min(row["mixing_time"] for row in final)
    base = {(r["problem"], r["seed"]): r["root"] for r in final if r["mixing_time"] == fastest}
    shown = [{**r, "times": r["root"] / base[r["problem"], r["seed"]]} for r in final]
    curves(axes, shown, "problem", "mixing_time", "times", marker="o", markersize=4)
    times = sorted({row["mixing_time"] for row in final})
    bound = [(time / fastest) ** THEOREM for time in times]
    axes.plot(times, bound, color="0.5", lw=1.0, label="τ to the power 1/4")
    log_log(axes, "exact mixing time", "root mean square of ‖∇F‖, relative")
    plain_ticks(axes.yaxis)
    axes.legend(frameon=False, fontsize="small")
    return figure
