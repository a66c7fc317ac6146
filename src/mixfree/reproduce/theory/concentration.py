"""Lemmas A.1 to A.4 on the two-state chain whose gradients are ±1 by the state.

There G is 1 and all variance is that of the states, so that the bounds are as close to the
measurements as possible.
"""

import math
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.reproduce.theory import bounds

__all__ = ["DELTA", "LEMMAS", "concentration", "coupling_ratios", "distance", "subsample_distance"]

DELTA = 0.05  # failure probability of Lemmas A.2 to A.5
WINDOWS = 25  # windows per cell
LEMMAS = ("A.2", "A.3", "A.4")


def distance(p: float, time: int) -> float:
    """Compute d(t) = ½|1 − 2p|^t, exactly (Eq. 2)."""
    return 0.5 * abs(1.0 - 2.0 * p) ** time


def subsample_distance(p: float, delay: int, parts: int) -> float:
    """Compute the total variation of n states, K steps apart, from n independent ones, exactly.

    The probability of a sequence depends on its number of state changes.
    """
    from scipy.stats import binom

    changed = 0.5 * (1.0 - (1.0 - 2.0 * p) ** delay)
    often = np.arange(parts)
    found = np.abs(binom.pmf(often, parts - 1, changed) - binom.pmf(often, parts - 1, 0.5))
    return 0.5 * float(np.sum(found))


def coupling_ratios(p: float, mixing_time: int) -> list[float]:
    """Return exact distances over the bound of Lemma A.1, for 1 to 8 mixing times, 2 to 64 states.

    Only where the bound is below 1.
    """
    allowed = {
        (delay, parts): bounds.coupling_bound(parts, distance(p, delay))
        for delay in (mixing_time * (1 << np.arange(4))).tolist()
        for parts in (2, 4, 16, 64)
    }
    return [
        subsample_distance(p, delay, parts) / most
        for (delay, parts), most in allowed.items()
        if 0.0 < most < 1.0
    ]


def concentration(cell: dict[str, Any]) -> list[tuple[str, int, float]]:
    """Count means of 2, 4, 8, … gradients beyond their bounds, and return the largest ratio.

    Lemma A.2 is about independent states, A.3 about a stationary chain, and A.4 about a chain
    from a known state after a delay. Sizes at which a bound is the trivial one are left out.
    """
    rng = np.random.default_rng([cell["seed"], 9])
    sizes = [1 << level for level in range(1, cell["horizon"].bit_length())]
    rows = []
    for lemma, p in zip(LEMMAS, (0.5, cell["p"], cell["p"]), strict=True):
        sums = _sums(rng, p, 2 * cell["horizon"], known=lemma == "A.4")
        for size in sizes:
            delay = _delay(p, size)
            allowed = _allowed(lemma, size, delay, distance(p, delay))
            if allowed >= 2.0:
                continue
            first = delay if lemma == "A.4" else 0
            deviations = np.abs(sums[:, first + size] - sums[:, first]) / size
            rows += [
                (f"beyond {lemma}", size, float(np.mean(deviations > allowed))),
                (f"share {lemma}", size, float(np.max(deviations) / allowed)),
            ]
    return rows


def states(rng: np.random.Generator, p: float, length: int, known: bool) -> Array:
    """Draw windows of ±1 along the chain: from the state 1, or stationary."""
    changes = rng.random((WINDOWS, length)) < p
    if not known:
        changes[:, 0] = rng.random(WINDOWS) < 0.5
    path: Array = 1 - 2 * (np.cumsum(changes, axis=1) & 1)
    return path


def _sums(rng: np.random.Generator, p: float, length: int, known: bool) -> Array:
    sums = np.zeros((WINDOWS, length + 1), dtype=np.int64)
    np.cumsum(states(rng, p, length, known), axis=1, out=sums[:, 1:])
    return sums


def _delay(p: float, samples: int) -> int:
    """Return the least K with N·d(K) ≤ δ/2, so that at least half of δ is left."""
    stay = abs(1.0 - 2.0 * p)
    return max(1, math.ceil(math.log(DELTA / samples) / math.log(stay))) if stay else 1


def _allowed(lemma: str, size: int, delay: int, away: float) -> float:
    if lemma == "A.2":
        return bounds.independent_deviation(size, 1.0, DELTA)
    bound = bounds.stationary_deviation if lemma == "A.3" else bounds.delayed_deviation
    return bound(size, 1.0, DELTA, delay, away)
