"""Twin of :mod:`mixfree.base.draws` (and of :mod:`mixfree.kernels.draws`) for JAX.

It returns the same words for the same counters; uint32 arithmetic wraps around by itself.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mixfree.base import draws

_MASK = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9


def mix(word: jax.Array) -> jax.Array:
    """Return the twin of :func:`mixfree.base.draws.mix`."""
    word ^= word >> 16
    word *= np.uint32(0x7FEB352D)
    word ^= word >> 15
    word *= np.uint32(0x846CA68B)
    return word ^ (word >> 16)


def key(seed: Any, purpose: int) -> jax.Array:
    """Return the twin of :func:`mixfree.base.draws.key`; the seed may be an array.

    Examples
    --------
    >>> same = draws.key(7, draws.LEVELS)
    >>> [int(w) for w in key(jnp.uint32(7), draws.LEVELS)] == list(same)
    True
    """
    if isinstance(seed, jax.Array):
        if seed.ndim or not jnp.issubdtype(seed.dtype, jnp.integer):
            raise ValueError(
                f"seed must be a whole number, not {seed.dtype} of shape {seed.shape} (a key of "
                "jax.random is none)"
            )
        low = seed.astype(jnp.uint32)
        high = (seed >> 32).astype(jnp.uint32) if seed.dtype.itemsize == 8 else jnp.uint32(0)
        golden = np.uint32(_GOLDEN)
        firsts = [draws.mix(2 * purpose + half + _GOLDEN) + _GOLDEN & _MASK for half in (0, 1)]
        return jnp.stack([mix(mix(np.uint32(w) ^ low) + golden ^ high) for w in firsts])
    return jnp.array(draws.key(seed, purpose), jnp.uint32)


def word(key: jax.Array, counter: jax.Array, lane: int = 0) -> jax.Array:
    """Return the twin of :func:`mixfree.base.draws.word` for counters below 2^32."""
    inner = mix(counter ^ key[0])
    if lane:
        inner = mix(inner + np.uint32(lane * _GOLDEN & _MASK))
    return mix(inner + key[1])


def trailing_zeros(key: jax.Array, counter: jax.Array) -> jax.Array:
    """Return the twin of :func:`mixfree.base.draws.trailing_zeros` up to 64.

    Examples
    --------
    >>> zeros = trailing_zeros(key(0, draws.LEVELS), jnp.arange(1, 13, dtype=jnp.uint32))
    >>> zeros.tolist() == [draws.trailing_zeros(draws.key(0, 1), t) for t in range(1, 13)]
    True
    """
    first, second = (_zeros_of(word(key, counter, lane)) for lane in (0, 1))
    return jnp.where(first < 32, first, 32 + second)


def _zeros_of(word: jax.Array) -> jax.Array:
    return jax.lax.population_count((word & -word) - 1).astype(jnp.int32)
