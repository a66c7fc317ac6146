"""Measurements of the lemmas and of Theorem 3.3, with their bounds."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mixfree.base.checks import check_whole
from mixfree.base.figures import PALETTE, log_log, new_figure
from mixfree.base.table import Table
from mixfree.reproduce.engine.report import (
    DOTS,
    Axes,
    Claim,
    Figure,
    Report,
    Row,
    curves,
    gather,
    where,
)
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import Interval, bootstrap, exponent
from mixfree.reproduce.paper.problem import Regression, mixing_time, problem_of
from mixfree.reproduce.theory import bounds
from mixfree.reproduce.theory.concentration import DELTA, LEMMAS, coupling_ratios
from mixfree.reproduce.theory.measures import DIAMETER, MEASURES
from mixfree.reproduce.theory.windows import Windows

__all__ = ["FULL", "QUICK", "cells", "claims", "measure", "report"]

FULL = Settings(samples=1 << 16, seeds=30, p=(0.5, 0.1, 1e-2, 1e-3, 1e-4), first_seed=1000)
QUICK = Settings(samples=1 << 10, seeds=4, p=(0.5, 0.1, 1e-2))
TRIVIAL = "trivial here: no bound is below that of ‖∇f‖ ≤ G"
THIN: dict[str, Any] = {"linewidth": 0.8}
ALONE: dict[str, Any] = {"linestyle": "none", **DOTS}

Found = dict[float, dict[int, list[float]]]  # values by p and size, one per seed


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per measurement, p and seed."""
    # The shortest run of the rate has 4/256 of the samples: at least one.
    check_whole(settings.samples, "samples", least=64)
    common = {"horizon": settings.samples}
    return [
        *(
            {"what": what, "p": p, "seed": seed, **common}
            for what in ("windows", "concentration", "bias", "regret")
            for p in settings.p
            for seed in settings.seed_numbers
        ),
        *({"what": "cost", "p": 0.5, "seed": seed, **common} for seed in settings.seed_numbers),
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
    """Judge every claim, and draw six panels."""
    return Report(
        [_exponents(rows, settings)],
        {"theory": _draw(rows, settings)},
        claims(rows, settings),
        ["Measured at the origin, from a known state; G is the largest gradient norm on the ball."],
    )


def values_of(rows: Iterable[Row], quantity: str) -> Found:
    """Return the values of one quantity, by p and by size."""
    return gather(where(rows, quantity=quantity), "p", "size", "value")


def _gradient_bound(settings: Settings) -> float:
    """Return G over the problems of all seeds."""
    return max(problem_of(seed).largest_gradient for seed in settings.seed_numbers)


def _in_size(rows: list[Row], quantity: str, p: float, least: int = 1) -> Interval:
    """Fit the exponent in the size, over at least three sizes."""
    at_p = [row for row in where(rows, quantity=quantity, p=p) if row["size"] >= least]
    return exponent(at_p if len({row["size"] for row in at_p}) > 2 else [], "size", "value")


def _in_mixing(rows: list[Row], quantity: str) -> Interval:
    """Fit the exponent in the mixing time at the longest size."""
    found = where(rows, quantity=quantity)
    longest = max(row["size"] for row in found)
    last = [{**r, "τ": mixing_time(r["p"])} for r in found if r["size"] == longest]
    return exponent(last, "τ", "value")


def _exponents(rows: list[Row], settings: Settings) -> Table:
    """Compare the measured exponents with those of the bounds."""
    far = {p: _in_size(rows, "error", p, 4 * mixing_time(p)) for p in settings.p}
    falls = {p: _in_size(rows, "suboptimality", p) for p in settings.p}
    lines = [
        *(
            (f"error of a mean, in N, p = {p:g}", fit, "-0.5")
            for p, fit in far.items()
            if not math.isnan(fit.value)
        ),
        ("error of a mean, in τ", _in_mixing(rows, "error"), "+0.5"),
        ("second moment, in τ", _in_mixing(rows, "second moment"), "+1"),
        *((f"suboptimality, in T, p = {p:g}", fit, "-0.5") for p, fit in falls.items()),
        ("suboptimality, in τ", _in_mixing(rows, "suboptimality"), "+0.5"),
    ]
    return Table(
        f"Exponents of the mean, horizon {settings.samples:,}, {settings.seeds} seeds, 95 %",
        ["quantity", "measured", "bound"],
        [(name, fit.text("+.2f"), bound) for name, fit, bound in lines],
    )


def claims(rows: list[Row], settings: Settings) -> list[Claim]:
    """Return a claim per statement, first equalities and orders, then bounds with constants."""
    costs = next(iter(values_of(rows, "cost").values()))
    steps = [at.values() for at in values_of(rows, "steps").values()]
    cost = "Lemma 3.1: samples per step are 1 + Σ 2^−j(2^j − 1) = O(log T)"
    return [
        bias_claim(rows, settings),
        Claim.equal(cost, [(v, bounds.expected_cost(size)) for size, v in costs.items()]),
        _closed_form(
            "Eq. (7): E‖g^N − ∇F‖² is the closed form",
            values_of(rows, "square error"),
            Windows.mean_square_error,
            settings,
        ),
        _closed_form(
            "Lemma 3.1: E‖g^MLMC‖² is the closed form",
            values_of(rows, "second moment"),
            lambda found, n: found.second_moment(n.bit_length() - 1),
            settings,
        ),
        Claim.equal(
            "Algorithm 1: T·E[2^J] samples are T steps",
            [(values, 1.0) for at in steps for values in at],
        ),
        coupling_claim(settings),
        *(deviation_claim(rows, lemma) for lemma in LEMMAS),
        *_order_claims(rows, settings),
        *_constant_claims(rows, settings),
    ]


def bias_claim(rows: list[Row], settings: Settings) -> Claim:
    """Claim that estimates with levels up to jmax have the mean of means of 2^jmax samples."""
    found = _beside(values_of(rows, "bias"), Windows.offset, settings)
    off = [(np.subtract(values, exact).tolist(), 0.0) for values, exact in found]
    return Claim.equal("Lemma 3.1: E g^MLMC = E g^jmax", off)


def _closed_form(
    text: str, found: Found, exact: Callable[[Windows, int], float], settings: Settings
) -> Claim:
    """Compare measurements with the closed form on a chain with two states."""
    ratios = [np.divide(*pair).tolist() for pair in _beside(found, exact, settings)]
    return Claim.equal(text, [(values, 1.0) for values in ratios])


def _beside(
    found: Found, exact: Callable[[Windows, int], float], settings: Settings
) -> list[tuple[list[float], list[float]]]:
    """Return the values of all seeds, and the exact ones, at each p and size."""
    return [
        (values, [exact(Windows(problem_of(seed), p), size) for seed in settings.seed_numbers])
        for p, at in found.items()
        for size, values in at.items()
    ]


def coupling_claim(settings: Settings) -> Claim:
    """Compare both sides of Lemma A.1, exactly."""
    found = [each for p in settings.p for each in coupling_ratios(p, mixing_time(p))]
    text = "Lemma A.1: n states K steps apart are within (n − 1)d(K) of independent ones"
    if not found:
        return Claim(text, TRIVIAL, None)
    measured = f"{min(found):.2f} to {max(found):.2f} of it, exactly"
    return Claim(text, measured, max(found) <= 1.0 + 1e-9)


def deviation_claim(rows: list[Row], lemma: str) -> Claim:
    """Claim that means of ±1 along the chain rarely deviate by more than the bound of a lemma."""
    beyond, share = values_of(rows, f"beyond {lemma}"), values_of(rows, f"share {lemma}")
    text = f"Lemma {lemma}: at most {DELTA:.0%} of the means deviate by more than its bound"
    often = _several(beyond)
    largest = max((max(v) for at in share.values() for v in at.values()), default=0.0)
    most = max((each.value for each in often.values()), default=0.0)
    measured = f"at most {most:.1%}, and by {largest:.2f} of it, at {len(often)} sizes"
    return Claim.below(text, often, DELTA, measured=measured, empty=TRIVIAL)


def _several(found: Found) -> dict[tuple[float, int], Interval]:
    return {(p, n): bootstrap(values) for p, at in found.items() for n, values in at.items()}


def _order_claims(rows: list[Row], settings: Settings) -> list[Claim]:
    """Return claims about exponents, and the regret of every run."""
    sharp = _sharp_constants(settings)
    regrets = [max(v) for at in values_of(rows, "regret").values() for v in at.values()]
    regret = max(regrets, default=math.nan)
    return [
        Claim(
            "Eq. (7) is sharp: where only the state matters, the error is 1 to 3 times G²τ/N",
            f"{min(sharp):.2f} to {max(sharp):.2f} for N ≥ 100τ",
            min(sharp) >= 0.95 and max(sharp) <= 3.0,
        ),
        Claim(
            "Lemma 3.2: the regret of every run is within D√(2 Σ‖g‖²)",
            f"largest ratio {regret:.2f}",
            regret <= 1.0,
        ),
        Claim.below(
            "Theorem 3.3: the suboptimality falls at least like T^−½ at every p",
            {f"p = {p:g}": _in_size(rows, "suboptimality", p) for p in settings.p},
            -0.5,
        ),
        Claim.below(
            "Theorem 3.3: the suboptimality grows at most like τ^½",
            _in_mixing(rows, "suboptimality"),
            0.5,
        ),
    ]


def _sharp_constants(settings: Settings) -> list[float]:
    """Return N·E‖g^N − ∇F‖²/(G²τ) for one row per state and N ≥ 100τ."""
    problem = Regression(np.ones((2, 1)), np.array([1.0, -1.0]), per_state=1)
    return [
        size * Windows(problem, p).mean_square_error(size) / mixing_time(p)
        for p in settings.p
        for size in (100 * mixing_time(p), 400 * mixing_time(p))
    ]


def _constant_claims(rows: list[Row], settings: Settings) -> list[Claim]:
    """Claim the bounds with their constants, noting those no sharper than ‖∇f‖ ≤ G."""
    bound, horizon = _gradient_bound(settings), settings.samples
    delays = {p: bounds.decorrelation_time(mixing_time(p), horizon) for p in settings.p}
    excess = {
        f"p = {p:g}, N = {size:,}": share
        for (p, size), share in _several(values_of(rows, "beyond")).items()
        if bounds.deviation(size, bound, DELTA, mixing_time(p), delays[p]) < 2.0 * bound
    }
    deviate = f"Lemma A.5: at most {DELTA:.0%} of the means deviate by more than its bound"
    return [
        within(
            "Lemma 3.1: second moment at most the bound",
            values_of(rows, "second moment"),
            lambda p, n: bounds.second_moment(bound, mixing_time(p), n),
            lambda n: bounds.second_moment(bound, n, n),  # as for a chain that never mixes
        ),
        within(
            "Lemma A.6: error of a mean of N at most the bound",
            values_of(rows, "error"),
            lambda p, n: bounds.mean_error(n, bound, mixing_time(p), horizon),
            lambda n: 2.0 * bound,
        ),
        within(
            "Theorem 3.3: suboptimality at most the bound",
            values_of(rows, "suboptimality"),
            lambda p, n: bounds.convex_rate(bound, DIAMETER, mixing_time(p), n),
            lambda n: bound * DIAMETER,
        ),
        Claim.below(deviate, excess, DELTA, ".1%", empty=TRIVIAL),
    ]


def within(
    text: str,
    found: Found,
    limit: Callable[[float, int], float],
    trivial: Callable[[int], float],
) -> Claim:
    """Claim that all means are within their bounds, where these are below the trivial one."""
    shares = {
        (p, size): bootstrap(np.divide(values, limit(p, size)))
        for p, at in found.items()
        for size, values in at.items()
        if limit(p, size) < trivial(size)
    }
    largest = max((each.value for each in shares.values()), default=0.0)
    measured = f"largest ratio {largest:.1e} at {len(shares)} sizes"
    return Claim.below(text, shares, 1.0, measured=measured, empty=TRIVIAL)


def _draw(rows: list[Row], settings: Settings) -> Figure:
    """Draw six panels: the measurements of each lemma, with exact values or orders as lines."""
    figure, panels = new_figure(2, 3, width=13.0, height=7.5)
    G, T, taus = _gradient_bound(settings), settings.samples, [*map(mixing_time, settings.p)]
    rows = [{**row, "τ": mixing_time(row["p"]), "all": "measured"} for row in rows]
    rows = [{**row, "series": f"τ = {row['τ']:,}"} for row in rows]
    sizes = {q: sorted({r["size"] for r in where(rows, quantity=q)}) for q in ("cost", "error")}
    longest, (bias, moment, error, in_time, cost, rate) = sizes["error"][-1], panels.flat
    _draw_bias(bias, where(rows, quantity="bias"), settings)
    curves(moment, where(rows, quantity="second moment"), "all", "τ", "value", **DOTS)
    curves(error, where(rows, quantity="error"), "series", "size", "value")
    last = where(rows, quantity="error", size=longest)
    curves(in_time, last, "all", "τ", "value", **DOTS)
    slowest = float(np.mean([row["value"] for row in where(last, p=settings.p[-1])]))
    order = slowest * np.sqrt(np.divide(taus, taus[-1]))
    in_time.plot(taus, order, color="black", label="∝ √τ", **THIN)
    curves(cost, where(rows, quantity="cost"), "all", "size", "value", **ALONE)
    exact = [bounds.expected_cost(size) for size in sizes["cost"]]
    cost.plot(sizes["cost"], exact, color="black", label="exact", **THIN)
    curves(rate, where(rows, quantity="suboptimality"), "series", "size", "value", **DOTS)
    steps = {row["size"] for row in where(rows, quantity="suboptimality")}
    least = {  # bounds, which are too far away to be drawn
        moment: min(bounds.second_moment(G, tau, T) for tau in taus),
        error: min(bounds.mean_error(n, G, tau, T) for tau in taus for n in sizes["error"]),
        rate: min(bounds.convex_rate(G, DIAMETER, tau, n) for tau in taus for n in steps),
    }
    for axes, title, x, y in (
        (bias, "Lemma 3.1: bias of the estimate (lines: exact)", "largest window, 2^jmax",
         "‖E estimate − gradient‖"),
        (moment, "Lemma 3.1: second moment of the estimate", "mixing time",
         f"E‖estimate‖², T = {T:,}"),
        (error, "Lemma A.6: error of a mean of N", "samples N in the mean", "E‖mean − gradient‖"),
        (in_time, "Lemma A.6: error against the mixing time", "mixing time",
         f"E‖mean of {longest:,} − gradient‖"),
        (cost, "Lemma 3.1: samples per step", "horizon T", "samples per step"),
        (rate, "Theorem 3.3: rate of Algorithm 1", "steps T", "suboptimality"),
    ):  # fmt: skip
        log_log(axes, x, y)
        axes.set_title(title + _beyond(least.get(axes)), fontsize="medium")
        if len(axes.lines) > 1:
            axes.legend(frameon=False, fontsize="small")
    cost.set_yscale("linear")
    return figure


def _draw_bias(axes: Axes, rows: list[Row], settings: Settings) -> None:
    """Draw the bias and its exact values, where there is any: at mixing times above 1."""
    windows = {p: [Windows(problem_of(seed), p) for seed in settings.seed_numbers]
               for p in settings.p if mixing_time(p) > 1}  # fmt: skip
    # With the sign of the exact bias, so that all values fit on a logarithmic axis.
    along = [
        {
            **row,
            "value": math.copysign(1.0, windows[row["p"]][0].offset(row["size"])) * row["value"],
        }
        for row in rows
        if row["p"] in windows
    ]
    curves(axes, along, "series", "size", "value", **ALONE)
    sizes = sorted({row["size"] for row in rows})
    for index, own in enumerate(windows.values()):
        exact = [np.mean([abs(each.offset(size)) for each in own]) for size in sizes]
        axes.plot(sizes, exact, color=PALETTE[index], **THIN)


def _beyond(least: float | None) -> str:
    if least is None:
        return ""
    power = math.floor(math.log10(least))
    shown = f"{least:,.0f}" if power < 4 else rf"${least / 10**power:.1f} \cdot 10^{{{power}}}$"
    return f"\nbounds: {shown} and above, not drawn"
