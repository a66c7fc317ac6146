"""How far is each method from the best possible? Error × T over the asymptotic variance limit.

The fit to all T samples has the error ½ tr(H⁻¹Σ)/T as T → ∞, where H is the Hessian and Σ the
long-run covariance of the gradients at the minimiser, which grows with the mixing time. Among the
methods that do not know the chain, none is better in the limit (Greenwood and Wefelmeyer 1995). So
the error of every method grows with the mixing time; what it loses is the factor over this limit.

Each state of the two-state chain has its own optimum, inside a ball that the methods are given.
SGD, AdaGrad and MAG thus know the distance D to the optimum up to a small factor, and have the
default α = D/√2. The ladder, with and without memory, is given neither ball nor scale.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from mixfree.base.figures import label_ends, log_log, new_figure, plain_ticks
from mixfree.core.methods import start_method
from mixfree.domains import Ball
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Squared
from mixfree.reproduce.engine.report import Claim, Report, Settings
from mixfree.reproduce.engine.rows import DOTS, Figure, Row, curves, gather, grid
from mixfree.reproduce.engine.statistics import Interval, bootstrap, ratio
from mixfree.reproduce.paper.problem import Regression, exact_trace, horizon_for, mixing_time

SWITCHING = (0.5, 0.0335, 0.00346, 0.0003465, 3.4657e-5)  # mixing times 1, 10, 100, 1,000, 10,000
FULL = Settings(samples=3_000_000, seeds=40, p=SWITCHING, first_seed=6000)
QUICK = FULL.changed(samples=20_000, seeds=3, p=SWITCHING[:3], first_seed=0)
MIXING_TIMES = 1000  # length of a run, up to the number of samples of the settings
PER_STATE, DIMENSION, NOISE = 100, 10, 0.1  # rows, features, variance of the noise
CENTRES = (1.0, -0.2)  # of the targets in the two states of the mean
KEPT = 1000  # samples of the memory
PROBLEMS: dict[str, dict[str, Any]] = {
    "mean": {},
    "least squares": {"alike": True},
    "condition 30": {"alike": True, "condition": 30.0},
    "two curvatures": {},  # each state has its own rows, as in the paper's experiment
}
METHODS = ("sgd", "adagrad", "mag", "algorithm-1", "ladder", "memory", "exact")
*ALIKE, APART = PROBLEMS  # by whether both states have the same curvature
SLOW = 100  # mixing time from which MAG should be better than AdaGrad


def problem_of(name: str, seed: int) -> Regression:
    """Draw a problem: a mean of two regimes, or a regression between two optima."""
    if name == "mean":
        noise = np.random.default_rng([seed, 0]).standard_normal(2 * PER_STATE)
        targets = np.repeat(CENTRES, PER_STATE) + NOISE**0.5 * noise
        return Regression(np.ones((len(targets), 1)), targets, PER_STATE)
    return Regression.draw(seed, PER_STATE, DIMENSION, NOISE, size=0.7, **PROBLEMS[name])


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per problem, p, seed and method."""
    lengths = {p: min(MIXING_TIMES * mixing_time(p), settings.samples) for p in settings.p}
    return [
        {"problem": problem, "p": p, "seed": seed, "method": method, "samples": lengths[p]}
        for problem in PROBLEMS
        for p in settings.p
        for seed in settings.seed_numbers
        for method in METHODS
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """Return one row: the suboptimality after the last sample, and the limit."""
    problem, method, seed = problem_of(cell["problem"], cell["seed"]), cell["method"], cell["seed"]
    order = problem.order(_stream_seed(cell), cell["p"], cell["samples"])
    if method == "exact":
        error = float(exact_trace(problem, order)[1][-1])
    else:
        adapts = method in ("ladder", "memory")
        given: dict[str, Any] = {"memory": KEPT} if method == "memory" else {}
        options = {"horizon": horizon_for(len(order))} if method == "algorithm-1" else {}
        opt = start_method(
            "ladder" if adapts else method,
            np.zeros(problem.rows.shape[1]),
            options,
            domain=None if adapts else Ball(problem.radius),
            seed=seed,
            **given,
        )
        advance_linear(opt, Squared(), problem.rows, problem.targets, order=order)
        error = float(problem.suboptimality(opt.average[None])[0])
    limit = problem.limit(cell["p"]) / cell["samples"]
    return [{**cell, "mixing_time": mixing_time(cell["p"]), "error": error, "limit": limit}]


def _stream_seed(cell: dict[str, Any]) -> int:
    """Return another seed for every problem and p, whose streams would otherwise be alike."""
    case = 100_000 * list(PROBLEMS).index(cell["problem"]) + mixing_time(cell["p"])
    return 1_000_000 * int(cell["seed"]) + case


def report(rows: list[Row], settings: Settings) -> Report:
    """Tabulate the factors over the limit and over the exact fit, and draw them."""
    rows = [{**row, "factor": row["error"] / row["limit"]} for row in rows]
    found = gather(rows, ("problem", "method"), "mixing_time", "factor")
    beside = {
        (problem, method): {
            time: ratio(values, found[problem, "exact"][time]) for time, values in by_time.items()
        }
        for (problem, method), by_time in found.items()
    }
    about = f"by mixing time, {settings.seeds} seeds, 95 %"
    lengths = {f"{row['mixing_time']:,}": f"{row['samples']:,}" for row in rows}
    tables = [
        grid(
            f"Error × T over the limit, {about}", ["problem", "method"], found,
            lambda values: bootstrap(values).text(".2f"),
        ),
        grid(
            f"Error over that of the exact fit to the same samples, {about}",
            ["problem", "method"], beside, lambda found: found.text(".2f"),
        ),
    ]  # fmt: skip
    samples = ", ".join(f"{length} at {time}" for time, length in lengths.items())
    notes = [
        f"Samples by mixing time: {samples}.",
        f"The ladder's average has weights proportional to t, which cost a factor of 4/3; the "
        f"memory keeps {KEPT:,} samples.",
    ]
    return Report(tables, {"limit": _draw(rows)}, _claims(found, beside), notes)


def _claims(found: Any, beside: dict[Any, dict[int, Interval]]) -> list[Claim]:
    """Claim that the fit is at the limit, and from which mixing time on others are near it."""
    exact = [v for name, by_time in found.items() if name[1] == "exact" for v in by_time.values()]
    over = bootstrap(np.mean(exact, axis=0))

    def near(methods: str, times: float, least: int, problems: Iterable[str]) -> Claim:
        several = {
            f"{method}, {problem}, τ = {time:,}": value
            for (problem, method), by_time in beside.items()
            for time, value in by_time.items()
            if method in methods and time >= least and problem in problems
        }
        text = f"{methods}: at most {times:g} times exact from τ = {least:,} on"
        text += ", if both states have the same curvature" if problems is ALIKE else ""
        return Claim.below(text, several, times, ".2f")

    better = {
        f"τ = {time:,}": ratio(found[APART, "mag"][time], found[APART, "adagrad"][time])
        for time in found[APART, "mag"]
        if time >= SLOW
    }
    return [
        Claim.below("exact: the error is the limit, within 25 % in the mean over all cases",
                    over.off(1.0), 0.25, measured=over.text(".2f")),
        near("sgd, adagrad", 1.5, 10, ALIKE),
        near("mag", 1.5, 1000, ALIKE),
        Claim.below(f"mag: better than adagrad from τ = {SLOW} on, if the states have two "
                    "curvatures", better, 1.0, ".2f"),
        near("ladder", 3.0, 1, PROBLEMS),
    ]  # fmt: skip


def _draw(rows: list[Row]) -> Figure:
    figure, panels = new_figure(1, len(PROBLEMS), width=15.0, height=3.9, sharey=True)
    for axes, problem in zip(panels, PROBLEMS, strict=True):
        of_problem = [row for row in rows if row["problem"] == problem]
        curves(axes, of_problem, "method", "mixing_time", "factor", **DOTS)
        log_log(axes, "exact mixing time", "error × T over the limit" if axes is panels[0] else "")
        axes.axhline(1.0, color="#8A8A8A", linewidth=0.9, zorder=0)
        axes.set_title(problem, loc="left", fontsize="medium")
    plain_ticks(panels[0].yaxis)
    label_ends(panels[-1])
    figure.suptitle("How many times the least possible error, lower is better", fontsize="medium")
    return figure
