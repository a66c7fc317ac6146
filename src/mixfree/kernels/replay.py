"""Replay for the kernels: plain gradients over rearranged complete blocks."""

from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.state import loading
from mixfree.gradients import ForwardReplay
from mixfree.kernels.draws import below
from mixfree.kernels.jit import kernel as compiled
from mixfree.kernels.plan import plan_of, return_run, run_of
from mixfree.kernels.run import SAMPLES

PIECE = 1 << 16


@compiled
def draw_forward(first, second, block, size, buffer, gap, order):
    """Positions drawn by :class:`ForwardReplay`, for the blocks after the ``block``-th."""
    for b in range(order.size // buffer):
        for turn in range(buffer):
            drawn = below(first, second, (block + b + 1) * buffer + turn, buffer)
            order[b * buffer + turn] = b * size + gap + drawn


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
    many = size * max(1, PIECE // size)
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
        order = np.empty(blocks * buffer, dtype=np.int64)
        draw_forward(*rule.key, block, size, buffer, rule.gap, order)
        return order
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
