"""Two-sided bounds on the mixing time, each labelled with the theorem it comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.chains.powers import TIE, contraction, doublings
from mixfree.chains.spectral import second_singular_value, spectral_gap

MIN_SHRINKING = 1e-6  # distance of a factor from one below which its logarithm is inaccurate


@dataclass(frozen=True)
class Bound:
    """One theorem's bounds on the mixing time: ``lower`` ≤ τ ≤ ``upper``."""

    theorem: str
    lower: float = 0.0
    upper: float = math.inf


@dataclass(frozen=True)
class MixingBounds:
    """Bounds on the mixing time to distance ``eps``; ``lower`` and ``upper`` are the best."""

    eps: float
    bounds: tuple[Bound, ...]

    @property
    def lower(self) -> int:
        """The largest lower bound, rounded up to whole steps."""
        # A rounding error across a whole number must not change the bound by a step.
        return math.ceil(max(bound.lower for bound in self.bounds) * (1 - TIE))

    @property
    def upper(self) -> float:
        """The smallest upper bound, rounded down to whole steps; infinite when there is none."""
        best = min(bound.upper for bound in self.bounds)
        return math.floor(best * (1 + TIE)) if best < math.inf else best


def small_bounds(P: Array, mu: Array, changes: Array | None, eps: float) -> MixingBounds:
    """Collect every bound that applies to a chain whose powers fit in memory.

    ``changes`` are the eigenvalues of I − P if the chain is reversible.
    """
    if 1 - mu.min() <= eps:
        return MixingBounds(eps, (Bound("one state has most of the probability", 0, 0),))
    listed = list(by_doubling(P, mu, eps))
    if changes is not None:
        error = float(len(mu) * np.finfo(float).eps * np.abs(changes).max())
        listed.insert(0, by_relaxation(spectral_gap(changes), error, float(mu.min()), eps))
    return MixingBounds(eps, tuple(listed))


def by_relaxation(gap: float, error: float, least: float, eps: float) -> Bound:
    """Bound τ by Levin and Peres, Theorems 12.4 and 12.5: the paper's Theorem E.1.

    (1/γ − 1) log(1/2ε) ≤ τ(ε) ≤ (1/γ) log(1/(ε μ_min)) for a reversible chain with absolute
    spectral gap γ, here known up to ``error``. At ε = ¼ the upper bound is the paper's
    log(4/μ_min)/γ.
    """
    at_most_gap, at_least_gap = min(1.0, gap + error), gap - error
    return Bound(
        "relaxation time (Levin and Peres, Theorems 12.4 and 12.5)",
        max(0.0, (1 / at_most_gap - 1) * math.log(1 / (2 * eps))),
        math.log(1 / (eps * least)) / at_least_gap if at_least_gap > 0 else math.inf,
    )


def by_doubling(P: Array, mu: Array, eps: float) -> tuple[Bound, Bound]:
    """Compute pseudo-spectral and contraction bounds from P, P², P⁴, …, for any chain.

    With d̄(s) = κ(P^s) and σ_s the second singular value of P^s in L²(μ):
    d(s m) ≤ d̄(s)^m and d(s m) ≤ ½ √(1/μ_min − 1) σ_s^m from above, and
    σ_s² ≤ d̄(s) ≤ (2ε)^⌊s/τ(ε)⌋ from below.
    """
    spread = math.sqrt(1 / mu.min() - 1) / 2
    # The chain is not mixed at the start, so at least one step is needed.
    sides = [[1.0, math.inf], [1.0, math.inf]]
    for power in doublings(P):
        dbar = min(1.0, contraction(power.matrix))
        singular = min(second_singular_value(power.matrix, mu), math.sqrt(dbar))
        for side, shrink, floor, ratio in (
            (sides[0], singular, singular**2, spread / eps),
            (sides[1], dbar, dbar, 1 / eps),
        ):
            side[0] = max(side[0], at_least(power.time, floor, eps))
            side[1] = min(side[1], at_most(power.time, shrink, ratio))
        if dbar <= 2 * eps * (1 - TIE) and power.time >= min(side[1] for side in sides):
            break
    return (
        Bound("pseudo-spectral (Paulin, Proposition 3.4)", *sides[0]),
        Bound("contraction (Dobrushin, Wolfer)", *sides[1]),
    )


def at_least(time: int, floor: float, eps: float) -> float:
    """Bound τ(ε) from below by d̄(time) ≥ floor: as floor > (2ε)^m, fewer than m mixings fit."""
    if floor <= 0 or eps >= 0.5:
        return 0.0
    # A floor of exactly (2ε)^m must not be rounded to a larger one.
    mixings = math.log(floor * (1 - TIE)) / math.log(2 * eps)
    return time / (math.floor(mixings) + 1)


def at_most(time: int, shrink: float, ratio: float) -> float:
    """Bound τ from above if ``time`` steps shrink a distance that must shrink by ``ratio``."""
    if shrink <= 0:
        return float(time)
    if shrink > 1 - MIN_SHRINKING:
        return math.inf
    return time * max(1, math.ceil(math.log(ratio) / -math.log(shrink) * (1 - TIE)))
