"""What the studies of :mod:`mixfree.experiments.ablation` say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mixfree.experiments.problem import mixing_time
from mixfree.experiments.report import Claim, Report, Row, Table, curves, gather
from mixfree.experiments.settings import Settings
from mixfree.experiments.statistics import Estimate, estimate
from mixfree.figures import log_log, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def about(rows: list[Row], settings: Settings) -> Report:
    """A figure with a panel a study and p, and the tables behind it."""
    figures = {}
    tables, claims = [], []
    for p in settings.p:
        at_p = [row for row in rows if row["p"] == p]
        label = f"p = {p:g}, mixing time {mixing_time(p):,}"
        figures[f"ablation-{mixing_time(p)}"] = _draw(at_p, label)
        tables += [_study_table(study, at_p, label) for study in ("law", "pace", "observation")]
        tables.append(_alpha_table(at_p, label))
        claims += _claims(at_p, p)
    return Report(tables, figures, claims)


def _found(rows: list[Row], study: str) -> dict[str, dict[str, Estimate]]:
    """Estimates of one study by method and setting."""
    of_study = [row for row in rows if row["study"] == study]
    gathered = gather(of_study, "method", "setting", "suboptimality")
    return {
        method: {setting: estimate(values) for setting, values in at.items()}
        for method, at in gathered.items()
    }


def _study_table(study: str, rows: list[Row], label: str) -> Table:
    paces = gather([r for r in rows if r["study"] == study], "method", "setting", "pace")
    length = next(row["samples"] for row in rows if row["study"] == study)
    lines = [
        (method, setting, found, f"{np.mean(paces[method][setting]):.1e}")
        for method, at in _found(rows, study).items()
        for setting, found in at.items()
    ]
    return Table(
        f"Study {study}, {label}, {length:,} samples",
        ["method", "setting", "suboptimality, 95 %", "step a sample"],
        lines,
    )


def _alpha_table(rows: list[Row], label: str) -> Table:
    found = _found(rows, "alpha")
    best = {m: min(at, key=lambda a: at[a].mean) for m, at in found.items()}
    return Table(
        f"Study alpha, {label}",
        ["method", "with α = 1", "best α", "with it"],
        [(m, at["1.0"], best[m], at[best[m]]) for m, at in found.items()],
    )


def _claims(rows: list[Row], p: float) -> list[Claim]:
    pace_found = {method: at[""].mean for method, at in _found(rows, "pace").items()}
    slowed = pace_found["adagrad at MAG's pace"]
    mag, adagrad = pace_found["mag"], pace_found["adagrad"]
    tuned = {m: min(e.mean for e in at.values()) for m, at in _found(rows, "alpha").items()}
    exact, paper = (_found(rows, study)["mag"]["5"].mean for study in ("levels", "weights"))
    state = {m: at["state"].mean for m, at in _found(rows, "observation").items()}
    claims = []
    if mag < adagrad:
        share = np.log(adagrad / slowed) / np.log(adagrad / mag)
        claims.append(
            Claim(
                f"p = {p:g}: MAG's gain over AdaGrad is more than smaller steps",
                f"at MAG's pace AdaGrad has {slowed / mag:.2f} of MAG's suboptimality: "
                f"{share:.0%} of the gain (in logarithms) is pace",
                bool(slowed > mag),
            )
        )
    return [
        *claims,
        Claim(
            f"p = {p:g}: MAG with its best α beats AdaGrad with its own",
            f"{tuned['mag'] / tuned['adagrad']:.2f} of it",
            tuned["mag"] < tuned["adagrad"],
        ),
        Claim(
            f"p = {p:g}: exact weights are better than the paper's, at 5 levels",
            f"{exact / paper:.3f} of it",
            exact < paper,
        ),
        Claim(
            f"p = {p:g}: MAG beats SGD-MLMC also when the whole state is observed",
            f"{state['mag'] / state['sgd-mlmc']:.2f} of it",
            state["mag"] < state["sgd-mlmc"],
        ),
    ]


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
    scaled = [{**row, "α": float(row["setting"])} for row in rows if row["study"] == "alpha"]
    curves(panels[1], scaled, "method", "α", "suboptimality", marker="o", markersize=4)
    log_log(panels[1], "α")
    paces = gather(scaled, "method", "α", "pace")
    paced = [{**row, "mean pace": np.mean(paces[row["method"]][row["α"]])} for row in scaled]
    curves(panels[2], paced, "method", "mean pace", "suboptimality", marker="o", markersize=4)
    log_log(panels[2], "step a sample at the end")
    panels[1].set_title(label, fontsize="medium")
    for axes in panels:
        axes.legend(frameon=False, fontsize="small")
    return figure
