"""The report on TD learning after the paper: tables, claims and figures of the four parts."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mixfree.base.figures import log_log, new_figure
from mixfree.reproduce.after_td.exact import best_variance, limit, process_of, universal_step
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
from mixfree.reproduce.engine.statistics import Estimate, estimate, exponent

__all__ = [
    "AVERAGED",
    "BATCH",
    "CRITICS",
    "EXTRAPOLATED",
    "LONG",
    "MAC",
    "SINGLE",
    "SKIP",
    "after_td_report",
]

AVERAGED, EXTRAPOLATED, SKIP = "averaged TD", "Richardson–Romberg", "TD-skip"
MAC, SINGLE, BATCH, LONG = "MAC", "AC, single", "AC, 5 at a time", "AC, 32 at a time"
CRITICS = ("tabular", "linear")
GROUPS = 5  # groups of seeds, each of which gives one exponent


def after_td_report(rows: list[Row], settings: Settings) -> Report:
    """Make tables, claims and figures of all parts."""
    parts = {part: where(rows, part=part) for part in ("error", "bias", "coverage", "control")}
    errors, bias = _Errors(parts["error"]), _Bias(parts["bias"])
    seeds = settings.seed_numbers
    return Report(
        [
            errors.table(),
            bias.table(),
            bias.growth_table(),
            _coverage_table(parts["coverage"]),
            _control_table(parts["control"]),
        ],
        {
            "after-td-error": errors.figure(),
            "after-td-bias": bias.figure(),
            "after-td-control": _control_figure(parts["control"]),
        },
        [
            *errors.claims(),
            *bias.claims(),
            *_coverage_claims(parts["coverage"]),
            *_control_claims(parts["control"]),
        ],
        [
            f"Seeds {seeds[0]} to {seeds[-1]}; ± is half of a 95 % interval.",
            "The error is ‖V_θ* − V_θ‖²_M divided by that of θ = 0. Exact bias², exact bias and "
            "best variance are closed forms of the chain.",
            "The bias is measured against the least-squares fixed point of the same transitions.",
        ],
    )


class _Errors:
    """Errors of tail averages with the step that depends on γ alone."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = [{**row, "title": _title(row)} for row in rows]
        self.samples = max(row["samples"] for row in rows)
        self.exact: dict[str, tuple[int, float, float, float]] = {}
        for row in self.rows:
            if row["title"] not in self.exact:
                process = process_of(row["process"], row["p"])
                alpha = universal_step(process)
                scale = process.error(np.zeros_like(process.theta_star))
                once, twice = limit(process, alpha), limit(process, 2.0 * alpha)
                self.exact[row["title"]] = (
                    process.chain.mixing_time(),
                    process.error(once) / scale,
                    process.error(2.0 * once - twice) / scale,
                    best_variance(process) / scale,
                )
        last = where(self.rows, samples=self.samples)
        self.last = gather(last, "title", "method", "value")

    def table(self) -> Table:
        names = (AVERAGED, EXTRAPOLATED, SKIP)
        lines = []
        for title, found in self.last.items():
            time, floor, _, variance = self.exact[title]
            means = [estimate(found[name]) for name in names]
            best = variance / self.samples
            lines.append((title, time, means[0], f"{floor:.2e}", *means[1:], f"{best:.2e}"))
        return Table(
            f"Relative error after {self.samples:,} transitions, step (1−γ)/(1+γ)²",
            [
                "process",
                "mixing time",
                AVERAGED,
                "its exact bias²",
                *names[1:],
                "best variance / n",
            ],
            lines,
        )

    def claims(self) -> list[Claim]:
        kept = _tail(self.samples)
        explained, near_best = {}, {}
        for title, found in self.last.items():
            _, floor, second, variance = self.exact[title]
            explained[title] = _divided(estimate(found[AVERAGED]), floor + variance / kept)
            near_best[title] = _divided(estimate(found[EXTRAPOLATED]), second + variance / kept)
        return [
            Claim(
                f"{AVERAGED}: the error is its exact bias² plus the best variance, within 25 %",
                _listed(explained),
                every(_between(ratio, 0.75, 1.25) for ratio in explained.values()),
            ),
            Claim(
                f"{EXTRAPOLATED}: the error is at most twice the best variance",
                _listed(near_best),
                every(ratio.below(2.0) for ratio in near_best.values()),
            ),
        ]

    def figure(self) -> Figure:
        figure, axes = new_figure(1, len(self.exact), width=10.5, height=3.6, sharey=True)
        for place, (title, exact) in zip(axes, self.exact.items(), strict=True):
            mine = where(self.rows, title=title)
            curves(place, mine, "method", "samples", "value")
            at = np.array(sorted({row["samples"] for row in mine}))
            place.plot(at, exact[3] / at, color="black", lw=0.8, label="best variance / n")
            place.axhline(exact[1], color="grey", lw=0.8, ls=(0, (1, 2)), label="exact bias²")
            log_log(place, "transitions", "relative error" if place is axes[0] else "")
            place.set_title(f"{title}, mixing time {exact[0]}", fontsize="medium")
        axes[0].legend(frameon=False, fontsize="small")
        return figure


class _Bias:
    """The bias of averages, by step and by mixing time."""

    def __init__(self, rows: list[Row]) -> None:
        steps = gather(rows, ("process", "p"), "alpha")
        self.slow = [row for row in rows if len(steps[row["process"], row["p"]]) == 1]
        several = [row for row in rows if len(steps[row["process"], row["p"]]) > 1]
        self.found = gather(several, ("process", "method"), "alpha", "value")

    def exact(self, name: str, method: str, alpha: float, p: float = 0.05) -> float:
        """Return the limit of the measured distance."""
        process = process_of(name, p)
        bias = limit(process, alpha) - process.theta_star
        if method == EXTRAPOLATED:
            bias = 2.0 * bias - (limit(process, 2.0 * alpha) - process.theta_star)
        return float(np.linalg.norm(bias))

    def table(self) -> Table:
        lines = []
        for (name, method), by_step in self.found.items():
            if method == AVERAGED:
                other = self.found[name, EXTRAPOLATED]
                for alpha, values in by_step.items():
                    also = other.get(alpha)
                    lines.append(
                        (
                            name,
                            f"{alpha:g}",
                            estimate(values),
                            f"{self.exact(name, AVERAGED, alpha):.2e}",
                            estimate(also) if also else "",
                            f"{self.exact(name, EXTRAPOLATED, alpha):.2e}" if also else "",
                        )
                    )
        head = ["process", "α", f"bias, {AVERAGED}", "exact", f"bias, {EXTRAPOLATED}", "exact"]
        return Table("Bias of averages with a constant step, p = 0.05", head, lines)

    def growth(self) -> dict[float, tuple[int, Estimate, float]]:
        """Return, by p, the mixing time, the measured and the exact bias."""
        found = {}
        for p in dict.fromkeys(row["p"] for row in self.slow):
            rows = where(self.slow, p=p)
            name, alpha = rows[0]["process"], rows[0]["alpha"]
            time = process_of(name, p).chain.mixing_time()
            bias = estimate([row["value"] for row in rows])
            found[p] = time, bias, self.exact(name, AVERAGED, alpha, p)
        return found

    def growth_table(self) -> Table:
        return Table(
            f"Bias against the mixing time, least squares, α = {self.slow[0]['alpha']:g}",
            ["p", "mixing time", f"bias, {AVERAGED}", "exact"],
            [
                (f"{p:g}", time, mean, f"{exact:.2e}")
                for p, (time, mean, exact) in self.growth().items()
            ],
        )

    def claims(self) -> list[Claim]:
        slopes = {key: exponent_of(by_step) for key, by_step in self.found.items()}
        first = {n: slope for (n, method), slope in slopes.items() if method == AVERAGED}
        second = {n: slope for (n, method), slope in slopes.items() if method == EXTRAPOLATED}
        ratios = {
            f"{name}, α = {alpha:g}": _divided(estimate(values), self.exact(name, method, alpha))
            for (name, method), by_step in self.found.items()
            if method == AVERAGED
            for alpha, values in by_step.items()
        }
        by_time = {p: [r["value"] for r in where(self.slow, p=p)] for p in self.growth()}
        times = {p: time for p, (time, _, _) in self.growth().items()}
        growth = exponent_of({times[p]: values for p, values in by_time.items()})
        return [
            Claim(
                "The bias of the average is of first order in α: exponent 0.9 to 1.1",
                _exponents(first),
                every(_between(slope, 0.9, 1.1) for slope in first.values()),
            ),
            Claim(
                f"{EXTRAPOLATED} leaves the second order: exponent 1.7 to 2.3",
                _exponents(second),
                every(_between(slope, 1.7, 2.3) for slope in second.values()),
            ),
            Claim(
                "The bias is the closed form, within 10 %, at every α",
                _extremes(ratios),
                every(_between(ratio, 0.9, 1.1) for ratio in ratios.values()),
            ),
            Claim(
                "The bias is about proportional to the mixing time: exponent 0.85 to 1.15",
                growth.short(),
                _between(growth, 0.85, 1.15),
            ),
        ]

    def figure(self) -> Figure:
        names = list(dict.fromkeys(name for name, _ in self.found))
        figure, axes = new_figure(1, len(names), width=8.4, height=3.6)
        for place, name in zip(axes, names, strict=True):
            for method, marker, color in (
                (AVERAGED, "o", "#0072B2"),
                (EXTRAPOLATED, "s", "#D55E00"),
            ):
                by_step = self.found[name, method]
                steps = sorted(by_step)
                means = [estimate(by_step[alpha]) for alpha in steps]
                sizes = np.array([abs(each.mean) for each in means])
                halves = np.minimum([each.half for each in means], 0.98 * sizes)
                exact = [self.exact(name, method, alpha) for alpha in steps]
                style = {"marker": marker, "color": color, "ls": "none", "capsize": 3}
                place.errorbar(steps, sizes, yerr=halves, label=method, **style)
                place.plot(steps, exact, color=color, lw=1.0, label=f"{method}, exact")
            log_log(place, "step α", "bias" if place is axes[0] else "")
            steps = sorted(self.found[name, AVERAGED])
            place.set_xticks(steps, [f"{alpha:g}" for alpha in steps])
            place.set_xticks([], minor=True)
            place.set_title(name, fontsize="medium")
        axes[0].legend(frameon=False, fontsize="small")
        return figure


def exponent_of(values: dict[Any, list[float]]) -> Estimate:
    """Fit the exponent of the mean of values in their key per group of seeds, and average.

    Examples
    --------
    >>> exponent_of({1.0: [1.0, 3.0, 2.0], 10.0: [10.0, 30.0, 20.0]}).short()
    '+1.00 ± 0.00'
    """
    places = sorted(values)
    groups = min(GROUPS, *(len(each) for each in values.values()))
    means = [[np.mean(part) for part in np.array_split(values[x], groups)] for x in places]
    return estimate([exponent(places, np.abs(group)) for group in np.transpose(means)])


def _coverage_table(rows: list[Row]) -> Table:
    samples, streams = rows[0]["samples"], len({(row["seed"], row["stream"]) for row in rows})
    alphas = {row["process"]: row["alpha"] for row in rows}
    return Table(
        f"Coverage of 95 % intervals in per cent, {samples:,} transitions, {streams} streams",
        ["process", "α", AVERAGED, EXTRAPOLATED],
        [
            (name, f"{alphas[name]:g}", *(found[m].percent() for m in (AVERAGED, EXTRAPOLATED)))
            for name, found in _covered(rows).items()
        ],
    )


def _covered(rows: list[Row]) -> dict[str, dict[str, Estimate]]:
    return {
        name: {method: estimate(values) for method, values in found.items()}
        for name, found in gather(rows, "process", "method", "value").items()
    }


def _coverage_claims(rows: list[Row]) -> list[Claim]:
    found = _covered(rows)

    def described(method: str) -> str:
        return "; ".join(f"{each[method].percent()} % ({name})" for name, each in found.items())

    return [
        Claim(
            f"Intervals of {EXTRAPOLATED} cover at least 92 %",
            described(EXTRAPOLATED),
            all(each[EXTRAPOLATED].mean >= 0.92 for each in found.values()),
        ),
        Claim(
            "Those of the plain average, with its bias, cover less than 90 %",
            described(AVERAGED),
            all(each[AVERAGED].mean < 0.90 for each in found.values()),
        ),
    ]


def _problems(rows: list[Row]) -> dict[tuple[str, str], dict[str, list[float]]]:
    """Return final gaps by problem and critic, then by method, in the order of the seeds."""
    last = where(rows, samples=max(row["samples"] for row in rows))
    return gather(last, ("process", "critic"), "method", "value")


def _control_table(rows: list[Row]) -> Table:
    samples = max(row["samples"] for row in rows)
    names = (MAC, SINGLE, BATCH, LONG)

    def cell(values: list[float]) -> str:
        found = estimate(values)
        return f"{found.mean:.3f} ± {found.half:.3f}; {np.median(values):.3f}"

    return Table(
        f"Share of the best average reward that is lacking after {samples:,} transitions: "
        "mean; median",
        ["problem", "critic", *names],
        [(*problem, *(cell(each[n]) for n in names)) for problem, each in _problems(rows).items()],
    )


def _control_claims(rows: list[Row]) -> list[Claim]:
    claims = []
    for other in (SINGLE, BATCH, LONG):
        less = {
            f"{name}, {critic}": estimate(np.subtract(found[MAC], found[other]))
            for (name, critic), found in _problems(rows).items()
        }
        claims.append(
            Claim(
                f"{MAC} lacks less of the best average reward than {other}, on every problem",
                _extremes(less, signed=True),
                every(difference.below(0.0) for difference in less.values()),
            )
        )
    return claims


def _control_figure(rows: list[Row]) -> Figure:
    problems = list(_problems(rows))
    columns = list(dict.fromkeys(name for name, _ in problems))
    figure, axes = new_figure(
        len(CRITICS), len(columns), width=10.5, height=6.0, sharex=True, sharey=True
    )
    for line, critic in zip(axes, CRITICS, strict=True):
        for place, name in zip(line, columns, strict=True):
            mine = where(rows, process=name, critic=critic)
            curves(place, mine, "method", "samples", "value")
            place.set_xscale("log")
            place.set_ylim(0.0, 1.05)
            place.set_title(f"{name}, {critic} critic", fontsize="medium")
        line[0].set_ylabel("share of the best\naverage reward lacking")
    for place in axes[-1]:
        place.set_xlabel("transitions")
    names = axes[0, 0].get_legend_handles_labels()
    figure.legend(*names, frameon=False, ncols=4, loc="outside upper center")
    return figure


def _title(row: Row) -> str:
    return f"{row['process']}, p = {row['p']:g}" if row["p"] else row["process"]


def _tail(samples: int) -> int:
    """Return the number of iterates in a tail average, from half of the last power of two on."""
    return samples - (1 << (samples.bit_length() - 1)) // 2 + 1


def _divided(found: Estimate, by: float) -> Estimate:
    return Estimate(found.mean / by, found.half / by)


def _between(found: Estimate, low: float, high: float) -> bool | None:
    """Whether the value is between two limits; None if the interval does not decide."""
    above = Estimate(-found.mean, found.half).below(-low)
    return every([above, found.below(high)])


def _listed(ratios: dict[str, Estimate]) -> str:
    return "; ".join(f"{r.mean:.2f} ± {r.half:.2f} ({name})" for name, r in ratios.items())


def _exponents(slopes: dict[str, Estimate]) -> str:
    return "; ".join(f"{slope.short()} ({name})" for name, slope in slopes.items())


def _extremes(found: dict[str, Estimate], signed: bool = False) -> str:
    def described(of: Callable[..., str]) -> str:
        name = of(found, key=lambda key: found[key].mean)
        mean = f"{found[name].mean:{'+' if signed else ''}.3f}"
        return f"{mean} ± {found[name].half:.3f} ({name})"

    return f"{described(min)} to {described(max)}"
