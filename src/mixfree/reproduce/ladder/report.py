"""The report of :mod:`mixfree.reproduce.ladder.experiment`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mixfree.base.figures import line_style, log_log, new_figure
from mixfree.reproduce.engine.report import Claim, Report, Row, Table, gather
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.ladder.contenders import CONTENDERS
from mixfree.reproduce.ladder.hindsight import AVERAGES, COARSE
from mixfree.steps.profile import ENOUGH

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STEPS", "TUNED", "ladder_report"]

Place = tuple[str, int]  # case, samples
OFF_SCALE = 1e4  # ratio above which a method is off the figure's scale
SAME = "best step for all seeds"
TUNED = "adagrad, best α"
STEPS = [f"{average} average, step {power:g}" for power in COARSE for average in AVERAGES]


def ladder_report(rows: list[Row], settings: Settings) -> Report:
    """Make two tables, two figures, and compare the targets with what was measured."""
    suite, paper = (_means([r for r in rows if r["study"] == s]) for s in ("suite", "paper"))
    ratios = {place: _over_oracle(found) for place, found in suite.items()}
    profiles = [row for row in rows if row["study"] == "profile"]
    return Report(
        [_suite_table(ratios, settings), _paper_table(paper)],
        {"ladder": _suite_figure(ratios), "profile": _profile_figure(profiles)},
        [*_suite_claims(ratios), *_paper_claims(paper)],
    )


def _means(rows: list[Row]) -> dict[Place, dict[str, float]]:
    """Mean suboptimality over the seeds, by case and length, and by method."""
    placed = ({**row, "place": (row["case"], row["samples"])} for row in rows)
    return {
        place: {name: float(np.mean(gaps)) for name, gaps in methods.items()}
        for place, methods in gather(placed, "place", "method", "suboptimality").items()
    }


def _over_oracle(found: dict[str, float]) -> dict[str, float]:
    """Each method's mean suboptimality divided by the oracle's."""
    return {name: found[name] / found["oracle"] for name in CONTENDERS}


def _geometric_mean(values: list[float]) -> float:
    """exp of the mean logarithm."""
    return float(np.exp(np.mean(np.log(values))))


def _suite_table(ratios: dict[Place, dict[str, float]], settings: Settings) -> Table:
    """One line per case and length, then the geometric mean and the worst."""
    columns = {name: [each[name] for each in ratios.values()] for name in CONTENDERS}
    lines = [
        (case, f"{samples:,}", *(_number(each[name]) for name in CONTENDERS))
        for (case, samples), each in ratios.items()
    ]
    lines.append(("geometric mean", "", *(_number(_geometric_mean(v)) for v in columns.values())))
    lines.append(("worst", "", *(_number(max(v)) for v in columns.values())))
    title = f"Suboptimality over that of the best in hindsight, {settings.seeds} seeds"
    return Table(title, ["case", "samples", *CONTENDERS], lines)


def _paper_table(paper: dict[Place, dict[str, float]]) -> Table:
    """The paper's problem: suboptimality itself, one line per method."""
    found = [{**each, SAME: _same_step(each)} for each in paper.values()]
    lines = [
        (name, *(f"{each[name]:.2e}" for each in found))
        for name in ("oracle", SAME, *CONTENDERS, TUNED)
    ]
    samples = " and ".join(dict.fromkeys(f"{samples:,}" for _, samples in paper))
    title = f"Suboptimality on the paper's problem, no domain, {samples} samples"
    return Table(title, ["", *(case.removeprefix("regression ") for case, _ in paper)], lines)


def _same_step(found: dict[str, float]) -> float:
    """The least mean over the seeds of one constant step and average used for all of them."""
    return min(found[name] for name in STEPS)


def _suite_claims(ratios: dict[Place, dict[str, float]]) -> list[Claim]:
    """The targets of the ladder on the suite."""
    ladder = [each["ladder"] for each in ratios.values()]
    mean, worst = _geometric_mean(ladder), max(ladder)
    where = max(ratios, key=lambda place: ratios[place]["ladder"])
    return [
        Claim("Geometric mean of the ratio at most 1.3", f"{mean:.2f}", mean <= 1.3),
        Claim(
            "Worst ratio at most 4", f"{worst:.2f} at {where[0]}, {where[1]:,} samples", worst <= 4
        ),
    ]


def _paper_claims(paper: dict[Place, dict[str, float]]) -> list[Claim]:
    """The targets of the ladder on the paper's problem."""
    oracle = {case: found["ladder"] / found["oracle"] for (case, _), found in paper.items()}
    mag = {case: found["ladder"] / found["mag"] for (case, _), found in paper.items()}
    tuned = {
        case: found["ladder"] / found[TUNED]
        for (case, _), found in paper.items()
        if case.endswith("p=0.5")
    }
    return [
        _at_most("Paper's problem: at most 1.5 times the oracle", oracle, 1.5),
        _at_most("Paper's problem: at most half of MAG", mag, 0.5),
        _at_most("Independent data: at most 1.5 times AdaGrad with its best α", tuned, 1.5),
    ]


def _suite_figure(ratios: dict[Place, dict[str, float]]) -> Figure:
    """Plot one dot per method and stream; what is off the scale is drawn at its edge."""
    drawn, axes = new_figure(width=7.5, height=0.14 * len(ratios) + 1.5)
    places = list(ratios)
    for index, name in enumerate(CONTENDERS):
        values = np.minimum([ratios[place][name] for place in places], OFF_SCALE)
        style = {"color": line_style(index)["color"], "marker": "osD^v"[index]}
        axes.plot(values, range(len(places)), label=name, linestyle="none", markersize=4, **style)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("suboptimality over that of the best constant step in hindsight")
    labels = [f"{case}, {samples:,}" for case, samples in places]
    axes.set_yticks(range(len(places)), labels, fontsize=6)
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(CONTENDERS))
    return drawn


def _profile_figure(rows: list[Row]) -> Figure:
    """Plot the ladder's profile: the variance inflation of its levels on the paper's problem."""
    drawn, axes = new_figure(width=7.0, height=3.6)
    reliable = (row for row in rows if row["blocks"] >= ENOUGH)
    for index, (case, levels) in enumerate(gather(reliable, "case", "length", "ratio").items()):
        name = case.removeprefix("regression p=")
        ratios = [ratio for (ratio,) in levels.values()]
        axes.plot(list(levels), ratios, label=f"p = {name}", **line_style(index))
        if float(name) < 0.5:
            color = line_style(index)["color"]
            axes.axvline(0.5 / float(name), color=color, linewidth=0.8, linestyle="dotted")
    log_log(axes)
    axes.set_xlabel("block length in samples (dotted: 1/(2p), the correlation scale)")
    axes.set_ylabel("variance inflation over\nindependent gradients")
    if axes.lines:  # a short run has no level with enough blocks
        axes.legend(frameon=False)
    return drawn


def _at_most(text: str, ratios: dict[str, float], limit: float) -> Claim:
    measured = ", ".join(f"{ratio:.2f} ({case})" for case, ratio in ratios.items())
    return Claim(text, measured, all(ratio <= limit for ratio in ratios.values()))


def _number(value: float) -> str:
    if value >= OFF_SCALE:
        return f"over {OFF_SCALE:.0e}"
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"
