"""Paths of a chain, drawn by compiled code; imported only when needed, since it imports Numba."""

from typing import Any

import numba
import numpy as np
from scipy import sparse

from mixfree.base.arithmetic import Array

CHUNK = 1 << 15  # uniform numbers drawn at a time

Rows = tuple[Array, Array, Array]


def cumulated_rows(P: Any) -> Rows:
    """Return where each row of a CSR matrix begins, its cumulative probabilities, its targets.

    The last sum of a row is never compared with, so that its target takes what rounding leaves.
    """
    entries = sparse.csr_array(P, copy=True)
    first, ends = entries.indptr.astype(np.int64), entries.data
    cumulate(first, ends)
    return first, ends, entries.indices.astype(np.int64)


@numba.njit(cache=True)
def cumulate(first: Array, ends: Array) -> None:
    """Replace the probabilities of each row by their running sums."""
    for row in range(len(first) - 1):
        for place in range(first[row] + 1, first[row + 1]):
            ends[place] += ends[place - 1]


def simulate(rows: Rows, steps: int, state: int, generator: np.random.Generator) -> Array:
    """Draw ``steps`` states from ``state`` on, with one uniform number per step."""
    path = np.empty(steps, dtype=np.int64)
    path[0] = state
    uniforms = np.empty(CHUNK)
    for begin in range(1, steps, CHUNK):
        part = path[begin : begin + CHUNK]
        state = walk(*rows, generator.random(out=uniforms), state, part)
    return path


@numba.njit(cache=True)
def walk(first: Array, ends: Array, target: Array, uniforms: Array, state: int, path: Array) -> int:
    """Fill a path by binary search in rows of cumulative probabilities; return its last state.

    No branch depends on the draw, which makes it fast for rows of a few entries.
    """
    for step in range(len(path)):
        place = first[state]
        left = first[state + 1] - place
        while left > 1:
            half = left // 2
            place += half * (uniforms[step] >= ends[place + half - 1])
            left -= half
        state = target[place]
        path[step] = state
    return state
