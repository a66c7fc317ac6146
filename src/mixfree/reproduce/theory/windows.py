"""Gradients of windows along the chain, all at one fixed point, without running a method."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.reproduce.paper.problem import Regression

__all__ = ["Windows"]


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
        means = self.state_gradients()
        powers = (1.0 - 2.0 * self.p) ** np.arange(1, length + 1)
        return float(0.5 * np.linalg.norm(means[0] - means[1]) * powers.mean())

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
