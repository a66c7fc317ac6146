"""Powers of an estimated matrix with their errors: an interval that converges to the mixing time.

If each row i of P̂ is within ε_i of the truth (in L1), row i of P̂^{s+t} is within

    e_{s+t}(i) ≤ Σ_j P̂^s(i, j) e_t(j) + e_s(i) · κ(P^t),   e_1 = ε,   κ(P^t) ≤ κ(P̂^t) + max e_t,

because P^{s+t} − P̂^{s+t} = P̂^s (P^t − P̂^t) + (P^s − P̂^s) P^t and a difference of rows, which sums
to zero, is contracted by P^t. Errors are propagated through squarings, so they stop growing once
the chain has mixed. The distances d(t) and d̄(t) of the true chain are then known up to e_t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from mixfree.base.arithmetic import Array
from mixfree.chains.bounds import at_least, at_most
from mixfree.chains.powers import MAX_SQUARINGS, Power, first_time
from mixfree.chains.rows import RowEstimates

DISTANCE = 0.25  # the distance that defines the mixing time
MIXED = 1e-9  # largest difference between rows of a power at which squaring ends


class Range(NamedTuple):
    """The least and the largest possible value of a number."""

    least: float
    largest: float

    @classmethod
    def of_worst(cls, distance: Array, error: Array) -> Range:
        """Return the range of half the largest of L1 distances known up to ``error``."""
        return cls(float((distance - error).max() / 2), float((distance + error).max() / 2))


@dataclass(frozen=True)
class InexactPower:
    """A power of the estimate, and how far each of its rows may be from the truth."""

    power: Power
    error: Array

    @property
    def time(self) -> int:
        """Exponent of the power."""
        return self.power.time

    def __matmul__(self, other: InexactPower) -> InexactPower:
        error = self.power.matrix @ other.error + self.error * min(1.0, other.between_rows.largest)
        return InexactPower(self.power @ other.power, np.minimum(error, 2))

    @cached_property
    def between_rows(self) -> Range:
        """The possible values of d̄(time) of the true chain."""
        rows = self.power.matrix
        return Range.of_worst(cdist(rows, rows, "cityblock"), self.error[:, None] + self.error)

    def from_stationary(self, mu: Array, stationary_error: float) -> Range:
        """Return the possible values of d(time) of the true chain."""
        distance = np.abs(self.power.matrix - mu).sum(axis=1)
        return Range.of_worst(distance, self.error + stationary_error)


@dataclass(frozen=True)
class Envelope:
    """The powers of an estimate, computed once, and the bounds that follow from them."""

    rows: RowEstimates

    @cached_property
    def powers(self) -> list[InexactPower]:
        """Powers 1, 2, 4, 8, … until the estimate has mixed to machine precision."""
        found = [InexactPower(Power.first(self.rows.P), self.rows.row_error)]
        while np.ptp(found[-1].power.matrix, axis=0).max() >= MIXED and len(found) < MAX_SQUARINGS:
            found.append(found[-1] @ found[-1])
        return found

    @cached_property
    def stationary_error(self) -> float:
        """Bound on the L1 distance between the two stationary distributions.

        π̂ − π = π̂ (P̂^t − P^t) + (π̂ − π) P^t, and the last term is contracted by κ(P^t).
        """
        largest = [(power, power.between_rows.largest) for power in self.powers]
        errors = [float(self.rows.mu @ power.error) / (1 - k) for power, k in largest if k < 1]
        return min([2.0, *errors])

    def interval(self) -> tuple[float, float]:
        """Return an interval for the mixing time of the true chain."""
        lower = max(
            at_least(power.time, power.between_rows.least, DISTANCE) for power in self.powers
        )
        upper = min(
            at_most(power.time, power.between_rows.largest, 1 / DISTANCE) for power in self.powers
        )
        mixed = first_time(self.powers, self._certainly_mixed)
        unmixed = first_time(self.powers, self._perhaps_mixed)
        return max(lower, unmixed or 0), min(upper, mixed or math.inf)

    def _certainly_mixed(self, power: InexactPower) -> bool:
        distance = power.from_stationary(self.rows.mu, self.stationary_error)
        return min(power.between_rows.largest, distance.largest) <= DISTANCE

    def _perhaps_mixed(self, power: InexactPower) -> bool:
        distance = power.from_stationary(self.rows.mu, self.stationary_error)
        return power.between_rows.least <= 2 * DISTANCE and distance.least <= DISTANCE
