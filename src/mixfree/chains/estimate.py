"""The mixing time of an unknown chain from one path: an estimate with a confidence interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mixfree.base.checks import check_one_of
from mixfree.chains import spectral
from mixfree.chains.chain import MarkovChain
from mixfree.chains.envelope import Envelope
from mixfree.chains.powers import TIE
from mixfree.chains.rows import ObservedPath, estimate_rows, observe


@dataclass(frozen=True)
class Coefficient:
    """The quantity by which a method bounds the mixing time, with its interval."""

    name: str
    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class MixingTimeEstimate:
    """The mixing time estimated from one path.

    Attributes
    ----------
    mixing_time
        Mixing time of the fitted chain: the point estimate.
    lower, upper
        The interval; ``upper`` is infinite when the path is too short to bound it.
    level
        Probability, over paths, that the interval contains the true mixing time.
    method
        Method of the interval.
    coefficients
        The quantities by which it was bounded.
    chain
        The fitted chain.
    samples
        Length of the path.
    sentence
        The result, or the reason why there is none, as a sentence.
    """

    mixing_time: int
    lower: int
    upper: float
    level: float
    method: str
    coefficients: tuple[Coefficient, ...] = field(repr=False)
    chain: MarkovChain = field(repr=False)
    samples: int
    sentence: str = field(repr=False)

    def __str__(self) -> str:
        return self.sentence


Interval = tuple[float, float, tuple[Coefficient, ...]]


def estimate_mixing_time(
    path: Any,
    *,
    level: float = 0.95,
    method: str = "envelope",
    states: Iterable[Hashable] | None = None,
) -> MixingTimeEstimate:
    """Estimate the mixing time from one observed path, with a confidence interval.

    The interval is valid for any ergodic chain on the states observed (or given), whatever its
    mixing time.

    Parameters
    ----------
    path
        The states in time order: integers, strings or other labels.
    level
        Probability that the interval contains the true mixing time.
    method
        ``"envelope"``: from powers of the estimated matrix, with their errors; the only interval
        that converges to the mixing time as the path grows. The others are for comparison.
        ``"contraction"``: through the generalised contraction coefficient (Wolfer 2020).
        ``"pseudo-spectral"``: through the pseudo-spectral gap (Wolfer and Kontorovich 2019).
        ``"reversible"``: through the spectral gap (Hsu et al. 2019); the chain must be reversible.
    states
        All states, if the path may have missed some.

    Examples
    --------
    >>> from mixfree.chains import two_state
    >>> path = two_state(0.01).simulate(1_000_000, seed=0)
    >>> result = estimate_mixing_time(path)
    >>> result.lower <= 35 <= result.upper
    True
    """
    check_one_of(method, "method", tuple(METHODS))
    if not 0 < level < 1:
        raise ValueError(f"level = {level} must be between 0 and 1")
    seen = observe(path, states)
    rows = estimate_rows(seen.counts, level)
    low, high, coefficients = METHODS[method](Envelope(rows))
    # A chain of two states or more is not mixed at the start, and moves in whole steps.
    lower = max(1, math.ceil(low * (1 - TIE)))
    upper = math.floor(high * (1 + TIE)) if high < math.inf else high
    chain = MarkovChain(rows.P, seen.states)
    fitted = chain.mixing_time()
    return MixingTimeEstimate(
        mixing_time=fitted,
        lower=lower,
        upper=upper,
        level=level,
        method=method,
        coefficients=coefficients,
        chain=chain,
        samples=seen.samples,
        sentence=_sentence(seen, fitted, lower, upper, level),
    )


def _contraction(known: Envelope) -> Interval:
    """1/(2κ) ≤ τ ≤ (1 + log 4)/κ; κ is known up to the largest row error (Wolfer 2020)."""
    rate = spectral.contraction_rate(known.rows.P)
    error = float(known.rows.row_error.max())
    low, high = max(0.0, rate.value - error), min(1.0, rate.ceiling + error)
    found = Coefficient("contraction rate", rate.value, low, high)
    return 1 / (2 * high), _over(1 + math.log(4), low), (found,)


def _pseudo_spectral(known: Envelope) -> Interval:
    """1/(2γ) ≤ τ ≤ (1 + log 4 + log(1/μ_min))/γ for the pseudo-spectral gap γ.

    γ((P*)^k P^k) = 1 − σ², with σ the second singular value of L^k, and the error of L^k is at
    most k times that of L; hence γ is known up to twice the error of L.
    """
    gap = spectral.pseudo_spectral_gap(known.rows.P, known.rows.mu)
    error, least = _symmetrised_error(known)
    low, high = max(0.0, gap.value - 2 * error), min(1.0, gap.ceiling + 2 * error)
    found = Coefficient("pseudo-spectral gap", gap.value, low, high)
    return 1 / (2 * high), _over(1 + math.log(4) - _log(least), low), (found,)


def _reversible(known: Envelope) -> Interval:
    """Levin and Peres' (1/γ − 1) log 2 ≤ τ ≤ log(4/μ_min)/γ; γ is known by Weyl's inequality."""
    L = spectral.symmetrised(known.rows.P, known.rows.mu)
    values = np.linalg.eigvalsh((L + L.T) / 2)
    gap = float(1 - max(values[-2], abs(values[0])))
    error, least = _symmetrised_error(known)
    low, high = max(0.0, gap - error), min(1.0, gap + error)
    found = Coefficient("spectral gap", gap, low, high)
    return (1 / high - 1) * math.log(2), _over(math.log(4) - _log(least), low), (found,)


METHODS: dict[str, Callable[[Envelope], Interval]] = {
    "envelope": lambda known: (*known.interval(), ()),
    "contraction": _contraction,
    "pseudo-spectral": _pseudo_spectral,
    "reversible": _reversible,
}


def _symmetrised_error(known: Envelope) -> tuple[float, float]:
    """Bound ‖L − L̂‖ for L = D^½ P D^−½, and the least stationary probability from below.

    As in Hsu et al. (Theorem 4.1), with row sums of errors where the sensitivity of μ needs them.
    The errors of the entries of μ are at most b_j, the lesser of
    ½ (A#_jj − min_i A#_ij) · max_i ε_i, A# being the group inverse of I − P̂, and half the L1
    error of μ.
    """
    rows, mu = known.rows, known.rows.mu
    everything = np.outer(np.ones(len(mu)), mu)
    group = np.linalg.inv(np.eye(len(mu)) - rows.P + everything) - everything
    sensitivity = (group.diagonal() - group.min(axis=0)) / 2
    off = np.minimum(sensitivity * rows.row_error.max(), known.stationary_error / 2)
    least = float((mu - off).min())
    if least <= 0:
        return math.inf, 0.0
    ratio = max(float(np.sqrt(mu / (mu - off)).max()), float(np.sqrt((mu + off) / mu).max()))
    entries = np.linalg.norm(spectral.symmetrised(rows.entry_error, mu), 2)
    return ratio**2 - 1 + ratio**2 * float(entries), least


def _over(amount: float, rate: float) -> float:
    return amount / rate if rate > 0 else math.inf


def _log(chance: float) -> float:
    return math.log(chance) if chance > 0 else -math.inf


def _sentence(seen: ObservedPath, fitted: int, lower: int, upper: float, level: float) -> str:
    confident = f"With {100 * level:g} % confidence the mixing time is"
    if upper < math.inf:
        return f"{confident} between {lower} and {upper:.0f} steps; the fitted chain's is {fitted}."
    rarest = int(np.argmin(seen.departures))
    fewest = seen.departures[rarest]
    left = {0: "never left", 1: "left once"}.get(fewest, f"left {fewest:,} times")
    reason = f"state {seen.states[rarest]} was {left}"
    if lower > 1:
        bounded = f"{confident} at least {lower} steps"
        return f"{bounded}; the path is too short for an upper bound: {reason}."
    return f"The path of {seen.samples} samples is too short for any bound: {reason}."
