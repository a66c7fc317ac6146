"""A linear problem on numbered samples, and the paper's as one."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.extras import require
from mixfree.chains import MarkovChain, two_state
from mixfree.core.optimizer import Optimizer
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Loss, Squared
from mixfree.reproduce.paper.problem import mixing_time as two_state_mixing_time

__all__ = ["Problem", "between_two", "excess_under", "minimizer", "on_chain"]

Excess = Callable[[Array], Array]


@dataclass(frozen=True)
class Problem:
    """Numbered samples, the order in which they are observed, and the suboptimality of a point.

    Attributes
    ----------
    rows, targets
        The gradient of sample r at w is the loss's slope at (rows[r]·w, targets[r]) times rows[r].
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
    excess: Excess = field(repr=False)
    mixing_time: int

    @np.errstate(over="ignore")
    def gap(self, points: Array) -> Array:
        """Return the suboptimality of each point, infinite where it overflows."""
        return self.excess(points)

    def over(self, order: Array) -> "Problem":
        """Return the same problem with the suboptimality over the samples of one stream."""
        counts = np.bincount(order, minlength=len(self.rows))
        there = np.flatnonzero(counts)
        rows, targets = self.rows[there], self.targets[there]
        excess = excess_under(counts[there] / len(order), rows, targets, self.loss)
        return replace(self, excess=excess)

    def advance(self, opt: Optimizer, order: Array) -> None:
        """Run an optimiser over a stream."""
        advance_linear(opt, self.loss, self.rows, self.targets, order=order)


def on_chain(
    chain: MarkovChain, rows: Array, targets: Array, loss: Loss, mixing_time: int | None = None
) -> Problem:
    """Return a problem whose states have rows of their own, drawn uniformly at each visit."""
    _, per_state, dimension = rows.shape
    flat, labels = np.ascontiguousarray(rows.reshape(-1, dimension)), targets.ravel()

    def order(seed: int, samples: int) -> Array:
        shown = np.random.default_rng([seed, 1]).integers(per_state, size=samples)
        drawn: Array = np.asarray(chain.simulate(samples, seed=seed)) * per_state + shown
        return drawn

    law = np.repeat(chain.stationary / per_state, per_state)
    excess = excess_under(law, flat, labels, loss)
    return Problem(flat, labels, loss, order, excess, mixing_time or chain.mixing_time())


def excess_under(law: Array, rows: Array, targets: Array, loss: Loss) -> Excess:
    """Return the mean loss of points under a law on the rows, above its minimum, as a function."""
    best = minimizer(rows, targets, loss, law)
    if isinstance(loss, Squared):
        # A difference of two large losses would cancel.
        root = np.linalg.cholesky(rows.T @ (rows * law[:, None]))
        return lambda points: 0.5 * (((points - best) @ root) ** 2).sum(axis=1)
    least = law @ loss.value(rows @ best, targets)
    return lambda points: law @ loss.value(rows @ points.T, targets[:, None]) - least


def minimizer(rows: Array, targets: Array, loss: Loss, law: Array) -> Array:
    """Compute the minimiser of the mean loss."""
    if isinstance(loss, Squared):
        weighted = rows * law[:, None]
        return np.linalg.solve(rows.T @ weighted, weighted.T @ targets)

    # In whitened coordinates the condition number is that of the loss alone.
    root = np.linalg.cholesky(rows.T @ (rows * law[:, None]))
    white = np.linalg.solve(root, rows.T).T

    def objective(u: Array) -> tuple[float, Array]:
        at = white @ u
        return float(law @ loss.value(at, targets)), white.T @ (law * loss.derivative(at, targets))

    start = np.zeros(rows.shape[1])
    options = {"maxiter": 10_000, "maxfun": 100_000, "ftol": 0.0, "gtol": 1e-9, "maxls": 60}
    found = require("scipy.optimize").minimize(
        objective, start, jac=True, method="L-BFGS-B", options=options
    )
    return np.asarray(np.linalg.solve(root.T, found.x))


def between_two(seed: int, p: float, dimension: int = 100) -> Problem:
    """Draw linear data on the paper's chain: two states, each with its own w† ~ N(0, I/d)."""
    rng = np.random.default_rng([seed, 0])
    truth = rng.standard_normal((2, dimension)) / math.sqrt(dimension)
    rng.standard_normal(dimension)  # not used, but the draws below are those after it
    rows = rng.standard_normal((2, 250, dimension))
    noise = rng.standard_normal((2, 250))
    targets = np.einsum("snd,sd->sn", rows, truth) + math.sqrt(1e-3) * noise
    return on_chain(two_state(p), rows, targets, Squared(), two_state_mixing_time(p))
