"""Table 1, measured: exponents of suboptimality in the samples and in the mixing time."""

import math

from mixfree.base.figures import label_ends, log_log, new_figure
from mixfree.core.methods import find_method
from mixfree.reproduce.engine.report import (
    Claim,
    Figure,
    Report,
    Row,
    Table,
    curves,
    every,
    gather,
    where,
)
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import Interval, exponent_of_mean
from mixfree.reproduce.paper.problem import mixing_time
from mixfree.reproduce.paper.runs import measure_run, regression_cells

__all__ = ["FULL", "QUICK", "cells", "measure", "report"]

# Exponents of T and of the mixing time in the paper's Table 1.
STATED = {
    "sgd": (-0.5, 1.0),
    "emd": (-0.5, 0.5),
    "sgd-dd": (-0.5, 0.5),
    "mag": (-0.5, 0.5),
}
METHODS = (
    "sgd",
    "adagrad",
    "sgd-mlmc",
    "mag",
    "emd",
    "sgd-dd",
    "sgd-er",
    "sgd-rer",
    "minibatch",
)
FULL = Settings(
    samples=5_000_000, seeds=30, methods=METHODS, p=(1e-1, 1e-2, 1e-3, 1e-4), first_seed=1000
)
QUICK = FULL.changed(samples=200_000, seeds=2, p=(1e-1, 1e-2, 1e-3), first_seed=0)
MIXED = 100  # number of mixing times after which the exponent in T is fitted
SLOW = 10  # least mixing time of a slow chain

cells = regression_cells
measure = measure_run


def report(rows: list[Row], settings: Settings) -> Report:
    """Tabulate, per method, what it was given and its exponents beside the stated ones."""
    in_samples = {name: _in_samples(name, rows, settings) for name in settings.methods}
    last = _last(rows)
    in_mixing = {
        name: [_in_mixing_time(where(last, method=name), least) for least in (1, SLOW)]
        for name in settings.methods
    }
    given = Table(
        f"{settings.samples:,} samples, {settings.seeds} seeds; τ: mixing time",
        [
            "method",
            "given τ",
            f"samples per step, p={max(settings.p):g}",
            "stated in T",
            "stated in τ",
        ],
        [
            (
                name,
                "yes" if find_method(name).needs_mixing_time() else "no",
                f"{_samples_per_step(name, rows):.2f}",
                *([f"{stated:+.1f}" for stated in STATED.get(name, [])] or ["", ""]),
            )
            for name in settings.methods
        ],
    )
    fitted = Table(
        "Fitted exponents of the mean suboptimality, 95 % by bootstrap",
        ["method", *(f"T, p={p:g}" for p in settings.p), "in τ", f"in τ ≥ {SLOW}"],
        [
            (name, *(found.short() for found in (*in_samples[name].values(), *in_mixing[name])))
            for name in settings.methods
        ],
    )
    return Report(
        [given, fitted],
        {"table1": _figure(rows, last, settings)},
        _claims(in_samples, in_mixing),
        [
            f"In T: fitted from {MIXED} mixing times on. In τ: at the last sample, over all mixing "
            f"times and over those of at least {SLOW}.",
            "The stated rates are upper bounds up to a constant, over all convex problems. An "
            "exponent fitted over a range of T on one quadratic can be better, and it can be "
            "worse where the bound is still far above the measurement.",
        ],
    )


def _in_samples(method: str, rows: list[Row], settings: Settings) -> dict[float, Interval]:
    """Fit the exponent in T for each p, of the mean over the seeds."""
    mixed = [row for row in rows if row["samples"] >= MIXED * mixing_time(row["p"])]
    return {
        p: exponent_of_mean(where(mixed, method=method, p=p), "samples", "suboptimality")
        for p in settings.p
    }


def _last(rows: list[Row]) -> list[Row]:
    """Return the last row of every run, with the mixing time."""
    return [
        {**max(run, key=lambda row: row["samples"]), "mixing_time": mixing_time(p)}
        for (_, p), runs in gather(rows, ("method", "p"), "seed").items()
        for run in runs.values()
    ]


def _in_mixing_time(last: list[Row], least: int) -> Interval:
    """Fit the exponent in mixing times of at least ``least``, at the end of the runs."""
    slow = [row for row in last if row["mixing_time"] >= least]
    return exponent_of_mean(slow, "mixing_time", "suboptimality")


def _samples_per_step(method: str, rows: list[Row]) -> float:
    """Return the samples per step at the largest p, where methods given τ wait least."""
    own = where(rows, method=method)
    last = max(own, key=lambda row: (row["p"], row["samples"]))
    return float(last["samples"] / last["steps"])


def _claims(
    in_samples: dict[str, dict[float, Interval]], in_mixing: dict[str, list[Interval]]
) -> list[Claim]:
    claims = []
    for name in (name for name in STATED if name in in_samples):
        for text, found, stated in (
            ("in T, at every p,", list(in_samples[name].values()), STATED[name][0]),
            ("in τ", in_mixing[name][:1], STATED[name][1]),
            (f"in τ ≥ {SLOW}", in_mixing[name][1:], STATED[name][1]),
        ):
            text = f"{name}: fitted exponent {text} at most {stated:+g}"
            holds = every(each.below(stated) for each in found)
            claims.append(Claim(text, _slowest(found).short(), holds))
    return claims


def _slowest(found: list[Interval]) -> Interval:
    measured = [each for each in found if not math.isnan(each.value)]
    return max(measured, key=lambda each: each.value) if measured else found[0]


def _figure(rows: list[Row], last: list[Row], settings: Settings) -> Figure:
    figure, axes = new_figure(1, 2, width=10.0, sharey=True)
    slowest = min(settings.p)
    slow = [row for row in rows if row["p"] == slowest and row["samples"] >= 1000]
    curves(axes[0], slow, "method", "samples", "suboptimality", shade=False)
    log_log(axes[0], "samples observed", "suboptimality")
    title = f"Error after n samples, p = {slowest:g}, lower is better"
    axes[0].set_title(title, loc="left", fontsize="medium")
    dots = {"marker": "o", "markersize": 4}
    curves(axes[1], last, "method", "mixing_time", "suboptimality", shade=False, **dots)
    log_log(axes[1], "exact mixing time")
    title = f"Error after {settings.samples:,} samples by mixing time"
    axes[1].set_title(title, loc="left", fontsize="medium")
    label_ends(axes[1])
    return figure
