"""Problems and streams of the choices: the observations and their chain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.chains import MarkovChain, cycle
from mixfree.core.optimizer import Optimizer
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Squared
from mixfree.reproduce.paper.problem import Regression, ball_minimizer
from mixfree.reproduce.paper.runs import feed_states

if TYPE_CHECKING:
    from mixfree.reproduce.sensitivity.choices import Choice

__all__ = ["CHAINS", "Drift", "Problem", "chain_of", "problem_of"]

RING, GROUP = 200, 50
CHAINS = {  # states and rows per state
    "ring": (RING, 10),
    "graph": (2 * GROUP, 20),
}
PIECE = 1 << 13  # rows of a stream on continuous states in memory at a time


@cache
def chain_of(stream: str) -> MarkovChain:
    """Return a lazy walk on a ring, or that of Ram et al. (2009) and Johansson et al. (2010).

    They pass the point from an agent to a neighbour with Metropolis weights; the graph here is
    two groups of agents, each linked with all others of its group, and one link between the two.

    Examples
    --------
    >>> chain_of("graph").mixing_time()
    920
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
    order: Array
    whole: bool = False

    @property
    def radius(self) -> float:
        """Radius of the ball."""
        return self.data.radius

    def suboptimality(self, points: Array) -> Array:
        """Return F(w) − F(w*)."""
        return self.data.suboptimality(points)

    def optimum_of_a_state(self) -> Array:
        """Compute the minimiser of the first state's objective on the ball."""
        rows, targets = (
            each[: self.data.per_state] for each in (self.data.rows, self.data.targets)
        )
        n = self.data.per_state
        return ball_minimizer(rows.T @ rows / n, rows.T @ targets / n, self.radius)

    def feed(self, opts: list[Optimizer]) -> None:
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

    Examples
    --------
    >>> drift = Drift.draw(seed=0, p=0.1, samples=100)
    >>> drift.suboptimality(drift.minimizer[None])
    array([0.])
    """

    rows: Array
    mean: Array
    slope: Array
    minimizer: Array
    seed: int
    p: float
    samples: int
    radius: float = 1.0

    @classmethod
    def draw(cls, seed: int, p: float, samples: int) -> Drift:
        """Draw 500 rows x ~ N(0, I), and a, b ~ N(0, I/d)."""
        rng = np.random.default_rng([seed, 0])
        d = 100
        mean, slope = rng.standard_normal((2, d)) / math.sqrt(d)
        rows = rng.standard_normal((500, d))
        hessian = rows.T @ rows / len(rows)
        best = ball_minimizer(hessian, hessian @ mean, cls.radius)
        return cls(rows, mean, slope, best, seed, p, samples)

    def suboptimality(self, points: Array) -> Array:
        """Return F(w) − F(w*)."""
        away, residuals = (
            (points - self.minimizer) @ self.rows.T,
            self.rows @ (self.minimizer - self.mean),
        )
        gaps: Array = (away @ residuals + 0.5 * np.sum(away**2, axis=1)) / len(self.rows)
        return gaps

    def pieces(self) -> Iterator[tuple[Array, Array]]:
        """Yield rows and targets, a few thousand at a time."""
        from scipy.signal import lfilter

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

    def feed(self, opts: list[Optimizer]) -> None:
        """Feed each optimiser the gradients along the path."""
        for rows, targets in self.pieces():
            for opt in opts:
                advance_linear(opt, Squared(), rows, targets)


def problem_of(choice: Choice, seed: int, p: float, samples: int) -> Problem | Drift:
    """Return the problem of a choice with the stream of a seed."""
    if choice.stream == "continuous":
        return Drift.draw(seed, p, samples)
    if choice.stream == "two-state":
        data = Regression.draw(seed, **choice.data)
        return Problem(data, _two_state(seed, p, samples), choice.whole)
    states, per_state = CHAINS[choice.stream]
    data = Regression.draw(seed, per_state, states=states, **choice.data)
    rng = np.random.default_rng([seed, 1])
    path = chain_of(choice.stream).simulate(samples, seed=rng)
    return Problem(data, per_state * path + rng.integers(per_state, size=samples), choice.whole)


@lru_cache(maxsize=2)
def _two_state(seed: int, p: float, samples: int) -> Array:
    return Regression.draw(seed, dimension=1).order(seed, p, samples)
