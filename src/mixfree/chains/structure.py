"""The graph of a chain: communicating classes and period."""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from mixfree.base.arithmetic import Array

MAX_NAMED = 6  # most classes, and most states of each, in an error message


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
