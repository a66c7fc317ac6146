"""The ladder's scale in compiled code: twin of :class:`mixfree.steps.Distance`."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mixfree.dropins.old_distance import FIRST_EPOCH, KEPT, MARGIN, MOVED, RELATIVE, Distance
from mixfree.optax.trees import norm, times_power_of_two


class DistanceState(NamedTuple):
    """The fields of the reference's state."""

    rbar: jax.Array
    lam: jax.Array
    origin: jax.Array
    mean: jax.Array
    before: jax.Array
    weighted_sum: jax.Array
    numerator: jax.Array
    weight: jax.Array
    epoch: jax.Array
    margin: jax.Array


def start(distance: Distance, x: jax.Array, per_coordinate: bool, alpha: Any) -> DistanceState:
    """Return the initial state, with the first distance or a given scale ``alpha``."""
    size = jnp.abs(x).max() if per_coordinate else norm(x)
    first = RELATIVE * (1 + size) if distance.first is None else distance.first
    zero = jnp.zeros((), x.dtype)
    return DistanceState(
        rbar=jnp.zeros(x.size if per_coordinate else 1, x.dtype)
        + (first if alpha is None else alpha),
        lam=zero + (first if alpha is None else 1.0),
        origin=x,
        mean=x,
        before=x,
        weighted_sum=jnp.zeros_like(x),
        numerator=zero,
        weight=zero,
        epoch=jnp.full((), FIRST_EPOCH, jnp.int32),
        margin=zero + MARGIN,
    )


def set_scale(state: DistanceState, alpha: Any) -> DistanceState:
    """Set a given scale, which may change during the run."""
    return state._replace(rbar=jnp.zeros_like(state.rbar) + alpha)


def scale_gradients(state: DistanceState, exponent: jax.Array) -> DistanceState:
    """Express gradients in a unit that is 2^exponent times smaller."""
    return state._replace(
        weighted_sum=times_power_of_two(state.weighted_sum, exponent),
        numerator=times_power_of_two(state.numerator, exponent),
    )


def add(state: DistanceState, total: jax.Array, x: jax.Array, back: jax.Array) -> DistanceState:
    """Add the latest gradients: ``total`` is Σ g_i, and ``back`` is Σ g_i·(x_i − x)."""
    return state._replace(
        numerator=state.numerator + state.lam * (total @ (state.origin - x) - back),
        weighted_sum=state.weighted_sum + state.lam * total,
    )


def update(state: DistanceState, x: jax.Array, step: jax.Array, steps: jax.Array) -> DistanceState:
    """Update r̄ at the point ``x``, ``steps`` steps after the last update."""
    weight = step.astype(x.dtype) * steps.astype(x.dtype)
    total = state.weight + weight
    mean = state.mean + (weight / total) * (x - state.mean)
    state = state._replace(weight=total, mean=mean)
    per_coordinate = state.rbar.size > 1
    size = jnp.abs(state.weighted_sum).sum() if per_coordinate else norm(state.weighted_sum)
    found = jnp.where(size > 0, state.margin * state.numerator / jnp.where(size > 0, size, 1), 0)
    rbar = jnp.maximum(state.rbar[0], found)
    movement = state.mean - state.before
    moved = MOVED * (jnp.abs(movement).max() if per_coordinate else norm(movement))
    over = step >= state.epoch
    arrived = over & (moved > 0) & (moved < rbar)
    rbar = jnp.where(arrived, jnp.maximum(moved, KEPT * rbar), rbar)
    return DistanceState(
        rbar=jnp.zeros_like(state.rbar) + rbar,
        lam=jnp.maximum(state.lam, rbar),
        origin=jnp.where(arrived, state.mean, state.origin),
        mean=state.mean,
        before=jnp.where(over, state.mean, state.before),
        weighted_sum=jnp.where(arrived, 0, state.weighted_sum),
        numerator=jnp.where(arrived, 0, state.numerator),
        weight=jnp.where(over, 0, state.weight),
        epoch=jnp.where(over, 2 * state.epoch, state.epoch),
        margin=jnp.where(arrived, 1, state.margin),
    )
