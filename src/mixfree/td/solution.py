"""The fixed point of the sums of LSTD, dense or sparse."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from mixfree.base.arithmetic import Array
from mixfree.linear.exact.batch_means import neighbours

TOLERANCE = 1e-13  # singular values below it, relative to the largest, count as 0
MAX_CONDITION = 1e10  # up to which the inverse is as accurate as singular values
RIDGE = 1e-12  # in units of the features' scales, for dependent features
REFINEMENTS = 2  # steps of iterative refinement, which remove the effect of the ridge


class Solution(NamedTuple):
    """The solution of the equations of a trajectory."""

    theta: Array
    system: Any  # the matrix, with its ridge
    changes: Callable[[Array], Array]  # of rows' values, per unit of each equation's residual


def dense_solution(total: Array, ridge: float) -> Solution:
    """Solve dense equations by the (pseudo-)inverse."""
    size = len(total)
    system = total[:, :-2] + ridge * np.eye(size)
    inverse = np.zeros((size, size))
    # In units of each feature's own scale, rare features are as well determined as others.
    met = total[:, -1] > 0.0
    if met.any():
        scale = 1.0 / np.sqrt(total[met, -1] + ridge)
        scaled = scale[:, None] * system[np.ix_(met, met)] * scale
        inverse[np.ix_(met, met)] = scale[:, None] * _inverse(scaled, scale) * scale
    return Solution(inverse @ total[:, -2], system, lambda rows: rows @ inverse)


def _inverse(system: Array, scale: Array) -> Array:
    """Return the inverse; for a singular system, ``scale * solution`` has the least norm."""
    inverse: Array
    try:
        inverse = np.linalg.inv(system)
        if np.linalg.norm(inverse, 1) * np.linalg.norm(system, 1) < MAX_CONDITION:
            return inverse
    except np.linalg.LinAlgError:
        pass
    left, singular, right = np.linalg.svd(system)
    kept = singular > TOLERANCE * max(float(singular[0]), 1e-300)
    inverse = (right[kept].T / singular[kept]) @ left[:, kept].T
    if not kept.all():
        free, _ = np.linalg.qr(scale[:, None] * right[~kept].T)
        inverse -= free @ (free.T @ (scale[:, None] * inverse)) / scale[:, None]
    return inverse


def sparse_solution(total: Any, ridge: float) -> Solution:
    """Solve sparse equations by factors of the matrix."""
    size = total.shape[0]
    system = (total[:, :-2] + ridge * sparse.eye_array(size)).tocsr()
    squares = column(total, -1)
    # Features that never occurred keep the value 0.
    met = np.flatnonzero(squares > 0.0)
    scale = 1.0 / np.sqrt(squares[met] + ridge)
    diagonal = sparse.diags_array(scale)
    scaled = diagonal @ system[met][:, met] @ diagonal
    lifted = scaled + RIDGE * sparse.eye_array(len(met))
    factors = splu(lifted.tocsc()) if len(met) else None

    def solve(right: Array, which: str) -> Array:
        if factors is None:
            return np.zeros_like(right)
        matrix = scaled if which == "N" else scaled.T
        found: Array = factors.solve(right, which)
        for _ in range(REFINEMENTS):
            found = found + factors.solve(right - matrix @ found, which)
        return found

    def changes(rows: Array) -> Array:
        found = np.zeros(rows.shape)
        found[:, met] = solve((rows[:, met] * scale).T, "T").T * scale
        return found

    theta = np.zeros(size)
    theta[met] = scale * solve(scale * column(total, -2)[met], "N")
    return Solution(theta, system, changes)


def column(sums: Any, place: int) -> Array:
    """Return a column of sums, dense or sparse, as a vector."""
    found = sums[:, [sums.shape[1] + place]]
    vector: Array = (found if isinstance(found, np.ndarray) else found.toarray())[:, 0]
    return vector


def correlation_remark(residuals: Array, length: int) -> str:
    """Return a sentence if neighbouring batches are correlated, else an empty string."""
    size = np.abs(residuals).max(axis=0, initial=0.0)
    varied = residuals[:, size > 0.0] / size[size > 0.0]
    scores = varied / np.sqrt(np.mean(varied**2, axis=0))
    found, correlated = neighbours(scores @ scores.T)
    if not correlated:
        return ""
    return (
        f"intervals are too narrow: batches of {length:,} transitions are still correlated "
        f"({found:.2f} between neighbours); the trajectory is too short for its mixing time"
    )
