"""Skip gradients that are not finite, since compiled code cannot raise an error."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mixfree.optax.trees import acceptable, apply_if, cast_like, real_arrays, separate


class GuardState(NamedTuple):
    """Numbers of gradients used and skipped, and the state of the inner transformation."""

    samples: jax.Array
    skipped: jax.Array
    inner: Any

    @property
    def steps(self) -> jax.Array:
        """Number of steps: one per sample used."""
        return self.samples


def guarded(inner: optax.GradientTransformation) -> optax.GradientTransformationExtraArgs:
    """Pass only finite gradients to ``inner``; otherwise the update is zero.

    Examples
    --------
    >>> opt = guarded(optax.sgd(1.0))
    >>> updates, state = opt.update(jnp.array([jnp.nan]), opt.init(jnp.zeros(1)))
    >>> float(updates[0]), int(state.skipped)
    (0.0, 1)
    """
    inner = optax.with_extra_args_support(inner)

    def init(params: Any) -> GuardState:
        params = real_arrays(params)
        nothing = jnp.zeros((), jnp.uint32)
        state: GuardState = separate(GuardState(nothing, nothing, inner.init(params)))
        return state

    def update(updates: Any, state: GuardState, params: Any = None, **extra: Any) -> Any:
        params = real_arrays(params)

        good = acceptable(updates)

        def step(carry: Any) -> Any:
            moved, after = inner.update(updates, carry[1], params, **extra)
            return cast_like((moved, after), carry)

        nothing = jax.tree.map(jnp.zeros_like, updates)
        moved, after = apply_if(good, step, (nothing, state.inner))
        one = good.astype(jnp.uint32)
        return moved, GuardState(state.samples + one, state.skipped + 1 - one, after)

    return optax.GradientTransformationExtraArgs(init, update)
