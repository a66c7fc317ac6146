"""Updates of bfloat16 and float16 parameters, whose rounding errors are carried along."""

import jax
import jax.numpy as jnp

from mixfree.optax.trees import wide


def is_narrow(p: jax.Array) -> bool:
    """Whether a parameter has fewer digits than float32, so that short steps would be lost."""
    return bool(p.dtype != wide(p.dtype))


def change_of(p: jax.Array, goal: jax.Array, moved: jax.Array) -> jax.Array:
    """Return the update that moves a parameter to the rounded goal."""
    return _rounded(_rounded(goal, p) - p, p) if is_narrow(p) else moved


def lost_by(p: jax.Array, goal: jax.Array, change: jax.Array, before: jax.Array) -> jax.Array:
    """Return the rounding error of a narrow parameter after an update."""
    return goal - _rounded(p + change, p) if is_narrow(p) else before


def _rounded(x: jax.Array, like: jax.Array) -> jax.Array:
    """Round ``x`` to the dtype of ``like``; XLA may optimise a cast there and back away."""
    kind = jnp.finfo(like.dtype)
    return jax.lax.reduce_precision(x, kind.nexp, kind.nmant)
