"""How much of MAG's gain on the paper's problem is less bias, and how much is smaller steps?

Six studies, each changing one thing:

``levels``, ``weights``
    MAG with 1 to 19 levels, with exact and with the paper's weights.
``law``
    The level distribution of Algorithm 1, with horizon T and anytime, against 5 levels.
``alpha``
    The scale of the steps over four decades, for MAG and AdaGrad.
``pace``
    AdaGrad at MAG's pace: its α is set so that both have the same step size per sample at the
    end of the same stream, within 1 %. The rest of MAG's gain is not due to the step size.
``observation``
    The two readings of "we observe data of the current state": one row of it, or all rows.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from mixfree.base.figures import log_log, new_figure
from mixfree.base.table import Table
from mixfree.core.optimizer import Optimizer
from mixfree.reproduce.engine.report import DOTS, Claim, Figure, Report, Row, curves, gather, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import bootstrap, paired_ratio, spread
from mixfree.reproduce.paper.problem import mixing_time, problem_of, stream_of
from mixfree.reproduce.paper.runs import PAPER_METHODS, feed_states, gradient_norm, start, trace

__all__ = ["FULL", "QUICK", "cells", "measure", "report"]

FULL = Settings(samples=1_000_000, seeds=30, p=(1e-2, 1e-4), first_seed=1000)
QUICK = Settings(samples=50_000, seeds=2, p=(1e-2,))

LEVELS = (1, 2, 3, 5, 7, 10, 13, 16, 19)
ALPHAS = tuple(float(f"{10.0 ** (k / 2):.3g}") for k in range(-4, 5))
PACED = "adagrad at MAG's pace"
LAWS = {
    "5 levels": {"levels": 5},
    "anytime": {"levels": None},
    "horizon T": {"levels": None, "horizon": "samples"},
}
# Fraction of the samples in runs that observe all rows of a state, where a gradient costs d².
OBSERVATION_FRACTION = 1 / 10
# Studies that have all seeds, as their errors have heavy tails or a claim rests on a small
# difference. The others have a third of them.
ALL_SEEDS = ("law", "pace")


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per study, setting, p and seed."""
    fewer = settings.seed_numbers[: max(2, settings.seeds // 3)]
    observed = max(32, round(settings.samples * OBSERVATION_FRACTION))
    studies = [
        *(("levels", "mag", k, {"levels": k}) for k in LEVELS),
        *(("weights", "mag", k, {"levels": k, "weights": "paper"}) for k in LEVELS),
        *(("law", "mag", name, options) for name, options in LAWS.items()),
        *(("alpha", method, a, {"alpha": a}) for a in ALPHAS for method in ("adagrad", "mag")),
        *(("pace", method, "", {}) for method in ("mag", "adagrad", PACED)),
        *(
            ("observation", method, reading, {})
            for reading in ("row", "state")
            for method in PAPER_METHODS
        ),
    ]
    return [
        {
            "study": study,
            "method": method,
            "setting": setting,
            "options": options,
            "p": p,
            "seed": seed,
            "samples": observed if study == "observation" else settings.samples,
        }
        for p in settings.p
        for seed in settings.seed_numbers
        for study, method, setting, options in studies
        if study in ALL_SEEDS or seed in fewer
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """Return one row: the suboptimality and the step size per sample at the end."""
    # "samples" stands for the number of samples.
    options = {k: cell["samples"] if v == "samples" else v for k, v in cell["options"].items()}
    if cell["method"] == PACED:
        opt, gap = _at_pace(cell)
    else:
        opt, gap = _run(cell, cell["method"], whole=cell["setting"] == "state", **options)
    names = ("study", "method", "setting", "p", "seed", "samples")
    about = {name: cell[name] for name in names} | {"setting": str(cell["setting"])}
    return [{**about, "suboptimality": gap, "pace": _pace(opt)}]


def _pace(opt: Optimizer) -> float:
    """Return the step size per sample: η of the last step, divided by the samples per step."""
    norm = gradient_norm(opt)
    step = opt.step.alpha / (np.sqrt(opt.steps) if norm is None else norm)  # type: ignore[attr-defined]
    return float(step * opt.steps / opt.samples)


def _run(
    cell: dict[str, Any], method: str, whole: bool = False, **options: Any
) -> tuple[Optimizer, float]:
    """Run a method, on rows or with the gradient of all rows of the state as each sample."""
    problem = problem_of(cell["seed"])
    opt = start(problem, method, cell["p"], seed=cell["seed"], **options)
    order = stream_of(cell["seed"], cell["p"], cell["samples"])
    if not whole:
        return opt, float(trace(opt, problem, order).suboptimality[-1])
    feed_states(opt, problem, order)
    return opt, float(problem.suboptimality(opt.average[None])[0])


def _at_pace(cell: dict[str, Any]) -> tuple[Optimizer, float]:
    wanted = _pace(_run(cell, "mag")[0])
    # The gradients, and with them the pace, depend on α: iterate a few times.
    alpha = 1.0
    for _ in range(3):
        alpha *= wanted / _pace(_run(cell, "adagrad", alpha=alpha)[0])
    return _run(cell, "adagrad", alpha=alpha)


def report(rows: list[Row], settings: Settings) -> Report:
    """Make one figure per p, and the tables and claims behind it."""
    figures, tables, claims = {}, list[Table](), list[Claim]()
    for p in settings.p:
        at_p = where(rows, p=p)
        label = f"p = {p:g}, mixing time {mixing_time(p):,}"
        figures[f"ablation-{mixing_time(p)}"] = _draw(at_p, label)
        tables += [_table(study, at_p, label) for study in ("law", "pace", "observation")]
        tables.append(_alpha_table(at_p, label))
        claims += [replace(each, text=f"p = {p:g}: {each.text}") for each in _claims(at_p)]
    return Report(tables, figures, claims)


def _values(rows: list[Row], study: str) -> dict[str, dict[str, list[float]]]:
    """Return the suboptimality per seed in one study, by method and setting."""
    return gather(where(rows, study=study), "method", "setting", "suboptimality")


def _table(study: str, rows: list[Row], label: str) -> Table:
    own = where(rows, study=study)
    paces = gather(own, "method", "setting", "pace")
    seeds = len({row["seed"] for row in own})
    return Table(
        f"Study {study}, {label}, {own[0]['samples']:,} samples, {seeds} seeds",
        ["method", "setting", "mean suboptimality, 95 %", "median (10 % to 90 %)",
         "step per sample"],
        [
            (method, setting, bootstrap(values), spread(values),
             f"{np.mean(paces[method][setting]):.1e}")
            for method, at in _values(rows, study).items()
            for setting, values in at.items()
        ],
    )  # fmt: skip


def _alpha_table(rows: list[Row], label: str) -> Table:
    found = _values(rows, "alpha")
    best = {method: min(at, key=lambda a: np.mean(at[a])) for method, at in found.items()}
    return Table(
        f"Study alpha, {label}",
        ["method", "with α = 1", "best α", "with it"],
        [
            (method, bootstrap(at["1.0"]), best[method], bootstrap(at[best[method]]))
            for method, at in found.items()
        ],
    )


def _claims(rows: list[Row]) -> list[Claim]:
    pace, levels, weights, observation = (
        _values(rows, study) for study in ("pace", "levels", "weights", "observation")
    )
    best = {name: min(at.values(), key=np.mean) for name, at in _values(rows, "alpha").items()}
    mag, adagrad, slowed = (pace[method][""] for method in ("mag", "adagrad", PACED))
    whole = {name: observation[name]["state"] for name in ("mag", "sgd-mlmc")}
    pairs = {
        "MAG is better than AdaGrad at MAG's own pace": (mag, slowed),
        "MAG with its best α is better than AdaGrad with its best α": (
            best["mag"],
            best["adagrad"],
        ),
        "exact weights are better than the paper's weights": (
            levels["mag"]["5"],
            weights["mag"]["5"],
        ),
        "MAG is better than SGD-MLMC when all rows of a state are observed": (*whole.values(),),
    }
    ratios = {text: paired_ratio(*pair) for text, pair in pairs.items()}
    claims = [
        Claim.below(text, ratio, 1.0, measured=f"ratio {ratio.text('.2f')}")
        for text, ratio in ratios.items()
    ]
    if paired_ratio(adagrad, mag).low > 1.0:
        gains = np.log(adagrad)[:, None] - np.log([mag, slowed]).T
        rest = bootstrap(gains, lambda means: 1.0 - means[:, 1] / means[:, 0])
        text = "most of MAG's gain over AdaGrad is its slower pace"
        share = f"{1.0 - rest.value:.0%} of its logarithm"
        claims.insert(0, Claim.below(text, rest, 0.5, measured=share))
    return claims


def _draw(rows: list[Row], label: str) -> Figure:
    figure, panels = new_figure(1, 3, width=13.0, height=4.0)
    kinds = {"levels": "exact weights", "weights": "paper weights"}
    numbered = [
        {**row, "series": kinds[row["study"]], "levels": int(row["setting"])}
        for row in rows
        if row["study"] in kinds
    ]
    curves(panels[0], numbered, "series", "levels", "suboptimality", **DOTS)
    panels[0].set_yscale("log")
    panels[0].set_xlabel("levels of MAG")
    panels[0].set_ylabel("suboptimality")
    scaled = [{**row, "α": float(row["setting"])} for row in where(rows, study="alpha")]
    curves(panels[1], scaled, "method", "α", "suboptimality", **DOTS)
    log_log(panels[1], "α")
    paces = gather(scaled, "method", "α", "pace")
    paced = [{**row, "mean pace": np.mean(paces[row["method"]][row["α"]])} for row in scaled]
    curves(panels[2], paced, "method", "mean pace", "suboptimality", **DOTS)
    log_log(panels[2], "step per sample at the end")
    figure.suptitle(label, fontsize="medium")
    for axes in panels:
        axes.legend(frameon=False, fontsize="small")
    return figure
