"""Linear systems of a chain: stationary distribution, hitting times, asymptotic variances."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse import linalg as sparse_linalg

from mixfree.base.arithmetic import Array
from mixfree.chains.powers import Power
from mixfree.chains.structure import edges

BALANCE = 1e-9  # relative difference of the two flows across an edge that counts as balance
RESIDUAL = 1e-10  # largest |πP − π| of an accepted solution, as a share of the flow between states
Function = Sequence[float] | Array | Callable[[Any], float]


def gth(P: Array) -> Array:
    """Compute the stationary distribution μ of an irreducible chain, all digits of every entry.

    Grassmann, Taksar and Heyman's elimination: states are removed from the last to the first, and
    the chain is observed only while it is among the remaining ones. Nothing is subtracted, so
    nothing cancels, however small the probabilities.

    Examples
    --------
    >>> gth(np.array([[1 - 1e-14, 1e-14], [2e-14, 1 - 2e-14]])) * 3
    array([2., 1.])
    """
    observed = np.array(P, dtype=float)
    states = len(observed)
    leaving = np.ones(states)
    for last in range(states - 1, 0, -1):
        leaving[last] = observed[last, :last].sum()
        through = observed[last, :last] / leaving[last]
        observed[:last, :last] += np.outer(observed[:last, last], through)
    mu = np.ones(states)
    for state in range(1, states):
        mu[state] = mu[:state] @ observed[:state, state] / leaving[state]
        if mu[state] > 1e200:
            mu[: state + 1] /= mu[state]
    mu /= mu.sum()
    return mu


def by_detailed_balance(P: Any) -> Array | None:
    """Compute μ of a reversible sparse chain; None if it is not reversible.

    Along a spanning tree detailed balance gives π(j)/π(i) = P(i, j)/P(j, i), which is then checked
    on every other edge. The cost is one pass over the entries.
    """
    forth = sparse.csr_array(P)
    back = sparse.csr_array(forth.T)
    forth.sort_indices()
    back.sort_indices()
    if not (
        np.array_equal(forth.indptr, back.indptr) and np.array_equal(forth.indices, back.indices)
    ):
        return None
    ratio = forth.copy()
    ratio.data = np.log(forth.data) - np.log(back.data)
    order, parent = csgraph.breadth_first_order(edges(forth), 0)
    step = np.asarray(ratio[parent[order[1:]], order[1:]]).ravel()
    log_mu = np.zeros(P.shape[0])
    for state, added in zip(order[1:], step, strict=True):
        log_mu[state] = log_mu[parent[state]] + added
    source = np.repeat(np.arange(P.shape[0]), np.diff(forth.indptr))
    imbalance = log_mu[forth.indices] - log_mu[source] - ratio.data
    if np.abs(imbalance).max() > BALANCE:
        return None
    mu: Array = np.exp(log_mu - log_mu.max())
    mu /= mu.sum()
    return mu


def by_krylov(P: Any) -> Array:
    """Compute the stationary distribution of a large sparse chain, checked by its residual."""
    flow = sparse.csr_array(P, copy=True)
    flow.setdiag(0.0)
    flow.eliminate_zeros()
    # Not 1 − P(i, i), which would round away a small probability of leaving i.
    leaving = np.asarray(flow.sum(axis=1))
    start = np.full(P.shape[0], 1 / P.shape[0])
    try:
        _, vectors = sparse_linalg.eigs(P.T, k=1, which="LR", v0=start, maxiter=2000)
        mu = _normalised(vectors[:, 0].real)
    except sparse_linalg.ArpackError:
        mu = np.full_like(start, np.nan)
    if not _residual(flow, leaving, mu) <= RESIDUAL:
        mu = _by_factorisation(flow, leaving)
    residual = _residual(flow, leaving, mu)
    if not residual <= RESIDUAL:
        raise ValueError(
            f"the stationary distribution of this {P.shape[0]}-state chain could not be found: "
            f"the best has |πP − π| = {residual:.1e} of the flow, above {RESIDUAL:.0e}"
        )
    return mu


def _by_factorisation(flow: Any, leaving: Array) -> Array:
    """Solve for μ relative to that of the first state; NaN for a singular matrix."""
    balance = sparse.csc_array(sparse.diags_array(leaving) - flow.T)
    try:
        factors = sparse_linalg.splu(balance[1:, 1:])
    except RuntimeError:  # exactly singular
        return np.full_like(leaving, np.nan)
    rest = factors.solve(-balance[1:, [0]].toarray().ravel())
    return _normalised(np.concatenate([[1.0], rest]))


def _normalised(vector: Array) -> Array:
    mu = np.abs(vector)
    mu /= mu.sum()
    return mu


def _residual(flow: Any, leaving: Array, mu: Array) -> float:
    """Return |πP − π| relative to the flow between states, which is small in a slow chain."""
    out = leaving * mu
    return float(np.abs(flow.T @ mu - out).sum() / out.sum())


def check_function(f: Function, states: Sequence[Hashable]) -> Array:
    """Return ``f`` as one finite number per state; raise ValueError if it is not."""
    given = [f(state) for state in states] if callable(f) else f
    array = np.asarray(given, dtype=float)
    if array.shape != (len(states),):
        raise ValueError(
            f"f has shape {array.shape}; {len(states)} values are needed, one per state"
        )
    if not np.isfinite(array).all():
        place = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"f is {array[place]} at state {states[place]}")
    return array


def hitting_times(P: Any, target: int | Iterable[int]) -> Array:
    """Return the expected number of steps from each state to ``target``."""
    states, given = P.shape[0], np.array(target if np.isscalar(target) else list(target))  # type: ignore[arg-type]
    targets = np.unique(given)
    if targets.dtype.kind not in "iu" or not 0 <= targets[0] <= targets[-1] < states:
        raise ValueError(f"target = {target!r} must name states from 0 to {states - 1}")
    times = np.zeros(states)
    others = np.setdiff1d(np.arange(states), targets)
    if len(others):
        times[others] = _solve(P, others, np.ones(len(others)))
    return times


def asymptotic_variance(P: Any, mu: Array, values: Array) -> float:
    """Return 2⟨f̄, g⟩ − ⟨f̄, f̄⟩ in L²(μ), where g solves Poisson's equation (I − P) g = f̄."""
    centred = values - mu @ values
    solution = np.zeros(len(mu))
    if len(mu) > 1:
        # Solutions differ by a constant, which does not matter: take the one that vanishes at 0.
        solution[1:] = _solve(P, np.arange(1, len(mu)), centred[1:])
    return float(mu @ (centred * (2 * solution - centred)))


def _solve(P: Any, among: Array, right: Array) -> Array:
    """Solve (I − P) x = right on a proper subset of the states, killed outside it."""
    if sparse.issparse(P):
        inside = sparse.csc_array(P[among][:, among])
        return np.asarray(
            sparse_linalg.spsolve(sparse.eye_array(len(among), format="csc") - inside, right)
        )
    return np.linalg.solve(-Power.first(P).change[np.ix_(among, among)], right)
