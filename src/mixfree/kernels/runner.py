"""Run a kernel over samples given as arrays, as the optimiser itself would take them.

Replay is plain gradients over rearranged complete blocks; a memory is draws between the samples.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.draws import below_each
from mixfree.base.slots import Slots, slots_of
from mixfree.base.state import RunState, loading
from mixfree.gradients import ForwardReplay, Replay, Reservoir
from mixfree.kernels.draws import below
from mixfree.kernels.jit import kernel as compiled
from mixfree.kernels.plan import plan_of, return_run, run_of
from mixfree.kernels.run import SAMPLES

CHUNK = 1 << 16  # samples per call of a kernel, so that a run can be interrupted


def run_kernel(
    opt: Any,
    state: RunState,
    kernel: Callable[[Any, Any, tuple[Array, ...], Array], int],
    arrays: tuple[Array, ...],
    order: Array | range,
) -> bool:
    """Take samples in their order, replaying where the method does; False if one was refused."""
    if isinstance(opt.gradient, Replay):
        return replay_blocks(opt, state, kernel, arrays, indices(order))
    if isinstance(opt.gradient, Reservoir):
        return run_with_memory(opt, state, kernel, arrays, order)
    plan, run = plan_of(opt), run_of(opt, state)
    try:
        for start in range(0, len(order), CHUNK):
            piece = indices(order[start : start + CHUNK])
            if kernel(plan, run, arrays, piece) < piece.size:
                return False
        return True
    finally:
        return_run(opt, state, run)


def indices(order: Array | range) -> Array:
    """The order as an array; a whole stream is a range until it is needed."""
    return np.arange(order.start, order.stop) if isinstance(order, range) else order


def replay_blocks(opt: Any, state: Any, kernel: Any, parts: Any, order: Array) -> bool:
    """Add the samples to the block; replay every block that they fill. False if one is refused."""
    rule, gradient = opt.gradient, state.gradient
    size, held = rule.block_size, len(gradient.block)
    if held == size:
        raise RuntimeError("the last block's replay is not finished: tell its gradients first")
    if 0 < held <= size <= held + order.size:
        first, order = order[: size - held], order[size - held :]
        joined = tuple(_joined(gradient.block, i, part, first) for i, part in enumerate(parts))
        gradient.load({"samples": gradient.samples - held})
        if not _replay_whole(opt, state, kernel, joined, np.arange(size)):
            return False
    # As many blocks at a time as keep the order of replay small.
    many = size * max(1, CHUNK // size)
    whole = order.size - order.size % size if gradient.block == [] else 0
    for start in range(0, whole, many):
        piece = order[start : min(start + many, whole)]
        if not _replay_whole(opt, state, kernel, parts, piece):
            return False
    rest = order[whole:]
    block = gradient.block + _listed(parts, rest)
    gradient.load({"block": block, "samples": gradient.samples + rest.size})
    return True


def _replay_whole(opt, state, kernel, parts, order):
    """Replay samples that make whole blocks; False if a gradient is refused."""
    rule = opt.gradient
    size, buffer, before = rule.block_size, rule.buffer, state.gradient.samples
    replayed = order[_replay_order(rule, before // size, order.size // size)]
    plan, run = plan_of(opt), run_of(opt, state)
    taken = kernel(plan, run, parts, replayed)
    failed = taken < replayed.size
    blocks = taken // buffer + failed
    run.counts[SAMPLES] = before + blocks * size
    return_run(opt, state, run)
    last = order[(blocks - 1) * size : blocks * size] if failed else order[:0]
    state.gradient.load({"block": _listed(parts, last)})
    return not failed


def _replay_order(rule, block, blocks):
    """Positions in ``blocks`` blocks of the samples in the order of their replay."""
    size, buffer = rule.block_size, rule.buffer
    if isinstance(rule, ForwardReplay):
        turns = np.arange(blocks * buffer)
        counters = (turns + (block + 1) * buffer).astype(np.uint64)
        drawn = below_each(rule.key, counters, np.uint64(buffer)).astype(np.int64)
        return turns // buffer * size + rule.gap + drawn
    turns = size - 1 - np.arange(buffer)
    return (np.arange(blocks)[:, None] * size + turns).ravel()


def _joined(block, i, part, order):
    """The i-th array of the samples in the block and those of ``part`` after them.

    Weights, the last array, may be lacking on either side, and are 1 there.
    """
    samples = [sample if isinstance(sample, tuple) else (sample,) for sample in block]
    lacking = part.shape[0] == 0
    if lacking and all(len(sample) <= i for sample in samples):
        return part
    held = [sample[i] if i < len(sample) else 1.0 for sample in samples]
    with loading("block to be replayed"):
        held = np.array(held, dtype=part.dtype).reshape(len(block), *part.shape[1:])
    return np.concatenate([held, np.ones(order.size) if lacking else part[order]])


def _listed(parts, order):
    """Samples as the reference keeps them: tuples, but for a stream of one array."""
    present = [part for part in parts if part.shape[0] > 0]
    samples = [tuple(part[r].copy() for part in present) for r in order]
    return samples if len(parts) > 1 else [sample[0] for sample in samples]


@compiled
def draw(first, second, seen, draws, slots, order, inside, told):
    """Each sample of the order followed by its draws, which are what is ``inside`` a slot."""
    for i in range(order.size):
        if slots[i] < inside.size:
            inside[slots[i]] = order[i]
        filled = min(seen + i + 1, inside.size)
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


def with_draws(rule: Any, sample: Slots, order: Array) -> tuple[Array, Array, Array]:
    """The order with each sample's draws after it, the samples' slots, and what slots then hold.

    What a slot holds is a position in the stream, or, if it was there before, ~slot.
    """
    slots = slots_of(sample.key, sample.size, sample.seen, order.size)
    told = np.empty(order.size * (1 + rule.draws), dtype=np.int64)
    inside = ~np.arange(min(sample.seen + order.size, sample.size))
    draw(*rule.key, sample.seen, rule.draws, slots, order, inside, told)
    return told, slots, inside


def _take(rule, gradient, kernel, plan, run, arrays, order):
    """Take a chunk of samples; if a gradient is refused, stop as the reference would."""
    sample = gradient.sample
    told, slots, _ = with_draws(rule, sample, order)
    # While nothing is kept there are no draws, so any arrays of these types will do.
    kept = tuple(sample.columns) or tuple(_filled(part) for part in arrays)
    taken = kernel(plan, run, (*arrays, *kept), told)
    used = -(-taken // (1 + rule.draws))
    ones = np.broadcast_to(1.0, arrays[0].shape[:1])  # missing weights
    columns = [part if part.shape[0] else ones for part in arrays]
    sample.store(columns, order[:used], slots[:used])
    return taken == told.size


def _check_kept(sample: Slots, arrays: Any) -> None:
    """ValueError if the kept samples have other types than the new ones."""
    mine = [(column.dtype, column.shape[1:]) for column in sample.columns]
    if mine and mine != [(part.dtype, part.shape[1:]) for part in arrays]:
        raise ValueError("the samples in the memory have other types or shapes than the new ones")


def _filled(part: Array) -> Array:
    """The array itself, or a single weight of 1 if it is empty."""
    return part if part.shape[0] else np.ones(1, part.dtype)
