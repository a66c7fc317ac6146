"""Claims that means are the expected ones, of which a deviation by chance is no refutation."""

from collections.abc import Sequence

import numpy as np

from mixfree.reproduce.engine.report import Claim

__all__ = ["equality_claim"]

ROUNDING = 1e-12  # largest relative deviation that is none
CHANCE = 0.01  # probability that chance alone refutes any of the equalities


def equality_claim(text: str, found: Sequence[tuple[Sequence[float], float]]) -> Claim:
    """Claim that the mean of the seeds is the expected value, for each of several.

    It holds if Student's intervals, jointly of 99 %, contain the expected values, fails if one does
    not, and is not decided by a single seed.
    """
    from scipy.stats import t

    seeds = len(found[0][0])
    allowed = float(t.ppf(1.0 - 0.5 * CHANCE / len(found), max(1, seeds - 1)))
    off = max(_standard_errors(values, expected) for values, expected in found)
    measured = f"largest deviation {off:.1f} standard errors of {len(found)}, {allowed:.1f} allowed"
    if len(found) == 1:
        mean, expected = np.mean(found[0][0]), found[0][1]
        measured = f"{mean:.2f}, {off:.1f} standard errors from {expected:g}, {allowed:.1f} allowed"
    return Claim(text, measured, off < allowed if seeds > 1 else None)


def _standard_errors(values: Sequence[float], expected: float) -> float:
    """Return the distance of the mean from its expected value in standard errors."""
    distance = abs(float(np.mean(values)) - expected)
    if distance <= ROUNDING * abs(expected):
        return 0.0
    error = float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else np.inf
    return distance / error if error > 0.0 else np.inf
