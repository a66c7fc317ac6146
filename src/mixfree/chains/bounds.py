"""Two-sided bounds on the mixing time, each labelled with the theorem it comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mixfree.chains.powers import TIE, contraction, doublings
from mixfree.chains.spectral import second_singular_value

if TYPE_CHECKING:
    from mixfree.chains.chain import MarkovChain

# A factor this near to one has lost the digits of its logarithm; a longer time has them.
TOO_SLOW = 1e-6


@dataclass(frozen=True)
class Bound:
    """One theorem's bounds on the mixing time: ``lower`` ≤ τ ≤ ``upper``."""

    theorem: str
    lower: float = 0.0
    upper: float = math.inf


@dataclass(frozen=True)
class MixingBounds:
    """Bounds on the mixing time to distance ``eps``; the best of each side are properties."""

    eps: float
    bounds: tuple[Bound, ...]

    @property
    def lower(self) -> int:
        """Largest lower bound, as a whole number of steps."""
        # Rounding that pushes a bound past a whole number must not cost a step, here or below.
        return math.ceil(max(bound.lower for bound in self.bounds) * (1 - TIE))

    @property
    def upper(self) -> float:
        """Smallest upper bound, as a whole number of steps; infinite when there is none."""
        best = min(bound.upper for bound in self.bounds)
        return math.floor(best * (1 + TIE)) if best < math.inf else best


def small_bounds(chain: MarkovChain, eps: float) -> MixingBounds:
    """Every bound that applies to a chain whose powers can be held in full."""
    law = chain.positive_law("mixing_bounds")
    if 1 - law.min() <= eps:
        return MixingBounds(eps, (Bound("one state carries the law", 0, 0),))
    listed = list(by_doubling(chain.dense("mixing_bounds"), law, eps))
    if chain.is_reversible:
        error = float(len(chain) * np.finfo(float).eps * np.abs(1 - chain.eigenvalues).max())
        listed.insert(0, by_relaxation(chain.spectral_gap, error, float(law.min()), eps))
    return MixingBounds(eps, tuple(listed))


def by_relaxation(gap: float, error: float, least: float, eps: float) -> Bound:
    """Levin and Peres, Theorems 12.4 and 12.5, as in the paper's Appendix on mixing times.

    (1/γ − 1) log(1/2ε) ≤ τ(ε) ≤ (1/γ) log(1/(ε μ_min)) for a reversible chain with absolute
    spectral gap γ, here known up to ``error``. At ε = ¼ the upper bound is the Appendix's
    log(4/μ_min)/γ.
    """
    at_most_gap, at_least_gap = min(1.0, gap + error), gap - error
    return Bound(
        "relaxation time (Levin and Peres, Theorems 12.4 and 12.5)",
        max(0.0, (1 / at_most_gap - 1) * math.log(1 / (2 * eps))),
        math.log(1 / (eps * least)) / at_least_gap if at_least_gap > 0 else math.inf,
    )


def by_doubling(P: np.ndarray, law: np.ndarray, eps: float) -> tuple[Bound, Bound]:
    """Pseudo-spectral and contraction bounds from the powers P, P², P⁴, …; any chain.

    With d̄(s) = κ(P^s) and σ_s the second singular value of P^s in L²(μ):
    d(s m) ≤ d̄(s)^m and d(s m) ≤ ½ √(1/μ_min − 1) σ_s^m from above, and
    σ_s² ≤ d̄(s) ≤ (2ε)^⌊s/τ(ε)⌋ from below.
    """
    spread = math.sqrt(1 / law.min() - 1) / 2
    # Not mixed at the start, so never in less than a step.
    sides = [[1.0, math.inf], [1.0, math.inf]]
    for power in doublings(P):
        apart = min(1.0, contraction(power.matrix))
        singular = min(second_singular_value(power.matrix, law), math.sqrt(apart))
        for side, shrink, floor, ratio in (
            (sides[0], singular, singular**2, spread / eps),
            (sides[1], apart, apart, 1 / eps),
        ):
            side[0] = max(side[0], at_least(power.time, floor, eps))
            side[1] = min(side[1], at_most(power.time, shrink, ratio))
        if apart <= 2 * eps * (1 - TIE) and power.time >= min(side[1] for side in sides):
            break
    names = ("pseudo-spectral (Paulin, Proposition 3.4)", "contraction (Dobrushin, Wolfer)")
    return tuple(Bound(name, *side) for name, side in zip(names, sides, strict=True))  # type: ignore[return-value]


def at_least(time: int, floor: float, eps: float) -> float:
    """Lower bound on τ(ε) from d̄(time) ≥ floor: as floor > (2ε)^m, fewer than m mixings fit."""
    if floor <= 0 or eps >= 0.5:
        return 0.0
    # Rounding must not turn a floor of exactly (2ε)^m into a larger one.
    mixings = math.log(floor * (1 - TIE)) / math.log(2 * eps)
    return time / (math.floor(mixings) + 1)


def at_most(time: int, shrink: float, ratio: float) -> float:
    """Upper bound on τ when every ``time`` steps shrink a distance to be cut by ``ratio``."""
    if shrink <= 0:
        return float(time)
    if shrink > 1 - TOO_SLOW:
        return math.inf
    return time * max(1, math.ceil(math.log(ratio) / -math.log(shrink) * (1 - TIE)))
