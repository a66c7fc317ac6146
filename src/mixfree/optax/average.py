"""Averages of the iterates, in the state."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import tree_leaves_with_path, tree_map_with_path

from mixfree.base.checks import check_one_of
from mixfree.dropins import OUTPUTS, newest_weight
from mixfree.optax.trees import widened, widest


class AverageState(NamedTuple):
    """The average of the first ``count`` iterates."""

    count: jax.Array
    average: Any


def averaging(output: str = "average") -> optax.GradientTransformation:
    """Pass updates on unchanged, and average the parameters at which they were computed.

    Parameters
    ----------
    output
        ``"average"``, ``"weighted"`` (weights proportional to t), ``"recent"`` (that grow as t³) or
        ``"last"`` (no average).

    Examples
    --------
    >>> opt, w = optax.chain(optax.sgd(1.0), averaging()), jnp.zeros(1)
    >>> state = opt.init(w)
    >>> for _ in range(3):
    ...     updates, state = opt.update(-jnp.ones(1), state, w)
    ...     w = optax.apply_updates(w, updates)
    >>> float(w[0]), float(averaged(state, w)[0])
    (3.0, 1.0)
    """
    if check_one_of(output, "output", OUTPUTS) == "last":
        return optax.identity()

    def init(params: Any) -> AverageState:
        return AverageState(jnp.zeros((), jnp.uint32), widened(params))

    def update(updates: Any, state: AverageState, params: Any = None) -> Any:
        if params is None:
            raise ValueError("averaging needs the parameters: call update(updates, state, params)")
        t = (state.count + 1).astype(widest(params))
        return updates, towards(state, params, newest_weight(output, t))

    return optax.GradientTransformation(init, update)


def towards(average: Any, points: Any, share: jax.Array) -> Any:
    """Move an average, a tree or an ``AverageState``, towards points."""
    if isinstance(average, AverageState):
        return AverageState(average.count + (share > 0.0), towards(average.average, points, share))
    return jax.tree.map(lambda m, p: m + share.astype(m.dtype) * (p - m), average, points)


def averaged(state: Any, params: Any) -> Any:
    """Return the averaged parameters in an optimiser's state, with the dtypes of ``params``.

    Parameters
    ----------
    state
        State of :func:`mag`, :func:`ladder`, or any transformation that contains
        :func:`averaging`.
    params
        The current parameters, which are returned where the state has no average.

    Examples
    --------
    >>> opt = optax.sgd(1.0)
    >>> averaged(opt.init(jnp.zeros(1)), jnp.ones(1))
    Array([1.], dtype=float32)
    """
    nodes = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, AverageState))
    found = [node.average for node in nodes if isinstance(node, AverageState)]
    # Under ``optax.masked``, an average is of some of the parameters.
    pairs = [pair for average in found for pair in tree_leaves_with_path(average)]
    averages = dict(pairs)
    if averages.keys() - dict(tree_leaves_with_path(params)).keys():
        raise ValueError("params must have the structure of those that were averaged")
    if len(averages) < len(pairs):
        raise ValueError(
            f"state has {len(found)} averages: pass the part of the state with the one you want"
        )

    return tree_map_with_path(
        lambda path, p: averages[path].astype(jnp.result_type(p)) if path in averages else p, params
    )
