"""The law of the levels in compiled code: twin of :class:`mixfree.MLMC`."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from mixfree.base.checks import check_whole
from mixfree.gradients.mlmc import MLMC
from mixfree.optax.draws import trailing_zeros

MAX_LEVEL = 30  # samples of a level are counted in 32 bits


@dataclass(frozen=True)
class Law:
    """Which samples make one gradient, and with which signs.

    Examples
    --------
    >>> from mixfree.optax.draws import key
    >>> from mixfree.base.draws import LEVELS
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
