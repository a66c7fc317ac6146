"""Twins of :mod:`mixfree.gradients`: directions from samples, and iterates for the output."""

from typing import Any, NamedTuple

from mixfree.gradients import (
    MLMC,
    DataDrop,
    ForwardReplay,
    MiniBatch,
    Plain,
    Reservoir,
    ReverseReplay,
)
from mixfree.gradients.mlmc import MAX_LEVEL
from mixfree.kernels.draws import trailing_zeros
from mixfree.kernels.jit import chosen
from mixfree.kernels.outputs import recording_weight
from mixfree.kernels.run import LENGTH, SAMPLES, SEEN, STEPS, TURN
from mixfree.kernels.vectors import add_scaled, sum_of_squares


class PlainPlan(NamedTuple):
    """See :class:`Plain`."""


class ReplayPlan(NamedTuple):
    """See :class:`Replay`; the samples are already in the order of their replay."""

    buffer: int


class FixedPlan(NamedTuple):
    """See :class:`MiniBatch` and :class:`DataDrop`."""

    length: int
    scale: float
    others: float  # weight of every sample but the last


class MLMCPlan(NamedTuple):
    """See :class:`MLMC`."""

    levels: int  # 0: those of the geometric law
    horizon: int  # of the geometric law; 0: the samples seen so far
    scale: float
    max_steps: int  # after which the run has ended; 0: no end
    key: tuple[int, int]


class ReservoirPlan(NamedTuple):
    """See :class:`Reservoir`; each sample is followed by its draws.

    Runs without memory have no draws. One kernel serves both, since ``memory="auto"`` needs both
    and compiling takes seconds.
    """

    draws: int
    share: float
    inner: Any


def _replay(rule, x):
    return ReplayPlan(int(rule.buffer))


PLANS = {
    Plain: lambda rule, x: PlainPlan(),
    MiniBatch: lambda rule, x: FixedPlan(rule.batch, rule.scale(rule.batch), 1.0),
    DataDrop: lambda rule, x: FixedPlan(rule.mixing_time, 1.0, 0.0),
    MLMC: lambda rule, x: MLMCPlan(
        rule.levels or 0,
        rule.horizon or 0,
        rule.scale(2),
        rule.max_steps or 0,
        tuple(rule.key),
    ),
    ForwardReplay: _replay,
    ReverseReplay: _replay,
}


def compilable(rule: Any) -> bool:
    """Whether the part has a twin."""
    return type(rule.inner if isinstance(rule, Reservoir) else rule) in PLANS


def plan_of(rule: Any, x: Any) -> Any:
    """The twin of a part."""
    if isinstance(rule, Reservoir):
        return ReservoirPlan(rule.draws, rule.share, PLANS[type(rule.inner)](rule.inner, x))
    plan = PLANS[type(rule)](rule, x)
    return ReservoirPlan(0, 1.0, plan) if isinstance(plan, PlainPlan) else plan


@chosen
def window_length(rule, steps, samples):
    """Length of the window that opens now."""
    return rule.length


@window_length.register(MLMCPlan)
def _(rule, steps, samples):
    if 0 < rule.max_steps <= steps:
        return 1 << MAX_LEVEL
    zeros = trailing_zeros(rule.key[0], rule.key[1], steps + 1)
    if rule.levels > 0:
        return 1 << (1 + zeros % rule.levels)
    horizon = rule.horizon if rule.horizon > 0 else samples
    return 1 << (1 + zeros) if zeros < 61 and (1 << (1 + zeros)) <= horizon else 1


@chosen
def window_weight(rule, position, length):
    """Weight of a sample in the window's sum."""
    return 1.0 if position + 1 == length else rule.others


@window_weight.register(MLMCPlan)
def _(rule, position, length):
    if 2 * position >= length or length == 1:
        return 1.0
    return -1.0 if position else 1.0 / rule.scale - 1.0


@chosen
def add(rule, run, row, factor, square):
    """Add a gradient; return whether the window is full, and the direction as factor · row."""
    counts, total = run.counts, run.total
    seen = counts[SEEN]
    if seen == 0:
        counts[LENGTH] = window_length(rule, counts[STEPS], counts[SAMPLES])
    length = counts[LENGTH]
    counts[SAMPLES] += 1
    full = True
    if length > 1:
        weight = total.dtype.type(window_weight(rule, seen, length) * factor)
        if seen == 0:
            for k in range(total.size):
                total[k] = weight * row[k]
        elif weight != 0.0:
            for k in range(total.size):
                total[k] += weight * row[k]
        full = seen + 1 == length
        counts[SEEN] = 0 if full else seen + 1
        if full:
            row, factor = total, total.dtype.type(rule.scale)
            square = rule.scale * rule.scale * sum_of_squares(total)
    return full, row, factor, square


@add.register(PlainPlan)
@add.register(ReplayPlan)
def _(rule, run, row, factor, square):
    run.counts[SAMPLES] += 1
    return True, row, factor, square


@add.register(ReservoirPlan)
def _(rule, run, row, factor, square):
    if rule.draws == 0:
        return add(rule.inner, run, row, factor, square)
    turn, group = run.counts[TURN], run.group
    if turn == 0:
        for k in range(group.size):
            group[k] = factor * row[k]
    else:
        for k in range(group.size):
            group[k] += factor * row[k]
    if turn < rule.draws:
        run.counts[TURN] = turn + 1
        return False, group, factor, square
    run.counts[TURN] = 0
    share = group.dtype.type(rule.share)
    return add(rule.inner, run, group, share, rule.share * rule.share * sum_of_squares(group))


@chosen
def weight_before(rule, output, run):
    """Weight in the output of the point before a step."""
    return recording_weight(output, run)


@weight_before.register(ReplayPlan)
def _(rule, output, run):
    return 0.0


@chosen
def record_after(rule, output, run):
    """Pass the point after a step to the output, for methods that use it."""


@record_after.register(ReplayPlan)
def _(rule, output, run):
    run.counts[TURN] += 1
    if run.counts[TURN] == rule.buffer:
        run.counts[TURN] = 0
        add_scaled(run.sums[0], recording_weight(output, run), run.x)
