"""A figure of six panels: the measurements of each lemma and its bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mixfree.base.figures import PALETTE, log_log, new_figure
from mixfree.reproduce.engine.report import Figure, Row, curves, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.paper.problem import mixing_time, problem_of
from mixfree.reproduce.theory import bounds
from mixfree.reproduce.theory.measures import DIAMETER
from mixfree.reproduce.theory.report import exact_bias, gradient_bound, values_of
from mixfree.reproduce.theory.windows import Windows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
__all__ = ["draw"]

DOTS: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 4}
THIN: dict[str, Any] = {"linewidth": 0.8}


def draw(rows: list[Row], settings: Settings) -> Figure:
    """Draw the six panels."""
    figure, panels = new_figure(2, 3, width=13.0, height=7.5)
    for axes, panel in zip(
        panels.flat, (_bias, _second_moment, _error, _error_in_tau, _cost, _rate), strict=True
    ):
        note = panel(axes, rows, settings)
        axes.set_title("\n".join(filter(None, (panel.__doc__, note))), fontsize="medium")
        if len(axes.lines) > 1:
            axes.legend(frameon=False, fontsize="small")
    return figure


def _bias(axes: Axes, rows: list[Row], settings: Settings) -> None:
    """Lemma 3.1: bias of the estimate (lines: exact)"""
    # At mixing time 1 there is no bias.
    slow = [row for row in rows if row["quantity"] == "bias" and mixing_time(row["p"]) > 1]
    # With the sign of the exact bias, so that all values fit on a logarithmic axis.
    along = [{**row, "value": row["value"] * _side(row["p"], row["size"])} for row in slow]
    curves(axes, _named(along), "series", "size", "value", **DOTS)
    for index, (p, at) in enumerate(values_of(slow, "bias").items()):
        exact = [exact_bias(settings, p, size) for size in sorted(at)]
        axes.plot(sorted(at), exact, color=PALETTE[index], **THIN)
    log_log(axes, "largest window, 2^jmax", "‖E estimate − gradient‖")


def _second_moment(axes: Axes, rows: list[Row], settings: Settings) -> str:
    """Lemma 3.1: second moment of the estimate"""
    bound, horizon = gradient_bound(settings), settings.samples
    _against_tau(axes, rows, "second moment", horizon)
    taus = [mixing_time(p) for p in settings.p]
    log_log(axes, "mixing time", f"E‖estimate‖², T = {horizon:,}")
    return _beyond(min(bounds.second_moment(bound, tau, horizon) for tau in taus))


def _error(axes: Axes, rows: list[Row], settings: Settings) -> str:
    """Lemma A.6: error of a mean of N"""
    bound, horizon = gradient_bound(settings), settings.samples
    log_log(axes, "samples N in the mean", "E‖mean − gradient‖")
    return _below(axes, rows, "error", lambda tau, n: bounds.mean_error(n, bound, tau, horizon))


def _error_in_tau(axes: Axes, rows: list[Row], settings: Settings) -> None:
    """Lemma A.6: error against the mixing time"""
    found = values_of(rows, "error")
    longest = max(found[settings.p[0]])
    _against_tau(axes, rows, "error", longest)
    taus = np.array([mixing_time(p) for p in settings.p])
    last = float(np.mean(found[settings.p[-1]][longest]))
    axes.plot(taus, last * np.sqrt(taus / taus[-1]), color="black", label="∝ √τ", **THIN)
    log_log(axes, "mixing time", f"E‖mean of {longest:,} − gradient‖")


def _cost(axes: Axes, rows: list[Row], settings: Settings) -> None:
    """Lemma 3.1: samples per step"""
    costs = [{**row, "series": "measured"} for row in rows if row["quantity"] == "cost"]
    curves(axes, costs, "series", "size", "value", **DOTS)
    sizes = sorted({row["size"] for row in costs})
    exact = [bounds.expected_cost(size) for size in sizes]
    axes.plot(sizes, exact, color="black", label="exact", **THIN)
    axes.set_xscale("log")
    axes.set_xlabel("horizon T")
    axes.set_ylabel("samples per step")


def _rate(axes: Axes, rows: list[Row], settings: Settings) -> str:
    """Theorem 3.3: rate of Algorithm 1"""
    bound = gradient_bound(settings)
    log_log(axes, "steps T", "suboptimality")
    return _below(
        axes,
        rows,
        "suboptimality",
        lambda tau, n: bounds.convex_rate(bound, DIAMETER, tau, n),
        marker="o",
        markersize=4,
    )


def _side(p: float, size: int) -> float:
    return math.copysign(1.0, Windows(problem_of(0), p).offset(size))


def _named(rows: list[Row]) -> list[Row]:
    return [{**row, "series": f"τ = {mixing_time(row['p']):,}"} for row in rows]


def _below(
    axes: Axes,
    rows: list[Row],
    quantity: str,
    limit: Callable[[int, int], float],
    **style: Any,
) -> str:
    shown = where(rows, quantity=quantity)
    curves(axes, _named(shown), "series", "size", "value", **style)
    found = values_of(shown, quantity).items()
    return _beyond(min(limit(mixing_time(p), size) for p, at in found for size in at))


def _beyond(least: float) -> str:
    """Describe the bounds, which are too far from the measurements to be drawn."""
    power = math.floor(math.log10(least))
    shown = f"{least:,.0f}" if power < 4 else rf"${least / 10**power:.1f} \cdot 10^{{{power}}}$"
    return f"bounds: {shown} and above, not drawn"


def _against_tau(axes: Axes, rows: list[Row], quantity: str, size: int) -> None:
    shown = [
        {"series": "measured", "mixing time": mixing_time(row["p"]), "value": row["value"]}
        for row in rows
        if row["quantity"] == quantity and row["size"] == size
    ]
    curves(axes, shown, "series", "mixing time", "value", marker="o", markersize=4)
