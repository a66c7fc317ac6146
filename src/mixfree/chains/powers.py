"""Powers of a transition matrix and distances between their rows.

P^t is held as G = P^t − I. The entries of G are sums of products of probabilities, so they keep
their digits through any number of squarings even for a chain that leaves a state once in 10¹⁴
steps, where the diagonal of P^t, a number like 1 − 10⁻¹⁴, would not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from mixfree.base.arithmetic import Array

TIE = 1e-12  # relative tolerance with which an exact tie d(t) = eps counts as reached
MAX_SQUARINGS = 62  # most squarings


@dataclass(frozen=True)
class Power:
    """P to the power ``time``, held as ``change`` = P^time − I."""

    time: int
    change: Array

    @classmethod
    def first(cls, P: Array) -> Power:
        """P itself."""
        return cls(1, _balanced(P.copy()))

    @property
    def matrix(self) -> Array:
        """P^time."""
        return self.change + np.eye(len(self.change))

    def __matmul__(self, other: Power) -> Power:
        product = self.change @ other.change
        product += self.change
        product += other.change
        return Power(self.time + other.time, _balanced(product))


def doublings(P: Array) -> Iterator[Power]:
    """Yield P, P², P⁴, P⁸, …."""
    power = Power.first(P)
    yield power
    for _ in range(MAX_SQUARINGS):
        power = power @ power
        yield power


def power(P: Array, time: int) -> Power:
    """Compute P^time for a time of at least one, by squaring."""
    result, doubled = None, Power.first(P)
    while True:
        if doubled.time & time:
            result = doubled if result is None else result @ doubled
        if result is not None and result.time == time:
            return result
        doubled = doubled @ doubled


def first_time(doubled: Iterable[Any], reached: Callable[[Any], bool]) -> int | None:
    """Find the smallest t ≥ 1 whose power has ``reached`` a property that all later powers have.

    Squaring finds the first power of two with the property; bisection between it and the one
    before then gives one binary digit of the answer per product. None if no power has it.
    """
    below: list[Any] = []
    for current in doubled:
        if reached(current):
            break
        below.append(current)
    else:
        return None
    if not below:
        return 1
    latest = below.pop()
    for shorter in reversed(below):
        further = latest @ shorter
        if not reached(further):
            latest = further
    return int(latest.time) + 1


def distance_to(mu: Array, matrix: Array) -> float:
    """Return the largest total variation distance between a row of ``matrix`` and ``mu``."""
    return float(np.abs(matrix - mu).sum(axis=1).max() / 2)


def contraction(matrix: Array) -> float:
    """Return Dobrushin's coefficient: the largest total variation distance between two rows."""
    return float(cdist(matrix, matrix, "cityblock").max() / 2)


def _balanced(change: Array) -> Array:
    """Reset the diagonal so that every row of P^t − I sums to zero."""
    np.fill_diagonal(change, 0)
    np.fill_diagonal(change, -change.sum(axis=1))
    return change
