"""The draws of :mod:`mixfree.base.draws` for JAX, with counters below 2^32."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mixfree.base import draws

_GOLDEN = np.uint32(0x9E3779B9)


def mix(word: jax.Array) -> jax.Array:
    """Return what is returned by :func:`mixfree.base.draws.mix`; uint32 wraps around by itself."""
    word ^= word >> 16
    word *= np.uint32(0x7FEB352D)
    word ^= word >> 15
    word *= np.uint32(0x846CA68B)
    return word ^ (word >> 16)


def key(seed: Any, purpose: int) -> jax.Array:
    """Return what is returned by :func:`mixfree.base.draws.key`; the seed may be an array."""
    if not isinstance(seed, jax.Array):
        return jnp.array(draws.key(seed, purpose), jnp.uint32)
    if seed.ndim or not jnp.issubdtype(seed.dtype, jnp.integer):
        raise ValueError(
            f"seed must be a whole number, not {seed.dtype} of shape {seed.shape} (a key of "
            "jax.random is none)"
        )
    low = seed.astype(jnp.uint32)
    high = (seed >> 32).astype(jnp.uint32) if seed.dtype.itemsize == 8 else jnp.uint32(0)
    words = mix(jnp.arange(2, dtype=jnp.uint32) + np.uint32(2 * purpose) + _GOLDEN)
    return mix(mix(words + _GOLDEN ^ low) + _GOLDEN ^ high)


def word(key: jax.Array, counter: jax.Array, lane: int = 0) -> jax.Array:
    """Return what is returned by :func:`mixfree.base.draws.word`."""
    inner = mix(counter ^ key[0])
    if lane:
        inner = mix(inner + jnp.uint32(lane) * _GOLDEN)
    return mix(inner + key[1])


def trailing_zeros(key: jax.Array, counter: jax.Array) -> jax.Array:
    """Return what is returned by :func:`mixfree.base.draws.trailing_zeros` up to 64."""
    words = (word(key, counter, lane) for lane in (0, 1))
    first, second = (jax.lax.population_count((w & -w) - 1).astype(jnp.int32) for w in words)
    return jnp.where(first < 32, first, 32 + second)
