"""The transition counts of a path, and an estimate of the matrix with bounds on its errors.

The exits from a state are independent draws from its row, but their number in a path is random.
So the bounds are valid for all numbers of exits at once. Under the true row p, the ratio

    (likelihood of the exits under a mixture of rows) / (their likelihood under p)

is a martingale of mean one, which by Ville's inequality exceeds 1/δ at any time with probability
at most δ. All p for which it does not are the confidence set; with a Dirichlet mixture it is the
ball n KL(p̂ ‖ p) ≤ log(1/δ) + (log-likelihood of p̂) − (log-likelihood of the mixture).
"""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import betaln, gammaln, xlogy

from mixfree.base.arithmetic import Array
from mixfree.chains.chain import MAX_DENSE_STATES
from mixfree.chains.stationary import gth

BISECTIONS = 55  # bisections for all digits of a probability


@dataclass(frozen=True)
class ObservedPath:
    """Transition counts of a path over named states."""

    states: Sequence[Hashable]
    counts: Array
    samples: int

    @property
    def departures(self) -> Array:
        """Number of times each state was left for another."""
        departures: Array = self.counts.sum(axis=1) - self.counts.diagonal()
        return departures


def observe(path: Any, states: Iterable[Hashable] | None = None) -> ObservedPath:
    """Count the transitions of a path of integers, strings or other labels.

    Parameters
    ----------
    path
        The states in time order. Labels need not be sorted, nor numbered from zero.
    states
        All states, if the path may not have visited some; the visited ones by default.

    Examples
    --------
    >>> seen = observe(["rain", "sun", "sun", "rain", "sun"])
    >>> seen.states, seen.counts.tolist()
    (['rain', 'sun'], [[0, 2], [1, 1]])
    """
    labels = _labels(path)
    named, codes = np.unique(labels, return_inverse=True)
    if named.dtype.kind == "f" and len(named) > 10 and 2 * len(named) > len(labels):
        raise ValueError(
            f"path has {len(named)} different values in {len(labels)} samples, like measurements: "
            "use autocorrelation_time for measurements"
        )
    found: list[Hashable] = named.tolist()
    if states is not None:
        known = list(states)
        place = {state: index for index, state in enumerate(known)}
        if len(place) < len(known):
            raise ValueError("states contains a state twice")
        strangers = [state for state in found if state not in place]
        if strangers:
            raise ValueError(f"path visits {strangers[0]!r}, which is not among states")
        codes, found = np.array([place[state] for state in found])[codes], known
    if len(named) == 1:
        raise ValueError(
            f"path has only one state, {found[codes[0]]!r}: its mixing time cannot be estimated"
        )
    count = len(found)
    if count > MAX_DENSE_STATES:
        raise ValueError(f"path has {count} states; at most {MAX_DENSE_STATES} are supported")
    pairs = np.bincount(codes[:-1] * count + codes[1:], minlength=count**2)
    return ObservedPath(found, pairs.reshape(count, count), len(labels))


def _labels(path: Any) -> Array:
    if not isinstance(path, Iterable):
        raise ValueError(f"path = {path!r} must contain the states in time order")
    labels = path if isinstance(path, np.ndarray) and path.dtype != object else _alike(list(path))
    if labels.ndim != 1:
        raise ValueError(f"path has shape {labels.shape}; one state per sample is needed")
    if len(labels) < 2:
        raise ValueError(f"path has {len(labels)} samples; at least 2 are needed")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        place = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise ValueError(f"path[{place}] = {labels[place]} is not a state")
    return labels


def _alike(items: list[Any]) -> Array:
    """Return items as an array; NumPy alone would silently turn 1 and "1" into one state."""
    for place, item in enumerate(items):
        if not isinstance(item, str | numbers.Real | np.bool_):
            raise ValueError(f"path[{place}] = {item!r} is neither a number nor text")
        if isinstance(item, str) != isinstance(items[0], str):
            raise ValueError(f"path mixes text and other labels: path[{place}] = {item!r}")
    return np.array(items)


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
