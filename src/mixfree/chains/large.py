"""Bounds on the mixing time of chains too large to hold a power of P: 10⁵ states and more.

All bounds are computed from products of the sparse matrix with a vector. Each states whether it is
certified or relies on ARPACK's convergence.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse import linalg as sparse_linalg

from mixfree.base.arithmetic import Array
from mixfree.chains.bounds import Bound, MixingBounds, at_most, by_relaxation
from mixfree.chains.stationary import RESIDUAL
from mixfree.chains.structure import edges

MAX_WALK = 2000  # most steps of a walk from a start
TOLERANCE = 1e-8  # tolerance of the singular values
# An eigenvalue is accepted when its error is below this fraction of the gap. If none of the
# tolerances reaches that, L is factorised, which is very costly on a well-connected graph.
PRECISION = 0.02
TOLERANCES = (1e-3, 1e-6, 1e-9)
SINGULAR_POWERS = (1, 2, 4, 8, 16)


def large_bounds(P: Any, mu: Array, reversible: bool, eps: float) -> MixingBounds:
    """Compute bounds from the leading eigenvalue, and from walks of at most ``MAX_WALK`` steps."""
    bound, direction = (_reversible if reversible else _general)(P, mu, eps)
    if bound.lower >= MAX_WALK:
        return MixingBounds(eps, (bound,))
    starts = _starts(P, mu, direction)
    steps = int(min(MAX_WALK, bound.upper))
    walked = float(_unmixed_steps(P, mu, starts, eps, steps) + 1)
    name = f"walks from {len(starts)} starts, {steps} steps at most (certified)"
    return MixingBounds(eps, (bound, Bound(name, walked)))


def _reversible(P: Any, mu: Array, eps: float) -> tuple[Bound, Array]:
    root = np.sqrt(mu)
    scale = sparse.diags_array
    L = sparse.csr_array(scale(root) @ P @ scale(1 / root))
    value, vector = _leading(L, root)
    # Some eigenvalue lies within the residual of the one found.
    error = float(_residual(L, value, vector) + len(mu) * np.finfo(float).eps)
    bound = by_relaxation(1 - abs(value), error, float(mu.min()), eps)
    # A Rayleigh quotient never exceeds the largest eigenvalue, so the lower side is certified.
    name = f"{bound.theorem}: lower side certified, upper side if ARPACK found the largest"
    return Bound(name, bound.lower, bound.upper), vector / root


def _leading(L: Any, root: Array) -> tuple[float, Array]:
    """Find the eigenvalue of largest modulus of a symmetric L, other than that of ``root``."""
    others = sparse_linalg.LinearOperator(
        L.shape, matvec=lambda x: L @ x - root * (root @ x), dtype=float
    )
    start = np.random.default_rng(0).standard_normal(len(root))
    for tolerance in TOLERANCES:
        found = _lanczos(others, start, "LM", tolerance)
        if found is None:
            break
        if _residual(L, *found) <= PRECISION * (1 - abs(found[0])):
            return found
    # Many eigenvalues near one: shift and invert, just outside it.
    found = _inverted(L, start, end=1.0, place=1)
    if _may_reach(L, start, -found[0]):
        bottom = _inverted(L, start, end=-1.0, place=0)
        found = max(found, bottom, key=lambda pair: abs(pair[0]))
    return found


def _may_reach(L: Any, start: Array, low: float) -> bool:
    """Whether the least eigenvalue may be as low as ``low``, up to a hundredth."""
    if 2 * L.diagonal().min() - 1 > low + 0.01:
        return False
    # 1 − L has its eigenvalues in [0, 2], where a relative tolerance is meaningful.
    change = sparse_linalg.LinearOperator(L.shape, matvec=lambda x: x - L @ x, dtype=float)
    farthest = _lanczos(change, start, "LA", 1e-3)
    return farthest is None or 1 - farthest[0] < low + 0.01


def _lanczos(
    operator: Any, start: Array, which: str, tolerance: float
) -> tuple[float, Array] | None:
    try:
        values, vectors = sparse_linalg.eigsh(
            operator, k=1, which=which, v0=start, ncv=40, maxiter=24, tol=tolerance
        )
    except sparse_linalg.ArpackError:
        return None
    return float(values[0]), vectors[:, 0]


def _inverted(L: Any, start: Array, end: float, place: int) -> tuple[float, Array]:
    """Find the ``place``-th eigenvalue away from ``end``, 1 or −1."""
    values, vectors = sparse_linalg.eigsh(
        sparse.csc_array(L), k=place + 1, sigma=end * (1 + 1e-11), v0=start
    )
    nearest = np.argsort(np.abs(values - end))[place]
    return float(values[nearest]), vectors[:, nearest]


def _residual(L: Any, value: float, vector: Array) -> float:
    return float(np.linalg.norm(L @ vector - value * vector))


def _general(P: Any, mu: Array, eps: float) -> tuple[Bound, Array]:
    if mu.min() <= RESIDUAL:
        name = f"no upper side: a stationary probability is below {RESIDUAL:.0e}"
        return Bound(name), mu
    root = np.sqrt(mu)
    scale = sparse.diags_array
    forth = sparse.csr_array(scale(root) @ P @ scale(1 / root))
    back = sparse.csr_array(forth.T)
    spread = math.sqrt(1 / mu.min() - 1) / 2
    start = np.random.default_rng(0).standard_normal(len(root))
    best, vector = math.inf, start
    for power in SINGULAR_POWERS:

        def squared(x: Array, power: int = power) -> Array:
            x = x - root * (root @ x)
            for matrix in [forth] * power + [back] * power:
                x = matrix @ x
            orthogonal: Array = x - root * (root @ x)
            return orthogonal

        found = _lanczos(
            sparse_linalg.LinearOperator(forth.shape, matvec=squared, dtype=float),
            start,
            "LA",
            TOLERANCE,
        )
        if found is None:
            break
        reached = at_most(power, math.sqrt(max(0.0, found[0] + TOLERANCE)), spread / eps)
        if reached < best:
            best, vector = reached, found[1]
    name = f"singular values of P^k, k ≤ {SINGULAR_POWERS[-1]}, if ARPACK found the largest"
    return Bound(name, 0.0, best), vector / root


def _starts(P: Any, mu: Array, direction: Array) -> list[int]:
    """Return states likely to mix last: extremes of the slowest mode, the rarest, the farthest."""
    rarest = int(np.argmin(mu))
    farthest = int(csgraph.breadth_first_order(edges(P), rarest)[0][-1])
    ends = int(np.argmax(direction)), int(np.argmin(direction))
    return sorted({*ends, rarest, farthest})


def _unmixed_steps(P: Any, mu: Array, starts: list[int], eps: float, steps: int) -> int:
    """Return the largest t ≤ ``steps`` at which some start is farther than ``eps`` from μ."""
    distributions = np.zeros((P.shape[0], len(starts)))
    distributions[starts, range(len(starts))] = 1
    forward = sparse.csr_array(P.T)
    unmixed = 0
    for step in range(1, steps + 1):
        distributions = forward @ distributions
        # μ itself is known up to its residual, and a tie counts as reached.
        if np.abs(distributions - mu[:, None]).sum(axis=0).max() / 2 <= eps + RESIDUAL:
            break
        unmixed = step
    return unmixed
