"""The 22 streams on which methods are compared, from independent to hardly mixing."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.extras import require
from mixfree.chains import MarkovChain, cycle, random_walk, two_state, winning_streak
from mixfree.core.optimizer import Optimizer
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Huber, Logistic, Loss, Squared
from mixfree.reproduce.paper.problem import mixing_time as two_state_mixing_time
from mixfree.td import RewardProcess

__all__ = [
    "CASES",
    "Problem",
    "around_a_cycle",
    "autoregressive",
    "between_two",
    "on_a_barbell",
    "reversed_streak_td",
]

LONGEST = 1_000_000  # samples of a stream that is drawn in full beforehand


@dataclass(frozen=True)
class Problem:
    """Numbered samples, the order in which they are observed, and the suboptimality of a point.

    Attributes
    ----------
    rows, seen, targets
        The gradient of sample r at w is the loss's slope at (seen[r]·w, targets[r]) times rows[r];
        ``seen`` is ``rows`` except for TD.
    loss
        The loss of a prediction.
    order
        ``order(seed, samples)``: the sample numbers of a stream.
    excess
        Suboptimality of each of several points; it may overflow far from the minimiser.
    mixing_time
        Mixing time of the chain that draws the order.
    """

    rows: Array = field(repr=False)
    targets: Array = field(repr=False)
    loss: Loss
    order: Callable[[int, int], Array] = field(repr=False)
    excess: Callable[[Array], Array] = field(repr=False)
    mixing_time: int
    seen: Array = field(repr=False)

    @np.errstate(over="ignore")
    def gap(self, points: Array) -> Array:
        """Suboptimality of each point; infinite where it overflows."""
        return self.excess(points)

    def advance(self, opt: Optimizer, order: Array) -> None:
        """Run an optimiser over a stream."""
        if self.seen is self.rows:
            advance_linear(opt, self.loss, self.rows, self.targets, order=order)
            return

        def kernel(plan: Any, run: Any, parts: tuple[Array, ...], piece: Array) -> int:
            from mixfree.kernels.td import td

            return int(td(plan, run, 1.0, *parts, piece))

        # With γ = 1 the kernel predicts (row[here] − row[there])·x, here seen[r]·x.
        count = len(self.rows)
        table = np.concatenate([self.rows, self.rows - self.seen])
        places = np.arange(count)
        opt.advance(kernel, (table, self.targets, places, count + places), order)


def on_chain(
    chain: MarkovChain, rows: Array, targets: Array, loss: Loss, mixing_time: int | None = None
) -> Problem:
    """Each state has its own rows; a visit shows one of them, drawn uniformly."""
    _, per_state, dimension = rows.shape
    flat, labels = np.ascontiguousarray(rows.reshape(-1, dimension)), targets.ravel()

    def order(seed: int, samples: int) -> Array:
        shown = np.random.default_rng([seed, 1]).integers(per_state, size=samples)
        drawn: Array = np.asarray(chain.simulate(samples, seed=seed)) * per_state + shown
        return drawn

    law = np.repeat(chain.stationary / per_state, per_state)
    best = minimizer(flat, labels, loss, law)

    def excess(points: Array) -> Array:
        gaps: Array
        if isinstance(loss, Squared):
            # A difference of two large losses would cancel.
            gaps = 0.5 * law @ (flat @ (points - best).T) ** 2
        else:
            least = law @ loss.value(flat @ best, labels)
            gaps = law @ loss.value(flat @ points.T, labels[:, None]) - least
        return gaps

    return Problem(flat, labels, loss, order, excess, mixing_time or chain.mixing_time(), flat)


def minimizer(rows: Array, targets: Array, loss: Loss, law: Array) -> Array:
    """The minimiser of the mean loss."""
    if isinstance(loss, Squared):
        weighted = rows * law[:, None]
        return np.linalg.solve(rows.T @ weighted, weighted.T @ targets)

    def objective(w: Array) -> tuple[float, Array]:
        at = rows @ w
        return float(law @ loss.value(at, targets)), rows.T @ (law * loss.derivative(at, targets))

    start = np.zeros(rows.shape[1])
    options = {"maxiter": 10_000, "maxfun": 100_000, "ftol": 0.0, "gtol": 1e-9, "maxls": 60}
    found = require("scipy.optimize").minimize(
        objective, start, jac=True, method="L-BFGS-B", options=options
    )
    return np.asarray(found.x)


def states_with_data(
    seed: int,
    chain: MarkovChain,
    loss: Loss | None = None,
    dimension: int = 20,
    per_state: int = 250,
    scale: float | Array = 1.0,
    distance: float = 0.0,
    mixing_time: int | None = None,
) -> Problem:
    """Linear data: w† ~ N(0, I/d) per state, shifted by ``distance``, features N(0, scale²)."""
    loss = Squared() if loss is None else loss
    rng = np.random.default_rng([seed, 0])
    states = len(chain)
    truth = rng.standard_normal((states, dimension)) / math.sqrt(dimension)
    away = rng.standard_normal(dimension)
    truth += distance * away / np.linalg.norm(away)
    rows = rng.standard_normal((states, per_state, dimension))
    margins = np.einsum("snd,sd->sn", rows, truth)
    noise = rng.standard_normal(margins.shape)
    if isinstance(loss, Logistic):
        labels = np.where(
            rng.random(margins.shape) < 1.0 / (1.0 + np.exp(-2.0 * margins)), 1.0, -1.0
        )
        return on_chain(chain, rows, labels, loss, mixing_time)
    if isinstance(loss, Huber):
        noise *= 30.0 ** (rng.random(noise.shape) < 0.1)  # one in ten samples is an outlier
    rows = rows * scale
    targets = np.einsum("snd,sd->sn", rows, truth) + math.sqrt(1e-3) * noise
    return on_chain(chain, rows, targets, loss, mixing_time)


def between_two(seed: int, p: float, **settings: Any) -> Problem:
    """Data on the paper's chain: two states, each left with probability p."""
    return states_with_data(seed, two_state(p), mixing_time=two_state_mixing_time(p), **settings)


def around_a_cycle(seed: int, p: float) -> Problem:
    """Data on ten states in a ring, each left for a neighbour with probability p."""
    walk = np.asarray(cycle(10).P)
    return states_with_data(seed, MarkovChain((1.0 - p) * np.eye(10) + p * walk), per_state=50)


def on_a_barbell(seed: int) -> Problem:
    """A random walk on two cliques of ten nodes joined by one edge, with data at the nodes."""
    graph = require("networkx").barbell_graph(10, 0)
    return states_with_data(seed, random_walk(graph, "metropolis"), per_state=50)


def autoregressive(seed: int, persistence: float, dimension: int = 10) -> Problem:
    """Features and noise that are AR(1) processes; every sample is observed once."""
    from scipy.signal import lfilter

    rng = np.random.default_rng([seed, 0])
    truth = rng.standard_normal(dimension) / math.sqrt(dimension)
    fresh = math.sqrt(1.0 - persistence**2)
    start = rng.standard_normal(dimension + 1)
    drawn = fresh * rng.standard_normal((LONGEST, dimension + 1))
    path = lfilter([1.0], [1.0, -persistence], drawn, axis=0, zi=persistence * start[None])[0]
    rows = np.ascontiguousarray(path[:, :dimension])
    targets = rows @ truth + 0.3 * path[:, dimension]

    def order(seed: int, samples: int) -> Array:
        return np.arange(check_whole(samples, "samples", most=LONGEST))

    def excess(points: Array) -> Array:
        gaps: Array = 0.5 * ((points - truth) ** 2).sum(axis=1)
        return gaps

    time = math.ceil(math.log(0.25) / math.log(persistence))
    return Problem(rows, targets, Squared(), order, excess, time, rows)


def reversed_streak_td(seed: int, states: int = 20, gamma: float = 0.9) -> Problem:
    """Tabular TD(0) on the reversed winning streak; the suboptimality is ½‖V − V*‖² in L²(μ)."""
    chain = winning_streak(states).reversal()
    rng = np.random.default_rng([seed, 0])
    unit = np.eye(states)
    process = RewardProcess(np.asarray(chain.P), rng.standard_normal(states), gamma, unit)
    here, there = np.repeat(np.arange(states), states), np.tile(np.arange(states), states)

    def order(seed: int, samples: int) -> Array:
        path = np.asarray(chain.simulate(samples + 1, seed=seed))
        drawn: Array = path[:-1] * states + path[1:]
        return drawn

    def excess(points: Array) -> Array:
        return 0.5 * ((points - process.values) ** 2) @ process.stationary

    seen = unit[here] - gamma * unit[there]
    targets, time = process.r[here], chain.mixing_time()
    return Problem(unit[here], targets, Squared(), order, excess, time, seen)


UNEVEN = np.logspace(0.0, -2.0, 20)  # feature scales for a condition number of 10⁴
CASES: dict[str, Callable[[int], Problem]] = {
    **{
        f"regression p={p:g}": partial(between_two, p=p, dimension=100)
        for p in (0.5, 1e-2, 1e-3, 1e-4, 1e-5)
    },
    "cycle p=0.1": partial(around_a_cycle, p=0.1),
    "cycle p=0.001": partial(around_a_cycle, p=1e-3),
    "logistic p=0.5": partial(between_two, p=0.5, loss=Logistic()),
    "logistic p=0.001": partial(between_two, p=1e-3, loss=Logistic()),
    "huber p=0.5": partial(between_two, p=0.5, loss=Huber(0.1)),
    "huber p=0.001": partial(between_two, p=1e-3, loss=Huber(0.1)),
    "features ×0.1": partial(between_two, p=1e-2, scale=0.1),
    "features ×10": partial(between_two, p=1e-2, scale=10.0),
    "features uneven p=0.5": partial(between_two, p=0.5, scale=UNEVEN),
    "features uneven p=0.01": partial(between_two, p=1e-2, scale=UNEVEN),
    "50 away p=0.5": partial(between_two, p=0.5, distance=50.0),
    "50 away p=0.01": partial(between_two, p=1e-2, distance=50.0),
    "50 away p=0.0001": partial(between_two, p=1e-4, distance=50.0),
    "AR(1) 0.9": partial(autoregressive, persistence=0.9),
    "AR(1) 0.999": partial(autoregressive, persistence=0.999),
    "walk on a barbell": on_a_barbell,
    "TD, reversed streak": reversed_streak_td,
}
