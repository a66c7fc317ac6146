"""Compiled loops that draw paths; imported only when needed, since it imports Numba."""

import numba
import numpy as np

from mixfree.base.arithmetic import Array


@numba.njit(cache=True)
def walk_by_counting(
    cumulated: Array, target: Array, uniforms: Array, state: int, path: Array
) -> int:
    """Walk by rows of cumulative probabilities, counting those below the uniform number.

    No branch depends on the draw, which makes it fast for rows of a few entries.
    """
    for step in range(len(path)):
        passed = 0
        for place in range(cumulated.shape[1]):
            passed += uniforms[step] >= cumulated[state, place]
        state = target[state, passed]
        path[step] = state
    return state


@numba.njit(cache=True)
def walk_by_alias(first: Array, table: Array, uniforms: Array, state: int, path: Array) -> int:
    """Walk by alias tables: one number picks both the entry and its side, one read per step."""
    for step in range(len(path)):
        begin = first[state]
        choices = first[state + 1] - begin
        scaled = uniforms[step] * choices
        place = min(np.int64(scaled), choices - 1)
        entry = table[begin + place]
        state = entry.target if scaled - place < entry.keep else entry.other
        path[step] = state
    return state


@numba.njit(cache=True)
def fill_alias(first: Array, data: Array, keep: Array, other: Array) -> None:
    """Fill Vose's alias tables of all rows of a CSR matrix.

    Row i has the places first[i] to first[i + 1]. Choosing one of them uniformly, and then moving
    to place ``other`` unless a uniform number is below ``keep``, draws from the row.
    """
    for row in range(len(first) - 1):
        begin, end = first[row], first[row + 1]
        stack = np.empty(end - begin, dtype=np.int64)
        small, large = 0, end - begin
        for place in range(begin, end):
            keep[place] = data[place] * (end - begin)
            other[place] = place
            if keep[place] < 1:
                stack[small] = place
                small += 1
            else:
                large -= 1
                stack[large] = place
        while small > 0 and large < end - begin:
            small -= 1
            poor, rich = stack[small], stack[large]
            other[poor] = rich
            keep[rich] -= 1 - keep[poor]
            if keep[rich] < 1:
                large += 1
                stack[small] = rich
                small += 1
        for left in range(small):
            keep[stack[left]] = 1.0
        for left in range(large, end - begin):
            keep[stack[left]] = 1.0
