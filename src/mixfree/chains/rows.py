"""An estimate of the transition matrix from a path, with bounds on the error of each row.

The exits from a state are independent draws from its row, but their number in a path is random.
So the bounds are valid for all numbers of exits at once. Under the true row p, the ratio

    (likelihood of the exits under a mixture of rows) / (their likelihood under p)

is a martingale of mean one, which by Ville's inequality exceeds 1/δ at any time with probability
at most δ. All p for which it does not are the confidence set; with a Dirichlet mixture it is the
ball n KL(p̂ ‖ p) ≤ log(1/δ) + (log-likelihood of p̂) − (log-likelihood of the mixture).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import betaln, gammaln, xlogy

from mixfree.base.arithmetic import Array
from mixfree.chains.stationary import gth

BISECTIONS = 55  # bisections for all digits of a probability


@dataclass(frozen=True)
class RowEstimates:
    """Estimated transition matrix, with errors that hold simultaneously at a confidence level.

    Attributes
    ----------
    P
        (N_ij + 1/d)/(N_i + 1), the estimate of Hsu et al., whose entries are all positive.
    entry_error
        Bounds on |P_ij − true P_ij|.
    row_error
        Bounds on Σ_j |P_ij − true P_ij|.
    """

    P: Array
    entry_error: Array
    row_error: Array

    @cached_property
    def mu(self) -> Array:
        """Stationary distribution of the estimate."""
        return gth(self.P)


def estimate_rows(counts: Array, level: float) -> RowEstimates:
    """Estimate all rows from transition counts, with errors that hold jointly at ``level``."""
    states = len(counts)
    visits = counts.sum(axis=1, keepdims=True)
    frequency = counts / np.maximum(visits, 1)
    # Half of the error probability is for the entries, half for the rows as a whole.
    wrong = (1 - level) / 2
    low, high = entry_intervals(counts, np.broadcast_to(visits, counts.shape), wrong / states**2)
    # The errors of a row sum to zero, so the positive and the negative ones have equal sums.
    above, below = (high - frequency).sum(axis=1), (frequency - low).sum(axis=1)
    around = np.minimum(2 * np.minimum(above, below), row_radius(counts, wrong / states))
    P = (counts + 1 / states) / (visits + 1)
    row_error = np.abs(P - frequency).sum(axis=1) + around
    # An unvisited row is at most as far away as a corner of the simplex from its centre.
    row_error = np.where(visits.ravel() == 0, 2 * (1 - 1 / states), np.minimum(row_error, 2))
    return RowEstimates(P, np.maximum(high - P, P - low), row_error)


def entry_intervals(successes: Array, trials: Array, wrong: float) -> tuple[Array, Array]:
    """Return intervals for probabilities, each valid at all times but for a chance ``wrong``.

    Examples
    --------
    >>> low, high = entry_intervals(np.array([5]), np.array([1000]), 0.01)
    >>> low.round(4), high.round(4)
    (array([0.0004]), array([0.0201]))
    """
    failures = trials - successes
    frequency = successes / np.maximum(trials, 1)
    mixture = betaln(successes + 0.5, failures + 0.5) - betaln(0.5, 0.5)
    least = mixture + np.log(wrong)

    def likelihood(p: Array) -> Array:
        value: Array = xlogy(successes, p) + xlogy(failures, 1 - p)
        return value

    def edge(outside: Array) -> Array:
        inside = frequency.copy()
        for _ in range(BISECTIONS):
            middle = (inside + outside) / 2
            kept = likelihood(middle) >= least
            inside, outside = np.where(kept, middle, inside), np.where(kept, outside, middle)
        return outside

    low = np.where(successes == 0, 0.0, edge(np.zeros_like(frequency)))
    high = np.where(failures == 0, 1.0, edge(np.ones_like(frequency)))
    return low, high


def row_radius(counts: Array, wrong: float) -> Array:
    """Bound the L1 distance from each row's frequencies to its probabilities, by Pinsker.

    The mixture is half Dirichlet(½), suited to rows with many targets, and half Dirichlet(1/d),
    suited to rows with few.
    """
    states = counts.shape[1]
    visits = counts.sum(axis=1)
    best = xlogy(counts, counts / np.maximum(visits, 1)[:, None]).sum(axis=1)
    mixture = np.logaddexp(*(_log_dirichlet(counts, prior) for prior in (0.5, 1 / states)))
    divergence = best - (mixture - np.log(2)) - np.log(wrong)
    radius: Array = np.sqrt(2 * divergence / np.maximum(visits, 1))
    return radius


def _log_dirichlet(counts: Array, prior: float) -> Array:
    states, visits = counts.shape[1], counts.sum(axis=1)
    exits = (gammaln(counts + prior) - gammaln(prior)).sum(axis=1)
    logarithm: Array = exits + gammaln(states * prior) - gammaln(visits + states * prior)
    return logarithm
