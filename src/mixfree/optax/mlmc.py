"""MLMC gradients for any Optax transformation."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mixfree.base.checks import check_whole, shown
from mixfree.base.draws import LEVELS
from mixfree.gradients.mlmc import MLMC
from mixfree.optax.draws import key, trailing_zeros
from mixfree.optax.trees import acceptable, apply_if, cast_like, real_arrays, separate, wide

MAX_LEVEL = 30  # samples of a level are counted in 32 bits


@dataclass(frozen=True)
class Law:
    """Which samples make one gradient, and with which signs: twin of :class:`mixfree.MLMC`.

    Examples
    --------
    >>> law, reference = Law(levels=5), MLMC(levels=5, seed=3)
    >>> steps = jnp.arange(20, dtype=jnp.uint32)
    >>> lengths = law.length(key(3, LEVELS), steps, steps)
    >>> lengths.tolist() == [reference.length(step, 0) for step in range(20)]
    True
    """

    levels: Any = 5
    weights: str = "exact"
    horizon: int | None = None

    def __post_init__(self) -> None:
        # Levels given as an array (tuned or injected) have no value to check here.
        static = None if isinstance(self.levels, jax.Array) else self.levels
        MLMC(static, self.weights, self.horizon)
        if static is not None:
            check_whole(static, "levels", most=MAX_LEVEL)
        if self.horizon is not None:
            check_whole(self.horizon, "horizon", most=2**MAX_LEVEL)

    @property
    def share(self) -> Any:
        """C_J/2^J, the factor of the sum: ``_share`` of the reference."""
        truncated_and_exact = self.levels is not None and self.weights == "exact"
        return 1.0 - 0.5**self.levels if truncated_and_exact else 1.0

    def length(self, key: jax.Array, steps: jax.Array, samples: jax.Array) -> jax.Array:
        """Return the length of the window after ``steps`` steps and ``samples`` samples."""
        zeros = trailing_zeros(key, steps + jnp.uint32(1))
        if self.levels is not None:
            level = 1 + zeros % self.levels
        else:
            horizon = samples if self.horizon is None else jnp.uint32(self.horizon)
            bit_length = 32 - jax.lax.clz(horizon).astype(jnp.int32)
            level = jnp.where(1 + zeros < bit_length, 1 + zeros, 0)
        length: jax.Array = jnp.uint32(1) << level.astype(jnp.uint32)
        return length

    def weight(self, position: jax.Array, length: jax.Array, dtype: Any) -> jax.Array:
        """Return the weight of the sample at ``position`` (from 0) in a window."""
        first = jnp.where(length == 1, 1.0, 1.0 / self.share - 1.0)
        rest = jnp.where(2 * position >= length, 1.0, -1.0)
        return jnp.where(position == 0, first, rest).astype(dtype)

    def scale(self, length: jax.Array, dtype: Any) -> jax.Array:
        """Return the factor of the sum over a window."""
        return jnp.where(length == 1, 1.0, self.share).astype(dtype)


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
