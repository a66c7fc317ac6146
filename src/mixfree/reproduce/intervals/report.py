"""The report on intervals: coverage by model, correlation and length, and warnings."""

from collections.abc import Callable
from typing import Any

from mixfree.base.figures import new_figure
from mixfree.reproduce.engine.report import Claim, Figure, Report, Row, Table, curves, gather
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import Estimate, estimate

__all__ = ["HAC", "INDEPENDENT", "OURS", "OURS_WITH_FEW", "intervals_report"]

OURS, OURS_WITH_FEW = "batch means", "batch means, 2,048 rows kept"
HAC, INDEPENDENT = "Newey–West", "rows as independent"
NOMINAL = 0.95
LOW = 0.9  # coverage below which intervals are useless
SLOW = 0.9  # largest ρ for which coverage must be close to nominal

Cell = tuple[str, float, int]  # model, ρ, rows
Found = dict[Cell, dict[str, Estimate]]  # by method


def intervals_report(rows: list[Row], settings: Settings) -> Report:
    """Make tables, figure and claims; the longest streams are judged."""
    found, warned = _by_cell(rows, "covered"), _by_cell(rows, "warned")
    lengths = sorted({row["rows"] for row in rows})
    return Report(
        [_coverage(found, warned, length, settings.seeds) for length in lengths],
        {"intervals": _figure(rows, lengths)},
        _claims(found, warned, settings.samples),
        [
            "Coverage is the share of weights whose interval holds the weight of the least "
            "expected loss, intercept included, ± the half of its 95 % interval over streams.",
            "Features and noise are AR(1) with ρ. quadratic and probit are fitted by a linear and "
            "a logistic model, which are not right about them.",
            f"{INDEPENDENT}: White's sandwich. {HAC}: 4(T/100)^(2/9) lags. All kinds but "
            f"'{OURS_WITH_FEW}' are around the same weights.",
        ],
    )


def _by_cell(rows: list[Row], value: str) -> Found:
    return {
        cell: {method: estimate(values) for method, values in group.items()}
        for cell, group in gather(rows, ("model", "rho", "rows"), "method", value).items()
    }


def _coverage(found: Found, warned: Found, length: int, seeds: int) -> Table:
    here = {cell: group for cell, group in found.items() if cell[2] == length}
    names = list(dict.fromkeys(name for group in here.values() for name in group))
    names = [name for name in (INDEPENDENT, HAC, OURS, OURS_WITH_FEW) if name in names]
    return Table(
        f"Coverage of 95 % intervals in per cent, {length:,} rows, {seeds} streams",
        ["model", "ρ", *names, "streams with a warning"],
        [
            (
                model,
                f"{rho:g}",
                *(group[name].percent() if name in group else "" for name in names),
                f"{100.0 * warned[model, rho, length][OURS].mean:.0f}",
            )
            for (model, rho, _), group in here.items()
        ],
    )


def _claims(found: Found, warned: Found, longest: int) -> list[Claim]:
    def ours(wanted: Callable[[float], bool]) -> dict[str, Estimate]:
        return {
            f"{model}, ρ = {rho:g}" + (", few rows kept" if name == OURS_WITH_FEW else ""): value
            for (model, rho, rows), group in found.items()
            for name, value in group.items()
            if rows == longest and wanted(rho) and name in (OURS, OURS_WITH_FEW)
        }

    def worst(values: dict[str, Estimate], of: Callable[..., Any]) -> str:
        name = of(values, key=lambda key: values[key].mean)
        return f"{values[name].percent()} % ({name})"

    short = {
        f"{group[OURS].percent()} %, warned of in {100.0 * warned[cell][OURS].mean:.0f} % "
        f"({cell[0]}, ρ = {cell[1]:g})": warned[cell][OURS].mean
        for cell, group in found.items()
        if cell[2] < longest and group[OURS].mean < LOW
    }
    fast, slow = ours(lambda rho: rho <= SLOW), ours(lambda rho: rho > SLOW)
    return [
        Claim(
            f"{longest:,} rows, ρ ≤ {SLOW}: coverage of {OURS} is 92 to 97 %",
            f"{worst(fast, min)} to {worst(fast, max)}",
            all(0.92 <= value.mean <= 0.97 for value in fast.values()),
        ),
        Claim(
            f"{longest:,} rows, ρ above: at least 90 %",
            f"at least {worst(slow, min)}",
            all(value.mean >= LOW for value in slow.values()),
        ),
        Claim(
            "shorter streams: where coverage is below 90 %, 80 % of the streams have a warning",
            "; ".join(short) or "never below 90 %",
            all(share >= 0.8 for share in short.values()),
        ),
    ]


def _figure(rows: list[Row], lengths: list[int]) -> Figure:
    models = list(dict.fromkeys(row["model"] for row in rows))
    rhos = sorted({row["rho"] for row in rows})
    figure, axes = new_figure(
        len(lengths),
        len(models),
        width=2.6 * len(models) + 2.0,
        height=2.5 * len(lengths),
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    for line, length in zip(axes, lengths, strict=True):
        for place, model in zip(line, models, strict=True):
            mine = [
                {**row, "place": rhos.index(row["rho"]), "coverage": 100.0 * row["covered"]}
                for row in rows
                if (row["model"], row["rows"]) == (model, length)
            ]
            curves(place, mine, "method", "place", "coverage", marker="o", markersize=4)
            place.axhline(100.0 * NOMINAL, color="black", linewidth=0.8, zorder=0)
            place.set_ylim(0.0, 102.0)
            place.set_title(f"{model}, {length:,} rows", fontsize="medium")
            place.set_xticks(range(len(rhos)), [f"{rho:g}" for rho in rhos])
        line[0].set_ylabel("coverage, %")
    for place in axes[-1]:
        place.set_xlabel("ρ")
    legend = max((place for line in axes for place in line), key=lambda each: len(each.lines))
    figure.legend(*legend.get_legend_handles_labels(), frameon=False, loc="outside right upper")
    return figure
