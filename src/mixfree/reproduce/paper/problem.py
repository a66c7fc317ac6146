"""The paper's experiment: linear regression whose rows come from a two-state Markov chain."""

import math
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.chains import two_state

__all__ = ["Regression", "Stream", "ball_minimizer", "mixing_time", "problem_of", "stream_of"]


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
        law: str = "normal",
        size: float = 1.0,
        radius: float = 1.0,
        condition: float = 1.0,
        alike: bool = False,
    ) -> "Regression":
        """Draw X ~ N(0, I), w† ~ N(0, I/d) per state, and y = Xw† + ε with variance ``noise``.

        Entries of w† have the ``law`` "normal", or "uniform" on [0, c]; ``size`` is the root mean
        square of ‖w†‖. The variances of the columns of X fall from 1 to 1/``condition``, and X is
        that of the first state in all states if they are ``alike``.
        """
        rng = np.random.default_rng([seed, 0])
        shape = (states, dimension)
        drawn = rng.standard_normal(shape) if law == "normal" else rng.uniform(0, 3**0.5, shape)
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
