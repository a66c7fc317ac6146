"""Measurements of Lemma 3.1, Eq. (7) and Theorem 3.3.

At these lengths the bounds with their constants are weaker than ‖∇f‖ ≤ G. So orders are judged, and
what has a closed form is compared with it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.figures import log_log, new_figure
from mixfree.base.terminal import Table
from mixfree.reproduce.engine.report import Claim, Report, Settings
from mixfree.reproduce.engine.rows import DOTS, Figure, Row, curves, gather, where
from mixfree.reproduce.engine.statistics import Interval, bootstrap, exponent, ratio
from mixfree.reproduce.paper.problem import Regression, mixing_time, problem_of
from mixfree.reproduce.theory.measures import MEASURES, Windows

FULL = Settings(samples=1 << 16, seeds=30, p=(0.5, 0.1, 1e-2, 1e-3, 1e-4), first_seed=6000)
QUICK = Settings(samples=1 << 10, seeds=4, p=(0.5, 0.1, 1e-2))
MARGIN = 0.1  # relative deviation from an expected value that passes for none
# Measured and expected values, one per seed, by the place where they are measured.
Pairs = Mapping[str, tuple[Sequence[float] | Array, Sequence[float]]]


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
    """Judge every claim, and draw what the lemmas and the theorem bound."""
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


def values_of(rows: Iterable[Row], quantity: str) -> dict[float, dict[int, list[float]]]:
    """Return the values of one quantity, by p and by size."""
    return gather(where(rows, quantity=quantity), "p", "size", "value")


def in_size(rows: list[Row], quantity: str, p: float, least: int = 1) -> Interval:
    """Fit the exponent in the size, over at least three sizes."""
    at_p = [row for row in where(rows, quantity=quantity, p=p) if row["size"] >= least]
    return exponent(at_p if len({row["size"] for row in at_p}) > 2 else [], "size", "value")


def in_mixing(rows: list[Row], quantity: str) -> Interval:
    """Fit the exponent in the mixing time at the longest size."""
    found = where(rows, quantity=quantity)
    longest = max(row["size"] for row in found)
    last = [{**r, "τ": mixing_time(r["p"])} for r in found if r["size"] == longest]
    return exponent(last, "τ", "value")


def claims(rows: list[Row], settings: Settings) -> list[Claim]:
    """Return a claim per statement, first equalities, then orders."""
    falls = {f"p = {p:g}": in_size(rows, "suboptimality", p) for p in settings.p}
    in_time = in_mixing(rows, "suboptimality")
    return [
        bias_claim(rows, settings),
        equality_claim(
            "Eq. (7): E‖g^N − ∇F‖² is the closed form",
            _beside(rows, "square error", Windows.mean_square_error, settings),
        ),
        equality_claim(
            "Lemma 3.1: E‖g^MLMC‖² is the closed form",
            _beside(
                rows, "second moment", lambda w, n: w.second_moment(n.bit_length() - 1), settings
            ),
        ),
        equality_claim(
            "Lemma 3.1: T·E[2^J] samples are T steps of Algorithm 1",
            _beside(rows, "steps", lambda windows, size: 1.0, settings),
        ),
        _sharpness_claim(settings),
        Claim.below(
            "Theorem 3.3: the suboptimality falls at least like T^−½ at every p", falls, -0.5
        ),
        Claim.below("Theorem 3.3: the suboptimality grows at most like τ^½", in_time, 0.5),
    ]


def bias_claim(rows: list[Row], settings: Settings) -> Claim:
    """Claim that estimates with levels up to jmax have the mean of means of 2^jmax samples.

    Their deviation is relative to the distance of a state's gradient from ∇F.
    """
    exact = _beside(rows, "bias", Windows.offset, settings)
    largest = _beside(rows, "bias", lambda windows, size: windows.distance, settings)
    found = {
        place: (np.add(np.subtract(values, expected), largest[place][1]), largest[place][1])
        for place, (values, expected) in exact.items()
    }
    return equality_claim("Lemma 3.1: E g^MLMC = E g^jmax", found)


def _beside(
    rows: list[Row], quantity: str, exact: Callable[[Windows, int], float], settings: Settings
) -> Pairs:
    """Return the values of all seeds, and the exact ones, by p and size."""
    return {
        f"p = {p:g}, {size:,}": (
            values,
            [exact(Windows(problem_of(seed), p), size) for seed in settings.seed_numbers],
        )
        for p, at in values_of(rows, quantity).items()
        for size, values in at.items()
    }


def _sharpness_claim(settings: Settings) -> Claim:
    """Compare E‖g^N − ∇F‖² with G²τ/N for one row per state and N ≥ 100τ, exactly."""
    problem = Regression(np.ones((2, 1)), np.array([1.0, -1.0]), per_state=1)
    sharp = [
        round(size * Windows(problem, p).mean_square_error(size) / mixing_time(p), 9)
        for p in settings.p
        for size in (100 * mixing_time(p), 400 * mixing_time(p))
    ]
    return Claim(
        "Eq. (7) is sharp: where only the state matters, the error is 1 to 3 times G²τ/N",
        f"{min(sharp):.2f} to {max(sharp):.2f} for N ≥ 100τ",
        min(sharp) >= 1.0 and max(sharp) <= 3.0,
    )


def equality_claim(text: str, found: Pairs) -> Claim:
    """Claim that means over the seeds are the expected ones, at every place.

    It holds if the interval of each ratio is within ``MARGIN`` of 1, and fails if one is outside.
    """
    off = {
        f"{place}, {side}": away
        for place, pair in found.items()
        for side, away in ratio(*pair).off(1.0).items()
    }
    return Claim.below(f"{text}, within {100 * MARGIN:.0f} %", off, MARGIN)
