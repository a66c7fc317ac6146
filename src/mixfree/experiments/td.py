"""TD learning: the error against samples and against the mixing time, beside Bhandari's TD."""

from typing import Any

import numpy as np

from mixfree.experiments.report import Claim, Report, Row, Table, curves
from mixfree.experiments.settings import Settings
from mixfree.experiments.statistics import Estimate, estimate, exponent
from mixfree.experiments.td_processes import STREAKS, process_of
from mixfree.figures import log_log, new_figure
from mixfree.td import RewardProcess, TDLearner

FULL = Settings(samples=1_000_000, seeds=30, p=(0.5, 5e-2, 5e-3, 5e-4, 5e-5))
QUICK = FULL.changed(samples=30_000, seeds=3)

LEVELS = 10  # windows of up to 1,024 transitions
BASELINE = "TD 1/√T"
FIRST = 1000  # transitions at which curves begin
MIXED = 10  # mixing times after which the exponent in the samples is fitted
FAMILIES = ("reversed streak", "sticky", "Boyan")


def cells(settings: Settings) -> list[dict[str, Any]]:
    """One for each process and seed."""
    parameters = {"reversed streak": STREAKS, "sticky": settings.p, "Boyan": (0,)}
    return [
        {"chain": family, "parameter": parameter, "seed": seed, "samples": settings.samples}
        for family in FAMILIES
        for parameter in parameters[family]
        for seed in range(settings.seeds)
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """The error of every method on one trajectory, on a grid of two horizons a decade."""
    process = process_of(cell["chain"], cell["parameter"])
    path = process.simulate(cell["samples"], seed=cell["seed"])
    scale = process.error(np.zeros_like(process.theta_star))
    time = process.chain.mixing_time()
    rows = []
    for method, settings in methods(process).items():
        learner, done = None, 0
        for horizon in horizons(cell["samples"]):
            if learner is None or "horizon" in settings:
                # A step that needs to know T needs a run of its own for every T.
                given = {**settings, "horizon": horizon} if "horizon" in settings else settings
                learner, done = _start(process, cell["seed"], **given), 0
            learner.update_many(*(part[done:horizon] for part in path))
            done = horizon
            rows.append(
                {
                    "chain": cell["chain"],
                    "parameter": cell["parameter"],
                    "mixing_time": time,
                    "method": method,
                    "seed": cell["seed"],
                    "samples": horizon,
                    "error": process.error(learner.average) / scale,
                }
            )
    return rows


def methods(process: RewardProcess) -> dict[str, dict[str, Any]]:
    """Settings of each learner; MAG is told nothing but the radius, as all of them are."""
    return {
        "MAG": {"method": "mag", "levels": LEVELS},
        "ladder": {"method": "ladder"},
        BASELINE: {"method": "projected-td", "horizon": None},
        "TD 0.1": {"method": "projected-td", "step_size": 0.1},
        "TD 1/(ω(1−γ)t)": {"method": "projected-td", "omega": process.omega},
    }


def horizons(samples: int) -> list[int]:
    """Two a decade, up to all samples; at least the last decade."""
    first = min(FIRST, samples // 10)
    grid = [round(first * 10 ** (k / 2)) for k in range(20)]
    return [each for each in grid if each < samples] + [samples]


def report(rows: list[Row], settings: Settings) -> Report:
    """Errors against samples on every process, and their growth with the mixing time."""
    mixed = [
        row
        for row in rows
        if row["samples"] >= min(MIXED * row["mixing_time"], settings.samples // 10)
    ]
    slopes = _exponents(mixed, ("chain", "parameter"), "samples")
    last = [row for row in rows if row["samples"] == settings.samples]
    final = _final(last)
    times = {name: {r["mixing_time"] for r in last if r["chain"] == name} for name in FAMILIES}
    growing = [row for row in last if len(times[row["chain"]]) > 1]
    growth = _exponents(growing, ("chain",), "mixing_time")
    return Report(
        [_errors(final, last, settings), _slopes(slopes), _growth(growth)],
        {"td-samples": _against_samples(rows), "td-mixing-time": _against_mixing_time(last)},
        _claims(slopes, growth, final),
        [
            "The error is ‖V_θ* − V_θ̄‖²_M divided by that of θ = 0; the radius is 2‖θ*‖ for every "
            "method.",
            f"MAG draws from {LEVELS} levels. TD 1/√T knows T, and TD 1/(ω(1−γ)t) knows ω.",
            "On the reversed streak the states that make the mixing time long are visited with "
            "probability 2^(1−n), so that no method's error can grow much with it.",
        ],
    )


def _start(process: RewardProcess, seed: int, **settings: Any) -> TDLearner:
    radius = 2.0 * float(np.linalg.norm(process.theta_star))
    return TDLearner(process.features, process.gamma, radius, seed=seed, **settings)


def _exponents(
    rows: list[Row], keys: tuple[str, ...], x: str
) -> dict[tuple[Any, ...], dict[str, Estimate]]:
    """Exponent of the error in ``x`` for each method: one fit a seed, then their interval."""
    points: dict[Any, dict[str, dict[int, list[tuple[float, float]]]]] = {}
    for row in rows:
        group = points.setdefault(tuple(row[key] for key in keys), {})
        group.setdefault(row["method"], {}).setdefault(row["seed"], []).append(
            (row[x], row["error"])
        )
    return {
        key: {
            method: estimate([exponent(*zip(*fit, strict=True)) for fit in seeds.values()])
            for method, seeds in group.items()
        }
        for key, group in points.items()
    }


def _title(key: tuple[Any, ...]) -> str:
    family, parameter = key
    return {"sticky": f"sticky, p = {parameter:g}", "Boyan": "Boyan"}.get(
        family, f"reversed streak, n = {parameter:g}"
    )


def _final(last: list[Row]) -> dict[tuple[str, float], dict[str, Estimate]]:
    """The last error of every method on every process."""
    found: dict[tuple[str, float], dict[str, list[float]]] = {}
    for row in last:
        group = found.setdefault((row["chain"], row["parameter"]), {})
        group.setdefault(row["method"], []).append(row["error"])
    return {
        key: {method: estimate(errors) for method, errors in group.items()}
        for key, group in found.items()
    }


def _errors(
    final: dict[tuple[str, float], dict[str, Estimate]], last: list[Row], settings: Settings
) -> Table:
    times = {(row["chain"], row["parameter"]): row["mixing_time"] for row in last}
    names = list(next(iter(final.values())))
    return Table(
        f"Relative error after {settings.samples:,} transitions, {settings.seeds} seeds, 95 %",
        ["process", "mixing time", *names],
        [
            (_title(key), f"{times[key]:,}", *(found[name] for name in names))
            for key, found in final.items()
        ],
    )


def _slopes(slopes: dict[tuple[Any, ...], dict[str, Estimate]]) -> Table:
    names = list(next(iter(slopes.values())))
    return Table(
        f"Exponent of the error in the number of transitions, from {MIXED} mixing times on",
        ["process", *names],
        [(_title(key), *(_short(found[name]) for name in names)) for key, found in slopes.items()],
    )


def _growth(growth: dict[tuple[Any, ...], dict[str, Estimate]]) -> Table:
    names = list(next(iter(growth.values())))
    return Table(
        "Exponent of the last error in the exact mixing time",
        ["family", *names],
        [(key[0], *(_short(found[name]) for name in names)) for key, found in growth.items()],
    )


def _short(found: Estimate) -> str:
    return f"{found.mean:.2f} ± {found.half:.2f}"


def _claims(
    slopes: dict[tuple[Any, ...], dict[str, Estimate]],
    growth: dict[tuple[Any, ...], dict[str, Estimate]],
    final: dict[tuple[str, float], dict[str, Estimate]],
) -> list[Claim]:
    flattest = max(slopes, key=lambda key: slopes[key]["MAG"].mean)
    claims = [
        Claim(
            "MAG's error falls with exponent −0.4 or below in the samples, on every process",
            f"at most {_short(slopes[flattest]['MAG'])} ({_title(flattest)})",
            slopes[flattest]["MAG"].mean <= -0.4,
        )
    ]
    for (family,), found in growth.items():
        mag, other = found["MAG"], found[BASELINE]
        claims.append(
            Claim(
                f"{family}: MAG's exponent in the mixing time is below that of {BASELINE}",
                f"{_short(mag)} against {_short(other)}",
                mag.high < other.low,
            )
        )
    lost = [_title(key) for key, found in final.items() if found["MAG"].mean > found[BASELINE].mean]
    claims.append(
        Claim(
            f"MAG's last error is below that of {BASELINE} on every process",
            f"not on: {'; '.join(lost)}" if lost else "on all",
            not lost,
        )
    )
    return claims


def _against_samples(rows: list[Row]) -> Any:
    slow = min(
        (r["parameter"] for r in rows if r["chain"] == "sticky"), key=lambda p: abs(p - 5e-4)
    )
    shown = [("reversed streak", 16), ("sticky", slow), ("Boyan", 0)]
    figure, axes = new_figure(1, len(shown), width=10.5, height=3.6, sharey=True)
    for place, key in zip(axes, shown, strict=True):
        curves(
            place,
            [r for r in rows if (r["chain"], r["parameter"]) == key],
            "method",
            "samples",
            "error",
        )
        log_log(place, "transitions", "relative error" if place is axes[0] else "")
        place.set_title(_title(key), fontsize="medium")
    axes[0].legend(frameon=False, fontsize="small")
    return figure


def _against_mixing_time(last: list[Row]) -> Any:
    figure, axes = new_figure(1, 2, width=8.4, height=3.6, sharey=True)
    for place, family in zip(axes, FAMILIES, strict=False):
        curves(
            place,
            [r for r in last if r["chain"] == family],
            "method",
            "mixing_time",
            "error",
            marker="o",
            markersize=4,
        )
        log_log(place, "exact mixing time", "relative error" if place is axes[0] else "")
        place.set_title(family, fontsize="medium")
        times = sorted({r["mixing_time"] for r in last if r["chain"] == family})
        place.set_xticks(times, [f"{time:,}" for time in times])
        place.set_xticks([], minor=True)
    axes[1].legend(frameon=False, fontsize="small")
    return figure
