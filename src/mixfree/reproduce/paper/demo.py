"""The demo: exact fit, ladder, MAG, AdaGrad and SGD on a correlated stream."""

import time
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.figures import label_ends, log_log, new_figure
from mixfree.base.progress import progress_bar
from mixfree.core.history import marks
from mixfree.core.optimizer import Optimizer
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.losses import Squared
from mixfree.reproduce.engine.report import Figure, Row, curves
from mixfree.reproduce.paper.problem import Regression, problem_of, stream_of
from mixfree.reproduce.paper.runs import start, trace

__all__ = ["DEMO_METHODS", "NAMES", "SWITCHING", "draw_demo", "run_demo"]

SWITCHING = 1e-4  # p, the switching probability
DEMO_METHODS = ("sgd", "adagrad", "mag", "ladder", "exact")
FIRST = 10_000  # samples of the first regime, before which the figure does not begin
# Labels of the lines in the figure.
NAMES = {
    "sgd": "SGD",
    "adagrad": "AdaGrad",
    "mag": "MAG",
    "ladder": "ladder",
    "exact": "exact, the default",
}


def run_demo(
    samples: int, seeds: int, methods: Sequence[str] = DEMO_METHODS, first_seed: int = 1000
) -> tuple[list[Row], dict[str, float]]:
    """Return rows of every method and seed, and samples per second of each method with steps."""
    rows: list[Row] = []
    total, done = samples * seeds * len(methods), 0
    with progress_bar("compiling", total) as show:
        _compile(methods)
        seconds = dict.fromkeys(methods, 0.0)
        for seed in range(first_seed, first_seed + seeds):
            for method in methods:
                problem, order = problem_of(seed), stream_of(seed, SWITCHING, samples)

                def each(at: Optimizer, before: int = done, method: str = method) -> None:
                    show(before + at.samples, method)

                began = time.perf_counter()
                if method == "exact":
                    counts, gaps = _exact(problem, order)
                else:
                    opt = _started(problem, method, seed)
                    counts, _, gaps = trace(opt, problem, order, each)
                seconds[method] += time.perf_counter() - began
                rows += [
                    {"method": method, "seed": seed, "samples": int(count), "suboptimality": gap}
                    for count, gap in zip(counts, gaps.tolist(), strict=True)
                ]
                done += samples
    seconds.pop("exact", None)  # it takes weighted rows, not single samples
    return rows, {method: samples * seeds / spent for method, spent in seconds.items()}


def draw_demo(rows: list[Row]) -> Figure:
    """Plot the error above the best possible against the samples seen so far."""
    figure, axes = new_figure(width=7.6, height=4.2)
    longest = max(row["samples"] for row in rows)
    shown = [row for row in rows if row["samples"] >= min(FIRST, longest // 2)]
    # Without intervals, which would overlap; the table has them.
    curves(axes, shown, "method", "samples", "suboptimality", shade=False)
    log_log(axes, "samples seen so far", "loss above that of the best linear model")
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


def _started(problem: Regression, method: str, seed: int = 0) -> Optimizer:
    """Start a method with the paper's α, which the ladder does not need."""
    own: dict[str, Any] = {"alpha": None} if method == "ladder" else {}
    return start(problem, method, SWITCHING, seed=seed, **own)


def _exact(problem: Regression, order: Array) -> tuple[Array, Array]:
    """Return sample counts and suboptimality of the exact fit, on the grid of the other methods."""
    learner = ExactLearner(Squared(), problem.rows.shape[1], intercept=False, radius=problem.radius)
    counts = [*takewhile(lambda count: count < len(order), marks(0)), len(order)]
    gaps, before = list[float](), 0
    for count in counts:
        # Rows recur, so the sums are over distinct rows, weighted by their counts.
        times = np.bincount(order[before:count], minlength=len(problem.rows))
        learner.advance(problem.rows, problem.targets, times.astype(float))
        gaps.append(float(problem.suboptimality(learner.weights)[0]))
        before = count
    return np.array(counts), np.array(gaps)


def _compile(methods: Sequence[str]) -> None:
    """Compile the kernels, so that their compilation is not timed."""
    problem = problem_of(0)
    for method in methods:
        if method != "exact":
            trace(_started(problem, method), problem, stream_of(0, SWITCHING, 1))
