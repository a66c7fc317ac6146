"""The TD report: errors, their exponents, and claims about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixfree.base.figures import log_log, new_figure
from mixfree.reproduce.engine.report import Claim, Report, Row, Table, curves, every, gather
from mixfree.reproduce.engine.statistics import (
    Estimate,
    estimate,
    exponent_over_seeds,
    paired_ratio,
)
from mixfree.reproduce.td.processes import FAMILIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BASELINE", "OURS", "td_report"]

OURS, BASELINE = "MAG", "TD 1/√T"
MIXED = 10  # mixing times after which the exponent in the samples is fitted

Found = dict[tuple[Any, ...], dict[str, Estimate]]  # by process or family, then by method


def td_report(rows: list[Row], longest: int, shared: int, seeds: int) -> Report:
    """Make tables, figures and claims; all runs reach ``shared`` transitions, two ``longest``.

    The growth with the mixing time is judged at the longest horizon.
    """
    slopes = _exponents(_mixed(rows), ("chain", "parameter"), "samples")
    times = {name: {r["mixing_time"] for r in rows if r["chain"] == name} for name in FAMILIES}
    growing = [
        row for row in rows if len(times[row["chain"]]) > 1 and longest % row["samples"] == 0
    ]
    growth = _exponents(growing, ("chain", "samples"), "mixing_time")
    last = [row for row in rows if row["samples"] == longest]
    return Report(
        [
            _errors([row for row in rows if row["samples"] == shared], shared, seeds),
            _comparison(last, longest, seeds),
            _slopes(slopes),
            _growth(growth),
        ],
        {
            "td-samples": _against_samples(rows),
            "td-mixing-time": _against_mixing_time(rows, shared),
        },
        _claims(
            slopes, {key[0]: found for key, found in growth.items() if key[1] == longest}, last
        ),
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
    """Rows from 10 mixing times on, and at least each method's last decade."""
    last: dict[str, int] = {}
    for row in rows:
        last[row["method"]] = max(row["samples"], last.get(row["method"], 0))
    return [
        row
        for row in rows
        if row["samples"] >= min(MIXED * row["mixing_time"], last[row["method"]] // 10)
    ]


def _exponents(rows: list[Row], keys: tuple[str, ...], x: str) -> Found:
    """Exponent of the error in ``x`` for each method."""
    grouped = ({"key": tuple(row[key] for key in keys), "row": row, **row} for row in rows)
    return {
        key: {method: exponent_over_seeds(mine, x, "error") for method, mine in group.items()}
        for key, group in gather(grouped, "key", "method", "row").items()
    }


def _by_process(rows: list[Row]) -> dict[tuple[str, float], dict[str, list[float]]]:
    """Errors of every method on every process, in the order of the seeds."""
    placed = ({"process": (row["chain"], row["parameter"]), **row} for row in rows)
    return gather(placed, "process", "method", "error")


def _title(key: tuple[Any, ...]) -> str:
    family, parameter = key
    return {"sticky": f"sticky, p = {parameter:g}", "Boyan": "Boyan"}.get(
        family, f"reversed streak, n = {parameter:g}"
    )


def _names(groups: dict[Any, dict[str, Any]]) -> list[str]:
    """The methods, in the order of their first row."""
    return list(dict.fromkeys(name for group in groups.values() for name in group))


def _errors(rows: list[Row], samples: int, seeds: int) -> Table:
    times = {(row["chain"], row["parameter"]): row["mixing_time"] for row in rows}
    groups = _by_process(rows)
    names = _names(groups)
    return Table(
        f"Relative error after {samples:,} transitions, {seeds} seeds, 95 %",
        ["process", "mixing time", *names],
        [
            (_title(key), f"{times[key]:,}", *(estimate(found[name]) for name in names))
            for key, found in groups.items()
        ],
    )


def _comparison(last: list[Row], samples: int, seeds: int) -> Table:
    return Table(
        f"Relative error after {samples:,} transitions, {seeds} seeds, 95 %",
        ["process", OURS, BASELINE, f"{BASELINE} / {OURS}, seed by seed"],
        [
            (
                _title(key),
                estimate(found[OURS]),
                estimate(found[BASELINE]),
                paired_ratio(found[BASELINE], found[OURS]),
            )
            for key, found in _by_process(last).items()
        ],
    )


def _slopes(slopes: Found) -> Table:
    names = _names(slopes)
    return Table(
        f"Exponent of the error in the number of transitions, from {MIXED} mixing times on",
        ["process", *names],
        [(_title(key), *(found[name].short() for name in names)) for key, found in slopes.items()],
    )


def _growth(growth: Found) -> Table:
    names = _names(growth)
    return Table(
        "Exponent of the error in the exact mixing time, decade by decade",
        ["family", "transitions", *names],
        [
            (family, f"{samples:,}", *(f[name].short() if name in f else "" for name in names))
            for (family, samples), f in sorted(growth.items())
        ],
    )


def _claims(slopes: Found, growth: dict[str, dict[str, Estimate]], last: list[Row]) -> list[Claim]:
    flattest = max(slopes, key=lambda key: slopes[key][OURS].mean)
    claims = [
        Claim(
            f"{OURS}'s error decays with exponent −0.4 or below in the samples, on every process",
            f"at most {slopes[flattest][OURS].short()} ({_title(flattest)})",
            every(found[OURS].below(-0.4) for found in slopes.values()),
        )
    ]
    for family, found in growth.items():
        ours, other = found[OURS], found[BASELINE]
        claims.append(
            Claim(
                f"{family}: {OURS}'s exponent in the mixing time is below that of {BASELINE}",
                f"{ours.short()} against {other.short()}",
                Estimate(ours.mean - other.mean, ours.half + other.half).below(0.0),
            )
        )
    ratios = {
        key: paired_ratio(found[OURS], found[BASELINE]) for key, found in _by_process(last).items()
    }
    lost = [_title(key) for key, ratio in ratios.items() if ratio.below_one is False]
    claims.append(
        Claim(
            f"{OURS}'s final error is below that of {BASELINE} on every process",
            f"not on: {'; '.join(lost)}" if lost else "above on none",
            every(ratio.below_one for ratio in ratios.values()),
        )
    )
    return claims


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
    return figure


def _against_mixing_time(rows: list[Row], samples: int) -> Figure:
    figure, axes = new_figure(1, 2, width=10.2, height=3.6, sharey=True)
    for place, family in zip(axes, FAMILIES, strict=False):
        mine = [r for r in rows if r["chain"] == family and r["samples"] == samples]
        curves(place, mine, "method", "mixing_time", "error", marker="o", markersize=4)
        log_log(place, "exact mixing time", "relative error" if place is axes[0] else "")
        place.set_title(f"{family}, {samples:,} transitions", fontsize="medium")
        times = sorted({r["mixing_time"] for r in mine})
        place.set_xticks(times, [f"{time:,}" for time in times])
        place.set_xticks([], minor=True)
    axes[1].legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
