"""Arithmetic on trees of arrays: one point made of many leaves."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp


def wide(dtype: Any) -> Any:
    """Return the dtype of sums: float64 for float64, else float32."""
    return jnp.float64 if dtype == jnp.float64 else jnp.float32


def widest(tree: Any) -> Any:
    """Return the dtype of a norm over the tree."""
    return reduce(jnp.promote_types, [wide(x.dtype) for x in jax.tree.leaves(tree)], jnp.float32)


def real_arrays(params: Any) -> Any:
    """Convert parameters to arrays, which must be of real floating-point numbers.

    Examples
    --------
    >>> real_arrays({"bias": 0.0})["bias"].dtype
    dtype('float32')
    """
    arrays = jax.tree.map(jnp.asarray, params)
    for x in jax.tree.leaves(arrays):
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise ValueError(f"params must be real floating-point arrays, not {x.dtype}")
    return arrays


def cast_like(tree: Any, like: Any) -> Any:
    """Cast a tree to the dtypes of another."""
    return jax.tree.map(lambda x, y: x if x.dtype == y.dtype else x.astype(y.dtype), tree, like)


def separate(tree: Any) -> Any:
    """Copy every leaf, so that the tree can be donated to ``jit``."""
    return jax.tree.map(jnp.copy, tree)


def apply_if(flag: jax.Array, change: Callable[[Any], Any], carry: Any) -> Any:
    """Return ``change(carry)`` if the flag is set, else ``carry``.

    A loop of at most one turn changes its carry in place, where ``lax.cond`` copies what a branch
    passes through.

    Examples
    --------
    >>> int(apply_if(jnp.array(True), lambda n: n + 1, jnp.array(1)))
    2
    """
    return jax.lax.fori_loop(0, flag.astype(jnp.int32), lambda _, c: change(c), carry)


def replicated(x: jax.Array) -> jax.Array:
    """Return an array that can be reshaped: gathered, if its sharding is part of its type."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or not mesh.explicit_axes:
        return x
    return jax.sharding.reshard(x, jax.sharding.PartitionSpec())


def total(tree: Any) -> jax.Array:
    """Return the sum of all entries."""
    kind = widest(tree)
    # XLA vectorises sums over the first axis only.
    sums = [x.astype(kind).sum(0) if x.ndim else x.astype(kind) for x in jax.tree.leaves(tree)]
    leaves = [x.sum() for x in sums]
    return sum(leaves, jnp.zeros((), kind))


def largest(tree: Any) -> jax.Array:
    """Return the largest absolute value of all entries, 0 without any."""
    leaves = [jnp.max(jnp.abs(x), initial=0.0) for x in jax.tree.leaves(tree)]
    return reduce(jnp.maximum, leaves, jnp.zeros((), widest(tree)))


def norm(tree: Any) -> jax.Array:
    """Return the Euclidean norm over all leaves.

    Examples
    --------
    >>> float(norm([jnp.array([3.0]), jnp.array([4.0])]))
    5.0
    """
    kind = widest(tree)
    return jnp.sqrt(total(jax.tree.map(lambda x: jnp.square(x.astype(kind)), tree)))


def acceptable(tree: Any) -> jax.Array:
    """Whether a gradient and its norm are finite."""
    return jnp.isfinite(norm(tree))
