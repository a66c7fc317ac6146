"""Gradients of windows along the chain, and the measurements for each lemma."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.gradients import MLMC
from mixfree.reproduce.paper.problem import Regression, problem_of, run_cell
from mixfree.reproduce.theory import bounds

DIAMETER = 2.0  # of the unit ball
WINDOWS = 400  # windows of full length per cell
ESTIMATES = 50_000  # MLMC estimates per cell
Values = list[tuple[str, int, float]]  # quantity, size, value


@dataclass(frozen=True)
class Windows:
    """Windows of samples that begin one step after state 0, and their gradients at the origin.

    Only how often each row was seen matters, so no array of length times dimension is made.
    """

    problem: Regression
    p: float

    @cached_property
    def gradients(self) -> Array:
        """Gradient of each row's loss at the origin."""
        return -self.problem.targets[:, None] * self.problem.rows

    def rows(self, rng: np.random.Generator, windows: int, length: int) -> Array:
        """Return the row numbers of the samples of each window."""
        rows = np.cumsum(rng.random((windows, length)) < self.p, axis=1) & 1
        rows *= self.problem.per_state
        rows += rng.integers(self.problem.per_state, size=rows.shape)
        return rows

    def doubling_means(self, rng: np.random.Generator, windows: int, levels: int) -> Array:
        """Return g^0, …, g^levels of each window, as an array of (window, level, dimension)."""
        sizes = 1 << np.arange(levels + 1)
        means = []
        for _ in range(windows):
            # The samples that each level adds to the one before.
            pieces = np.split(self.rows(rng, 1, 1 << levels)[0], sizes[:-1])
            added = [np.bincount(piece, minlength=len(self.problem.rows)) for piece in pieces]
            means.append(np.cumsum(np.array(added) @ self.gradients, axis=0) / sizes[:, None])
        return np.array(means)

    def offset(self, length: int) -> float:
        """Compute E g^N − ∇F along ∇f₀ − ∇f₁ for windows of N = ``length``, exactly.

        From state 0 the i-th sample is in state 0 with probability ½(1 + (1 − 2p)^i), so the
        bias is ½(∇f₀ − ∇f₁) times the mean of (1 − 2p)^i, which is negative for p above ½.
        """
        powers = (1.0 - 2.0 * self.p) ** np.arange(1, length + 1)
        return self.distance * float(powers.mean())

    @property
    def distance(self) -> float:
        """‖∇f₀ − ∇F‖, which is ½‖∇f₀ − ∇f₁‖."""
        return 0.5 * float(np.linalg.norm(np.subtract(*self.state_gradients())))

    def mean_square_error(self, length: int) -> float:
        """Compute E‖g^N − ∇F‖² for windows of N = ``length``, exactly.

        A sample's gradient is ∇F ± δ, by its state, plus the noise of its row. States i steps
        apart agree more often than not by (1 − 2p)^i, and the noise is independent.
        """
        return self._square_of_sum(np.full(length, 1.0 / length), centred=True)

    def second_moment(self, levels: int) -> float:
        """Compute E‖g^MLMC‖² with levels up to ``levels``, exactly."""
        moments = []
        for level in range(1, levels + 1):
            signs = np.ones(1 << level)
            signs[: 1 << (level - 1)] = -1.0
            signs[0] += 1.0  # of g^0
            moments.append(self._square_of_sum(signs))
        shares = 0.5 ** np.arange(1, levels + 1)
        return float(shares @ moments) + 0.5**levels * self._square_of_sum(np.ones(1))

    def _square_of_sum(self, weights: Array, centred: bool = False) -> float:
        """Compute E‖Σ w_i ∇f(z_i)‖² over a window, or with each ∇f minus ∇F."""
        from scipy.signal import lfilter

        means = self.state_gradients()
        middle, half = means.mean(axis=0) * (not centred), 0.5 * (means[0] - means[1])
        noise = np.sum((self.gradients - np.repeat(means, self.problem.per_state, 0)) ** 2, axis=1)
        spread = noise.reshape(2, -1).mean(axis=1)
        stay = 1.0 - 2.0 * self.p
        signs = stay ** np.arange(1, weights.size + 1)  # mean of +1 in state 0 and −1 in state 1
        before = lfilter([0.0, stay], [1.0, -stay], weights)  # Σ_{j<i} w_j stay^(i−j), for each i
        total, along = float(weights.sum()), float(weights @ signs)
        found = total**2 * (middle @ middle) + 2.0 * total * along * (middle @ half)
        found += (weights @ weights + 2.0 * (weights @ before)) * (half @ half)
        found += weights**2 @ (0.5 * (spread.sum() + signs * (spread[0] - spread[1])))
        return float(found)

    def state_gradients(self) -> Array:
        """Return the mean gradient of each state."""
        means: Array = self.gradients.reshape(2, self.problem.per_state, -1).mean(axis=1)
        return means


def second_moments(means: Array) -> Array:
    """Return E‖g^MLMC‖² over the level per window, from the means of its first 1, 2, 4, … samples.

    The level is independent of the data, so its distribution can be summed instead of sampled.
    """
    levels = np.arange(1, means.shape[1])
    estimates = means[:, :1] + np.diff(means, axis=1) * (1 << levels)[:, None]
    alone = 0.5 ** len(levels) * np.sum(means[:, 0] ** 2, axis=1)
    moments: Array = np.sum(estimates**2, axis=2) @ 0.5**levels + alone
    return moments


def _windows(cell: dict[str, Any]) -> Values:
    """Measure errors of means of 1, 2, 4, … samples, and the MLMC estimate's second moment."""
    problem, levels = problem_of(cell["seed"]), cell["horizon"].bit_length() - 1
    windows = Windows(problem, cell["p"])
    rng = np.random.default_rng([cell["seed"], 3])
    means = windows.doubling_means(rng, WINDOWS, levels)
    errors = np.linalg.norm(means - windows.gradients.mean(axis=0), axis=2)
    rows: Values = []
    for level in range(levels + 1):
        rows += [
            ("error", 1 << level, float(errors[:, level].mean())),
            ("square error", 1 << level, float(np.mean(errors[:, level] ** 2))),
        ]
    return [*rows, ("second moment", cell["horizon"], float(second_moments(means).mean()))]


def _bias(cell: dict[str, Any]) -> Values:
    """Measure the mean of MLMC estimates along the only direction in which they can be biased."""
    windows = Windows(problem_of(cell["seed"]), cell["p"])
    rng = np.random.default_rng([cell["seed"], 4])
    levels = min(12, cell["horizon"].bit_length() - 1)
    mlmc = MLMC(levels=None, horizon=1 << levels, seed=cell["seed"])
    drawn = np.bincount([mlmc.level(t) for t in range(1, ESTIMATES + 1)], minlength=levels + 1)
    ends = windows.state_gradients()
    slopes = windows.gradients @ ((ends[0] - ends[1]) / np.linalg.norm(ends[0] - ends[1]))
    first, corrections = 0.0, np.zeros(levels + 1)
    for level, count in enumerate(drawn):
        values = slopes[windows.rows(rng, count, 1 << level)]
        first += values[:, 0].sum()
        if level > 0:
            half = 1 << (level - 1)
            corrections[level] = values[:, half:].sum() - values[:, :half].sum()
    # With a smaller largest level the same estimates only lack the corrections above it.
    means = (first + np.cumsum(corrections)) / ESTIMATES - slopes.mean()
    return [("bias", 1 << level, float(mean)) for level, mean in enumerate(means)]


def algorithm(horizon: int) -> dict[str, Any]:
    """Return Algorithm 1 with α = D/√2, as in Theorem 3.3: a method and its options."""
    options = {"levels": None, "horizon": horizon, "alpha": DIAMETER / math.sqrt(2.0)}
    return {"method": "mag", "options": options}


def _rate(cell: dict[str, Any]) -> Values:
    """Measure the suboptimality of Algorithm 1 after about T steps, and the steps per T."""
    horizon = cell["horizon"]
    samples = round(horizon * bounds.expected_cost(horizon))
    found = run_cell({**cell, **algorithm(horizon), "samples": samples})
    return [
        ("suboptimality", horizon, float(found.suboptimality[-1])),
        ("steps", horizon, float(found.steps[-1]) / horizon),
    ]


MEASURES: dict[str, Callable[[dict[str, Any]], Values]] = {
    "windows": _windows,
    "bias": _bias,
    "rate": _rate,
}
