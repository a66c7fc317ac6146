"""TD learning with linear value functions, by any method of the table."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.td.features.lookup import Rows, as_features
from mixfree.td.methods import start_method

__all__ = ["TDLearner"]


def check_gamma(gamma: Any) -> float:
    """``gamma`` as a discount in [0, 1), or an error naming it."""
    if isinstance(gamma, bool | str) or not 0.0 <= gamma < 1.0:
        raise ValueError(f"gamma must be in [0, 1), not {gamma!r}")
    return float(gamma)


class TDLearner:
    r"""Learns V(s) = φ(s)ᵀθ from the transitions of one trajectory, in their order.

    With ``method="mag"`` and a radius this is the update of Section 5.2:

    .. math:: \theta_{t+1} = \Pi_R\big(\theta_t + \eta_t g_t\big), \qquad
              \eta_t = \frac{\sqrt2 R}{\sqrt{\sum_{k \le t} \|g_k\|^2}},

    where g_t is the MLMC estimate of the mean semi-gradient. The optimisers of this library
    minimise, so the gradient they are told is −g(θ; z) = (φ(s)ᵀθ − r − γφ(s')ᵀθ) φ(s).

    Parameters
    ----------
    features
        A matrix with one row per state, or a function from an observation to a vector; all norms
        at most 1.
    gamma
        Discount in [0, 1).
    radius
        R, with ‖θ*‖ ≤ R: θ is projected on the ball of that radius. ``None``: no projection. A
        safe R needs the largest reward and ω, which are rarely known, and with an R that is too
        small the values are wrong.
    method
        A name of :func:`mixfree.td.td_methods`. ``mag`` and ``adagrad`` take their step size from
        the radius; ``mag-dog``, ``dog`` and ``ladder`` take theirs from the distance from the
        start, r̄ = max(1, max_i ‖θ_i‖) (DoG), and need none. Unless given, ``mag`` with a radius
        and ``mag-dog`` without.
    seed, alpha, output, **options
        As for :func:`mixfree.minimize`, for instance ``levels``.
    size
        Number of features, for a function without an attribute ``size``.

    Examples
    --------
    >>> learner = TDLearner(np.eye(2), gamma=0.5, radius=4.0, method="adagrad")
    >>> for t in range(400):
    ...     _ = learner.update(t % 2, 1.0, (t + 1) % 2, terminated=False)
    >>> round(learner.value(0), 1)
    2.0
    """

    def __init__(
        self,
        features: Any,
        gamma: float,
        radius: float | None = None,
        method: str | None = None,
        *,
        seed: int = 0,
        alpha: float | None = None,
        output: str | None = None,
        size: int | None = None,
        **options: Any,
    ) -> None:
        self.gamma = check_gamma(gamma)
        self.features = as_features(features, size)
        self.optimizer = start_method(
            method,
            np.zeros(self.features.size),
            self.gamma,
            radius,
            alpha=alpha,
            output=output,
            seed=seed,
            **options,
        )
        self._row = self.features.row
        # V(s') of one transition is V(s) of the next, as long as θ does not move.
        self._ahead: tuple[Array | None, Array | None, float] = (None, None, 0.0)

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.optimizer.name

    @property
    def theta(self) -> Array:
        """θ_t, where the next semi-gradient is taken."""
        return self.optimizer.x

    @property
    def average(self) -> Array:
        """θ̄_t, the average of Theorem 5.2 (or the output that ``output`` names)."""
        return self.optimizer.average

    @property
    def samples(self) -> int:
        """Transitions seen."""
        return self.optimizer.samples

    def value(self, state: Any) -> float:
        """V(s) = φ(s)ᵀθ̄."""
        return float(self._row(state).dot(self.average))

    def update(self, s: Any, r: float, s_next: Any, terminated: bool) -> bool:
        """Take one transition; True when θ moved.

        ``terminated`` is True only where the episode ends in a terminal state: then ``s_next`` is
        ignored. An episode that is cut off (Gymnasium's ``truncated``) bootstraps from
        ``s_next``.

        Raises
        ------
        ValueError
            For a reward that is not finite or a state without features; the learner is
            unchanged.
        """
        row, theta = self._row(s), self.optimizer.x
        known_row, known_theta, value = self._ahead
        if row is not known_row or theta is not known_theta:
            value = float(row.dot(theta))
        error = value - r
        if not terminated:
            row_ahead = self._row(s_next)
            value_ahead = float(row_ahead.dot(theta))
            error -= self.gamma * value_ahead
            self._ahead = row_ahead, theta, value_ahead
        # No norm of features is above 1, so the error bounds the gradient.
        if not abs(error) < self.optimizer.largest:
            self._refuse(r, error)
        return self.optimizer.take(row.dot(error))  # equals error * row bit by bit, and is faster

    def update_many(
        self,
        states: Any,
        rewards: npt.ArrayLike,
        next_states: Any,
        terminated: npt.ArrayLike,
    ) -> None:
        """Take transitions given as parallel arrays: :meth:`update` for each, compiled.

        If one is refused, none is used.
        """
        self.advance(*self.look_up(states, rewards, next_states, terminated))

    def advance(self, rows: Array, here: Array, there: Array, rewards: Array) -> None:
        """Take transitions as :meth:`look_up` gives them."""

        def kernel(plan: Any, run: Any, parts: tuple[Array, ...], order: Array) -> int:
            from mixfree.kernels.td import td

            return int(td(plan, run, self.gamma, rows, *parts, order))

        self.optimizer.advance(kernel, (rewards, here, there), np.arange(here.size))

    def look_up(
        self,
        states: Any,
        rewards: npt.ArrayLike,
        next_states: Any,
        terminated: npt.ArrayLike,
    ) -> tuple[Array, Array, Array, Array]:
        """Feature rows; for each transition the row of s, the row of s' (−1 if terminal), and r."""
        ended, given = np.asarray(terminated, dtype=bool), np.asarray(rewards, dtype=np.float64)
        lengths = len(states), *given.shape, len(next_states), *ended.shape
        if len(set(lengths)) > 1:
            raise ValueError(
                "states, rewards, next_states and terminated must be of one length, not "
                f"{', '.join(map(str, lengths))}"
            )
        if not np.isfinite(given).all():
            wrong = int(np.flatnonzero(~np.isfinite(given))[0])
            self._refuse(given[wrong], np.nan, wrong)
        there = np.full(ended.shape, -1)
        if isinstance(self.features, Rows):
            there[~ended] = self.features.indices(np.asarray(next_states)[~ended])
            return self.features.matrix, self.features.indices(states), there, given
        ahead = [s for s, end in zip(next_states, ended, strict=True) if not end]
        rows = np.concatenate([self.features.rows(states), self.features.rows(ahead)])
        there[~ended] = len(states) + np.arange(len(ahead))
        return rows, np.arange(len(states)), there, given

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes during learning."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue exactly where the learner that gave ``state`` was."""
        self.optimizer.load_state_dict(state)

    def __repr__(self) -> str:
        return f"TDLearner({self.optimizer!r}, gamma={self.gamma})"

    def _refuse(self, reward: float, error: float, ahead: int = 0) -> None:
        number = self.samples + ahead + 1
        if not math.isfinite(reward):
            raise ValueError(f"reward of transition {number} must be finite, not {reward}")
        raise ValueError(f"TD error of transition {number} is {error:.3g}, too large to be summed")
