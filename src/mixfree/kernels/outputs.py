"""Twins of :mod:`mixfree.outputs`: which weight an iterate has in the sums."""

from typing import NamedTuple

from mixfree.kernels.draws import one_in
from mixfree.kernels.jit import apart, chosen
from mixfree.kernels.run import COUNT
from mixfree.kernels.vectors import copy
from mixfree.outputs import Average, Last, RandomIterate, TailAverage, WeightedAverage


class AveragePlan(NamedTuple):
    """See :class:`Average`."""


class WeightedPlan(NamedTuple):
    """See :class:`WeightedAverage`."""


class TailPlan(NamedTuple):
    """See :class:`TailAverage`."""


class LastPlan(NamedTuple):
    """See :class:`Last`."""


class RandomPlan(NamedTuple):
    """See :class:`RandomIterate`."""

    key: tuple[int, int]


PLANS = {
    Average: lambda output, x: AveragePlan(),
    WeightedAverage: lambda output, x: WeightedPlan(),
    TailAverage: lambda output, x: TailPlan(),
    Last: lambda output, x: LastPlan(),
    RandomIterate: lambda output, x: RandomPlan(tuple(output.key)),
}


@chosen
def recording_weight(output, run):
    """Count an iterate and prepare the output for it; its weight in the sums."""
    run.counts[COUNT] += 1
    return 1.0


@recording_weight.register(WeightedPlan)
def _(output, run):
    run.counts[COUNT] += 1
    return float(run.counts[COUNT])


@recording_weight.register(TailPlan)
def _(output, run):
    run.counts[COUNT] += 1
    count = run.counts[COUNT]
    if count & (count - 1) == 0:
        turn_tail(run.sums)
    return 1.0


@recording_weight.register(LastPlan)
def _(output, run):
    run.counts[COUNT] += 1
    return 0.0


@recording_weight.register(RandomPlan)
def _(output, run):
    run.counts[COUNT] += 1
    if one_in(output.key[0], output.key[1], run.counts[COUNT]):
        copy(run.x, run.kept)
    return 0.0


@apart
def turn_tail(sums):
    """Begin a new sum and keep the one before."""
    for k in range(sums.shape[1]):  # Numba takes seconds to compile an assignment to a slice
        sums[1, k] = sums[0, k]
        sums[0, k] = 0.0
