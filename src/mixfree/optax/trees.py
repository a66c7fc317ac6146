"""Arithmetic on trees of arrays: one point made of many leaves."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp

from mixfree.steps.ladder_rule import stride_of


def widest(tree: Any) -> Any:
    """Return the dtype of sums over the tree: float64 if a leaf has it, else float32."""
    double = any(x.dtype == jnp.float64 for x in jax.tree.leaves(tree))
    return jnp.float64 if double else jnp.float32


def widened(tree: Any) -> Any:
    """Return a copy, each leaf in the dtype of its sums."""
    return jax.tree.map(lambda x: jnp.array(x, widest(x)), tree)


def real_arrays(params: Any) -> Any:
    """Convert parameters to arrays, which must be of real floating-point numbers."""
    arrays = jax.tree.map(jnp.asarray, params)
    for x in jax.tree.leaves(arrays):
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise ValueError(f"params must be real floating-point arrays, not {x.dtype}")
    return arrays


def cast_like(tree: Any, like: Any) -> Any:
    """Cast a tree to the dtypes of another."""
    return jax.tree.map(lambda x, y: x if x.dtype == y.dtype else x.astype(y.dtype), tree, like)


def two_of(function: Callable[..., Any], tree: Any, *others: Any) -> tuple[Any, Any]:
    """Apply a function with two results to leaves, and return two trees."""
    pairs = jax.tree.map(function, tree, *others)
    return tuple(jax.tree.map(lambda _, pair, i=i: pair[i], tree, pairs) for i in (0, 1))


def apply_if(flag: jax.Array, change: Callable[[Any], Any], carry: Any) -> Any:
    """Return ``change(carry)`` if the flag is set, else ``carry``.

    A loop of at most one turn changes its carry in place, where ``lax.cond`` copies what a branch
    passes through.
    """
    return jax.lax.fori_loop(0, flag.astype(jnp.int32), lambda _, c: change(c), carry)


def replicated(x: jax.Array) -> jax.Array:
    """Return an array that can be reshaped: gathered, if its sharding is part of its type."""
    mesh = getattr(getattr(getattr(x, "aval", None), "sharding", None), "mesh", None)
    if not getattr(mesh, "explicit_axes", ()):
        return x
    return jax.sharding.reshard(x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()))


def entries(tree: Any) -> int:
    """Return the number of entries of all leaves."""
    return sum(x.size for x in jax.tree.leaves(tree))


def sample(tree: Any, most: int, kind: Any) -> jax.Array:
    """Return every so many of the entries of all leaves, in order."""
    leaves, at, found = [replicated(x) for x in jax.tree.leaves(tree)], 0, []
    stride = stride_of(entries(leaves), most)
    for x in leaves:
        found.append(x.reshape(-1)[-at % stride :: stride].astype(kind))
        at += x.size
    return jnp.concatenate(found) if found else jnp.zeros(0, kind)


def largest(tree: Any) -> jax.Array:
    """Return the largest absolute value of all entries, 0 without any."""
    leaves = [jnp.max(jnp.abs(x), initial=0.0) for x in jax.tree.leaves(tree)]
    return reduce(jnp.maximum, leaves, jnp.zeros((), widest(tree)))


def norm(tree: Any) -> jax.Array:
    """Return the Euclidean norm over all leaves."""
    squares = (jnp.square(x.astype(widest(tree))) for x in jax.tree.leaves(tree))
    # XLA vectorises sums over the first axis only.
    sums = [x.sum(0).sum() if x.ndim else x for x in squares]
    return jnp.sqrt(sum(sums, jnp.zeros((), widest(tree))))
