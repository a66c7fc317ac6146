"""The report of :mod:`mixfree.reproduce.paper.ablation`."""

import math
from dataclasses import replace

import numpy as np

from mixfree.base.figures import log_log, new_figure
from mixfree.reproduce.engine.report import Claim, Figure, Report, Row, Table, curves, gather, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import (
    Interval,
    bootstrap_mean,
    paired_ratio,
    spread,
)
from mixfree.reproduce.paper.problem import mixing_time

__all__ = ["ablation_report"]


def ablation_report(rows: list[Row], settings: Settings) -> Report:
    """Make one figure per p, and the tables and claims behind it."""
    figures = {}
    tables, claims = [], []
    for p in settings.p:
        at_p = where(rows, p=p)
        label = f"p = {p:g}, mixing time {mixing_time(p):,}"
        figures[f"ablation-{mixing_time(p)}"] = _draw(at_p, label)
        tables += [_study_table(study, at_p, label) for study in ("law", "pace", "observation")]
        tables.append(_alpha_table(at_p, label))
        claims += _claims(at_p, p)
    return Report(tables, figures, claims)


def _values(rows: list[Row], study: str) -> dict[str, dict[str, list[float]]]:
    """Return the suboptimality per seed in one study, by method and setting."""
    return gather(where(rows, study=study), "method", "setting", "suboptimality")


def _means(rows: list[Row], study: str) -> dict[str, dict[str, Interval]]:
    """Return the means of one study, by method and setting."""
    return {
        method: {setting: bootstrap_mean(values) for setting, values in at.items()}
        for method, at in _values(rows, study).items()
    }


def _study_table(study: str, rows: list[Row], label: str) -> Table:
    found, of_study = _values(rows, study), where(rows, study=study)
    paces = gather(of_study, "method", "setting", "pace")
    lines = [
        (
            method,
            setting,
            bootstrap_mean(values),
            spread(values),
            f"{np.mean(paces[method][setting]):.1e}",
        )
        for method, at in found.items()
        for setting, values in at.items()
    ]
    seeds = len({row["seed"] for row in of_study})
    return Table(
        f"Study {study}, {label}, {of_study[0]['samples']:,} samples, {seeds} seeds",
        [
            "method",
            "setting",
            "mean suboptimality, 95 %",
            "median (10 % to 90 %)",
            "step per sample",
        ],
        lines,
    )


def _alpha_table(rows: list[Row], label: str) -> Table:
    found = _means(rows, "alpha")
    best = {m: min(at, key=lambda a: at[a].value) for m, at in found.items()}
    return Table(
        f"Study alpha, {label}",
        ["method", "with α = 1", "best α", "with it"],
        [(m, at["1.0"], best[m], at[best[m]]) for m, at in found.items()],
    )


def _claims(rows: list[Row], p: float) -> list[Claim]:
    pace, alpha, levels, weights, observation = (
        _values(rows, study) for study in ("pace", "alpha", "levels", "weights", "observation")
    )
    best = {method: min(at.values(), key=np.mean) for method, at in alpha.items()}
    mag, adagrad, slowed = (
        pace[method][""] for method in ("mag", "adagrad", "adagrad at MAG's pace")
    )
    claims = [
        _better("MAG is better than AdaGrad at MAG's own pace", mag, slowed),
        _better(
            "MAG with its best α is better than AdaGrad with its best α",
            best["mag"],
            best["adagrad"],
        ),
        _better(
            "exact weights are better than the paper's weights",
            levels["mag"]["5"],
            weights["mag"]["5"],
        ),
        _better(
            "MAG is better than SGD-MLMC when all rows of a state are observed",
            observation["mag"]["state"],
            observation["sgd-mlmc"]["state"],
        ),
    ]
    gain, by_pace = paired_ratio(adagrad, mag), paired_ratio(adagrad, slowed)
    if gain.low > 1.0:
        part = math.log(by_pace.value) / math.log(gain.value)
        text = "most of MAG's gain over AdaGrad is its slower pace"
        claims.insert(0, Claim(text, f"{part:.0%} of its logarithm", part > 0.5))
    return [replace(claim, text=f"p = {p:g}: {claim.text}") for claim in claims]


def _better(text: str, values: list[float], others: list[float]) -> Claim:
    ratio = paired_ratio(values, others)
    return Claim(text, f"ratio {ratio}", ratio.below(1.0))


def _draw(rows: list[Row], label: str) -> Figure:
    figure, panels = new_figure(1, 3, width=13.0, height=4.0)
    shown = [
        {**row, "series": f"{'exact' if row['study'] == 'levels' else 'paper'} weights"}
        for row in rows
        if row["study"] in ("levels", "weights")
    ]
    numbered = [{**row, "levels": int(row["setting"])} for row in shown]
    curves(panels[0], numbered, "series", "levels", "suboptimality", marker="o", markersize=4)
    panels[0].set_yscale("log")
    panels[0].set_xlabel("levels of MAG")
    panels[0].set_ylabel("suboptimality")
    scaled = [{**row, "α": float(row["setting"])} for row in where(rows, study="alpha")]
    curves(panels[1], scaled, "method", "α", "suboptimality", marker="o", markersize=4)
    log_log(panels[1], "α")
    paces = gather(scaled, "method", "α", "pace")
    paced = [{**row, "mean pace": np.mean(paces[row["method"]][row["α"]])} for row in scaled]
    curves(panels[2], paced, "method", "mean pace", "suboptimality", marker="o", markersize=4)
    log_log(panels[2], "step per sample at the end")
    figure.suptitle(label, fontsize="medium")
    for axes in panels:
        axes.legend(frameon=False, fontsize="small")
    return figure
