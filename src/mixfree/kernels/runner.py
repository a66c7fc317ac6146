"""Run a kernel over samples given as arrays, as the optimiser itself would take them."""

from collections.abc import Callable
from typing import Any

from mixfree.base.arithmetic import Array
from mixfree.base.state import RunState
from mixfree.gradients import Replay, Reservoir
from mixfree.kernels.plan import indices, plan_of, return_run, run_of
from mixfree.kernels.replay import replay_blocks
from mixfree.kernels.reservoir import run_with_memory

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
