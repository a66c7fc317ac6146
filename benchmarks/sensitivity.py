"""Figure 1 with each choice that the paper leaves open made differently.

The setting is that of ``docs/reproduction.md``. Each choice changes one thing, and the four methods
run on the same streams.
"""

import math
from dataclasses import dataclass, field
from functools import cache, lru_cache

import numpy as np

from mixfree.base.figures import new_figure, styles_of
from mixfree.chains import MarkovChain, cycle
from mixfree.core.methods import Algorithm1, find_method
from mixfree.core.optimizer import Optimizer
from mixfree.domains import Ball
from mixfree.gradients import MLMC
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Squared
from mixfree.reproduce.engine.report import VERDICTS, Claim, Report, Settings
from mixfree.reproduce.engine.rows import gather, grid
from mixfree.reproduce.engine.statistics import ratio
from mixfree.reproduce.paper.problem import (
    PAPER_METHODS,
    Regression,
    ball_minimizer,
    horizon_for,
    mixing_time,
)
from mixfree.steps import Constant

FULL = Settings(samples=1_000_000, seeds=30, p=(1e-4,), first_seed=6000)
QUICK = Settings(samples=10_000, seeds=2, p=(1e-3,))
DIMENSION = 100
UNCHANGED, SHORT = "as in Figure 1", "as in Figure 1, a tenth of the samples"
RING, GROUP = 200, 50
CHAINS = {"ring": (RING, 10), "graph": (2 * GROUP, 20)}  # states and rows per state
PAIRS = (("mag", "adagrad"), ("mag", "sgd"), ("mag", "sgd-mlmc"), ("sgd-mlmc", "sgd"))
HALVES = {"MAG is best": slice(0, 3), "MLMC is better": slice(0, 4, 3)}  # the pairs of each
DIAMETER, WHOLE = math.sqrt(2.0), {"levels": None, "horizon": "T"}
CONSTANT, PER_SAMPLE = {"constant": True}, {"alpha": MLMC(5).expected_samples ** -0.5}


@dataclass(frozen=True)
class Choice:
    """One open choice, made differently: one line of the table.

    ``data`` has options of :meth:`Regression.draw`; ``stream`` is ``"two-state"``, ``"ring"`` or
    ``"graph"``; ``start`` is ``"origin"``, ``"edge"`` of the ball, or ``"one state"`` for the
    optimum of a state. ``whole``: a step observes all rows of its state. ``common`` and ``own``
    have options of all methods, and of some; ``share`` is the fraction of the samples of a run.
    """

    data: dict = field(default_factory=dict)
    stream: str = "two-state"
    start: str = "origin"
    whole: bool = False
    common: dict = field(default_factory=dict)
    own: dict = field(default_factory=dict)
    share: float = 1.0


def mlmc(**options):
    """Return a choice about the MLMC gradient alone."""
    return Choice(own={"sgd-mlmc": options, "mag": options})


CHOICES = {
    UNCHANGED: Choice(),
    SHORT: Choice(share=0.1),
    "truth: w† uniform on [0, c]^d, norm 1": Choice({"entries": "uniform"}),
    "truth: norm of w† 3.2, r = 1": Choice({"size": 3.2}),
    "truth: norm of w† 3.2, r = 3.2": Choice({"size": 3.2, "radius": 3.2}),
    "truth: w† ~ N(0, I), r = 1": Choice({"size": 10.0}),
    "truth: w† ~ N(0, I), r = 10": Choice({"size": 10.0, "radius": 10.0}),
    "radius: r = 0.5": Choice({"radius": 0.5}),
    "radius: r = 2": Choice({"radius": 2.0}),
    "radius: r = 10": Choice({"radius": 10.0}),
    "radius: r = 100": Choice({"radius": 100.0}),
    "start: a random point of norm r": Choice(start="edge"),
    "start: the optimum of one state": Choice(start="one state"),
    "observed: the whole state, a tenth of the samples": Choice(whole=True, share=0.1),
    "scale: α = 0.1": Choice(common={"alpha": 0.1}),
    "scale: α = 0.32": Choice(common={"alpha": 0.32}),
    "scale: α = D/√2 = 1.41": Choice(common={"alpha": DIAMETER}),
    "scale: α = 10": Choice(common={"alpha": 10.0}),
    "scale: w† ~ N(0, I), r = 10, α = D/√2 = 14.1": Choice(
        {"size": 10.0, "radius": 10.0}, common={"alpha": 10.0 * DIAMETER}
    ),
    "step: SGD and SGD-MLMC with 1/√T": Choice(own={"sgd": CONSTANT, "sgd-mlmc": CONSTANT}),
    "step: t counts samples in SGD-MLMC's 1/√t": Choice(own={"sgd-mlmc": PER_SAMPLE}),
    "output: average of the last half": Choice(common={"output": "tail"}),
    "output: last iterate": Choice(common={"output": "last"}),
    "levels: 3 levels": mlmc(levels=3),
    "levels: 7 levels": mlmc(levels=7),
    "levels: 10 levels": mlmc(levels=10),
    "levels: 5 levels, the paper's weights 2^J": mlmc(weights="paper"),
    "levels: all levels": mlmc(**WHOLE),
    "levels: Algorithm 1 for MAG: all levels, α = D/√2": Choice(
        own={"mag": {"horizon": "T", "alpha": DIAMETER}}
    ),
    "chain: walk on a ring of 200 states": Choice(stream="ring"),
    "chain: walk over a graph of 100 agents": Choice(stream="graph"),
}


@cache
def chain_of(stream):
    """Return a lazy walk on a ring, or that of Ram et al. (2009) and Johansson et al. (2010).

    They pass the point from an agent to a neighbour with Metropolis weights; the graph here is
    two groups of agents, each linked with all others of its group, and one link between the two.
    """
    if stream == "ring":
        return cycle(RING, lazy=True)
    linked = np.kron(np.eye(2), 1 - np.eye(GROUP))
    linked[GROUP - 1, GROUP] = linked[GROUP, GROUP - 1] = 1
    degree = linked.sum(axis=1)
    move = linked / (1 + np.maximum.outer(degree, degree))
    return MarkovChain(move + np.diag(1 - move.sum(axis=1)))


@lru_cache(maxsize=2)
def two_state_order(seed, p, samples):
    return Regression.draw(seed, dimension=1).order(seed, p, samples)


def problem_of(choice, seed, p, samples):
    """Return the problem of a choice, and row numbers along the stream of a seed."""
    if choice.stream == "two-state":
        return Regression.draw(seed, **choice.data), two_state_order(seed, p, samples)
    states, per_state = CHAINS[choice.stream]
    rng = np.random.default_rng([seed, 1])
    path = chain_of(choice.stream).simulate(samples, seed=rng)
    order = per_state * path + rng.integers(per_state, size=samples)
    return Regression.draw(seed, per_state, states=states, **choice.data), order


def cells(settings):
    """Return one cell per p, seed and choice."""
    return [
        {"choice": name, "p": p, "seed": seed, "samples": round(settings.samples * choice.share)}
        for p in settings.p
        for seed in settings.seed_numbers
        for name, choice in CHOICES.items()
    ]


def measure(cell):
    """Return one row per method: its suboptimality at the end of the stream."""
    choice = CHOICES[cell["choice"]]
    problem, order = problem_of(choice, cell["seed"], cell["p"], cell["samples"])
    x0, rows = start_of(choice, problem, cell["seed"]), []
    for name in PAPER_METHODS:
        opt = started(name, choice, x0, problem.radius, cell)
        if choice.whole:
            feed_states(opt, problem, order)
        else:
            advance_linear(opt, Squared(), problem.rows, problem.targets, order=order)
        gap = float(problem.suboptimality(opt.average[None])[0])
        rows.append({**cell, "method": name, "suboptimality": gap})
    return rows


def start_of(choice, problem, seed):
    if choice.start == "one state":
        n = problem.per_state
        rows, targets = problem.rows[:n], problem.targets[:n]
        return ball_minimizer(rows.T @ rows / n, rows.T @ targets / n, problem.radius)
    away = np.random.default_rng([seed, 3]).standard_normal(DIMENSION)
    return (choice.start == "edge") * problem.radius * away / np.linalg.norm(away)


def feed_states(opt, problem, order):
    """Feed, for each row number, the mean gradient of all rows of its state."""
    n = problem.per_state
    rows, targets = problem.rows.reshape(-1, n, DIMENSION), problem.targets.reshape(-1, n)
    curvature = [each.T @ each / n for each in rows]
    linear = [each.T @ y / n for each, y in zip(rows, targets, strict=True)]
    for state in order // n:
        opt.tell(curvature[state] @ opt.x - linear[state])


def started(name, choice, x0, radius, cell):
    """Start a method with the options of a choice, and α = 1 by default."""
    options = {"alpha": 1.0, **choice.common, **choice.own.get(name, {})}
    constant = options.pop("constant", False)
    published = name == "mag" and "horizon" in options and "levels" not in options
    if options.get("horizon") == "T":
        options["horizon"] = horizon_for(cell["samples"])
    made_by = Algorithm1 if published else find_method(name)
    opt = made_by(x0, domain=Ball(radius), seed=cell["seed"], **options)
    if not constant:
        return opt
    law = opt.gradient
    steps = cell["samples"] / (law.expected_samples if isinstance(law, MLMC) else 1.0)
    step = Constant(options["alpha"] / math.sqrt(steps))
    return Optimizer(x0, law, step, opt.domain, opt.output, name=name)


def report(rows, settings):
    """Make a table of ratios of means per p, and a claim per choice."""
    tables, figures, claims = [], {}, []
    judged = settings.covers(FULL)
    for p in settings.p:
        errors = gather([r for r in rows if r["p"] == p], "choice", "method", "suboptimality")
        label = f"p = {p:g}, {settings.samples:,} samples, {settings.seeds} seeds"
        found = {
            name: {f"{a} / {b}": ratio(each[a], each[b]) for a, b in PAIRS}
            for name, each in errors.items()
        }
        lines = {}
        for name, ratios in found.items():
            halves = {
                half: Claim.below("", dict([*ratios.items()][part]), 1.0)
                for half, part in HALVES.items()
            }
            shown = {
                half: VERDICTS[claim.holds if judged else None] for half, claim in halves.items()
            }
            lines[name] = {pair: each.text(".2f") for pair, each in ratios.items()} | shown
            text = f"p = {p:g}, {name}: Figure 1's claim"
            claims.append(Claim.below(text, ratios, 1.0, ".2f"))
        tables.append(grid(f"Ratio of mean suboptimalities, 95 %, {label}", ["choice"], lines))
        figures[f"sensitivity-{mixing_time(p)}"] = draw(found, label)
    notes = [
        "The claim has two halves. MAG is best: its ratios to AdaGrad, SGD and SGD-MLMC are below "
        "one. MLMC is better: the ratios of MAG to AdaGrad and of SGD-MLMC to SGD are.",
    ]
    return Report(tables, figures, claims, notes)


def draw(found, label):
    figure, axes = new_figure(width=9.5, height=0.3 * len(found) + 1.2)
    names = list(reversed(found))
    # A ratio has the colour of the method that it is over.
    colors = [styles_of([other])[other]["color"] for _, other in PAIRS[:3]] + ["#8A8A8A"]
    for place, (pair, mark, color) in enumerate(zip(PAIRS, "os^D", colors, strict=True)):
        label_of = " / ".join(pair)
        values, low, high = np.array([found[name][label_of] for name in names]).T
        low, high = np.maximum(low, values / 100.0), np.minimum(high, values * 100.0)
        style = {"fmt": mark, "color": color, "markersize": 4, "lw": 1, "label": label_of}
        height = np.arange(len(names)) + 0.18 * (1.5 - place)
        axes.errorbar(values, height, xerr=[values - low, high - values], **style)
    axes.axvline(1.0, color="black", lw=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names, fontsize="small")
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlabel("ratio of mean suboptimalities, 95 %; left of 1 as the paper says")
    axes.set_title(label, loc="left", fontsize="medium")
    above = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.02), "ncols": 4}
    axes.legend(frameon=False, fontsize="small", **above)
    return figure
