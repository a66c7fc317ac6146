"""Updates of bfloat16 and float16 parameters, whose rounding errors are carried along."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mixfree.optax.trees import wide


class RoundingState(NamedTuple):
    """Rounding error of each narrow parameter, and the state of the inner transformation."""

    lost: Any
    inner: Any


def unrounded(inner: optax.GradientTransformation) -> optax.GradientTransformationExtraArgs:
    """Apply ``inner`` to parameters narrower than float32 as if they were not rounded.

    Steps shorter than the spacing of the numbers would otherwise be lost. Other parameters are
    passed through unchanged.

    Examples
    --------
    >>> opt = unrounded(optax.sgd(1e-3))
    >>> w = jnp.ones(1, jnp.bfloat16)
    >>> state = opt.init(w)
    >>> for _ in range(100):
    ...     updates, state = opt.update(jnp.ones_like(w), state, w)
    ...     w = optax.apply_updates(w, updates)
    >>> float(w[0])
    0.8984375
    """
    inner = optax.with_extra_args_support(inner)

    def init(params: Any) -> Any:
        if not any(map(_is_narrow, jax.tree.leaves(params))):
            return inner.init(params)
        lost = jax.tree.map(
            lambda p: jnp.zeros(p.shape if _is_narrow(p) else 0, wide(p.dtype)), params
        )
        return RoundingState(lost, inner.init(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        if params is None or not isinstance(state, RoundingState):
            return inner.update(updates, state, params, **extra)
        points = jax.tree.map(lambda p, lost: p + lost if _is_narrow(p) else p, params, state.lost)
        updates = jax.tree.map(lambda g: g.astype(wide(g.dtype)), updates)
        moved, after = inner.update(updates, state.inner, points, **extra)
        goals = jax.tree.map(jnp.add, points, moved)
        changes = jax.tree.map(_change, params, goals, moved)
        lost = jax.tree.map(_lost, params, goals, changes, state.lost)
        return changes, RoundingState(lost, after)

    return optax.GradientTransformationExtraArgs(init, update)


def _is_narrow(p: jax.Array) -> bool:
    return bool(p.dtype != wide(p.dtype))


def _change(p: jax.Array, goal: jax.Array, moved: jax.Array) -> jax.Array:
    """Return the update that moves a parameter to the rounded goal."""
    return _rounded(_rounded(goal, p) - p, p) if _is_narrow(p) else moved


def _lost(p: jax.Array, goal: jax.Array, change: jax.Array, before: jax.Array) -> jax.Array:
    return goal - _rounded(p + change, p) if _is_narrow(p) else before


def _rounded(x: jax.Array, like: jax.Array) -> jax.Array:
    """Round ``x`` to the dtype of ``like``; XLA may optimise a cast there and back away."""
    kind = jnp.finfo(like.dtype)
    return jax.lax.reduce_precision(x, kind.nexp, kind.nmant)
