"""The report of :mod:`mixfree.reproduce.ladder.experiment`."""

from collections.abc import Iterable

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.figures import line_style, log_log, new_figure, styles_of
from mixfree.reproduce.engine.report import Claim, Figure, Report, Row, Table, gather, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.ladder.contenders import CONTENDERS, MEMORY, WITHOUT
from mixfree.reproduce.ladder.draws import FAMILIES
from mixfree.steps.profile import ENOUGH

__all__ = ["EACH", "FITTED", "ORACLE", "SHUFFLED", "TUNED", "ladder_report"]

ORACLE = "best constant step"
EACH = "best constant step for each seed"
SHUFFLED = "ladder, samples shuffled"
FITTED = "least squares of the samples"
TUNED = "adagrad, best α for each seed"
OFF_SCALE = 1e4  # ratio above which a method is off the figure's scale
LEFT = 0.02  # smaller ratios are drawn here
WORST = 10  # worst cases listed


def ladder_report(rows: list[Row], settings: Settings) -> Report:
    """Make the tables and figures, and compare the targets with what was measured."""
    drawn = where(rows, study="drawn")
    ratios = _over_oracle(drawn)
    paper, memory = (
        gather(where(rows, study=study), "p", "method", "suboptimality")
        for study in ("paper", "memory")
    )
    profiles = where(rows, study="profile")
    tables = [_distribution(ratios, settings), _by_family(drawn, ratios), _worst(drawn, ratios)]
    return Report(
        [
            *tables,
            _by_p(
                "Suboptimality on the paper's problem, no domain",
                paper,
                (ORACLE, EACH, *CONTENDERS, TUNED),
            ),
            _by_p(
                "The same after a fifth of the samples",
                memory,
                ("ladder", MEMORY, SHUFFLED, FITTED),
            ),
        ],
        {"ladder": _distribution_figure(drawn, ratios), "profile": _profile_figure(profiles)},
        [*_distribution_claims(ratios), *_paper_claims(paper), _memory_claim(memory)],
    )


def _over_oracle(drawn: list[Row]) -> dict[str, Array]:
    """Return each method's suboptimality over that of the best constant step, per case."""
    found = gather(drawn, "method", "seed", "suboptimality")
    best = np.array([gap for (gap,) in found[ORACLE].values()])
    # Diverged runs have a large but finite ratio.
    return {
        name: np.minimum(np.array([gap for (gap,) in found[name].values()]) / best, 1e300)
        for name in CONTENDERS
    }


def _geometric_mean(values: Array) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


def _distribution(ratios: dict[str, Array], settings: Settings) -> Table:
    """Tabulate quantiles of the ratios, one line per method."""
    lines = []
    for name, values in ratios.items():
        shown = [_geometric_mean(values), *np.quantile(values, [0.5, 0.9, 0.95]), values.max()]
        lines.append((name, *map(_number, shown)))
    first, last = settings.first_seed, settings.first_seed + len(ratios["ladder"]) - 1
    title = (
        f"Suboptimality on the stream over that of the best constant step, cases {first} to {last}"
    )
    return Table(title, ["", "geometric mean", "median", "90 %", "95 %", "worst"], lines)


def _families(drawn: list[Row]) -> Array:
    """Return the family of each case, in the order of the ratios."""
    return np.array([row["family"] for row in where(drawn, method=ORACLE)])


def _by_family(drawn: list[Row], ratios: dict[str, Array]) -> Table:
    """Tabulate geometric means, one line per family."""
    families = _families(drawn)
    lines = [
        (name, int(where.sum()), *(_number(_geometric_mean(v[where])) for v in ratios.values()))
        for name in FAMILIES
        if (where := families == name).any()
    ]
    return Table("The same as geometric means by family", ["", "cases", *ratios], lines)


def _worst(drawn: list[Row], ratios: dict[str, Array]) -> Table:
    """Tabulate the cases in which the ladder is worst."""
    cases = [(row["case"], row["seed"]) for row in where(drawn, method=ORACLE)]
    places = np.argsort(-ratios["ladder"])[:WORST]
    lines = [(*cases[i], *(_number(v[i]) for v in ratios.values())) for i in places]
    return Table(f"The ladder's worst {len(lines)} cases", ["", "seed", *ratios], lines)


def _by_p(title: str, found: dict[float, dict[str, list[float]]], names: Iterable[str]) -> Table:
    lines = [(name, *(f"{each[name][0]:.2e}" for each in found.values())) for name in names]
    return Table(title, ["", *(f"p = {p:g}" for p in found)], lines)


def _distribution_claims(ratios: dict[str, Array]) -> list[Claim]:
    """Return the targets on random streams."""
    ladder, memory = ratios["ladder"], ratios[MEMORY]
    mean, most, worst = _geometric_mean(ladder), float(np.quantile(ladder, 0.95)), ladder.max()
    kept, harmed = _geometric_mean(memory), float(np.mean(memory > 1.1 * ratios[WITHOUT]))
    return [
        Claim("Geometric mean of the ladder's ratio at most 1.1", f"{mean:.2f}", mean <= 1.1),
        Claim("95 % of its ratios at most 4", f"{most:.2f}", most <= 4.0),
        Claim("Its worst ratio at most 20", _number(worst), bool(worst <= 20.0)),
        Claim("Geometric mean with memory at most 0.3", _number(kept), kept <= 0.3),
        Claim(
            "With memory more than 1.1 times the estimator without in at most 5 % of the cases",
            f"{harmed:.1%}",
            harmed <= 0.05,
        ),
    ]


def _paper_claims(paper: dict[float, dict[str, list[float]]]) -> list[Claim]:
    """Return the targets on the paper's problem."""

    def against(other: str) -> dict[float, float]:
        return {p: each["ladder"][0] / each[other][0] for p, each in paper.items()}

    independent = {p: ratio for p, ratio in against(TUNED).items() if p == 0.5}
    return [
        _at_most("Paper's problem: at most 1.5 times the best constant step", against(ORACLE), 1.5),
        _at_most("Paper's problem: at most half of MAG", against("mag"), 0.5),
        _at_most("Independent data: at most 1.5 times AdaGrad, best α", independent, 1.5),
    ]


def _memory_claim(memory: dict[float, dict[str, list[float]]]) -> Claim:
    """Claim that memory costs little where it cannot help."""
    ratios = {
        p: each[MEMORY][0] / min(each["ladder"][0], each[SHUFFLED][0]) for p, each in memory.items()
    }
    text = "Paper's problem with memory: at most 1.3 times the better of the ladder and shuffled"
    return _at_most(text, ratios, 1.3)


def _distribution_figure(drawn: list[Row], ratios: dict[str, Array]) -> Figure:
    """Plot for each family the share of cases below a ratio, one line per method."""
    families = _families(drawn)
    there = [name for name in FAMILIES if (families == name).any()]
    drawing, axes = new_figure(1, len(there), width=2.6 * len(there), height=3.6, sharey=True)
    styles = styles_of(ratios)
    for place, name in zip(np.atleast_1d(axes), there, strict=True):
        for method, values in ratios.items():
            inside = np.sort(values[families == name])
            share = np.arange(1, inside.size + 1) / inside.size
            shown = np.clip(inside, LEFT, OFF_SCALE)
            place.step(shown, share, where="post", label=method, **styles[method])
        place.axvline(1.0, color="black", linewidth=0.6)
        place.set_xscale("log")
        place.set_xlim(LEFT / 2.0, OFF_SCALE)
        place.set_title(f"{name}, {inside.size} cases", fontsize=9)
    first = np.atleast_1d(axes)[0]
    first.set_ylabel("share of the cases at or below")
    drawing.supxlabel("suboptimality over that of the best constant step", size=9)
    handles, labels = first.get_legend_handles_labels()
    drawing.legend(
        handles,
        labels,
        title="Error beside the best constant step, further left is better",
        frameon=False,
        loc="outside upper center",
        ncols=len(ratios),
    )
    return drawing


def _profile_figure(rows: list[Row]) -> Figure:
    """Plot the ladder's profile: the variance inflation of its levels on the paper's problem."""
    drawn, axes = new_figure(width=7.0, height=3.6)
    reliable = (row for row in rows if row["blocks"] >= ENOUGH)
    for index, (p, levels) in enumerate(gather(reliable, "p", "length", "ratio").items()):
        ratios = [ratio for (ratio,) in levels.values()]
        axes.plot(list(levels), ratios, label=f"p = {p:g}", **line_style(index))
        if p < 0.5:
            color = line_style(index)["color"]
            axes.axvline(0.5 / p, color=color, linewidth=0.8, linestyle="dotted")
    log_log(axes)
    axes.set_xlabel("block length in samples (dotted: 1/(2p), the correlation scale)")
    axes.set_ylabel("variance inflation over\nindependent gradients")
    axes.set_title("How correlated gradients are, by the ladder's own levels", loc="left")
    if axes.lines:  # a short run has no level with enough blocks
        axes.legend(frameon=False)
    return drawn


def _at_most(text: str, ratios: dict[float, float], limit: float) -> Claim:
    measured = ", ".join(f"{ratio:.2f} (p = {p:g})" for p, ratio in ratios.items())
    return Claim(text, measured, all(ratio <= limit for ratio in ratios.values()))


def _number(value: float) -> str:
    if value >= OFF_SCALE:
        return f"over {OFF_SCALE:.0e}"
    if 0.0 < value < 0.01:
        return f"{value:.0e}"
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"
