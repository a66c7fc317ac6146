"""MLMC gradients for any Optax transformation."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mixfree.base.checks import shown
from mixfree.base.draws import LEVELS
from mixfree.optax.draws import key
from mixfree.optax.law import Law
from mixfree.optax.trees import acceptable, apply_if, cast_like, real_arrays, separate, wide


class MLMCState(NamedTuple):
    """The position in the current level, and the state of the inner transformation."""

    key: jax.Array
    samples: jax.Array
    steps: jax.Array
    seen: jax.Array
    length: jax.Array
    skipped: jax.Array
    sum: Any
    inner: Any


def mlmc(
    inner: optax.GradientTransformation,
    levels: Any = 5,
    weights: str = "exact",
    seed: Any = 0,
    *,
    horizon: int | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Pass MLMC gradients to ``inner``; updates are zero until a level is complete.

    A gradient that is not finite is skipped: the update is zero, the level does not advance, and
    ``state.skipped`` counts it. The state of ``inner`` changes only when a level is complete.

    Parameters
    ----------
    inner
        Any transformation, such as ``optax.adam(1e-3)``.
    levels, weights, horizon, seed
        As in :class:`mixfree.MLMC`, with ``levels`` at most 30 and ``horizon`` at most 2^30.
        ``levels`` and ``seed`` may be arrays, also under ``vmap``.

    Examples
    --------
    >>> opt = mlmc(optax.sgd(0.1), levels=2)
    >>> w = jnp.zeros(2)
    >>> state = opt.init(w)
    >>> update = jax.jit(opt.update)
    >>> for _ in range(6):
    ...     updates, state = update(w - 1.0, state, w)
    ...     w = optax.apply_updates(w, updates)
    >>> int(state.samples), int(state.steps)
    (6, 3)
    """
    law = Law(levels, weights, horizon)
    if not (hasattr(inner, "init") and hasattr(inner, "update")):
        raise ValueError(f"inner must be an Optax transformation, not {shown(inner)}")
    inner = optax.with_extra_args_support(inner)

    def init(params: Any) -> MLMCState:
        params = real_arrays(params)
        nothing = jnp.zeros((), jnp.uint32)
        state = MLMCState(
            key=key(seed, LEVELS),
            samples=nothing,
            steps=nothing,
            seen=nothing,
            length=nothing + 1,
            skipped=nothing,
            sum=jax.tree.map(lambda p: jnp.zeros_like(p, dtype=wide(p.dtype)), params),
            inner=inner.init(params),
        )
        separated: MLMCState = separate(state)
        return separated

    def update(updates: Any, state: MLMCState, params: Any = None, **extra: Any) -> Any:
        params = real_arrays(params)
        good = acceptable(updates)
        opened = law.length(state.key, state.steps, state.samples)
        length = jnp.where(state.seen == 0, opened, state.length)

        def add(total: jax.Array, gradient: jax.Array) -> jax.Array:
            weight = law.weight(state.seen, length, total.dtype)
            return total + jnp.where(good, weight * gradient, 0)

        total = jax.tree.map(add, state.sum, updates)
        full = good & (state.seen + 1 == length)

        def step(carry: Any) -> Any:
            _, total, before = carry
            direction = jax.tree.map(lambda x: law.scale(length, x.dtype) * x, total)
            moved, after = inner.update(cast_like(direction, updates), before, params, **extra)
            return cast_like((moved, jax.tree.map(jnp.zeros_like, total), after), carry)

        nothing = jax.tree.map(jnp.zeros_like, updates)
        moved, total, after = apply_if(full, step, (nothing, total, state.inner))
        one = good.astype(jnp.uint32)
        return moved, MLMCState(
            key=state.key,
            samples=state.samples + one,
            steps=state.steps + full.astype(jnp.uint32),
            seen=jnp.where(full, 0, state.seen + one),
            length=jnp.where(good, length, state.length),
            skipped=state.skipped + 1 - one,
            sum=total,
            inner=after,
        )

    return optax.GradientTransformationExtraArgs(init, update)
