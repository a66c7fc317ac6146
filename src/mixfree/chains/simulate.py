"""Paths of a chain, drawn by compiled code in constant time per step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from mixfree.base.arithmetic import Array

MAX_COUNTED = 32  # entries per row up to which counting is faster than an alias table
MAX_TABLE = 1 << 24  # entries of the table of rows padded to one width
CHUNK = 1 << 15  # uniform numbers drawn at a time
ENTRY = np.dtype([("keep", np.float64), ("target", np.int32), ("other", np.int32)], align=True)

Walk = Callable[[Array, int, Array], int]


def simulate(walk: Walk, steps: int, state: int, generator: np.random.Generator) -> Array:
    """Draw ``steps`` states from ``state`` on, with one uniform number per step."""
    path = np.empty(steps, dtype=np.int64)
    path[0] = state
    uniforms = np.empty(CHUNK)
    for begin in range(1, steps, CHUNK):
        part = path[begin : begin + CHUNK]
        state = walk(generator.random(out=uniforms), state, part)
    return path


def prepare_walk(P: Any) -> Walk:
    """Build the tables of a chain, and return the compiled walk on them.

    The walk takes uniform numbers, a state and the path to fill, and returns the last state.
    """
    from mixfree.chains import kernels

    entries = sparse.csr_array(P)
    width = int(np.diff(entries.indptr).max())
    if width > MAX_COUNTED or len(entries.indptr) * width > MAX_TABLE:
        return partial(kernels.walk_by_alias, *_alias_table(entries))
    return partial(kernels.walk_by_counting, *_cumulated_rows(entries, width))


def _cumulated_rows(entries: Any, width: int) -> tuple[Array, Array]:
    """Return cumulative probabilities and targets per row."""
    states = entries.shape[0]
    lengths = np.diff(entries.indptr)
    row = np.repeat(np.arange(states), lengths)
    place = np.arange(entries.nnz) - np.repeat(entries.indptr[:-1], lengths)
    chance, target = np.zeros((states, width)), np.zeros((states, width), dtype=np.int64)
    chance[row, place], target[row, place] = entries.data, entries.indices
    ends = np.cumsum(chance, axis=1)
    # The last entry of a row takes what rounding leaves; the padding is never reached.
    ends[np.arange(width) >= lengths[:, None] - 1] = 1.0
    return np.ascontiguousarray(ends[:, :-1]), target


def _alias_table(entries: Any) -> tuple[Array, Array]:
    from mixfree.chains.kernels import fill_alias

    first = entries.indptr.astype(np.int64)
    keep, other = np.empty(entries.nnz), np.empty(entries.nnz, dtype=np.int64)
    fill_alias(first, entries.data, keep, other)
    table = np.empty(entries.nnz, dtype=ENTRY)
    table["keep"], table["target"], table["other"] = keep, entries.indices, entries.indices[other]
    return first, table
