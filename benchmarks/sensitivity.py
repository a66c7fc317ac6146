"""Figure 1 with each choice that the paper leaves open made differently.

The setting of Figure 1 is "as set" (``docs/reproduction.md``). Each choice changes one thing, and
the four methods run on the same streams as before.
"""

import math
from dataclasses import dataclass, field
from functools import cache, lru_cache

import numpy as np
from scipy.signal import lfilter

from mixfree.base.figures import new_figure, styles_of
from mixfree.base.table import Table
from mixfree.chains import MarkovChain, cycle
from mixfree.core.methods import Algorithm1, find_method
from mixfree.core.optimizer import Optimizer
from mixfree.domains import Ball
from mixfree.gradients import MLMC
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Squared
from mixfree.reproduce.engine.report import Claim, Report, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import Interval, bootstrap, resamples
from mixfree.reproduce.paper.problem import Regression, ball_minimizer, mixing_time
from mixfree.reproduce.paper.runs import PAPER_METHODS, feed_states, horizon_for
from mixfree.steps import Constant

FULL = Settings(samples=1_000_000, seeds=30, p=(1e-4,), first_seed=1000)
QUICK = Settings(samples=10_000, seeds=2, p=(1e-3,))
FIFTH = 0.2  # fraction of the samples for costly choices
AS_SET, SHORT = "as set", "as set, a fifth of the samples"
RING, GROUP = 200, 50
CHAINS = {"ring": (RING, 10), "graph": (2 * GROUP, 20)}  # states and rows per state
PIECE = 1 << 13  # rows of a stream on continuous states in memory at a time
PAIRS = (("mag", "adagrad"), ("mag", "sgd"), ("mag", "sgd-mlmc"), ("sgd-mlmc", "sgd"))
HALVES = {"MAG is best": slice(0, 3), "MLMC is better": slice(0, 4, 3)}  # the pairs of each


@dataclass(frozen=True)
class Choice:
    """One open choice, made differently: one line of the table.

    Parameters
    ----------
    data
        Options of :meth:`Regression.draw`, for the problem.
    stream
        ``"two-state"``, ``"ring"``, ``"graph"`` or ``"continuous"``: the chain.
    start
        ``"origin"``, ``"edge"`` of the ball, or ``"one state"`` for the optimum of a state.
    whole
        Whether a step observes all rows of its state.
    common, own
        Options of all methods, and of some methods alone.
    share, heavy
        Fraction of the samples of a run; whether errors have heavy tails, so that all seeds are
        needed.
    beside
        The choice whose runs are used for the methods that ``own`` does not name.
    """

    data: dict = field(default_factory=dict)
    stream: str = "two-state"
    start: str = "origin"
    whole: bool = False
    common: dict = field(default_factory=dict)
    own: dict = field(default_factory=dict)
    share: float = 1.0
    heavy: bool = False
    beside: str | None = None


def mlmc(heavy=False, **options):
    """Return a choice about the MLMC gradient alone."""
    return Choice(own={"sgd-mlmc": options, "mag": options}, heavy=heavy, beside=AS_SET)


DIAMETER, WHOLE = math.sqrt(2.0), {"levels": None, "horizon": "T"}
CONSTANT, PER_SAMPLE = {"constant": True}, {"alpha": MLMC(5).expected_samples ** -0.5}
CHOICES = {
    AS_SET: Choice(heavy=True),
    SHORT: Choice(share=FIFTH, heavy=True),
    "truth: w† uniform on [0, c]^d, norm 1": Choice({"law": "uniform"}),
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
    "observed: the whole state, a fifth of the samples": Choice(whole=True, share=FIFTH),
    "scale: α = 0.1": Choice(common={"alpha": 0.1}),
    "scale: α = 0.32": Choice(common={"alpha": 0.32}),
    "scale: α = D/√2 = 1.41": Choice(common={"alpha": DIAMETER}),
    "scale: α = 10": Choice(common={"alpha": 10.0}),
    "scale: w† ~ N(0, I), r = 10, α = D/√2 = 14.1": Choice(
        {"size": 10.0, "radius": 10.0}, common={"alpha": 10.0 * DIAMETER}
    ),
    "step: SGD and SGD-MLMC with 1/√T": Choice(
        own={"sgd": CONSTANT, "sgd-mlmc": CONSTANT}, beside=AS_SET
    ),
    "step: t counts samples in SGD-MLMC's 1/√t": Choice(
        own={"sgd-mlmc": PER_SAMPLE}, beside=AS_SET
    ),
    "output: average of the last half": Choice(common={"output": "tail"}),
    "output: last iterate": Choice(common={"output": "last"}),
    "levels: 3 levels": mlmc(levels=3),
    "levels: 7 levels": mlmc(levels=7),
    "levels: 10 levels": mlmc(levels=10),
    "levels: 5 levels, the paper's weights 2^J": mlmc(weights="paper"),
    "levels: whole law": mlmc(heavy=True, **WHOLE),
    "levels: Algorithm 1 for MAG: whole law, α = D/√2": Choice(
        own={"mag": {"horizon": "T", "alpha": DIAMETER}}, heavy=True, beside=AS_SET
    ),
    "chain: walk on a ring of 200 states": Choice(stream="ring"),
    "chain: walk over a graph of 100 agents": Choice(stream="graph"),
    "chain: continuous states": Choice(stream="continuous"),
    "tails: whole law": Choice(own={"mag": WHOLE}, share=FIFTH, heavy=True, beside=SHORT),
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


@dataclass(frozen=True)
class Problem:
    """Finite states with rows of their own, and one path of a chain over them."""

    data: Regression
    order: np.ndarray
    whole: bool = False

    @property
    def radius(self):
        return self.data.radius

    def suboptimality(self, points):
        return self.data.suboptimality(points)

    def optimum_of_a_state(self):
        """Compute the minimiser of the first state's objective on the ball."""
        n = self.data.per_state
        rows, targets = self.data.rows[:n], self.data.targets[:n]
        return ball_minimizer(rows.T @ rows / n, rows.T @ targets / n, self.radius)

    def feed(self, opts):
        """Feed each optimiser the gradients along the path."""
        for opt in opts:
            if self.whole:
                feed_states(opt, self.data, self.order)
            else:
                data = self.data
                advance_linear(opt, Squared(), data.rows, data.targets, order=self.order)


@dataclass(frozen=True)
class Drift:
    """A chain on continuous states: y = xᵀ(a + s b) + ε, where s is autoregressive.

    The rows x are drawn from a fixed set. s has mean 0, variance 1 and, at lag 1, the correlation
    1 − 2p, that of the two-state chain; hence F(w) = ½(w − a)ᵀH(w − a) + const.
    """

    rows: np.ndarray
    mean: np.ndarray
    slope: np.ndarray
    minimizer: np.ndarray
    seed: int
    p: float
    samples: int
    radius: float = 1.0

    @classmethod
    def draw(cls, seed, p, samples):
        """Draw 500 rows x ~ N(0, I), and a, b ~ N(0, I/d)."""
        rng = np.random.default_rng([seed, 0])
        d = 100
        mean, slope = rng.standard_normal((2, d)) / math.sqrt(d)
        rows = rng.standard_normal((500, d))
        hessian = rows.T @ rows / len(rows)
        best = ball_minimizer(hessian, hessian @ mean, cls.radius)
        return cls(rows, mean, slope, best, seed, p, samples)

    def suboptimality(self, points):
        away = (points - self.minimizer) @ self.rows.T
        residuals = self.rows @ (self.minimizer - self.mean)
        return (away @ residuals + 0.5 * np.sum(away**2, axis=1)) / len(self.rows)

    def pieces(self):
        """Yield rows and targets, a few thousand at a time."""
        rng = np.random.default_rng([self.seed, 1])
        keep = 1.0 - 2.0 * self.p
        state = rng.standard_normal()
        for first in range(0, self.samples, PIECE):
            count = min(PIECE, self.samples - first)
            shocks = math.sqrt(1.0 - keep**2) * rng.standard_normal(count)
            states, _ = lfilter([1.0], [1.0, -keep], shocks, zi=[keep * state])
            state = states[-1]
            rows = self.rows[rng.integers(len(self.rows), size=count)]
            noise = math.sqrt(1e-3) * rng.standard_normal(count)
            yield rows, rows @ self.mean + states * (rows @ self.slope) + noise

    def feed(self, opts):
        for rows, targets in self.pieces():
            for opt in opts:
                advance_linear(opt, Squared(), rows, targets)


def problem_of(choice, seed, p, samples):
    """Return the problem of a choice with the stream of a seed."""
    if choice.stream == "continuous":
        return Drift.draw(seed, p, samples)
    if choice.stream == "two-state":
        data = Regression.draw(seed, **choice.data)
        return Problem(data, two_state_order(seed, p, samples), choice.whole)
    states, per_state = CHAINS[choice.stream]
    data = Regression.draw(seed, per_state, states=states, **choice.data)
    rng = np.random.default_rng([seed, 1])
    path = chain_of(choice.stream).simulate(samples, seed=rng)
    return Problem(data, per_state * path + rng.integers(per_state, size=samples), choice.whole)


@lru_cache(maxsize=2)
def two_state_order(seed, p, samples):
    return Regression.draw(seed, dimension=1).order(seed, p, samples)


def cells(settings):
    """Return one cell per p, seed and choice, with fewer seeds where errors have light tails."""
    fewer = settings.seed_numbers[: max(2, settings.seeds * 2 // 5)]
    return [
        {"choice": name, "p": p, "seed": seed, "samples": round(settings.samples * choice.share)}
        for p in settings.p
        for seed in settings.seed_numbers
        for name, choice in CHOICES.items()
        if choice.heavy or seed in fewer
    ]


def measure(cell):
    """Return one row per method: its suboptimality at the end of the stream."""
    choice = CHOICES[cell["choice"]]
    problem = problem_of(choice, cell["seed"], cell["p"], cell["samples"])
    x0 = np.zeros(100)
    if choice.start == "one state":
        x0 = problem.optimum_of_a_state()
    elif choice.start == "edge":
        away = np.random.default_rng([cell["seed"], 3]).standard_normal(100)
        x0 = problem.radius * away / np.linalg.norm(away)
    names = list(choice.own) or list(PAPER_METHODS)
    opts = [start(name, choice, x0, problem.radius, cell) for name in names]
    problem.feed(opts)
    return [
        {
            **cell,
            "method": name,
            "steps": opt.steps,
            "suboptimality": float(problem.suboptimality(opt.average[None])[0]),
        }
        for name, opt in zip(names, opts, strict=True)
    ]


def start(name, choice, x0, radius, cell):
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
    """Make one table of ratios of means per p, one of medians, and a claim per choice."""
    tables, figures, claims = [], {}, []
    for p in settings.p:
        errors = errors_of(where(rows, p=p))
        label = f"p = {p:g}, {settings.samples:,} samples"
        means = {name: ratios(found, ratio_of_means) for name, found in errors.items()}
        medians = {name: ratios(found, median_ratio) for name, found in errors.items()}
        verdicts = {name: judged(means[name], medians[name], settings) for name in errors}
        for text, found in (("Ratio of the means", means), ("Median of the ratios", medians)):
            head = ["choice", "seeds", *(f"{one} / {other}" for one, other in PAIRS), *HALVES]
            lines = [
                (name, len(set.intersection(*map(set, errors[name].values()))),
                 *(ratio.text(".2f") for ratio in each), *verdicts[name][1:])
                for name, each in found.items()
            ]  # fmt: skip
            tables.append(Table(f"{text} of suboptimality, 95 %, {label}", head, lines))
        figures[f"sensitivity-{mixing_time(p)}"] = draw(means, label)
        claims += [verdicts[name][0](f"p = {p:g}, {name}: Figure 1's claim") for name in errors]
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


def errors_of(rows):
    """Return errors by choice and method; unaffected methods have their default errors."""
    found = {}
    for row in rows:
        methods = found.setdefault(row["choice"], {})
        methods.setdefault(row["method"], {})[row["seed"]] = row["suboptimality"]
    return {
        name: {**found.get(CHOICES[name].beside or name, {}), **errors}
        for name, errors in found.items()
    }


def ratio_of_means(values, others):
    return bootstrap(np.transpose([values, others]), lambda means: means[:, 0] / means[:, 1])


def median_ratio(values, others):
    """Return the median of the ratios on the same streams, with resampled seeds."""
    found = np.divide(values, others)
    if len(found) < 2:
        return Interval(float(found[0]), -math.inf, math.inf)
    drawn = [np.median(np.repeat(found, counts)) for counts in resamples(len(found))]
    return Interval(float(np.median(found)), *np.quantile(drawn, [0.025, 0.975]).tolist())


def ratios(errors, ratio):
    """Return the ratio of each pair, on the streams that both have run on."""
    found = []
    for one, other in PAIRS:
        seeds = [seed for seed in errors[one] if seed in errors[other]]
        found.append(ratio(*([errors[each][seed] for seed in seeds] for each in (one, other))))
    return found


def judged(means, medians, settings):
    """Return the claim about a choice, but for its text, and the verdicts on its halves."""
    (one, other), worst = max(zip(PAIRS, means, strict=True), key=lambda pair: pair[1].value)
    measured = f"largest ratio {worst.text('.2f')}, {one} / {other}"

    def claim(text, half=slice(None)):
        both = dict(enumerate([*means[half], *medians[half]]))
        return Claim.below(text, both, 1.0, measured=measured)

    halves = [claim(text, half).verdict for text, half in HALVES.items()]
    return claim, *(halves if settings.covers(FULL) else ["not decided"] * 2)


def draw(found, label):
    figure, axes = new_figure(width=9.5, height=0.3 * len(found) + 1.2)
    names = list(reversed(found))
    # A ratio has the colour of the method that it is over.
    colors = [styles_of([other])[other]["color"] for _, other in PAIRS[:3]] + ["#8A8A8A"]
    for place, (pair, mark, color) in enumerate(zip(PAIRS, "os^D", colors, strict=True)):
        values, low, high = np.array([found[name][place] for name in names]).T
        low, high = np.maximum(low, values / 100.0), np.minimum(high, values * 100.0)
        style = {"fmt": mark, "color": color, "markersize": 4, "lw": 1, "label": " / ".join(pair)}
        height = np.arange(len(names)) + 0.18 * (1.5 - place)
        axes.errorbar(values, height, xerr=[values - low, high - values], **style)
    axes.axvline(1.0, color="black", lw=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names, fontsize="small")
    axes.set_ylim(-0.6, len(names) - 0.4)
    for spot in range(1, len(names)):
        axes.axhline(spot - 0.5, color="#eeeeee", lw=0.5)
    axes.set_xlabel("ratio of mean suboptimalities, 95 %; left of 1 as the paper says")
    axes.set_title(label, loc="left", fontsize="medium")
    above = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.02), "ncols": 4}
    axes.legend(frameon=False, fontsize="small", **above)
    return figure
