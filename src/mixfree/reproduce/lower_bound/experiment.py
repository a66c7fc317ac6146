"""Table 1 where its rates separate: the worst bias of seldom thrown coins, for each mixing time.

The rates of Table 1 hold for every problem, so the error to compare is the largest over the bias
of the coin, δ. Theory: SGD's steps of 1/√t add up to s/√T while a coin lies, and the error is of
that order, τ/√T; with 1/√(τt), known from τ, and with MAG's steps it is √(τ/T), as for the bound.
"""

import math
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.figures import label_ends, log_log, new_figure, styles_of
from mixfree.core.methods import find_method
from mixfree.domains import Ball
from mixfree.reproduce.engine.bootstrap import bootstrap
from mixfree.reproduce.engine.report import Claim, Figure, Report, Row, Table, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import Interval
from mixfree.reproduce.lower_bound.problem import Coins
from mixfree.reproduce.sensitivity.experiment import horizon_for

__all__ = ["FULL", "QUICK", "cells", "measure", "report"]

FULL = Settings(samples=1_000_000, seeds=20, first_seed=1000)
QUICK = Settings(samples=4_000, seeds=2)
STAYS = (2, 8, 32, 128)
LENGTHS = (1 / 16, 1 / 4, 1)  # of the samples, at the third stay
BIASES = tuple(2.0**-k for k in range(1, 12))
# Stated exponents in τ; MAG with five levels has none. AdaGrad is SGD here, as all gradients have
# the length 1.
METHODS = {
    "sgd": 1.0,
    "mag": None,
    "algorithm-1": 0.5,
    "emd": 0.5,
    "sgd-dd": 0.5,
}
NEAR = 0.25  # half the distance between the exponents of √τ and τ, and of √τ and no growth


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per stay, length and seed."""
    cases = [(stay, 1.0) for stay in STAYS] + [(STAYS[2], share) for share in LENGTHS[:-1]]
    return [
        {"stay": stay, "samples": max(32, round(settings.samples * share)), "seed": seed}
        for stay, share in cases
        for seed in settings.seed_numbers
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """Return one row per bias and method."""
    rows = []
    for delta in BIASES:
        coins = Coins(delta, cell["stay"])
        stream = coins.stream(cell["samples"], cell["seed"])
        for name in METHODS:
            opt = _start(name, coins, cell)
            coins.feed(opt, stream)
            error = coins.suboptimality(float(opt.average[0]))
            rows.append({**cell, "delta": delta, "method": name, "suboptimality": error})
    return rows


def _start(name: str, coins: Coins, cell: dict[str, Any]) -> Any:
    method: Any = find_method(name)
    options: dict[str, Any] = {"alpha": 1.0}
    if method.needs_mixing_time():
        options["mixing_time"] = coins.mixing_time
    if name == "algorithm-1":
        options = {"horizon": horizon_for(cell["samples"])}
    return method([0.0], domain=Ball(1.0), seed=cell["seed"], **options)


def report(rows: list[Row], settings: Settings) -> Report:
    """Report the worst errors, and their exponents in the mixing time and in the samples."""
    full = max(row["samples"] for row in rows)
    by_stay = {name: _worst(rows, name, "stay", "samples", full) for name in METHODS}
    by_length = {name: _worst(rows, name, "samples", "stay", STAYS[2]) for name in METHODS}
    times = [Coins(1.0 / 16.0, stay).mixing_time for stay in STAYS]
    lengths = sorted({row["samples"] for row in rows})
    in_time = {name: _exponent(times, found) for name, found in by_stay.items()}
    in_samples = {name: _exponent(lengths, found) for name, found in by_length.items()}
    errors = Table(
        f"Largest mean suboptimality over the bias, {full:,} samples, {settings.seeds} seeds",
        ["method", *(f"stay {stay}, τ = {time}" for stay, time in zip(STAYS, times, strict=True))],
        [
            (name, *(f"{error:.2e}" for error in found.mean(axis=0).max(axis=-1)))
            for name, found in by_stay.items()
        ],
    )
    exponents = Table(
        "Exponents of the largest mean suboptimality, 95 %",
        ["method", "in τ", "stated", f"in T, stay {STAYS[2]}"],
        [
            (name, in_time[name].short(), "" if stated is None else f"{stated:+g}",
             in_samples[name].short())
            for name, stated in METHODS.items()
        ],
    )  # fmt: skip
    figure = _draw(times, by_stay, full)
    return Report([errors, exponents], {"lower-bound": figure}, _claims(in_time))


def _worst(rows: list[Row], method: str, along: str, fixed: str, value: float) -> Array:
    """Return the errors of a method by seed, place and bias."""
    found: dict[tuple[Any, Any, Any], float] = {
        (row["seed"], row[along], row["delta"]): row["suboptimality"]
        for row in where(rows, method=method, **{fixed: value})
    }
    seeds, places, biases = (sorted(set(each)) for each in zip(*found, strict=True))
    return np.array([[[found[s, at, b] for b in biases] for at in places] for s in seeds])


def _exponent(at: list[Any], errors: Array) -> Interval:
    """Fit the exponent of the largest mean error, with its bootstrap interval over the seeds."""
    away = np.log(at) - np.mean(np.log(at))

    def slope(of: Array) -> Array:
        rows = of.reshape(-1, of.shape[-1])
        means = np.array([errors[each].mean(axis=0).max(axis=-1) for each in rows])
        found: Array = np.log(means) @ away / (away @ away)
        return found.reshape(of.shape[:-1])

    return bootstrap(slope, len(errors))


def _claims(in_time: dict[str, Interval]) -> list[Claim]:
    claims = []
    for name, stated in METHODS.items():
        if stated is not None:
            found = in_time[name]
            low, high = stated - NEAR, stated + NEAR
            out = found.high < low or found.low > high
            holds = False if out else True if low < found.low and found.high < high else None
            text = f"{name}: the error grows with an exponent nearer to {stated:g} than to "
            text += "0 or 1" if stated < 1.0 else "0.5"
            claims.append(Claim(text, found.short(), holds))
    sgd, best = in_time["sgd"], in_time["algorithm-1"]
    apart = None if best.high == math.inf else sgd.low > best.high
    text = "SGD grows faster with τ than Algorithm 1, which does not know it either"
    return [*claims, Claim(text, f"{sgd.short()}; {best.short()}", apart)]


def _draw(times: list[int], by_stay: dict[str, Array], samples: int) -> Figure:
    figure, axes = new_figure(width=7.0)
    styles = styles_of(by_stay)
    for name, errors in by_stay.items():
        worst = errors.mean(axis=0).max(axis=-1)
        axes.plot(times, worst, label=name, marker="o", markersize=4, **styles[name])
    bound = np.sqrt(np.array(times) / samples)
    axes.plot(times, bound, color="#8A8A8A", lw=0.8, label="√(τ/T)")
    log_log(axes, "mixing time τ", "largest mean suboptimality over the bias")
    axes.set_title(
        f"Coins that are seldom thrown, {samples:,} samples", loc="left", fontsize="medium"
    )
    label_ends(axes)
    return figure
