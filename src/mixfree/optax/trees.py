"""Arithmetic on trees of arrays: one point made of many leaves."""

from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


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


def times_power_of_two(x: jax.Array, exponent: jax.Array) -> jax.Array:
    """Return 2^exponent · x, in two steps so that the power itself cannot overflow."""
    half = exponent // 2
    one = jnp.ones((), wide(x.dtype))
    first, second = (jnp.ldexp(one, e) for e in (half, exponent - half))
    return (x * first * second).astype(x.dtype)


def norm(tree: Any) -> jax.Array:
    """Return the norm without overflow or underflow: twin of ``mixfree.base.arithmetic.norm``.

    Examples
    --------
    >>> float(norm([jnp.array([3e30]), jnp.array([4e30])])) / 5e30
    0.99999...
    """
    dtype = widest(tree)
    leaves = [x.astype(dtype) for x in jax.tree.leaves(tree)]
    square = sum((jnp.vdot(x, x) for x in leaves), jnp.zeros((), dtype))

    def scaled() -> jax.Array:
        tops = [jnp.max(jnp.abs(x), initial=0.0) for x in leaves]
        top = reduce(jnp.maximum, tops, jnp.zeros((), dtype))
        safe = jnp.where(top > 0, top, 1)
        return top * jnp.sqrt(sum(jnp.sum((x / safe) ** 2) for x in leaves))

    # Between these bounds no square has overflowed, and underflow does not matter.
    least, most = (1e-24, 1e36) if dtype == jnp.float32 else (1e-260, 1e300)
    trusted = (least < square) & (square < most)
    found: jax.Array = jax.lax.cond(trusted, lambda: jnp.sqrt(square), scaled)
    return found


def acceptable(tree: Any) -> jax.Array:
    """Whether a gradient, and a sum of 2^40 such gradients, is finite."""
    good: jax.Array = norm(tree) < float(np.finfo(widest(tree)).max) / 2.0**40
    return good
