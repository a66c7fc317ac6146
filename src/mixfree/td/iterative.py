"""TD by iterative methods: an optimiser that is told semi-gradients."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.core.optimizer import Optimizer
from mixfree.outputs import Average
from mixfree.td.fixed_point import FixedPoint
from mixfree.td.lstd import LSTD, MAX_DENSE_FEATURES


class IterativeTD:
    """Tells an optimiser the gradients −g(θ; z) = (φ(s)ᵀθ − r − γφ(s')ᵀθ) φ(s).

    Parameters
    ----------
    optimizer
        The optimiser, at the initial θ.
    gamma
        The discount.
    """

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        self.optimizer, self.gamma = optimizer, gamma
        self.sparse = False  # rows of features are dense
        # Cache: V(s') of one transition is V(s) of the next as long as θ does not move.
        self._ahead: tuple[Array | None, Array | None, float] = (None, None, 0.0)

    @property
    def name(self) -> str:
        """Name of the method."""
        return self.optimizer.name

    @property
    def theta(self) -> Array:
        """θ_t, where the next semi-gradient is taken."""
        return self.optimizer.x

    @property
    def average(self) -> Array:
        """θ̄_t, the average of Theorem 5.2, or another output of the optimiser."""
        return self.optimizer.average

    @property
    def samples(self) -> int:
        """Transitions seen."""
        return self.optimizer.samples

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.optimizer.steps

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
            number = self.samples + 1
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

    def record(self, samples: int) -> "IterativeRecord":
        """Start the record of a trajectory of ``samples`` transitions."""
        return IterativeRecord(self, samples)

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state that :meth:`state_dict` returned."""
        self.optimizer.load_state_dict(state)

    def __repr__(self) -> str:
        return repr(self.optimizer)


class IterativeRecord:
    """Records the mean of the iterates in the second half of a run, and the fixed point beside.

    Parameters
    ----------
    engine
        The engine that learns.
    samples
        Number of transitions of the trajectory.
    """

    first = 1

    def __init__(self, engine: IterativeTD, samples: int) -> None:
        if not isinstance(engine.optimizer.output, Average):
            raise ValueError("output must be 'average', since the estimate is a mean of iterates")
        self.engine = engine
        self._half = samples // 2
        size = engine.theta.size
        self._beside = LSTD(size, engine.gamma) if size <= MAX_DENSE_FEATURES else None
        self._seen = 0
        self._before = self._total()  # of the first half of the run

    def advance(self, rows: Array, here: Array, there: Array, rewards: Array) -> None:
        """Learn from the next transitions, in the form of :meth:`TDLearner.look_up`."""
        first = min(max(self._half - self._seen, 0), len(here))  # of the first half of the run
        self.engine.advance(rows, here[:first], there[:first], rewards[:first])
        if self._seen <= self._half <= self._seen + first:
            self._before = self._total()
        self.engine.advance(rows, here[first:], there[first:], rewards[first:])
        if self._beside is not None:
            self._beside.advance(rows, here, there, rewards)
        self._seen += len(here)

    def result(self) -> tuple[Array, FixedPoint | None]:
        """Return the mean of the iterates in the second half, and the fixed point if it fits."""
        (steps_before, before), (steps, after) = self._before, self._total()
        if steps == steps_before:
            raise ValueError(
                "samples must be larger: no step was taken in the second half of the run"
            )
        return (after - before) / (steps - steps_before), self._beside

    def _total(self) -> tuple[int, Array]:
        """Return the number and the sum of the iterates so far."""
        return self.engine.steps, self.engine.steps * self.engine.average
