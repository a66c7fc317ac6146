"""The TD report: errors, their exponents, and claims about them.

The errors of MAG have heavy tails: means have bootstrapped intervals and are shown with medians.
Exponents are those of the mean over the seeds, which Theorem 5.2 bounds.
"""

from typing import Any

import numpy as np

from mixfree.base.figures import label_ends, log_log, new_figure
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
from mixfree.reproduce.engine.statistics import (
    Interval,
    bootstrap_mean,
    difference_of_exponents,
    exponent_of_mean,
    exponent_over_seeds,
    paired_ratio,
    spread,
)
from mixfree.reproduce.td.processes import FAMILIES, process_of
from mixfree.reproduce.theory import bounds

__all__ = ["BASELINE", "OURS", "SHORTER", "td_report"]

OURS, BASELINE = "MAG", "TD 1/√T"
PROCESS = ("chain", "parameter")  # what names a process in the rows
SINGLY = f"{OURS}, seed by seed"
SHORTER = 10  # factor by which all runs but those of the two methods compared are shorter
MIXED = 10  # mixing times after which the exponent in the samples is fitted
FALL, GROWTH = -0.5, 0.5  # exponents of T and τ in Theorem 5.2

Groups = dict[tuple[Any, ...], dict[str, list[Row]]]  # by process or family, then by method


def td_report(rows: list[Row], settings: Settings) -> Report:
    """Make tables, figures and claims.

    All runs reach the shorter horizon, where they are compared. The growth with the mixing time is
    judged at the longer one, which two methods reach.
    """
    longest, seeds = settings.samples, settings.seeds
    shared = longest // SHORTER
    falling = gather(_mixed(rows), PROCESS, "method")
    times = {name: {r["mixing_time"] for r in where(rows, chain=name)} for name in FAMILIES}
    growing = gather(
        [row for row in rows if len(times[row["chain"]]) > 1 and longest % row["samples"] == 0],
        ("chain", "samples"),
        "method",
    )
    last = where(rows, samples=longest)
    compared = where(rows, samples=shared)
    return Report(
        [
            _errors(compared, shared, seeds),
            _medians(compared, shared, seeds),
            _comparison(last, longest, seeds),
            _exponents(
                "Exponent of the mean error in the number of transitions, from "
                f"{MIXED} mixing times on, 95 %",
                ["process"],
                {(_title(key),): found for key, found in falling.items()},
                "samples",
            ),
            _exponents(
                "Exponent of the mean error in the exact mixing time, decade by decade, 95 %",
                ["family", "transitions"],
                {(name, f"{n:,}"): found for (name, n), found in sorted(growing.items())},
                "mixing_time",
            ),
        ],
        {
            "td-samples": _against_samples(rows),
            "td-mixing-time": _against_mixing_time(rows, shared),
        },
        [
            *_claims(falling, {k[0]: found for k, found in growing.items() if k[1] == longest}),
            _final_claim(last),
            _bound_claim(last),
        ],
        [
            "The error is ‖V_θ* − V_θ̄‖²_M divided by that of θ = 0; the radius is 2‖θ*‖ for every "
            "method.",
            f"{OURS} draws its levels as Algorithm 1 does, capped by the samples seen so far. "
            f"{BASELINE} knows T, and TD 1/(ω(1−γ)t) knows ω.",
            "On the reversed streak the states that make the mixing time long are visited with "
            "probability 2^(1−n), so that no method's error can grow much with it.",
        ],
    )


def _mixed(rows: list[Row]) -> list[Row]:
    """Select rows from 10 mixing times on, and at least each method's last decade."""
    last = {method: max(found) for method, found in gather(rows, "method", "samples").items()}
    return [
        row
        for row in rows
        if row["samples"] >= min(MIXED * row["mixing_time"], last[row["method"]] // 10)
    ]


def _title(key: tuple[Any, ...]) -> str:
    family, parameter = key
    return {"sticky": f"sticky, p = {parameter:g}", "Boyan": "Boyan"}.get(
        family, f"reversed streak, n = {parameter:g}"
    )


def _names(groups: dict[Any, dict[str, Any]]) -> list[str]:
    """Return the methods, in the order of their first row."""
    return list(dict.fromkeys(name for group in groups.values() for name in group))


def _errors(rows: list[Row], samples: int, seeds: int) -> Table:
    times = {(row["chain"], row["parameter"]): row["mixing_time"] for row in rows}
    groups = gather(rows, PROCESS, "method", "error")
    names = _names(groups)
    return Table(
        f"Mean relative error after {samples:,} transitions, {seeds} seeds, 95 % by bootstrap",
        ["process", "mixing time", *names],
        [
            (_title(key), f"{times[key]:,}", *(bootstrap_mean(found[name]) for name in names))
            for key, found in groups.items()
        ],
    )


def _medians(rows: list[Row], samples: int, seeds: int) -> Table:
    groups = gather(rows, PROCESS, "method", "error")
    names = _names(groups)
    return Table(
        f"Median after {samples:,} transitions, with the 10 % and the 90 % quantile of {seeds}",
        ["process", *names],
        [(_title(key), *(spread(found[name]) for name in names)) for key, found in groups.items()],
    )


def _comparison(last: list[Row], samples: int, seeds: int) -> Table:
    return Table(
        f"Relative error after {samples:,} transitions, {seeds} seeds",
        [
            "process",
            f"mean of {OURS}, 95 %",
            "its median (10 % to 90 %)",
            f"mean of {BASELINE}, 95 %",
            "its median (10 % to 90 %)",
            f"{BASELINE} / {OURS}, geometric mean seed by seed, 95 %",
        ],
        [
            (
                _title(key),
                bootstrap_mean(found[OURS]),
                spread(found[OURS]),
                bootstrap_mean(found[BASELINE]),
                spread(found[BASELINE]),
                paired_ratio(found[BASELINE], found[OURS]),
            )
            for key, found in gather(last, PROCESS, "method", "error").items()
        ],
    )


def _exponents(title: str, heads: list[str], groups: Groups, x: str) -> Table:
    """Tabulate exponents of the mean error of every method, and of MAG's seed by seed."""
    names = _names(groups)
    return Table(
        title,
        [*heads, *names, SINGLY],
        [
            (
                *key,
                *(
                    exponent_of_mean(found[name], x, "error").short() if name in found else ""
                    for name in names
                ),
                exponent_over_seeds(found.get(OURS, []), x, "error").short(),
            )
            for key, found in groups.items()
        ],
    )


def _claims(falling: Groups, growing: dict[str, dict[str, list[Row]]]) -> list[Claim]:
    """Return the claims of Theorem 5.2, and the comparison with projected TD."""
    falls = {key: exponent_of_mean(g[OURS], "samples", "error") for key, g in falling.items()}
    flattest = max(falls, key=lambda key: falls[key].value)
    claims = [
        Claim(
            f"Theorem 5.2: {OURS}'s mean error falls at least like T^−½ on every process",
            f"slowest {falls[flattest].short()} ({_title(flattest)})",
            every(found.below(FALL) for found in falls.values()),
        )
    ]
    for family, found in growing.items():
        ours, other = (exponent_of_mean(found[n], "mixing_time", "error") for n in (OURS, BASELINE))
        less = difference_of_exponents(found[OURS], found[BASELINE], "mixing_time", "error")
        claims += [
            Claim.below(
                f"Theorem 5.2: {family}: {OURS}'s mean error grows at most like τ^½", ours, GROWTH
            ),
            Claim(
                f"{family}: {OURS}'s exponent in the mixing time is below that of {BASELINE}",
                f"{ours.short()} against {other.short()}",
                less.below(0.0),
            ),
        ]
    return claims


def _final_claim(last: list[Row]) -> Claim:
    ratios = {
        key: paired_ratio(found[OURS], found[BASELINE])
        for key, found in gather(last, PROCESS, "method", "error").items()
    }
    lost = [_title(key) for key, ratio in ratios.items() if ratio.below(1.0) is False]
    return Claim(
        f"{OURS}'s final error is below that of {BASELINE} on every process, seed by seed",
        f"not on: {'; '.join(lost)}" if lost else "above on none",
        every(ratio.below(1.0) for ratio in ratios.values()),
    )


def _bound_claim(last: list[Row]) -> Claim:
    """Claim Theorem 5.2 with its constants, where it is sharper than ‖θ‖ ≤ R."""
    shares: dict[tuple[str, float], Interval] = {}
    for (family, parameter), group in gather(last, PROCESS, "method").items():
        process, rows = process_of(family, parameter), group[OURS]
        radius = 2.0 * float(np.linalg.norm(process.theta_star))
        largest = float(np.abs(process.r).max())
        steps = min(row["steps"] for row in rows)
        limit = bounds.td_rate(largest, radius, process.gamma, rows[0]["mixing_time"], steps)
        scale = process.error(np.zeros_like(process.theta_star))
        if limit < 4.0 * radius**2:
            shares[family, parameter] = bootstrap_mean([r["error"] * scale / limit for r in rows])
    text = f"Theorem 5.2: {OURS}'s mean error is at most the bound, with its constants"
    if not shares:
        return Claim(text, "trivial here: no bound is below that of ‖θ‖ ≤ R", None)
    largest_share = max(found.value for found in shares.values())
    return Claim(
        text,
        f"largest ratio {largest_share:.1e} on {len(shares)} processes",
        every(found.below(1.0) for found in shares.values()),
    )


def _against_samples(rows: list[Row]) -> Figure:
    slow = min(
        (r["parameter"] for r in rows if r["chain"] == "sticky"), key=lambda p: abs(p - 5e-4)
    )
    shown = [("reversed streak", 16), ("sticky", slow), ("Boyan", 0)]
    figure, axes = new_figure(1, len(shown), width=10.5, height=3.6, sharey=True)
    for place, key in zip(axes, shown, strict=True):
        mine = [r for r in rows if (r["chain"], r["parameter"]) == key]
        curves(place, mine, "method", "samples", "error")
        log_log(place, "transitions", "relative error" if place is axes[0] else "")
        place.set_title(_title(key), fontsize="medium")
    axes[0].legend(frameon=False, fontsize="small")
    figure.suptitle("Error after n transitions, lower is better", fontsize="medium")
    return figure


def _against_mixing_time(rows: list[Row], samples: int) -> Figure:
    figure, axes = new_figure(1, 2, width=10.2, height=3.6, sharey=True)
    for place, family in zip(axes, FAMILIES, strict=False):
        mine = where(rows, chain=family, samples=samples)
        curves(place, mine, "method", "mixing_time", "error", marker="o", markersize=4)
        log_log(place, "exact mixing time", "relative error" if place is axes[0] else "")
        place.set_title(f"{family}, {samples:,} transitions", fontsize="medium")
        times = sorted({r["mixing_time"] for r in mine})
        place.set_xticks(times, [f"{time:,}" for time in times])
        place.set_xticks([], minor=True)
    figure.suptitle("Error against the mixing time, lower is better", fontsize="medium")
    label_ends(axes[1])
    return figure
