"""Expectations along a chain: hitting times, stationary means and the variance of a path's mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg as sparse_linalg

from mixfree.chains.powers import Power

if TYPE_CHECKING:
    from mixfree.chains.chain import MarkovChain

Function = Sequence[float] | np.ndarray | Callable[[Any], float]


def values(chain: MarkovChain, f: Function) -> np.ndarray:
    """``f`` as one finite number a state."""
    given = [f(state) for state in chain.states] if callable(f) else f
    array = np.asarray(given, dtype=float)
    if array.shape != (len(chain),):
        raise ValueError(f"f has shape {array.shape}; {len(chain)} values are needed, one a state")
    if not np.isfinite(array).all():
        raise ValueError(f"f is {array[~np.isfinite(array)][0]} at state {_culprit(chain, array)}")
    return array


def hitting_times(chain: MarkovChain, target: int | Iterable[int]) -> np.ndarray:
    """Expected steps until ``target`` is first met, from each state."""
    targets = np.unique(target if np.isscalar(target) else list(target))  # type: ignore[arg-type]
    if targets.dtype.kind not in "iu" or not 0 <= targets[0] <= targets[-1] < len(chain):
        raise ValueError(f"target = {target!r} must name states from 0 to {len(chain) - 1}")
    times = np.zeros(len(chain))
    others = np.setdiff1d(np.arange(len(chain)), targets)
    if len(others):
        times[others] = _solve(chain.P, others, np.ones(len(others)))
    return times


def asymptotic_variance(chain: MarkovChain, f: Function) -> float:
    """2⟨f̄, g⟩ − ⟨f̄, f̄⟩ in L²(μ), where g solves Poisson's equation (I − P) g = f̄."""
    law = chain.stationary
    centred = values(chain, f) - chain.expected(f)
    solution = np.zeros(len(chain))
    if len(chain) > 1:
        # Any solution will do, as they differ by a constant: take the one that vanishes at 0.
        others = np.arange(1, len(chain))
        solution[1:] = _solve(chain.P, others, centred[1:])
    return float(law @ (centred * (2 * solution - centred)))


def _solve(P: Any, among: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve (I − P) x = right on a proper subset of the states, killed outside it."""
    if sparse.issparse(P):
        inside = sparse.csc_array(P[among][:, among])
        return sparse_linalg.spsolve(sparse.eye_array(len(among), format="csc") - inside, right)
    return np.linalg.solve(-Power.first(P).change[np.ix_(among, among)], right)


def _culprit(chain: MarkovChain, array: np.ndarray) -> Any:
    return chain.states[int(np.flatnonzero(~np.isfinite(array))[0])]
