"""The paper's experiment: linear regression whose rows come from a two-state Markov chain."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.chains import two_state
from mixfree.core.methods import find_method
from mixfree.core.minimize import follow, marks
from mixfree.core.optimizer import Optimizer
from mixfree.domains import Ball
from mixfree.gradients import MLMC
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Squared
from mixfree.reproduce.engine.report import Settings
from mixfree.reproduce.engine.rows import Axes, Row

# Printed with every result of the paper's experiment, whose gain the theory explains only in part.
CAVEAT = (
    "With 5 levels a window has at most 32 samples, while the mixing time at p = 1e-4 is 3,466: "
    "much of MAG's gain here comes from smaller steps."
)
PAPER_METHODS = ("sgd", "adagrad", "sgd-mlmc", "mag")
LIMIT = "limit"  # the name of the asymptotic error of the fit to all samples, in every figure


@cache
def mixing_time(p: float) -> int:
    """Compute the exact mixing time of the chain that leaves its state with probability ``p``."""
    return two_state(p).mixing_time()


def ball_minimizer(hessian: Array, linear: Array, radius: float) -> Array:
    """Minimise ½wᵀHw − bᵀw over ‖w‖ ≤ r, for a positive semi-definite H with b in its range.

    Where the ball binds, the minimiser is w(λ) = (H + λI)⁻¹b with λ the root of the secular
    equation 1/‖w(λ)‖ = 1/r. Its left side is concave and increasing in λ, so Newton's method from
    λ = 0 increases to the root and never passes it.
    """
    values, vectors = np.linalg.eigh(hessian)
    kept = values > values[-1] * values.size * np.finfo(float).eps
    values, vectors = values[kept], vectors[:, kept]
    along = vectors.T @ linear
    shift = 0.0
    for _ in range(100):
        point = along / (values + shift)
        size = float(np.linalg.norm(point))
        if size <= radius * (1.0 + 1e-15):
            break
        slope = float(point @ (point / (values + shift)))
        longer = shift + size**2 / slope * (size / radius - 1.0)
        if longer <= shift:
            break
        shift = longer
    turned: Array = vectors @ point
    return turned


class Stream:
    """Row numbers along a path of the chain, any number at a time.

    The path starts in the stationary distribution, and each visit to a state draws one of its rows
    uniformly. A seed gives the same random numbers for every p.
    """

    def __init__(self, per_state: int, seed: int, p: float) -> None:
        self._per_state = per_state
        self._row = np.random.default_rng([seed, 1])
        self._uniform = np.random.default_rng([seed, 2])
        self._p = p
        self._taken = 0
        self._switches = 0

    def take(self, samples: int) -> Array:
        """Return the next row numbers."""
        row = self._row.integers(self._per_state, size=samples)
        uniform = self._uniform.random(samples)
        switches = uniform < self._p
        if self._taken == 0:
            switches[:1] = uniform[:1] < 0.5
        row += self._per_state * ((self._switches + np.cumsum(switches, dtype=np.int64)) & 1)
        self._taken += samples
        self._switches += int(np.count_nonzero(switches))
        return row


@dataclass(frozen=True)
class Regression:
    """Rows and targets of all states, ``per_state`` each, and the radius of the ball of w.

    The objective F(w) = (1/4n)‖Xw − y‖² is the mean of the squared losses of all 2n rows.
    """

    rows: Array = field(repr=False)
    targets: Array = field(repr=False)
    per_state: int
    radius: float = 1.0

    @classmethod
    def draw(
        cls,
        seed: int,
        per_state: int = 250,
        dimension: int = 100,
        noise: float = 1e-3,
        *,
        states: int = 2,
        entries: str = "normal",
        size: float = 1.0,
        radius: float = 1.0,
        condition: float = 1.0,
        alike: bool = False,
    ) -> "Regression":
        """Draw X ~ N(0, I), w† ~ N(0, I/d) per state, and y = Xw† + ε with variance ``noise``.

        Entries of w† are "normal" or "uniform" on [0, c]; ``size`` is the root mean square of ‖w†‖.
        The variances of the columns of X fall from 1 to 1/``condition``, and X is that of the first
        state in all states if they are ``alike``.
        """
        rng = np.random.default_rng([seed, 0])
        shape = (states, dimension)
        drawn = rng.standard_normal(shape) if entries == "normal" else rng.uniform(0, 3**0.5, shape)
        truth = drawn / math.sqrt(dimension) * size
        rows = rng.standard_normal((states, per_state, dimension))
        rows *= np.geomspace(1.0, condition**-0.5, dimension)
        rows[1:] = rows[0] if alike else rows[1:]
        targets = np.einsum("snd,sd->sn", rows, truth)
        targets += math.sqrt(noise) * rng.standard_normal((states, per_state))
        return cls(rows.reshape(-1, dimension), targets.ravel(), per_state, radius)

    def order(self, seed: int, p: float, samples: int) -> Array:
        """Return the first row numbers of the stream of a seed."""
        return self.stream(seed, p).take(samples)

    def stream(self, seed: int, p: float) -> Stream:
        """Return row numbers along a path of the chain left with probability ``p``."""
        return Stream(self.per_state, seed, p)

    @cached_property
    def hessian(self) -> Array:
        """∇²F."""
        return self.rows.T @ self.rows / len(self.rows)

    @cached_property
    def minimizer(self) -> Array:
        """w*, the minimiser of F on the ball."""
        return ball_minimizer(
            self.hessian, self.rows.T @ self.targets / len(self.rows), self.radius
        )

    def limit(self, p: float) -> float:
        """Compute T·E[F(ŵ) − F(w*)] of the fit ŵ to T samples as T → ∞, for w* inside the ball.

        It is ½ tr(H⁻¹Σ), where Σ is the long-run covariance of the gradients at w*: within the two
        states, plus (1 − p)/p times that of their means, whose correlation at lag k is (1 − 2p)^k.
        """
        residuals = self.rows @ self.minimizer - self.targets
        gradients = (residuals[:, None] * self.rows).reshape(2, self.per_state, -1)
        means = gradients.mean(axis=1)
        within = np.einsum("sni,snj->ij", gradients, gradients) / len(self.rows)
        within -= means.T @ means / 2.0
        covariance = within + (1.0 - p) / p * np.outer(means[0], means[0])
        return 0.5 * float(np.trace(np.linalg.solve(self.hessian, covariance)))

    def suboptimality(self, points: Array) -> Array:
        """Return F(w) − F(w*) for each row of ``points``, to full relative precision."""
        best = self.minimizer
        slope = self.rows.T @ (self.rows @ best - self.targets) / len(self.rows)
        away = points - best
        gaps: Array = away @ slope + 0.5 * np.einsum("ij,ij->i", away @ self.hessian, away)
        return gaps


@lru_cache(maxsize=2)
def problem_of(seed: int) -> Regression:
    """Return the problem of a seed at the paper's size, cached for the next run."""
    return Regression.draw(seed)


@lru_cache(maxsize=1)
def stream_of(seed: int, p: float, samples: int) -> Array:
    """Return the stream of a seed, cached for the next method."""
    return problem_of(seed).order(seed, p, samples)


class Trace(NamedTuple):
    """Steps and suboptimality of a run, on a logarithmic grid of samples observed."""

    samples: Array
    steps: Array
    suboptimality: Array


def start(problem: Regression, method: str, p: float, **settings: Any) -> Optimizer:
    """Start an optimiser at the origin, on the problem's ball; give the mixing time if needed.

    As in the paper's experiment, α = 1 unless given in ``settings``.
    """
    made_by = find_method(method)
    if made_by.needs_mixing_time():
        settings.setdefault("mixing_time", mixing_time(p))
    settings.setdefault("alpha", 1.0)
    return made_by(np.zeros(problem.rows.shape[1]), domain=Ball(problem.radius), **settings)


def trace(opt: Optimizer, problem: Regression, order: Array) -> Trace:
    """Run over the stream and record the suboptimality of the output."""

    def advance(first: int, stop: int) -> None:
        rows = order[first:stop]
        advance_linear(opt, Squared(), problem.rows, problem.targets, order=rows)

    history = follow(opt, advance, len(order))
    return Trace(history.samples, history.steps, problem.suboptimality(history.points))


def exact_trace(problem: Regression, order: Array) -> tuple[Array, Array]:
    """Return sample counts and suboptimality of the exact fit, on the grid of the other methods."""
    columns = problem.rows.shape[1]
    hessian, linear = np.zeros((columns, columns)), np.zeros(columns)
    counts = [*takewhile(lambda count: count < len(order), marks(0)), len(order)]
    gaps, before = list[float](), 0
    for count in counts:
        # Rows recur, so the sums are over distinct rows, weighted by their counts.
        times = np.bincount(order[before:count], minlength=len(problem.rows))
        weighted = problem.rows * times[:, None]
        hessian, linear = hessian + problem.rows.T @ weighted, linear + problem.targets @ weighted
        fit = ball_minimizer(hessian, linear, problem.radius)
        gaps.append(float(problem.suboptimality(fit[None])[0]))
        before = count
    return np.array(counts), np.array(gaps)


def limits_of(settings: Settings, p: float) -> list[float]:
    """Return the asymptotic error of the fit to all samples of the stream of each seed."""
    return [problem_of(seed).limit(p) / settings.samples for seed in settings.seed_numbers]


def draw_limit(axes: Axes, at: Sequence[float], errors: Sequence[float]) -> None:
    """Draw the limit as a thin line; short runs are far from it, which the axes do not show."""
    low, high = axes.get_ylim()
    shown = [(x, y) for x, y in zip(at, errors, strict=True) if y <= high]
    if shown:
        axes.plot(*zip(*shown, strict=True), label=LIMIT, color="#8A8A8A", linewidth=0.9)
    axes.set_ylim(min(low, 0.7 * min(errors)), high)


def regression_cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one run per p, seed and method; runs on the same stream are adjacent."""
    return [
        {"method": method, "seed": seed, "p": p, "samples": settings.samples}
        for p in settings.p
        for seed in settings.seed_numbers
        for method in settings.methods
    ]


def run_cell(cell: dict[str, Any]) -> Trace:
    """Do the run of a cell, whose ``options`` go to the method."""
    problem = problem_of(cell["seed"])
    opt = start(problem, cell["method"], cell["p"], seed=cell["seed"], **cell.get("options", {}))
    return trace(opt, problem, stream_of(cell["seed"], cell["p"], cell["samples"]))


def measure_run(cell: dict[str, Any]) -> list[Row]:
    """Do the run of a cell; return one row per point of its trace."""
    found = run_cell(cell)
    names = {"method": cell["method"], "seed": cell["seed"], "p": cell["p"]}
    return [
        {**names, "samples": samples, "steps": steps, "suboptimality": gap}
        for samples, steps, gap in zip(*(part.tolist() for part in found), strict=True)
    ]


def horizon_for(samples: int) -> int:
    """Return T of Algorithm 1 for a number of samples: the largest whose T steps need no more.

    Examples
    --------
    >>> horizon_for(1000), round(142 * MLMC(None, horizon=142).expected_samples)
    (142, 995)
    """
    low, high = 1, samples
    while low < high:
        middle = (low + high + 1) // 2
        if middle * MLMC(None, horizon=middle).expected_samples <= samples:
            low = middle
        else:
            high = middle - 1
    return low
