"""Eigenvalues, gaps and contraction rates of a transition matrix held in full."""

from collections.abc import Callable

import numpy as np

from mixfree.chains.powers import Power, contraction, doublings


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


def largest_rate(
    P: np.ndarray, gain: Callable[[np.ndarray], float], longest: int | None = None
) -> float:
    """Largest gain(P^k)/k over k ≥ 1, for a gain that grows with k and is at most one.

    The k-s are walked in blocks (b, 2b]: there gain(P^k)/k ≤ gain(P^2b)/k, so a block is left as
    soon as k is past gain(P^2b)/best, and the walk ends at k = 1/best.
    """
    first = Power.first(P)
    best = gain(first.matrix)
    for half in doublings(P):
        if (best > 0 and half.time * best >= 1) or (longest is not None and half.time >= longest):
            break
        ceiling = gain((half @ half).matrix)
        best = max(best, ceiling / (2 * half.time))
        current = half @ first
        while current.time < 2 * half.time and current.time * best < ceiling:
            best = max(best, gain(current.matrix) / current.time)
            current = current @ first
    return best


def pseudo_spectral_gap(P: np.ndarray, law: np.ndarray, longest: int | None = None) -> float:
    """Largest γ((P*)^k P^k)/k over k (Paulin 2015); γ(·) is one minus a squared singular value."""
    return largest_rate(P, lambda matrix: 1 - second_singular_value(matrix, law) ** 2, longest)


def contraction_rate(P: np.ndarray, longest: int | None = None) -> float:
    """Largest (1 − κ(P^s))/s over s (Wolfer 2020)."""
    return largest_rate(P, lambda matrix: 1 - contraction(matrix), longest)
