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

    Examples
    --------
    >>> windows = Windows(Regression.draw(seed=0, per_state=5, dimension=2), p=0.5)
    >>> windows.doubling_means(np.random.default_rng(0), windows=4, levels=3).shape
    (4, 4, 2)
    """

    problem: Regression
    p: float

    @cached_property
    def gradients(self) -> Array:
        """Gradient at the origin of each row's loss."""
        return -self.problem.targets[:, None] * self.problem.rows

    def rows(self, rng: np.random.Generator, windows: int, length: int) -> Array:
        """Row numbers of the samples of each window."""
        rows = np.cumsum(rng.random((windows, length)) < self.p, axis=1) & 1
        rows *= self.problem.per_state
        rows += rng.integers(self.problem.per_state, size=rows.shape)
        return rows

    def doubling_means(self, rng: np.random.Generator, windows: int, levels: int) -> Array:
        """g^0, g^1, …, g^levels of each window, as an array of (window, level, dimension)."""
        sizes = 1 << np.arange(levels + 1)
        means = []
        for _ in range(windows):
            # The samples that each level adds to the one before.
            pieces = np.split(self.rows(rng, 1, 1 << levels)[0], sizes[:-1])
            added = [np.bincount(piece, minlength=len(self.problem.rows)) for piece in pieces]
            means.append(np.cumsum(np.array(added) @ self.gradients, axis=0) / sizes[:, None])
        return np.array(means)

    def offset(self, length: int) -> float:
        """E g^N − ∇F along ∇f₀ − ∇f₁ for windows of N = ``length``, exactly.

        From state 0 the i-th sample is in state 0 with probability ½(1 + (1 − 2p)^i), so the
        bias is ½(∇f₀ − ∇f₁) times the mean of (1 − 2p)^i, which is negative for p above ½.
        """
        means = self.state_gradients()
        powers = (1.0 - 2.0 * self.p) ** np.arange(1, length + 1)
        return float(0.5 * np.linalg.norm(means[0] - means[1]) * powers.mean())

    def bias(self, length: int) -> float:
        """‖E g^N − ∇F‖ for windows of N = ``length``, exactly."""
        return abs(self.offset(length))

    def state_gradients(self) -> Array:
        """Mean gradient of each state."""
        means: Array = self.gradients.reshape(2, self.problem.per_state, -1).mean(axis=1)
        return means
