"""The directions of a run, recomputed from the law of its levels."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.core.optimizer import Optimizer

__all__ = ["directions"]


def directions(
    opt: Optimizer, gradient: Callable[[Array, Any], Array], samples: Iterable[Any]
) -> Iterator[tuple[Array, Array]]:
    """Run over the samples; yield w_t and g_t of each step, after it was taken.

    g_t is summed here with the weights of the gradient part, so that checks of g_t are independent
    of the optimiser's own sums.

    Examples
    --------
    >>> import mixfree as mf
    >>> opt = mf.SGD([0.0])
    >>> [g.item() for _, g in directions(opt, lambda w, z: np.array([z]), [1.0, -2.0])]
    [1.0, -2.0]
    """
    law: Any = opt.gradient
    direction = np.zeros_like(opt.x)
    for sample in samples:
        position, w = opt.pending, opt.x
        length = law.length(opt.steps, opt.samples - position)
        slope = gradient(w, sample)
        direction = direction + law.weight(position, length) * law.scale(length) * slope
        if opt.tell(slope):
            yield w, direction
            direction = np.zeros_like(w)
