"""A transition matrix: its checks, whose errors name the wrong entry, and its graph."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from mixfree.base.arithmetic import Array

MAX_NAMED = 6  # most classes, and most states of each, in an error message


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


def edges(P: Any) -> Any:
    """Return the graph of the possible transitions, however small their probability."""
    graph = sparse.csr_array(P, copy=True)
    graph.data = np.ones_like(graph.data)
    return graph


def communicating_classes(P: Any) -> list[Array]:
    """Return the sets of states that reach one another, ordered by their smallest state."""
    _, label = csgraph.connected_components(edges(P), directed=True, connection="strong")
    order = np.argsort(label, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    return sorted(groups, key=lambda group: group[0])


def cyclic_classes(P: Any) -> list[Array]:
    """Return the sets that an irreducible chain visits in turn; one if it is aperiodic.

    The period is the greatest common divisor of ``level[i] + 1 - level[j]`` over the edges,
    where ``level`` is the distance from state 0.
    """
    graph = sparse.coo_array(edges(P))
    level = csgraph.shortest_path(graph, unweighted=True, indices=0).astype(np.int64)
    period = int(np.gcd.reduce(level[graph.row] + 1 - level[graph.col]))
    return [np.flatnonzero(level % period == phase) for phase in range(period)]


def name_classes(classes: list[Array], states: Any) -> str:
    """Format sets of states for an error message, abbreviated if long."""

    def name(group: Array) -> str:
        shown = ", ".join(str(states[state]) for state in group[:MAX_NAMED])
        return "{" + shown + (", …}" if len(group) > MAX_NAMED else "}")

    listed = ", ".join(name(group) for group in classes[:MAX_NAMED])
    return listed + (", …" if len(classes) > MAX_NAMED else "")
