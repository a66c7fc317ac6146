"""Eigenvalues, gaps and contraction rates of a transition matrix held in full."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mixfree.chains.powers import LONGEST, Power, contraction

# Multiplications of numbers that a block of powers may cost, and how many strides that may be (as
# powers of two).
AFFORDABLE = 4e9
FEWEST_AND_MOST = (2, 10)


def symmetrised(matrix: np.ndarray, law: np.ndarray) -> np.ndarray:
    """D^½ M D^−½ with D the diagonal of the law; symmetric when the chain is reversible."""
    root = np.sqrt(law)
    return matrix * root[:, None] / root


def eigenvalues_of_change(P: np.ndarray, reversible_law: np.ndarray | None) -> np.ndarray:
    """Eigenvalues of I − P, which a slow chain keeps to more digits than those of P.

    Pass the law of a reversible chain to get real ones.
    """
    change = -Power.first(P).change
    if reversible_law is None:
        return np.linalg.eigvals(change)
    L = symmetrised(change, reversible_law)
    return np.linalg.eigvalsh((L + L.T) / 2)


def spectral_gap(changes: np.ndarray) -> float:
    """One minus the second largest modulus of an eigenvalue, from the eigenvalues of I − P."""
    others = np.delete(changes, np.argmin(np.abs(changes)))
    if len(others) == 0:
        return 1.0
    # 1 − |1 − z| without the cancellation at a small z.
    gaps = (2 * others.real - np.abs(others) ** 2) / (1 + np.abs(1 - others))
    return max(0.0, float(gaps.min()))


def second_singular_value(matrix: np.ndarray, law: np.ndarray) -> float:
    """Norm of ``matrix``, a power of P, on functions of mean zero in L²(μ)."""
    root = np.sqrt(law)
    L = symmetrised(matrix, law) - np.outer(root, root)
    return min(1.0, float(np.linalg.norm(L, 2)))


@dataclass(frozen=True)
class Rate:
    """Largest gain a step that was found, and a ceiling on the true one."""

    value: float
    ceiling: float


def largest_rate(P: np.ndarray, gain: Callable[[np.ndarray], float]) -> Rate:
    """Largest gain(P^k)/k over k ≥ 1, for a gain that grows with k and is at most one.

    The k-s are walked in blocks (b, 2b]: there gain(P^k)/k ≤ gain(P^2b)/k, so a block is left as
    soon as k is past gain(P^2b)/best, and the walk ends at k = 1/best. A block is walked in at most
    a thousand strides, fewer for large matrices: as the gain grows with k, what lies between two
    multiples of a stride is above them by no more than the ratio of the two.
    """
    strides = 1 << int(np.clip(np.log2(AFFORDABLE / len(P) ** 3), *FEWEST_AND_MOST))
    held = [Power.first(P)]
    best, slack = gain(held[0].matrix), 1.0
    while held[-1].time * best < 1 and len(held) < LONGEST:
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


def pseudo_spectral_gap(P: np.ndarray, law: np.ndarray) -> Rate:
    """Largest γ((P*)^k P^k)/k over k (Paulin 2015); γ(·) is one minus a squared singular value."""
    return largest_rate(P, lambda matrix: 1 - second_singular_value(matrix, law) ** 2)


def contraction_rate(P: np.ndarray) -> Rate:
    """Largest (1 − κ(P^s))/s over s (Wolfer 2020)."""
    return largest_rate(P, lambda matrix: 1 - contraction(matrix))
