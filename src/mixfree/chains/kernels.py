"""Compiled loops that draw paths; imported only when needed, since it imports Numba."""

import numba
import numpy as np

__all__ = ["fill_alias", "walk_by_alias", "walk_by_counting", "walk_mostly_staying"]


@numba.njit(cache=True, inline="always")
def drawn(
    uniform: float, state: int, cumulated: np.ndarray, target: np.ndarray
) -> int:  # pragma: no cover
    """Draw the next state by counting the cumulative probabilities below the uniform number.

    No branch depends on the draw, which makes it fast for rows of a few entries.
    """
    passed = 0
    for place in range(cumulated.shape[1]):
        passed += uniform >= cumulated[state, place]
    return target[state, passed]


@numba.njit(cache=True)
def walk_by_counting(
    cumulated: np.ndarray,
    target: np.ndarray,
    uniforms: np.ndarray,
    state: int,
    path: np.ndarray,
) -> int:  # pragma: no cover
    """Walk by rows of cumulative probabilities."""
    for step in range(len(path)):
        state = drawn(uniforms[step], state, cumulated, target)
        path[step] = state
    return state


@numba.njit(cache=True)
def walk_mostly_staying(
    cumulated: np.ndarray,
    target: np.ndarray,
    stay: np.ndarray,
    uniforms: np.ndarray,
    state: int,
    path: np.ndarray,
) -> int:  # pragma: no cover
    """Walk by rows of cumulative probabilities, on a chain that seldom moves.

    ``stay[state]`` is the interval of uniform numbers for which it stays: a branch that is nearly
    always taken costs next to nothing.
    """
    for step in range(len(path)):
        if not stay[state, 0] <= uniforms[step] < stay[state, 1]:
            state = drawn(uniforms[step], state, cumulated, target)
        path[step] = state
    return state


@numba.njit(cache=True)
def walk_by_alias(
    first: np.ndarray, table: np.ndarray, uniforms: np.ndarray, state: int, path: np.ndarray
) -> int:  # pragma: no cover
    """Walk by alias tables: one number picks both the entry and its side, one read per step."""
    for step in range(len(path)):
        begin = first[state]
        choices = first[state + 1] - begin
        scaled = uniforms[step] * choices
        chosen = min(np.int64(scaled), choices - 1)
        entry = table[begin + chosen]
        state = entry.target if scaled - chosen < entry.keep else entry.other
        path[step] = state
    return state


@numba.njit(cache=True)
def fill_alias(
    first: np.ndarray, data: np.ndarray, keep: np.ndarray, other: np.ndarray
) -> None:  # pragma: no cover
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
