"""A memory for JAX: :class:`mixfree.torch.Memory` in compiled code."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_leaves_with_path

from mixfree.base.checks import check_whole
from mixfree.base.draws import RESERVOIR, SAMPLE
from mixfree.dropins.reservoir import LARGEST_CAPACITY, check_batch
from mixfree.optax.draws import key, word


class MemoryState(NamedTuple):
    """The number of samples so far, the random keys, and the kept samples."""

    seen: jax.Array
    keep: jax.Array
    draw: jax.Array
    kept: Any


class Memory(NamedTuple):
    """Two pure functions: ``init(batch)`` and ``mix(batch, state)``."""

    init: Callable[[Any], MemoryState]
    mix: Callable[[Any, MemoryState], tuple[Any, MemoryState]]


def memory(capacity: int, draws: int = 1, seed: Any = 0) -> Memory:
    """Keep a uniform sample of all samples so far, and extend every batch by draws from it.

    The kept and drawn samples are those of :class:`mixfree.torch.Memory` up to 2^32 samples, and do
    not depend on the batches. Give each process its own seed.

    Parameters
    ----------
    capacity, draws
        As in :class:`mixfree.torch.Memory`.
    seed
        May be an array, also under ``vmap``.

    Examples
    --------
    >>> remember = memory(capacity=100, draws=3)
    >>> batches = jnp.arange(1000).reshape(100, 10)
    >>> state, mix = remember.init(batches[0]), jax.jit(remember.mix)
    >>> for batch in batches:
    ...     mixed, state = mix(batch, state)
    >>> mixed[:10].tolist(), mixed.shape, int(state.seen)
    ([990, 991, 992, 993, 994, 995, 996, 997, 998, 999], (40,), 1000)
    """
    check_whole(capacity, "capacity", most=LARGEST_CAPACITY)
    check_whole(draws, "draws")

    def init(batch: Any) -> MemoryState:
        batch = jax.tree.map(jnp.asarray, batch)
        check_batch(_named(batch), {})
        kept = jax.tree.map(lambda rows: jnp.zeros((capacity, *rows.shape[1:]), rows.dtype), batch)
        return MemoryState(jnp.uint32(0), key(seed, RESERVOIR), key(seed, SAMPLE), kept)

    def mix(batch: Any, state: MemoryState) -> tuple[Any, MemoryState]:
        batch = jax.tree.map(jnp.asarray, batch)
        count = check_batch(_named(batch), _named(state.kept))
        numbers = state.seen + jnp.arange(count, dtype=jnp.uint32)
        places = jnp.where(numbers < capacity, numbers, _below(state.keep, numbers, numbers + 1))
        stored = jnp.minimum(numbers + 1, np.uint32(capacity))
        lanes = [_below(state.draw, numbers, stored, 2 * i) for i in range(draws)]
        drawn = jnp.stack(lanes, axis=1).reshape(-1)
        # A draw finds the last row up to its own that was written to its place; the last of all
        # rows written to a place stays.
        row = jnp.arange(count)
        asked = jnp.repeat(row, draws)
        here = (places == drawn[:, None]) & (row <= asked[:, None])
        found = jnp.where(here, row, -1).max(axis=1, initial=-1)
        again = ((places == places[:, None]) & (row > row[:, None])).any(axis=1)
        target = jnp.where(again, np.uint32(capacity), places)  # dropped, since beyond the end

        def mixed(rows: jax.Array, kept: jax.Array) -> jax.Array:
            fresh = found.reshape(-1, *[1] * (rows.ndim - 1)) >= 0
            return jnp.concatenate([rows, jnp.where(fresh, rows[found], kept[drawn])])

        kept = jax.tree.map(lambda a, rows: a.at[target].set(rows, mode="drop"), state.kept, batch)
        after = state._replace(seen=state.seen + np.uint32(count), kept=kept)
        return jax.tree.map(mixed, batch, state.kept), after

    return Memory(init, mix)


def _named(batch: Any) -> dict[str, jax.Array]:
    return {"batch" + keystr(path): rows for path, rows in tree_leaves_with_path(batch)}


def _below(key: jax.Array, counter: jax.Array, limit: jax.Array, lane: int = 0) -> jax.Array:
    """Return :func:`mixfree.base.draws.below` for limits below 2^32."""
    low, high = word(key, counter, lane), word(key, counter, lane + 1)
    top, bottom = _product(high, limit)
    carried = bottom + _product(low, limit)[0]
    return top + (carried < bottom)


def _product(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the upper and the lower 32 bits of a product."""
    half = np.uint32(0xFFFF)
    middle = (a >> 16) * (b & half) + ((a & half) * (b & half) >> 16)
    other = (a & half) * (b >> 16) + (middle & half)
    return (a >> 16) * (b >> 16) + (middle >> 16) + (other >> 16), a * b
