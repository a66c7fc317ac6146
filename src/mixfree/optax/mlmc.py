"""MLMC gradients for any Optax transformation, and MAG: Algorithm 1."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mixfree.base.checks import check_positive, check_whole, shown
from mixfree.base.draws import LEVELS
from mixfree.gradients.mlmc import MLMC
from mixfree.optax import trees
from mixfree.optax.average import averaging
from mixfree.optax.draws import key, trailing_zeros

MAX_LEVEL = 30  # samples of a level are counted in 32 bits


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
    >>> opt, w = mlmc(optax.sgd(0.1), levels=2), jnp.zeros(2)
    >>> state, update = opt.init(w), jax.jit(opt.update)
    >>> for _ in range(6):
    ...     updates, state = update(w - 1.0, state, w)
    ...     w = optax.apply_updates(w, updates)
    >>> int(state.samples), int(state.steps)
    (6, 3)
    """
    static = None if isinstance(levels, jax.Array) else levels  # an array has no value to check
    MLMC(static, weights, horizon)
    for value, name, most in ((static, "levels", MAX_LEVEL), (horizon, "horizon", 2**MAX_LEVEL)):
        if value is not None:
            check_whole(value, name, most=most)
    share = 1.0 - 0.5**levels if levels is not None and weights == "exact" else 1.0  # C_J/2^J
    if not (hasattr(inner, "init") and hasattr(inner, "update")):
        raise ValueError(f"inner must be an Optax transformation, not {shown(inner)}")
    inner = optax.with_extra_args_support(inner)

    def init(params: Any) -> Any:
        params = trees.real_arrays(params)
        none, sums = jnp.zeros((), jnp.uint32), jax.tree.map(jnp.zeros_like, trees.widened(params))
        counts = (none, none, none, none + 1, none)
        state = MLMCState(key(seed, LEVELS), *counts, sums, inner.init(params))
        return jax.tree.map(jnp.copy, state)  # so that no two leaves are one: it can be donated

    def update(updates: Any, state: MLMCState, params: Any = None, **extra: Any) -> Any:
        params, good = trees.real_arrays(params), jnp.isfinite(trees.norm(updates))
        length = jnp.where(state.seen == 0, _length(levels, horizon, state), state.length)
        first = jnp.where(length == 1, 1.0, 1.0 / share - 1.0)
        weight = jnp.where(2 * state.seen >= length, 1.0, jnp.where(state.seen == 0, first, -1.0))

        def add(total: jax.Array, gradient: jax.Array) -> jax.Array:
            return total + jnp.where(good, weight.astype(total.dtype) * gradient, 0)

        total = jax.tree.map(add, state.sum, updates)
        full = good & (state.seen + 1 == length)

        def step(carry: Any) -> Any:
            _, total, before = carry
            scale = jnp.where(length == 1, 1.0, share)
            most = jax.tree.map(lambda g: float(jnp.finfo(g.dtype).max), updates)
            whole = jax.tree.map(lambda x, m: (scale.astype(x.dtype) * x).clip(-m, m), total, most)
            direction = trees.cast_like(whole, updates)
            moved, after = inner.update(direction, before, params, **extra)
            return trees.cast_like((moved, jax.tree.map(jnp.zeros_like, total), after), carry)

        nothing = jax.tree.map(jnp.zeros_like, updates)
        moved, total, after = trees.apply_if(full, step, (nothing, total, state.inner))
        return moved, state._replace(
            samples=state.samples + good,
            steps=state.steps + full,
            seen=jnp.where(full, 0, state.seen + good),
            length=jnp.where(good, length, state.length),
            skipped=state.skipped + ~good,
            sum=total,
            inner=after,
        )

    return optax.GradientTransformationExtraArgs(init, update)


def _length(levels: Any, horizon: int | None, state: MLMCState) -> jax.Array:
    """Return :meth:`mixfree.MLMC.length` of the window that begins now."""
    zeros = trailing_zeros(state.key, state.steps + jnp.uint32(1))
    if levels is not None:
        level = 1 + zeros % levels
    else:
        end = state.samples if horizon is None else jnp.uint32(horizon)
        bit_length = 32 - jax.lax.clz(end).astype(jnp.int32)
        level = jnp.where(1 + zeros < bit_length, 1 + zeros, 0)
    return jnp.uint32(1) << level.astype(jnp.uint32)


class AdaGradNormState(NamedTuple):
    """Square root of the sum of all squared norms so far."""

    root: jax.Array


def adagrad_norm(alpha: Any = 1.0) -> optax.GradientTransformation:
    """Scale updates as :class:`mixfree.steps.AdaGradNorm`, with one step size for the whole tree.

    Parameters
    ----------
    alpha
        Scale of the steps; may be an array.

    Examples
    --------
    >>> opt = adagrad_norm()
    >>> updates, _ = opt.update(jnp.array([3.0, 4.0]), opt.init(jnp.zeros(2)))
    >>> updates.tolist()
    [-0.6000..., -0.8000...]
    """
    if not isinstance(alpha, jax.Array):
        check_positive(alpha, "alpha")

    def init(params: Any) -> AdaGradNormState:
        return AdaGradNormState(jnp.zeros((), trees.widest(params)))

    def update(updates: Any, state: AdaGradNormState, params: Any = None) -> Any:
        root = jnp.hypot(state.root, trees.norm(updates).astype(state.root.dtype))
        safe = jnp.where(root > 0, root, 1)
        moved = jax.tree.map(lambda g: (-alpha * (g / safe)).astype(g.dtype), updates)
        return moved, AdaGradNormState(root)

    return optax.GradientTransformation(init, update)


def mag(
    levels: Any = 5,
    weights: str = "exact",
    alpha: Any = 1.0,
    seed: Any = 0,
    *,
    horizon: int | None = None,
    output: str = "average",
) -> optax.GradientTransformationExtraArgs:
    """MLMC gradients with AdaGrad-Norm steps; :func:`averaged` returns the average.

    Parameters
    ----------
    levels, weights, horizon, seed
        As in :func:`mlmc`.
    alpha, output
        As in :func:`adagrad_norm` and :func:`averaging`.

    Examples
    --------
    >>> opt, w = mag(levels=3), jnp.zeros(2)
    >>> state, update = opt.init(w), jax.jit(opt.update)
    >>> for _ in range(100):
    ...     updates, state = update(w - 1.0, state, w)
    ...     w = optax.apply_updates(w, updates)
    >>> bool(jnp.abs(w - 1.0).max() < 0.1)
    True
    """
    inner = optax.chain(averaging(output), adagrad_norm(alpha))
    return mlmc(inner, levels, weights, seed, horizon=horizon)
