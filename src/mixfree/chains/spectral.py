"""Eigenvalues, gaps and contraction rates of a dense transition matrix."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.chains.powers import MAX_SQUARINGS, Power, contraction

MAX_MULTIPLICATIONS = 4e9  # multiplications per block of powers
FEWEST_AND_MOST = (2, 10)  # log₂ of the number of strides per block


def symmetrised(matrix: Array, mu: Array) -> Array:
    """Return D^½ M D^−½ with D the diagonal of μ; symmetric if the chain is reversible."""
    root = np.sqrt(mu)
    return matrix * root[:, None] / root


def eigenvalues_of_change(P: Array, reversible_mu: Array | None) -> Array:
    """Return the eigenvalues of I − P, more accurate than those of P if the chain is slow.

    They are real if μ of a reversible chain is given.
    """
    change = -Power.first(P).change
    if reversible_mu is None:
        return np.linalg.eigvals(change)
    L = symmetrised(change, reversible_mu)
    return np.linalg.eigvalsh((L + L.T) / 2)


def spectral_gap(changes: Array) -> float:
    """Return one minus the second largest modulus of an eigenvalue, from those of I − P."""
    others = np.delete(changes, np.argmin(np.abs(changes)))
    if len(others) == 0:
        return 1.0
    # 1 − |1 − z| without cancellation at a small z.
    gaps = (2 * others.real - np.abs(others) ** 2) / (1 + np.abs(1 - others))
    return max(0.0, float(gaps.min()))


def second_singular_value(matrix: Array, mu: Array) -> float:
    """Return the norm of ``matrix``, a power of P, on functions of mean zero in L²(μ)."""
    root = np.sqrt(mu)
    L = symmetrised(matrix, mu) - np.outer(root, root)
    return min(1.0, float(np.linalg.norm(L, 2)))


@dataclass(frozen=True)
class Rate:
    """The largest gain per step found, and an upper bound on the true one."""

    value: float
    ceiling: float


def largest_rate(P: Array, gain: Callable[[Array], float]) -> Rate:
    """Find the largest gain(P^k)/k over k ≥ 1, for a gain that grows with k and is at most one.

    The search goes through blocks (b, 2b]: there gain(P^k)/k ≤ gain(P^2b)/k, so a block is left as
    soon as k exceeds gain(P^2b)/best, and the search ends at k = 1/best. A block is searched in at
    most a thousand strides, fewer for large matrices: as the gain grows with k, a value between
    two multiples of the stride exceeds the one found by at most the ratio of the two.
    """
    strides = 1 << int(np.clip(np.log2(MAX_MULTIPLICATIONS / len(P) ** 3), *FEWEST_AND_MOST))
    held = [Power.first(P)]
    best, slack = gain(held[0].matrix), 1.0
    while held[-1].time * best < 1 and len(held) < MAX_SQUARINGS:
        half = held[-1]
        held.append(half @ half)
        ceiling = gain(held[-1].matrix)
        best = max(best, ceiling / held[-1].time)
        stride = held[max(0, len(held) - 2 - int(np.log2(strides)))]
        current = half @ stride
        while current.time < held[-1].time and current.time * best < ceiling:
            best = max(best, gain(current.matrix) / current.time)
            current = current @ stride
        if stride.time > 1:
            slack = 1 + 1 / strides
    return Rate(best, min(1.0, best * slack))


def pseudo_spectral_gap(P: Array, mu: Array) -> Rate:
    """Find the largest (1 − σ₂(P^k)²)/k over k, σ₂ the second singular value (Paulin 2015)."""
    return largest_rate(P, lambda matrix: 1 - second_singular_value(matrix, mu) ** 2)


def contraction_rate(P: Array) -> Rate:
    """Find the largest (1 − κ(P^s))/s over s (Wolfer 2020)."""
    return largest_rate(P, lambda matrix: 1 - contraction(matrix))
