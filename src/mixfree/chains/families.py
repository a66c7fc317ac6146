"""The chains of the paper, and other standard ones."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from mixfree.base.checks import check_one_of, check_whole
from mixfree.base.extras import require
from mixfree.chains.chain import MAX_DENSE_STATES, MarkovChain


def two_state(p: float) -> MarkovChain:
    """Return the chain of the paper's experiments: two states, each left with probability ``p``.

    Its mixing time is about log(2)/(2p) for a small ``p``.

    Examples
    --------
    >>> two_state(0.01).mixing_time()
    35
    """
    if not 0 < p <= 1:
        raise ValueError(f"p = {p} must be a probability above 0 and at most 1")
    return MarkovChain([[1 - p, p], [p, 1 - p]])


def winning_streak(n: int) -> MarkovChain:
    """Return the chain of the current run of heads of a fair coin, at most ``n − 1``: n states.

    From any state the streak ends (state 0) or grows by one, with probability ½ each. Its time
    reversal, ``winning_streak(n).reversal()``, is the example of the paper's Appendix D: it has the
    same stationary distribution 1/2, 1/4, …, 1/2^(n−1), 1/2^(n−1) and mixes in n − 1 steps, while
    this chain mixes in two.

    Examples
    --------
    >>> winning_streak(4).stationary
    array([0.5  , 0.25 , 0.125, 0.125])
    >>> winning_streak(30).mixing_time(), winning_streak(30).reversal().mixing_time()
    (2, 29)
    """
    here = np.arange(check_whole(n, "n", least=2))
    columns = np.concatenate([np.zeros_like(here), np.minimum(here + 1, n - 1)])
    halves = (np.full(2 * n, 0.5), (np.tile(here, 2), columns))
    return _stored(sparse.csr_array(halves, shape=(n, n)))


def cycle(n: int, lazy: bool = False) -> MarkovChain:
    """Return the symmetric walk on a ring of ``n`` states; ``lazy`` stays with probability ½.

    A ring of an even number of states has period 2 unless the walk is lazy.

    Examples
    --------
    >>> cycle(5).mixing_time(), cycle(6, lazy=True).mixing_time()
    (5, 4)
    """
    here = np.arange(check_whole(n, "n", least=3))
    rows = np.concatenate([here, here])
    columns = np.concatenate([(here + 1) % n, (here - 1) % n])
    walk = sparse.csr_array((np.full(2 * n, 0.5), (rows, columns)), shape=(n, n))
    return _stored(_lazy(walk) if lazy else walk)


def birth_death(up: Sequence[float], down: Sequence[float]) -> MarkovChain:
    """Return a walk on a line: from state i up with ``up[i]``, down with ``down[i]``, else stay.

    Parameters
    ----------
    up, down
        One probability per state; ``up`` of the last state and ``down`` of the first must be zero.

    Examples
    --------
    >>> birth_death([0.5, 0.5, 0.0], [0.0, 0.25, 0.5]).stationary
    array([0.2, 0.4, 0.4])
    """
    rise, fall = np.asarray(up, dtype=float), np.asarray(down, dtype=float)
    if rise.ndim != 1 or rise.shape != fall.shape or len(rise) == 0:
        raise ValueError(
            f"up and down must be lists of one length; their shapes are {rise.shape}, {fall.shape}"
        )
    for name, chances, end in (("up", rise, len(rise) - 1), ("down", fall, 0)):
        wrong = np.flatnonzero(~((chances >= 0) & (chances <= 1)))
        if len(wrong):
            raise ValueError(f"{name}[{wrong[0]}] = {chances[wrong[0]]} is not a probability")
        if chances[end] != 0:
            raise ValueError(f"{name}[{end}] = {chances[end]} leads out of the line; it must be 0")
    crowded = np.flatnonzero(rise + fall > 1)
    if len(crowded):
        raise ValueError(f"up[{crowded[0]}] + down[{crowded[0]}] is above 1")
    stay = np.maximum(0, 1 - rise - fall)
    return _stored(sparse.diags_array([fall[1:], stay, rise[:-1]], offsets=[-1, 0, 1]))


def random_chain(n: int, seed: int | np.random.Generator, reversible: bool = False) -> MarkovChain:
    """Draw a random dense chain: rows uniform on the simplex, or a walk on random edge weights.

    Examples
    --------
    >>> random_chain(5, seed=0, reversible=True).is_reversible
    True
    """
    check_whole(n, "n")
    weights = np.random.default_rng(seed).exponential(size=(n, n))
    if reversible:
        weights += weights.T
    return MarkovChain(weights / weights.sum(axis=1, keepdims=True))


def random_walk(graph: Any, weights: str = "degree", lazy: bool = False) -> MarkovChain:
    """Return the random walk on a networkx graph, as in decentralised optimisation.

    Parameters
    ----------
    graph
        A networkx graph, whose edges may have the attribute ``weight``. The states are the nodes,
        in the graph's order.
    weights
        ``"degree"``: to a neighbour in proportion to its edge, so that the stationary distribution
        follows the degrees. ``"metropolis"``: to each neighbour j of i with probability
        1/(1 + max(degree i, degree j)) and otherwise stay, so that it is uniform (Ram et al. 2009,
        Johansson et al. 2010); edge weights are then not used.
    lazy
        Stay with probability ½, which makes any walk aperiodic.

    Examples
    --------
    >>> import networkx
    >>> star = networkx.star_graph(3)
    >>> random_walk(star, lazy=True).stationary
    array([0.5       , 0.16666667, 0.16666667, 0.16666667])
    >>> random_walk(star, "metropolis").stationary
    array([0.25, 0.25, 0.25, 0.25])
    """
    check_one_of(weights, "weights", ("degree", "metropolis"))
    if not hasattr(graph, "nodes"):
        raise ValueError(f"graph = {graph!r} must be a networkx graph")
    if weights == "metropolis" and graph.is_directed():
        raise ValueError("graph is directed; Metropolis weights need edges that go both ways")
    nodes = list(graph.nodes)
    if not nodes:
        raise ValueError("graph has no nodes")
    edges = sparse.csr_array(
        require("networkx").to_scipy_sparse_array(graph, nodelist=nodes, dtype=float)
    )
    if (edges.data < 0).any():
        row, column = (places[edges.data < 0][0] for places in sparse.coo_array(edges).coords)
        raise ValueError(f"the edge from {nodes[row]!r} to {nodes[column]!r} has a negative weight")
    walk = _by_degree(edges, nodes) if weights == "degree" else _metropolis(edges)
    return _stored(_lazy(walk) if lazy else walk, nodes)


def _by_degree(edges: Any, nodes: list[Any]) -> Any:
    strength = np.asarray(edges.sum(axis=1)).ravel()
    if (strength <= 0).any():
        stuck = nodes[int(np.argmin(strength))]
        raise ValueError(f"node {stuck!r} has no outgoing edge")
    return sparse.csr_array(sparse.diags_array(1 / strength) @ edges)


def _metropolis(edges: Any) -> Any:
    pairs = sparse.coo_array(edges)
    between = pairs.row != pairs.col
    rows, columns = pairs.row[between], pairs.col[between]
    degree = np.bincount(rows, minlength=edges.shape[0])
    chance = 1 / (1 + np.maximum(degree[rows], degree[columns]))
    move = sparse.csr_array((chance, (rows, columns)), shape=edges.shape)
    return sparse.csr_array(move + sparse.diags_array(1 - np.asarray(move.sum(axis=1)).ravel()))


def _lazy(walk: Any) -> Any:
    return sparse.csr_array((walk + sparse.eye_array(walk.shape[0])) / 2)


def _stored(walk: Any, states: Sequence[Hashable] | None = None) -> MarkovChain:
    """Return a chain with the matrix, dense unless it has too many states."""
    return MarkovChain(walk.toarray() if walk.shape[0] <= MAX_DENSE_STATES else walk, states)
