"""The report of :mod:`mixfree.reproduce.sensitivity.experiment`."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mixfree.base.figures import new_figure, styles_of
from mixfree.reproduce.engine.bootstrap import median_ratio, ratio_of_means
from mixfree.reproduce.engine.report import Claim, Figure, Report, Row, Table, every, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import Ratio
from mixfree.reproduce.paper.problem import mixing_time
from mixfree.reproduce.sensitivity.choices import CHOICES

__all__ = ["PAIRS", "sensitivity_report"]

PAIRS = (("mag", "adagrad"), ("mag", "sgd"), ("mag", "sgd-mlmc"), ("sgd-mlmc", "sgd"))
BEST, BETTER = slice(0, 3), slice(0, 4, 3)  # the ratios of each half of the claim
Errors = Mapping[str, Mapping[int, float]]  # of each method, by seed


def sensitivity_report(rows: list[Row], settings: Settings, full: Settings) -> Report:
    """Make one table of ratios of means per p, one of medians, and a claim per choice.

    Verdicts are given by runs of the ``full`` size.
    """
    tables, figures, claims = [], {}, []
    for p in settings.p:
        errors = _errors(where(rows, p=p))
        label = f"p = {p:g}, {settings.samples:,} samples"
        means = {name: _ratios(found, ratio_of_means) for name, found in errors.items()}
        medians = {name: _ratios(found, median_ratio) for name, found in errors.items()}

        def judge(name: str, half: slice, means: Any = means, medians: Any = medians) -> Claim:
            both = [*means[name][half], *medians[name][half]]
            holds = every(ratio.below(1.0) for ratio in both) if settings.covers(full) else None
            return Claim("", "", holds)

        for text, found in (("Ratio of the means", means), ("Median of the ratios", medians)):
            tables.append(
                Table(
                    f"{text} of suboptimality, 95 %, {label}",
                    ["choice", "seeds", *(f"{one} / {other}" for one, other in PAIRS),
                     "MAG is best", "MLMC is better"],
                    [
                        (name, _seeds(errors[name]), *ratios,
                         *(judge(name, half).verdict for half in (BEST, BETTER)))
                        for name, ratios in found.items()
                    ],
                )
            )  # fmt: skip
        figures[f"sensitivity-{mixing_time(p)}"] = _draw(means, label)
        claims += [
            Claim(
                f"p = {p:g}, {name}: Figure 1's claim",
                _largest(means[name]),
                judge(name, slice(None)).holds,
            )
            for name in errors
        ]
    return Report(
        tables,
        figures,
        claims,
        [
            "The claim has two halves. MAG is best: its ratios to AdaGrad, SGD and SGD-MLMC are "
            "below one. MLMC is better: the ratios of MAG to AdaGrad and of SGD-MLMC to SGD are. A "
            "half holds if the intervals of means and of medians are below one, and does not hold "
            "if one of them is above one.",
        ],
    )


def _errors(rows: list[Row]) -> dict[str, Errors]:
    """Return errors by choice and method; unaffected methods have their default errors."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for row in rows:
        methods = found.setdefault(row["choice"], {})
        methods.setdefault(row["method"], {})[row["seed"]] = row["suboptimality"]
    return {
        name: {**found.get(CHOICES[name].beside or name, {}), **errors}
        for name, errors in found.items()
    }


def _seeds(errors: Errors) -> int:
    """Return the number of streams that all methods have run on."""
    return len(set.intersection(*map(set, errors.values())))


def _ratios(errors: Errors, ratio: Callable[[list[float], list[float]], Ratio]) -> list[Ratio]:
    """Return the ratio of each pair, on the streams that both have run on."""
    found = []
    for one, other in PAIRS:
        seeds = [seed for seed in errors[one] if seed in errors[other]]
        found.append(ratio(*([errors[each][seed] for seed in seeds] for each in (one, other))))
    return found


def _largest(ratios: list[Ratio]) -> str:
    """Return the ratio that is strongest evidence against the claim."""
    (one, other), worst = max(zip(PAIRS, ratios, strict=True), key=lambda pair: pair[1].value)
    return f"largest ratio {worst}, {one} / {other}"


def _draw(ratios: dict[str, list[Ratio]], label: str) -> Figure:
    figure, axes = new_figure(width=9.5, height=0.3 * len(ratios) + 1.2)
    names = list(reversed(ratios))
    shown = [f"{one} / {other}" for one, other in PAIRS]
    marks = ("o", "s", "^", "D")
    # A ratio has the colour of the method that it is over.
    colors = [styles_of([other])[other]["color"] for _, other in PAIRS[:3]] + ["#8A8A8A"]
    for place, (pair, mark, color) in enumerate(zip(shown, marks, colors, strict=True)):
        found = [ratios[name][place] for name in names]
        height = np.arange(len(names)) + 0.18 * (1.5 - place)
        values = np.array([each.value for each in found])
        low = values - np.maximum([each.low for each in found], values / 100.0)
        high = np.minimum([each.high for each in found], values * 100.0) - values
        axes.errorbar(
            values, height, xerr=[low, high], fmt=mark, color=color, markersize=4, lw=1, label=pair
        )
    axes.axvline(1.0, color="black", lw=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names, fontsize="small")
    axes.set_ylim(-0.6, len(names) - 0.4)
    for spot in range(1, len(names)):
        axes.axhline(spot - 0.5, color="#eeeeee", lw=0.5)
    axes.set_xlabel("ratio of mean suboptimalities, 95 %; left of 1 as the paper says")
    axes.set_title(label, loc="left", fontsize="medium")
    axes.legend(
        frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0.0, 1.02), ncols=4
    )
    return figure
