"""Twin of :mod:`mixfree.gradients`: directions from samples, and iterates for the output."""

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
from mixfree.kernels.jit import inline
from mixfree.kernels.parts import recording_weight
from mixfree.kernels.run import LENGTH, SAMPLES, SEEN, STEPS, TURN
from mixfree.kernels.vectors import add_scaled, sum_of_squares


class WindowPlan(NamedTuple):
    """Any gradient, so that one kernel serves all; by default :class:`Plain`."""

    length: int = 1  # samples of a window; 0: by the law of :class:`MLMC`
    scale: float = 1.0
    others: float = 1.0  # weight of every sample of a window but the last
    levels: int = 0  # of the law; 0: geometric
    horizon: int = 0  # of the geometric law; 0: the samples seen so far
    max_steps: int = 0  # after which the run has ended; 0: no end
    key: tuple[int, int] = (0, 0)
    buffer: int = 0  # of :class:`Replay`, whose samples come in the order of their replay
    draws: int = 0  # of :class:`Reservoir`, which follow each sample
    share: float = 1.0


PLANS = {
    Plain: lambda rule: WindowPlan(),
    MiniBatch: lambda rule: WindowPlan(rule.batch, rule.scale(rule.batch)),
    DataDrop: lambda rule: WindowPlan(rule.mixing_time, 1.0, 0.0),
    MLMC: lambda rule: WindowPlan(
        length=0,
        scale=rule.scale(2),
        levels=rule.levels or 0,
        horizon=rule.horizon or 0,
        max_steps=rule.max_steps or 0,
        key=tuple(rule.key),
    ),
    ForwardReplay: lambda rule: WindowPlan(buffer=int(rule.buffer)),
    ReverseReplay: lambda rule: WindowPlan(buffer=int(rule.buffer)),
}


def compilable(rule: Any) -> bool:
    """Whether the part has a twin."""
    return type(rule.inner if isinstance(rule, Reservoir) else rule) in PLANS


def plan_of(rule: Any) -> WindowPlan:
    """The twin of a part."""
    if isinstance(rule, Reservoir):
        return plan_of(rule.inner)._replace(draws=rule.draws, share=rule.share)
    return PLANS[type(rule)](rule)


@inline
def window_length(rule, steps, samples):
    """Length of the window that opens now."""
    if rule.length > 0:
        return rule.length
    if 0 < rule.max_steps <= steps:
        return 1 << MAX_LEVEL
    zeros = trailing_zeros(rule.key[0], rule.key[1], steps + 1)
    if rule.levels > 0:
        return 1 << (1 + zeros % rule.levels)
    horizon = rule.horizon if rule.horizon > 0 else samples
    return 1 << (1 + zeros) if zeros < 61 and (1 << (1 + zeros)) <= horizon else 1


@inline
def window_weight(rule, position, length):
    """Weight of a sample in the window's sum."""
    if rule.length > 0:
        return 1.0 if position + 1 == length else rule.others
    if 2 * position >= length or length == 1:
        return 1.0
    return -1.0 if position else 1.0 / rule.scale - 1.0


@inline
def add(rule, run, row, factor, square):
    """Add a gradient; return whether the window is full, and the direction as factor · row."""
    counts, group, full = run.counts, run.group, True
    if rule.draws > 0:
        turn = counts[TURN]
        if turn == 0:
            for k in range(group.size):
                group[k] = factor * row[k]
        else:
            for k in range(group.size):
                group[k] += factor * row[k]
        full = turn == rule.draws
        counts[TURN] = 0 if full else turn + 1
        row, factor = group, group.dtype.type(rule.share)
        if full:
            square = rule.share * rule.share * sum_of_squares(group)
    if full:
        full, row, factor, square = add_to_window(rule, run, row, factor, square)
    return full, row, factor, square


@inline
def add_to_window(rule, run, row, factor, square):
    """The same without draws."""
    counts, total = run.counts, run.total
    seen = counts[SEEN]
    if seen == 0:
        counts[LENGTH] = window_length(rule, counts[STEPS], counts[SAMPLES])
    length = counts[LENGTH]
    counts[SAMPLES] += 1
    if length == 1:
        return True, row, factor, square
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
        square = rule.scale * rule.scale * sum_of_squares(total)
    return full, total, total.dtype.type(rule.scale), square


@inline
def weight_before(rule, output, run):
    """Weight in the output of the point before a step; replay records points after steps."""
    return recording_weight(output, run) if rule.buffer == 0 else 0.0


@inline
def record_after(rule, output, run):
    """Pass the point after a step to the output, at the end of a replayed block."""
    if rule.buffer > 0:
        run.counts[TURN] += 1
        if run.counts[TURN] == rule.buffer:
            run.counts[TURN] = 0
            add_scaled(run.sums[0], recording_weight(output, run), run.x)
