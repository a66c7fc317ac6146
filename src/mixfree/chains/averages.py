"""Expectations along a chain: hitting times, and the asymptotic variance of a path's mean."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg as sparse_linalg

from mixfree.base.arithmetic import Array
from mixfree.chains.powers import Power

Function = Sequence[float] | Array | Callable[[Any], float]


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
