"""Memory for the kernels: the order of samples and draws."""

from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.sample import UniformSample
from mixfree.kernels.draws import below
from mixfree.kernels.jit import apart
from mixfree.kernels.jit import kernel as compiled
from mixfree.kernels.plan import indices, plan_of, return_run, run_of

CHUNK = 1 << 16  # number of samples whose keys are drawn at a time


@apart
def sink(keys, heap, parent):
    """Restore the order of a heap of keys and their slots, largest first, below one place."""
    key, slot = keys[parent], heap[parent]
    child = 2 * parent + 1
    while child < keys.size:
        if child + 1 < keys.size and keys[child + 1] > keys[child]:
            child += 1
        if keys[child] <= key:
            break
        keys[parent], heap[parent] = keys[child], heap[child]
        parent, child = child, 2 * child + 1
    keys[parent], heap[parent] = key, slot


def replaced(kept: Array, new: Array) -> Array:
    """Twin of :meth:`mixfree.base.sample.UniformSample._replaced`."""
    slots = np.empty(new.size, dtype=np.int64)
    replace(kept.copy(), np.arange(kept.size), new, slots)
    return slots


@compiled
def replace(keys, heap, new, slots):
    """See :func:`replaced`; the keys become a heap, with their slots beside them."""
    for parent in range(keys.size // 2 - 1, -1, -1):
        sink(keys, heap, parent)
    for i in range(new.size):
        slots[i] = heap[0] if new[i] < keys[0] else -1
        if slots[i] >= 0:
            keys[0] = new[i]
            sink(keys, heap, 0)


@compiled
def draw(first, second, seen, size, draws, places, slots, order, inside, told):
    """Each sample of the order followed by its draws, which are what is ``inside`` a slot."""
    kept = 0
    for i in range(order.size):
        if kept < places.size and places[kept] == i:
            inside[slots[kept]] = order[i]
            kept += 1
        filled = min(seen + i + 1, size)
        told[i * (1 + draws)] = order[i]
        for j in range(draws):
            slot = below(first, second, (seen + i) * draws + j, filled)
            told[i * (1 + draws) + 1 + j] = inside[slot]


def run_with_memory(opt: Any, state: Any, kernel: Any, arrays: Any, order: Array | range) -> bool:
    """Take samples in their order, each with its draws; False if a gradient was refused.

    The kernel receives the arrays of the samples followed by those of the kept samples.
    """
    gradient = state.gradient
    gradient.expect([])
    _check_kept(gradient.sample, arrays)
    plan, run = plan_of(opt), run_of(opt, state)
    try:
        for start in range(0, len(order), CHUNK):
            piece = indices(order[start : start + CHUNK])
            if not _take(opt.gradient, gradient, kernel, plan, run, arrays, piece):
                return False
        return True
    finally:
        return_run(opt, state, run)


def _take(rule, gradient, kernel, plan, run, arrays, order):
    """Take a chunk of samples; if a gradient is refused, stop as the reference would."""
    sample = gradient.sample
    seen, mark = sample.seen, sample.mark()
    places, slots = sample.place(order.size, replaced)
    told = np.empty(order.size * (1 + rule.draws), dtype=np.int64)
    inside = ~np.arange(min(sample.seen, sample.size))  # a position in the stream, or ~slot
    draw(*rule.key, seen, sample.size, rule.draws, places, slots, order, inside, told)
    # While nothing is kept there are no draws, so any arrays of these types will do.
    kept = tuple(sample.columns) or tuple(_filled(part) for part in arrays)
    taken = kernel(plan, run, (*arrays, *kept), told)
    refused = taken < told.size
    if refused:
        sample.go_back(mark)
        each = 1 + rule.draws
        places, slots = sample.place(taken // each + (taken % each > 0), replaced)
    _store(sample, arrays, order, places, slots)
    return not refused


def _check_kept(sample: UniformSample, arrays: Any) -> None:
    """ValueError if the kept samples have other types than the new ones."""
    mine = [(column.dtype, column.shape[1:]) for column in sample.columns]
    if mine and mine != [(part.dtype, part.shape[1:]) for part in arrays]:
        raise ValueError("the samples in the memory have other types or shapes than the new ones")


def _filled(part: Array) -> Array:
    """The array itself, or a single weight of 1 if it is empty."""
    return part if part.shape[0] else np.ones(1, part.dtype)


def _store(sample: UniformSample, arrays: Any, order: Array, places: Array, slots: Array) -> None:
    """Keep the samples at some places of the order; missing weights are 1."""
    ones = np.broadcast_to(np.ones(1), arrays[0].shape[:1])
    columns = [part if part.shape[0] else ones for part in arrays]
    sample.store(columns, order[places], slots)
