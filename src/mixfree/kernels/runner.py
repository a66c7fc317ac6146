"""Run a kernel over samples given as arrays, as the optimiser itself would take them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.core.optimizer import GradientRefused, Optimizer

CHUNK = 1 << 16


def run_compiled(
    opt: Optimizer,
    kernel: Callable[[Any, Any, tuple[Array, ...], Array], int],
    parts: tuple[Array, ...],
    order: Array | range,
) -> None:
    """Run a kernel over samples given as parallel arrays, replaying where the method does."""
    from mixfree.gradients import Replay
    from mixfree.kernels.plan import plan_of, return_run, run_of
    from mixfree.kernels.replay import replay_blocks

    if isinstance(opt.gradient, Replay):
        replay_blocks(opt, kernel, parts, order)
        return
    plan, run = plan_of(opt), run_of(opt, len(order))
    try:
        for start in range(0, len(order), CHUNK):
            piece = indices_of(order[start : start + CHUNK])
            if kernel(plan, run, parts, piece) < piece.size:
                break
        else:
            return
    finally:
        return_run(opt, run)
    raise refused(opt)


def indices_of(order: Array | range) -> Array:
    """The order as an array; a whole stream's is a range until it is needed."""
    return np.arange(order.start, order.stop) if isinstance(order, range) else order


def refused(opt: Optimizer) -> GradientRefused:
    """What to raise when the gradient of the next sample is not acceptable."""
    return GradientRefused(
        f"gradient of sample {opt.number} is not finite or above {opt.largest:.1e}"
    )
