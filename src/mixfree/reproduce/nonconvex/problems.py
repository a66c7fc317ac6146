"""Bounded, smooth losses that are not convex (Assumptions 2.3 and 2.4), on correlated data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.core.optimizer import Optimizer
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Robust
from mixfree.reproduce.paper.problem import Regression

__all__ = ["PROBLEMS", "Problem", "one_network", "one_truth", "two_truths"]

PER_STATE, DIMENSION, HIDDEN = 50, 5, 4  # rows per state, features, hidden units
FAINT = 0.2  # scale of the features that a state shows only weakly
NOISE = 0.03  # standard deviation of the noise on y
SHARPNESS = 4.0  # slope of the sigmoid that turns y into a network's target
GEMAN_MCCLURE = Robust(shape=-2.0)  # bounded by 2
LINEAR, PHASE, NETWORK = range(3)  # codes of the compiled gradients
WEIGHTS = HIDDEN * DIMENSION + HIDDEN + 1  # number of weights of a network


def one_truth(seed: int) -> Regression:
    """Draw data of one linear model; each state shows mostly its own features."""
    rng = np.random.default_rng([seed, 6])
    truth = rng.standard_normal(DIMENSION) / np.sqrt(DIMENSION)
    return _seen_in_halves(rng, lambda rows: rows @ truth)


def one_network(seed: int) -> Regression:
    """Draw data of one network with normal weights; each state shows mostly its own features."""
    rng = np.random.default_rng([seed, 8])
    truth = rng.standard_normal(WEIGHTS)
    return _seen_in_halves(rng, lambda rows: _forward(truth, rows)[2] / SHARPNESS)


def _seen_in_halves(rng: np.random.Generator, truth: Callable[[Array], Array]) -> Regression:
    shown = np.arange(DIMENSION) % 2 == np.arange(2)[:, None]
    scales = np.where(shown, 1.0, FAINT)[:, None, :]
    rows = (scales * rng.standard_normal((2, PER_STATE, DIMENSION))).reshape(-1, DIMENSION)
    return Regression(rows, truth(rows) + NOISE * rng.standard_normal(len(rows)), PER_STATE)


def two_truths(seed: int) -> Regression:
    """Draw the paper's data: each state has its own linear model, so that no w fits both."""
    return Regression.draw(seed, PER_STATE, DIMENSION, NOISE**2)


@dataclass(frozen=True)
class Problem:
    """A loss of w on rows z = (x, y), where y comes last.

    ``value(w, rows)`` is the mean loss over the rows of a matrix, ``code`` that of the compiled
    gradient; ``target`` turns the targets of linear regression into those of this problem.
    ``size`` is the number of entries of w.
    """

    name: str
    value: Callable[[Array, Array], float]
    gradient: Callable[[Array, Array], Array]
    code: int = LINEAR
    target: Callable[[Array], Array] = np.asarray
    draw: Callable[[int], Regression] = one_truth
    size: int = DIMENSION

    def rows(self, regression: Regression) -> Array:
        """Return the data of both states, one row z each."""
        return np.column_stack([regression.rows, self.target(regression.targets)])

    def start(self, seed: int) -> Array:
        """Return a random start, as the origin is stationary for some problems."""
        return 0.5 * np.random.default_rng([seed, 7]).standard_normal(self.size)

    def advance(self, opt: Optimizer, rows: Array, order: Array) -> None:
        """Feed ``opt`` the gradients of ``rows[order]``, compiled."""
        if self.code == LINEAR:
            advance_linear(opt, GEMAN_MCCLURE, rows[:, :-1], rows[:, -1], order=order)
            return

        def kernel(plan: Any, run: Any, parts: tuple[Array, ...], piece: Array) -> int:
            from mixfree.reproduce.nonconvex.gradient_kernel import nonconvex

            return int(nonconvex(plan, run, self.code == PHASE, *parts, piece))

        opt.advance(kernel, (rows,), order)


def _robust_value(w: Array, rows: Array) -> float:
    return float(GEMAN_MCCLURE.value(rows[:, :-1] @ w, rows[:, -1]).mean())


def _robust_gradient(w: Array, rows: Array) -> Array:
    x, y = rows[:, :-1], rows[:, -1]
    gradient: Array = GEMAN_MCCLURE.derivative(x @ w, y) @ x / len(x)
    return gradient


def _phase_value(w: Array, rows: Array) -> float:
    return float(GEMAN_MCCLURE.value((rows[:, :-1] @ w) ** 2, rows[:, -1]).mean())


def _phase_gradient(w: Array, rows: Array) -> Array:
    x, y = rows[:, :-1], rows[:, -1]
    along = x @ w
    gradient: Array = (2.0 * along * GEMAN_MCCLURE.derivative(along**2, y)) @ x / len(x)
    return gradient


def _sigmoid(values: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(0.5 * values)


def _forward(w: Array, x: Array) -> tuple[Array, Array, Array]:
    """Return hidden units, their output weights, and the pre-activation of the output."""
    first, last = w[: HIDDEN * DIMENSION].reshape(HIDDEN, DIMENSION), w[HIDDEN * DIMENSION :]
    hidden = np.tanh(x @ first.T)
    return hidden, last[:-1], hidden @ last[:-1] + last[-1]


def _network_value(w: Array, rows: Array) -> float:
    output = _sigmoid(_forward(w, rows[:, :-1])[2])
    return float(0.5 * ((output - rows[:, -1]) ** 2).mean())


def _network_gradient(w: Array, rows: Array) -> Array:
    x, y = rows[:, :-1], rows[:, -1]
    hidden, last, total = _forward(w, x)
    output = _sigmoid(total)
    slope = (output - y) * output * (1.0 - output) / len(x)
    back = slope[:, None] * last * (1.0 - hidden**2)
    return np.concatenate([(back.T @ x).ravel(), slope @ hidden, [slope.sum()]])


def _network_target(y: Array) -> Array:
    return _sigmoid(SHARPNESS * y)


def _network(name: str, draw: Callable[[int], Regression]) -> Problem:
    return Problem(
        name, _network_value, _network_gradient, NETWORK, _network_target, draw, size=WEIGHTS
    )


PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("robust regression", _robust_value, _robust_gradient),
        Problem("phase retrieval", _phase_value, _phase_gradient, PHASE, np.square),
        _network("network", one_network),
        Problem(
            "robust, two truths",
            _robust_value,
            _robust_gradient,
            draw=two_truths,
        ),
        # tanh units are linear only in the limit W → 0, v → ∞: F has no minimiser.
        _network("network, linear truth", one_truth),
    )
}
