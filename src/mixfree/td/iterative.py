"""TD by iterative methods: an optimiser that is told semi-gradients."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.core.optimizer import Optimizer


class SemiGradients:
    """Tells an optimiser the gradients −g(θ; z) = (φ(s)ᵀθ − r − γφ(s')ᵀθ) φ(s)."""

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        self.optimizer, self.gamma = optimizer, gamma
        # Cache: V(s') of one transition is V(s) of the next as long as θ does not move.
        self._ahead: tuple[Array | None, Array | None, float] = (None, None, 0.0)

    def take(self, row: Array, reward: float, ahead: Array | None) -> bool:
        """Learn from φ(s), r and φ(s'), None at a terminal state; return True if θ moved."""
        theta = self.optimizer.x
        known_row, known_theta, value = self._ahead
        if row is not known_row or theta is not known_theta:
            value = float(row.dot(theta))
        error = value - reward
        if ahead is not None:
            value_ahead = float(ahead.dot(theta))
            error -= self.gamma * value_ahead
            self._ahead = ahead, theta, value_ahead
        # Feature norms are at most 1, so the error bounds the gradient.
        if not abs(error) < self.optimizer.largest:
            number = self.optimizer.samples + 1
            if not math.isfinite(reward):
                raise ValueError(f"reward of transition {number} must be finite, not {reward}")
            raise ValueError(
                f"TD error of transition {number} is {error:.3g}, too large to be squared: the "
                "iteration diverges, or the rewards are too large"
            )
        return self.optimizer.take(row.dot(error))  # the same bits as error * row, but faster

    def advance(self, rows: Array, here: Array, there: Array, rewards: Array) -> None:
        """Learn from transitions in the form of :meth:`TDLearner.look_up`, in compiled code."""

        def kernel(plan: Any, run: Any, parts: tuple[Array, ...], order: Array) -> int:
            from mixfree.kernels.engine import td

            return int(td(plan, run, self.gamma, rows, *parts, order))

        self.optimizer.advance(kernel, (rewards, here, there), np.arange(here.size))

    def snapshot(self) -> Callable[[], None]:
        """Return a function that restores the present state."""
        return partial(self.optimizer.import_run, self.optimizer.export_run())
