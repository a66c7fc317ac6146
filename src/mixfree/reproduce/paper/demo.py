"""The demo: exact fit, ladder, MAG, AdaGrad and SGD on a correlated stream, beside the limit."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mixfree.base.figures import label_ends, log_log, new_figure
from mixfree.base.terminal import progress_bar
from mixfree.reproduce.engine.rows import Figure, Row, curves
from mixfree.reproduce.paper.problem import (
    LIMIT,
    draw_limit,
    exact_trace,
    problem_of,
    start,
    stream_of,
    trace,
)

SWITCHING = 1e-4  # p, the switching probability
FIRST = 10_000  # samples of the first regime, before which the figure does not begin
WARM_UP = 10  # samples of the runs that compile the kernels
# Labels of the lines in the figure.
NAMES = {
    "sgd": "SGD",
    "adagrad": "AdaGrad",
    "mag": "MAG",
    "ladder": "ladder",
    "exact": "exact, the default",
    LIMIT: "limit, on average",
}
DEMO_METHODS = tuple(NAMES)[:-1]


def run_demo(
    samples: int, seeds: int, methods: Sequence[str] = DEMO_METHODS, first_seed: int = 1000
) -> tuple[list[Row], dict[str, float]]:
    """Return rows of every method and seed, and samples per second of each iterative method."""
    rows: list[Row] = []
    seconds = dict.fromkeys(methods, 0.0)
    with progress_bar("compiling", seeds * len(methods)) as show:
        for method in methods:
            _errors(method, first_seed, WARM_UP)
        for seed in range(first_seed, first_seed + seeds):
            for method in methods:
                stream_of(seed, SWITCHING, samples)  # drawn once, and not timed
                began = time.perf_counter()
                counts, gaps = _errors(method, seed, samples)
                seconds[method] += time.perf_counter() - began
                rows += [
                    {"method": method, "seed": seed, "samples": count, "suboptimality": gap}
                    for count, gap in zip(counts.tolist(), gaps.tolist(), strict=True)
                ]
                show(len(methods) * (seed - first_seed) + methods.index(method) + 1, method)
    seconds.pop("exact", None)  # it takes weighted rows, not single samples
    return rows, {method: samples * seeds / spent for method, spent in seconds.items()}


def _errors(method: str, seed: int, samples: int) -> tuple[Any, Any]:
    """Return sample counts and suboptimality, with the paper's α but for the ladder."""
    problem, order = problem_of(seed), stream_of(seed, SWITCHING, samples)
    if method == "exact":
        return exact_trace(problem, order)
    options: dict[str, Any] = {"alpha": None} if method == "ladder" else {}
    found = trace(start(problem, method, SWITCHING, seed=seed, **options), problem, order)
    return found.samples, found.suboptimality


def limit_of(rows: list[Row]) -> float:
    """Return the asymptotic error of the fit to all samples, times their number."""
    return float(np.mean([problem_of(s).limit(SWITCHING) for s in {row["seed"] for row in rows}]))


def draw_demo(rows: list[Row]) -> Figure:
    """Plot the error above the best possible against the samples seen so far."""
    figure, axes = new_figure(width=7.6, height=4.2)
    longest = max(row["samples"] for row in rows)
    shown = [row for row in rows if row["samples"] >= min(FIRST, longest // 2)]
    # Without intervals, which would overlap; the table has them.
    curves(axes, shown, "method", "samples", "suboptimality", shade=False)
    log_log(axes, "samples seen so far", "loss above that of the best linear model")
    at = sorted({row["samples"] for row in shown})
    draw_limit(axes, at, np.divide(limit_of(rows), at).tolist())
    axes.margins(x=0.0)
    for axis, form in ((axes.xaxis, "{x:,.0f}"), (axes.yaxis, "{x:g}")):
        axis.set_major_formatter(form)
        low, high = axis.get_view_interval()
        if high < 10.0 * low:  # a short axis also needs labels between powers of ten
            axis.set_minor_formatter(form)
    stays = round(1.0 / SWITCHING)
    axes.set_title(
        "Error after n samples, lower is better\n"
        f"linear models of a stream of two regimes, each of about {stays:,} samples at a time",
        loc="left",
        fontsize="medium",
    )
    label_ends(axes, names=NAMES)
    return figure
