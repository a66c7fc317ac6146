"""Powers of an estimated matrix with their errors: an interval that closes on the mixing time.

If each row i of P̂ is within ε_i of the truth (in L1), row i of P̂^{s+t} is within

    e_{s+t}(i) ≤ Σ_j P̂^s(i, j) e_t(j) + e_s(i) · κ(P^t),   e_1 = ε,   κ(P^t) ≤ κ(P̂^t) + max e_t,

because P^{s+t} − P̂^{s+t} = P̂^s (P^t − P̂^t) + (P^s − P̂^s) P^t and a difference of rows, which sums
to zero, is contracted by P^t. Errors are carried through squarings, so they stop growing once the
chain has mixed. The distances d(t) and d̄(t) of the true chain are then known up to e_t.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial.distance import cdist

from mixfree.chains.bounds import INFINITE, at_least, at_most
from mixfree.chains.powers import LONGEST, Power, first_time
from mixfree.chains.rows import RowEstimates

QUARTER = 0.25
MIXED = 1e-9


@dataclass(frozen=True)
class InexactPower:
    """A power of the estimate, and how far each of its rows may be from the truth."""

    power: Power
    error: np.ndarray

    @property
    def time(self) -> int:
        """Exponent of the power."""
        return self.power.time

    def __matmul__(self, other: InexactPower) -> InexactPower:
        error = self.power.matrix @ other.error + self.error * min(1.0, other.apart[1])
        return InexactPower(self.power @ other.power, np.minimum(error, 2))

    @cached_property
    def apart(self) -> tuple[float, float]:
        """Least and largest value that d̄(time) of the true chain can have."""
        rows = self.power.matrix
        distance, error = cdist(rows, rows, "cityblock"), self.error[:, None] + self.error
        return float((distance - error).max() / 2), float((distance + error).max() / 2)

    def from_law(self, law: np.ndarray, law_error: float) -> tuple[float, float]:
        """Least and largest value that d(time) of the true chain can have."""
        distance = np.abs(self.power.matrix - law).sum(axis=1)
        error = self.error + law_error
        return float((distance - error).max() / 2), float((distance + error).max() / 2)


def doublings(rows: RowEstimates) -> Iterator[InexactPower]:
    """Powers 1, 2, 4, 8 … until the estimate has mixed for all purposes."""
    current = InexactPower(Power.first(rows.P), rows.row_error)
    for _ in range(LONGEST):
        yield current
        if np.ptp(current.power.matrix, axis=0).max() < MIXED:
            return
        current = current @ current


def envelope(rows: RowEstimates) -> tuple[float, float]:
    """Interval for the mixing time of the true chain."""
    powers = list(doublings(rows))
    lower = max(at_least(power.time, power.apart[0], QUARTER) for power in powers)
    upper = min(at_most(power.time, power.apart[1], 1 / QUARTER) for power in powers)
    law_error = error_of_law(rows.law, powers)

    def certainly_mixed(power: InexactPower) -> bool:
        return min(power.apart[1], power.from_law(rows.law, law_error)[1]) <= QUARTER

    def perhaps_mixed(power: InexactPower) -> bool:
        return power.apart[0] <= 2 * QUARTER and power.from_law(rows.law, law_error)[0] <= QUARTER

    mixed, unmixed = first_time(powers, certainly_mixed), first_time(powers, perhaps_mixed)
    return max(lower, unmixed or 0), min(upper, mixed or INFINITE)


def error_of_law(law: np.ndarray, powers: list[InexactPower]) -> float:
    """Bound on the L1 distance between the two stationary laws.

    π̂ − π = π̂ (P̂^t − P^t) + (π̂ − π) P^t, and the last term is contracted by κ(P^t).
    """
    bounds = [law @ power.error / (1 - power.apart[1]) for power in powers if power.apart[1] < 1]
    return float(min([2.0, *bounds]))
