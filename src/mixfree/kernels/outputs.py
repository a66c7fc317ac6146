"""Twins of :mod:`mixfree.outputs`: which weight an iterate has in the sums."""

from typing import NamedTuple

from mixfree.kernels.draws import one_in
from mixfree.kernels.jit import apart, inline
from mixfree.kernels.run import COUNT
from mixfree.kernels.vectors import copy
from mixfree.outputs import Average, Last, RandomIterate, TailAverage, WeightedAverage

AVERAGE, WEIGHTED, TAIL, LAST, RANDOM = range(5)
_KINDS = {
    Average: AVERAGE,
    WeightedAverage: WEIGHTED,
    TailAverage: TAIL,
    Last: LAST,
    RandomIterate: RANDOM,
}


class OutputPlan(NamedTuple):
    """Any output: the code is short, and a kernel that has all of it serves all of them."""

    kind: int
    key: tuple[int, int]  # of the random iterate


def _plan(output, x):
    return OutputPlan(_KINDS[type(output)], tuple(getattr(output, "key", (0, 0))))


PLANS = dict.fromkeys(_KINDS, _plan)


@inline
def recording_weight(output, run):
    """Count an iterate and prepare the output for it; its weight in the sums."""
    run.counts[COUNT] += 1
    count = run.counts[COUNT]
    if output.kind == AVERAGE:
        return 1.0
    if output.kind == WEIGHTED:
        return float(count)
    if output.kind == TAIL:
        if count & (count - 1) == 0:
            turn_tail(run.sums)
        return 1.0
    if output.kind == RANDOM and one_in(output.key[0], output.key[1], count):
        copy(run.x, run.kept)
    return 0.0


@apart
def turn_tail(sums):
    """Begin a new sum and keep the one before."""
    for k in range(sums.shape[1]):  # Numba takes seconds to compile an assignment to a slice
        sums[1, k] = sums[0, k]
        sums[0, k] = 0.0
