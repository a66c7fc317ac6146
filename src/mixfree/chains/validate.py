"""Checks of a transition matrix and of state names, whose errors name the wrong entry."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from mixfree.base.arithmetic import Array


def check_transition_matrix(P: Any) -> Any:
    """Return ``P`` as a float64 array or CSR array; raise ValueError if it is not stochastic.

    Rows that sum to one up to rounding in their own precision are divided by their sum.
    """
    matrix: Any = sparse.csr_array(P) if sparse.issparse(P) else _as_array(P)
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"P must contain real numbers, but its type is {matrix.dtype}")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"P must be a square matrix, but its shape is {matrix.shape}")
    if matrix.shape[0] == 0:
        raise ValueError("P has no states")
    precision = np.finfo(matrix.dtype if matrix.dtype.kind == "f" else float).eps
    matrix = matrix.astype(float)
    if sparse.issparse(matrix):
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        _check_entries(matrix.data, matrix.nonzero)
    else:
        _check_entries(matrix, lambda: np.indices(matrix.shape))
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[worst] - 1) > np.sqrt(precision):
        raise ValueError(
            f"row {worst + 1} of P sums to {sums[worst]:.10g}; every row must sum to 1"
        )
    if sparse.issparse(matrix):
        matrix.data /= np.repeat(sums, np.diff(matrix.indptr))
        return matrix
    return matrix / sums[:, None]


def check_states(states: Sequence[Hashable] | None, count: int) -> Sequence[Hashable]:
    """Return the names of ``count`` states, all different; 0, 1, … by default."""
    if states is None:
        return range(count)
    if len(states) != count:
        raise ValueError(f"states has {len(states)} names, but P has {count} states")
    if len(set(states)) != count:
        seen: set[Hashable] = set()
        twice = next(state for state in states if state in seen or seen.add(state))  # type: ignore[func-returns-value]
        raise ValueError(f"states contains {twice!r} twice")
    return states


def _as_array(P: Any) -> Array:
    try:
        return np.asarray(P)
    except ValueError as error:
        raise ValueError(f"P is not a matrix: {error}") from None


def _check_entries(entries: Array, places: Any) -> None:
    for wrong, what in (
        (~np.isfinite(entries), "not a number"),
        (entries < 0, "negative"),
        (entries > 1.001, "above 1"),
    ):
        if wrong.any():
            row, column = (index[wrong][0] for index in places())
            raise ValueError(
                f"row {row + 1}, column {column + 1} of P is {entries[wrong][0]}: {what}"
            )
