"""Non-convex problems: gradients along runs of MAG against samples and mixing time.

Theorem 4.3 bounds the mean of ‖∇F‖² over the iterates, and Corollary 4.4 the mean of ‖∇F(w̃)‖ at one
of them, drawn uniformly. Given the run, the mean over the draw is that of ‖∇F‖ over the iterates.
All losses are bounded (Assumption 2.3); they are smooth (Assumption 2.4), those of networks in any
bounded region. Lemmas 4.1 and 4.2 and Eq. (11), inequalities of every run, are checked in
``tests/reproduce/test_nonconvex.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.figures import log_log, new_figure, plain_ticks
from mixfree.base.terminal import Table
from mixfree.core.methods import MAG
from mixfree.core.minimize import follow
from mixfree.core.optimizer import Optimizer
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Robust
from mixfree.reproduce.engine.report import Claim, Report, Settings
from mixfree.reproduce.engine.rows import DOTS, Figure, Row, curves, grid, where
from mixfree.reproduce.engine.statistics import Interval, bootstrap, exponent
from mixfree.reproduce.paper.problem import Regression, mixing_time

PER_STATE, DIMENSION, HIDDEN = 50, 5, 4  # rows per state, features, hidden units
FAINT = 0.2  # scale of the features that a state shows only weakly
NOISE = 0.03  # standard deviation of the noise on y
SHARPNESS = 4.0  # slope of the sigmoid that turns y into a network's target
GEMAN_MCCLURE = Robust(shape=-2.0)  # bounded by 2
LINEAR, PHASE, NETWORK = range(3)  # codes of the compiled gradients
WEIGHTS = HIDDEN * DIMENSION + HIDDEN + 1  # number of weights of a network


def one_truth(seed: int) -> Regression:
    """Draw data of one linear model; each state shows mostly its own features."""
    rng = np.random.default_rng([seed, 6])
    truth = rng.standard_normal(DIMENSION) / np.sqrt(DIMENSION)
    return _seen_in_halves(rng, lambda rows: rows @ truth)


def one_network(seed: int) -> Regression:
    """Draw data of one network with normal weights; each state shows mostly its own features."""
    rng = np.random.default_rng([seed, 8])
    truth = rng.standard_normal(WEIGHTS)
    return _seen_in_halves(rng, lambda rows: _forward(truth, rows)[2] / SHARPNESS)


def _seen_in_halves(rng: np.random.Generator, truth: Callable[[Array], Array]) -> Regression:
    shown = np.arange(DIMENSION) % 2 == np.arange(2)[:, None]
    scales = np.where(shown, 1.0, FAINT)[:, None, :]
    rows = (scales * rng.standard_normal((2, PER_STATE, DIMENSION))).reshape(-1, DIMENSION)
    return Regression(rows, truth(rows) + NOISE * rng.standard_normal(len(rows)), PER_STATE)


def two_truths(seed: int) -> Regression:
    """Draw the paper's data: each state has its own linear model, so that no w fits both."""
    return Regression.draw(seed, PER_STATE, DIMENSION, NOISE**2)


@dataclass(frozen=True)
class Problem:
    """A loss of w on rows z = (x, y), where y comes last.

    ``value(w, rows)`` is the mean loss over the rows of a matrix, ``code`` that of the compiled
    gradient; ``target`` turns the targets of linear regression into those of this problem.
    ``size`` is the number of entries of w.
    """

    name: str
    value: Callable[[Array, Array], float]
    gradient: Callable[[Array, Array], Array]
    code: int = LINEAR
    target: Callable[[Array], Array] = np.asarray
    draw: Callable[[int], Regression] = one_truth
    size: int = DIMENSION

    def rows(self, regression: Regression) -> Array:
        """Return the data of both states, one row z each."""
        return np.column_stack([regression.rows, self.target(regression.targets)])

    def start(self, seed: int) -> Array:
        """Return a random start, as the origin is stationary for some problems."""
        return 0.5 * np.random.default_rng([seed, 7]).standard_normal(self.size)

    def advance(self, opt: Optimizer, rows: Array, order: Array) -> None:
        """Feed ``opt`` the gradients of ``rows[order]``, compiled."""
        if self.code == LINEAR:
            advance_linear(opt, GEMAN_MCCLURE, rows[:, :-1], rows[:, -1], order=order)
            return

        def kernel(plan: Any, run: Any, parts: tuple[Array, ...], piece: Array) -> int:
            from mixfree.reproduce.nonconvex_kernel import nonconvex

            return int(nonconvex(plan, run, self.code == PHASE, *parts, piece))

        opt.advance(kernel, (rows,), order)


def _robust_value(w: Array, rows: Array) -> float:
    return float(GEMAN_MCCLURE.value(rows[:, :-1] @ w, rows[:, -1]).mean())


def _robust_gradient(w: Array, rows: Array) -> Array:
    x, y = rows[:, :-1], rows[:, -1]
    gradient: Array = GEMAN_MCCLURE.derivative(x @ w, y) @ x / len(x)
    return gradient


def _phase_value(w: Array, rows: Array) -> float:
    return float(GEMAN_MCCLURE.value((rows[:, :-1] @ w) ** 2, rows[:, -1]).mean())


def _phase_gradient(w: Array, rows: Array) -> Array:
    x, y = rows[:, :-1], rows[:, -1]
    along = x @ w
    gradient: Array = (2.0 * along * GEMAN_MCCLURE.derivative(along**2, y)) @ x / len(x)
    return gradient


def _sigmoid(values: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(0.5 * values)


def _forward(w: Array, x: Array) -> tuple[Array, Array, Array]:
    """Return hidden units, their output weights, and the pre-activation of the output."""
    first, last = w[: HIDDEN * DIMENSION].reshape(HIDDEN, DIMENSION), w[HIDDEN * DIMENSION :]
    hidden = np.tanh(x @ first.T)
    return hidden, last[:-1], hidden @ last[:-1] + last[-1]


def _network_value(w: Array, rows: Array) -> float:
    output = _sigmoid(_forward(w, rows[:, :-1])[2])
    return float(0.5 * ((output - rows[:, -1]) ** 2).mean())


def _network_gradient(w: Array, rows: Array) -> Array:
    x, y = rows[:, :-1], rows[:, -1]
    hidden, last, total = _forward(w, x)
    output = _sigmoid(total)
    slope = (output - y) * output * (1.0 - output) / len(x)
    back = slope[:, None] * last * (1.0 - hidden**2)
    return np.concatenate([(back.T @ x).ravel(), slope @ hidden, [slope.sum()]])


def _network_target(y: Array) -> Array:
    return _sigmoid(SHARPNESS * y)


def _network(name: str, draw: Callable[[int], Regression]) -> Problem:
    return Problem(
        name, _network_value, _network_gradient, NETWORK, _network_target, draw, size=WEIGHTS
    )


PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("robust regression", _robust_value, _robust_gradient),
        Problem("phase retrieval", _phase_value, _phase_gradient, PHASE, np.square),
        _network("network", one_network),
        Problem(
            "robust, two truths",
            _robust_value,
            _robust_gradient,
            draw=two_truths,
        ),
        # tanh units are linear only in the limit W → 0, v → ∞: F has no minimiser.
        _network("network, linear truth", one_truth),
    )
}


FULL = Settings(samples=1_000_000, seeds=30, p=(0.5, 1e-2, 1e-3), first_seed=8000)
QUICK = FULL.changed(samples=3162, seeds=2, p=(0.5, 1e-2), first_seed=0)

FIRST = 100  # samples at which curves begin
EVALUATIONS = 1000  # gradient evaluations per run, evenly spaced, besides those of the history
# Factors on the samples: with persistent noise, the rate shows only after many mixing times.
LONGER = {"robust, two truths": 10}
RATE = 0.25  # exponent of τ/T of the root mean square and of the mean of ‖∇F‖
STATEMENTS = {"Theorem 4.3": "mean_square", "Corollary 4.4": "mean"}
NOTES = [
    "MAG with α = 1, five levels and no domain, without knowledge of p.",
    "Exponents are those of means over iterates and seeds: of ‖∇F‖², halved, for the theorem, and "
    "of ‖∇F‖ for the corollary. The last decade of the samples decides.",
]


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per problem, p and seed."""
    check_whole(settings.samples, "samples", least=10 * FIRST)
    return [
        {"problem": name, "p": p, "seed": seed, "samples": settings.samples * LONGER.get(name, 1)}
        for name in PROBLEMS
        for p in settings.p
        for seed in settings.seed_numbers
    ]


def start(problem: Problem, seed: int) -> Optimizer:
    """Start MAG as in Corollary 4.4 but for the number of levels: α = 1, and a random iterate."""
    return MAG(problem.start(seed), alpha=1.0, output="random", seed=seed)


def measure(cell: dict[str, Any]) -> list[Row]:
    """Measure ‖∇F‖ at a random iterate, and the means of ‖∇F‖ and ‖∇F‖² over all, at marks.

    ∇F is exact, over the data of both states. An evaluated iterate stands for all iterates since
    the previous evaluation.
    """
    seed, p, samples = cell["seed"], cell["p"], cell["samples"]
    problem = PROBLEMS[cell["problem"]]
    regression = problem.draw(seed)
    data, stream = problem.rows(regression), regression.stream(seed, p)
    rows: list[Row] = []
    total, squares, counted = 0.0, 0.0, 0

    def evaluate(opt: Optimizer, at_mark: bool) -> None:
        nonlocal total, squares, counted
        size = float(np.linalg.norm(problem.gradient(opt.x, data)))
        total += (opt.steps - counted) * size
        squares += (opt.steps - counted) * size**2
        counted = opt.steps
        if (at_mark or opt.samples == samples) and opt.samples >= FIRST and counted:
            rows.append(
                {
                    "problem": cell["problem"],
                    "p": p,
                    "seed": seed,
                    "samples": opt.samples,
                    "steps": counted,
                    "random": float(np.linalg.norm(problem.gradient(opt.average, data))),
                    "mean": total / counted,
                    "mean_square": squares / counted,
                }
            )

    opt = start(problem, seed)

    def advance(first: int, stop: int) -> None:
        problem.advance(opt, data, stream.take(stop - first))

    follow(opt, advance, samples, evaluate, chunk=max(1, samples // EVALUATIONS))
    return rows


def report(rows: list[Row], settings: Settings) -> Report:
    """Make tables, figures and claims."""
    rows = [
        {**row, "root": row["mean_square"] ** 0.5, "mixing_time": mixing_time(row["p"])}
        for row in rows
    ]
    last = {name: max(r["samples"] for r in where(rows, problem=name)) for name in PROBLEMS}
    final = [row for row in rows if row["samples"] == last[row["problem"]]]
    decades = {
        (name, f"{p:g}"): {
            f"to {end:,}": [
                r for r in where(rows, problem=name, p=p) if end // 10 <= r["samples"] <= end
            ]
            for end in sorted(last[name] // 10**k for k in range(12))
            if end // 10 >= min(row["samples"] for row in rows)
        }
        for name in PROBLEMS
        for p in settings.p
    }
    lines = [
        (name, f"{last[name]:,}", f"{p:g}", f"{mixing_time(p):,}",
         bootstrap([row["mean_square"] for row in found], np.sqrt),
         *(bootstrap([row[column] for row in found]) for column in ("mean", "random")))
        for name in PROBLEMS
        for p in settings.p
        for found in [where(final, problem=name, p=p)]
    ]  # fmt: skip
    tables = [
        Table(
            f"The gradient at the end, {settings.seeds} seeds, 95 %",
            ["problem", "samples", "p", "mixing time", "root mean square ‖∇F‖", "mean ‖∇F‖",
             "‖∇F‖ at one w̃ per seed"],
            lines,
        ),
        grid("Exponent of the root mean square ‖∇F‖, decade by decade", ["problem", "p"], decades,
             lambda found: _exponent(found, "samples", "mean_square").text("+.2f")),
    ]  # fmt: skip
    claims = []
    for statement, y in STATEMENTS.items():
        for name in PROBLEMS:
            # Over the last decade: before it, some runs are still on a plateau.
            ends = {f"p = {p:g}": [*decades[name, f"{p:g}"].values()][-1] for p in settings.p}
            decay = {p: _exponent(found, "samples", y) for p, found in ends.items()}
            growth = _exponent(where(final, problem=name), "mixing_time", y)
            about = f"{statement}, {name}"
            claims += [
                Claim.below(f"{about}: falls at least like T^−¼ at every p", decay, -RATE),
                Claim.below(f"{about}: grows at most like τ^¼, without knowing p", growth, RATE),
            ]
    figures = {"nonconvex": _against_samples(rows), "nonconvex-mixing-time": _against_time(final)}
    return Report(tables, figures, claims, NOTES)


def _exponent(rows: list[Row], x: str, y: str) -> Interval:
    """Fit the exponent of the mean of ‖∇F‖, or of the root of the mean of ‖∇F‖²."""
    half = 0.5 if y == "mean_square" else 1.0
    return Interval(*(half * end for end in exponent(rows, x, y)))


def _against_samples(rows: list[Row]) -> Figure:
    figure, axes = new_figure(1, len(PROBLEMS), width=14.0, height=3.4, sharey=True)
    for place, name in zip(axes, PROBLEMS, strict=True):
        shown = [{**row, "series": f"p = {row['p']:g}"} for row in where(rows, problem=name)]
        curves(place, shown, "series", "samples", "root")
        log_log(place, "samples", "root mean square of ‖∇F‖" if place is axes[0] else "")
        place.set_title(name, fontsize="medium")
    axes[0].legend(frameon=False, fontsize="small")
    return figure


def _against_time(final: list[Row]) -> Figure:
    """Plot the final value against the mixing time, relative to the fastest mixing chain."""
    figure, axes = new_figure(width=6.0, height=3.8)
    times = sorted({row["mixing_time"] for row in final})
    base = {(r["problem"], r["seed"]): r["root"] for r in final if r["mixing_time"] == times[0]}
    shown = [{**r, "times": r["root"] / base[r["problem"], r["seed"]]} for r in final]
    curves(axes, shown, "problem", "mixing_time", "times", **DOTS)
    bound = [(time / times[0]) ** RATE for time in times]
    axes.plot(times, bound, color="0.5", lw=1.0, label="τ to the power 1/4")
    log_log(axes, "exact mixing time", "root mean square of ‖∇F‖, relative")
    plain_ticks(axes.yaxis)
    axes.legend(frameon=False, fontsize="small")
    return figure
