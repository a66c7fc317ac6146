"""Measurements of Lemma 3.1, Eq. (7) and Theorem 3.3.

At these lengths the bounds with their constants are weaker than ‖∇f‖ ≤ G. So orders are
compared, and what has a closed form with it.
"""

import math
from typing import Any

from mixfree.base.checks import check_whole
from mixfree.base.figures import log_log, new_figure
from mixfree.base.terminal import Table
from mixfree.reproduce.engine.report import Report, Settings
from mixfree.reproduce.engine.rows import DOTS, Figure, Row, curves, where
from mixfree.reproduce.engine.statistics import bootstrap
from mixfree.reproduce.paper.problem import mixing_time
from mixfree.reproduce.theory.claims import claims, in_mixing, in_size, values_of
from mixfree.reproduce.theory.measures import MEASURES

FULL = Settings(samples=1 << 16, seeds=30, p=(0.5, 0.1, 1e-2, 1e-3, 1e-4), first_seed=6000)
QUICK = Settings(samples=1 << 10, seeds=4, p=(0.5, 0.1, 1e-2))


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per measurement, p and seed."""
    # The shortest run of the rate has 4/256 of the samples: at least one.
    check_whole(settings.samples, "samples", least=64)
    common = {"horizon": settings.samples}
    return [
        *(
            {"what": what, "p": p, "seed": seed, **common}
            for what in ("windows", "bias")
            for p in settings.p
            for seed in settings.seed_numbers
        ),
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
    """Decide on every claim, and draw what the lemmas and the theorem bound."""
    return Report(
        [_exponents(rows, settings)],
        {"theory": _draw(rows, settings)},
        claims(rows, settings),
        ["Measured at the origin, from a known state."],
    )


def _exponents(rows: list[Row], settings: Settings) -> Table:
    """Compare the measured exponents with those of the bounds."""
    far = {p: in_size(rows, "error", p, 4 * mixing_time(p)) for p in settings.p}
    falls = {p: in_size(rows, "suboptimality", p) for p in settings.p}
    lines = [
        *(
            (f"error of a mean, in N, p = {p:g}", fit, "-0.5")
            for p, fit in far.items()
            if not math.isnan(fit.value)
        ),
        ("error of a mean, in τ", in_mixing(rows, "error"), "+0.5"),
        ("second moment, in τ", in_mixing(rows, "second moment"), "+1"),
        *((f"suboptimality, in T, p = {p:g}", fit, "-0.5") for p, fit in falls.items()),
        ("suboptimality, in τ", in_mixing(rows, "suboptimality"), "+0.5"),
    ]
    return Table(
        f"Exponents of the mean, horizon {settings.samples:,}, {settings.seeds} seeds, 95 %",
        ["quantity", "measured", "bound"],
        [(name, fit.text("+.2f"), bound) for name, fit, bound in lines],
    )


def _draw(rows: list[Row], settings: Settings) -> Figure:
    """Draw the measurements of each lemma; the bounds with their constants are far above."""
    figure, panels = new_figure(2, 2, width=10.0, height=7.2)
    rows = [{**row, "τ": mixing_time(row["p"])} for row in rows]
    rows = [{**row, "series": f"τ = {row['τ']:,}", "all": "measured"} for row in rows]
    bias, moment, error, rate = panels.flat
    # A logarithmic axis cannot show a bias below its noise, which may be negative.
    seen, found = where(rows, quantity="bias"), values_of(rows, "bias")
    biased = [row for row in seen if bootstrap(found[row["p"]][row["size"]]).low > 0.0]
    curves(bias, biased, "series", "size", "value", **DOTS)
    curves(moment, where(rows, quantity="second moment"), "all", "τ", "value", **DOTS)
    curves(error, where(rows, quantity="error"), "series", "size", "value")
    curves(rate, where(rows, quantity="suboptimality"), "series", "size", "value", **DOTS)
    for axes, title, x, y in (
        (bias, "Lemma 3.1: bias of the estimate, above its noise", "largest window, 2^jmax",
         "‖E estimate − gradient‖"),
        (moment, "Lemma 3.1: second moment of the estimate", "mixing time",
         f"E‖estimate‖², T = {settings.samples:,}"),
        (error, "Lemma A.6: error of a mean of N", "samples N in the mean", "E‖mean − gradient‖"),
        (rate, "Theorem 3.3: rate of Algorithm 1", "steps T", "suboptimality"),
    ):  # fmt: skip
        log_log(axes, x, y)
        axes.set_title(title, fontsize="medium")
        if len(axes.lines) > 1:
            axes.legend(frameon=False, fontsize="small")
    return figure
