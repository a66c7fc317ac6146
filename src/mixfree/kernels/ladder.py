"""Twin of :class:`mixfree.steps.Ladder`: its state is one table, one vector per row."""

import math
from typing import Any, NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array, farthest_of
from mixfree.base.state import UnitChange
from mixfree.kernels.jit import apart, inline
from mixfree.kernels.run import STEPS, Run
from mixfree.kernels.vectors import add_scaled, clear, copy, scaled_size
from mixfree.steps.distance import KEPT, MOVED
from mixfree.steps.ladder import EARLY, LARGEST_EXPONENT, LEAST_UNIT, Ladder, LadderState

# Rows of the table; from LEVELS on, three per level.
RATE, SUM, SQUARES, CARRY, TOTAL, REACH, ORIGIN, MEAN, BEFORE, PULL, LEVELS = range(11)
HALF, LEVEL, EXCESS = range(3)
# Places in the numbers; SHRINK is 2^-unit, FASTEST the largest rate, FARTHEST the largest scale.
SHRINK, PEAK, WEIGHT, EPOCH, GAIN, MARGIN, FASTEST, FARTHEST = range(8)
_LEAST, _MOST = 4.0**-LARGEST_EXPONENT, 4.0 ** (LARGEST_EXPONENT - 1)
_LARGEST = np.finfo(np.float64).max
# Each row's unit is that of a gradient to this power; the last three are those of every level.
_POWERS = np.array([-1, 1, 2, 1, 2, 0, 0, 0, 0, 1, 1, 2, 2])
_OWN = ("rate", "sum", "squares", "carry", "total")  # rows of the ladder's own, from RATE on
_ITS = ("rbar", "origin", "mean", "before", "weighted_sum")  # its distance's, from REACH on
_TABLES = ("halves", "levels", "excess")


class LadderPlan(NamedTuple):
    """See :class:`Ladder`."""

    block: int
    max_levels: int
    width: int  # the dimension, or 1 for one rate
    searches: bool  # whether r̄ is estimated, not given
    farthest: float  # scale above which the run goes away without end
    length: float  # factor of every step


def _plan(step, x):
    return LadderPlan(
        block=step.block,
        max_levels=64 if step.max_levels is None else step.max_levels,
        width=x.size if step.per_coordinate else 1,
        searches=step.alpha is None,
        farthest=farthest_of(x.dtype),
        length=float(step.length),
    )


PLANS = {Ladder: _plan}


def table_of(step: Any, state: Any, steps: int) -> tuple[Array, Array]:
    """The ladder's state as a table and numbers, with room for the levels of ``steps`` steps."""
    if not isinstance(state, LadderState):
        return np.zeros((0, 0)), np.zeros(8)
    distance = state.distance
    table = np.zeros((LEVELS + 3 * step.levels(steps), state.sum.size))
    vectors = [getattr(state, name) for name in _OWN] + [getattr(distance, name) for name in _ITS]
    for row, vector in enumerate(vectors):
        table[row, : vector.size] = vector
    for place, name in enumerate(_TABLES):
        rows, width = getattr(state, name).shape
        table[LEVELS + place :: 3, :width][:rows] = getattr(state, name)
    numbers = (distance.lam, distance.weight, distance.epoch, distance.numerator, distance.margin)
    shrink, fastest = math.ldexp(1.0, -state.unit), state.rate.max()
    return table, np.array([shrink, *numbers, fastest, step.reach(state)])


def return_table(step: Any, state: LadderState, run: Run, steps: int) -> None:
    """Hand what a kernel changed to the reference's state."""
    distance, table, numbers = state.distance, run.table, run.rates.tolist()
    tables = {
        name: table[LEVELS + place :: 3, : getattr(state, name).shape[1]]
        for place, name in enumerate(_TABLES)
    }
    state.load(
        {name: table[row, : getattr(state, name).size].copy() for row, name in enumerate(_OWN)}
        | {name: rows[: step.levels(steps)].copy() for name, rows in tables.items()}
        | {"unit": 1 - math.frexp(numbers[SHRINK])[1]}
    )
    distance.load(
        {
            name: table[row, : getattr(distance, name).size].copy()
            for row, name in enumerate(_ITS, REACH)
        }
        | {"lam": numbers[PEAK], "weight": numbers[WEIGHT], "epoch": int(numbers[EPOCH])}
        | {"numerator": numbers[GAIN], "margin": numbers[MARGIN]}
    )


def change_units(step: Ladder, run: Run, change: UnitChange) -> None:
    """Twin of :meth:`mixfree.steps.ladder.LadderState.change_units`."""
    table = run.table[:, : run.x.size]
    levels = np.arange(LEVELS, len(table), 3)
    for convert, rows in (
        (change.points, [ORIGIN, MEAN, BEFORE]),
        (change.gradients, [SUM, CARRY, PULL, *(levels + HALF)]),
    ):
        table[rows] = convert(table[rows])
    if step.per_coordinate:
        # A column without a gradient so far has no unit yet.
        growth = np.where(table[SQUARES] + table[TOTAL] > 0.0, change.growth, 1.0)
        squares = [SQUARES, TOTAL, *(levels + LEVEL), *(levels + EXCESS)]
        table[squares] = table[squares] / growth / growth
        table[RATE] *= growth
        run.rates[FASTEST] = table[RATE].max()


@inline
def stays(plan, run):
    """Whether the scale of the steps has not run away: see :meth:`mixfree.steps.Ladder.reach`."""
    return run.rates[FARTHEST] <= plan.farthest


@inline
def in_unit(run, row, factor, square):
    """The factor of the gradient factor · row in the ladder's unit, and its length there."""
    numbers = run.rates
    share = square * numbers[SHRINK] * numbers[SHRINK]
    if not keeps_unit(share):
        share = choose_unit(run.table, numbers, row, factor)
    return factor * numbers[SHRINK], math.sqrt(share)


@inline
def keeps_unit(share):
    """Whether the unit suits a gradient whose square is ``share`` in it."""
    return _LEAST < share < _MOST


@inline
def changed_unit(numbers, size, seen):
    """Fit the unit to a gradient of this size, where ``seen`` is the largest square so far.

    Return the change of its exponent.
    """
    if size == 0.0:
        return 0
    unit = 1 - math.frexp(numbers[SHRINK])[1]
    change = max(math.frexp(size)[1], LEAST_UNIT) - unit
    if not (change > LARGEST_EXPONENT or (change < -LARGEST_EXPONENT and seen == 0.0)):
        return 0
    numbers[SHRINK] = math.ldexp(1.0, -unit - change)
    return change


@inline
def only_adds(plan, run, length):
    """Whether a gradient of this length updates no rate and moves no entry by more than r̄."""
    step = run.counts[STEPS]
    if plan.width == 1 or step <= EARLY * plan.block or step % plan.block == 0:
        return False
    return run.rates[FASTEST] * length < 0.999 * run.table[REACH, 0]


@inline
def climb_along(plan, run, row, scale, length):
    """Update the ladder with the gradient scale · row; return the displacement as v, η.

    Per coordinate, the displacement is written to the run's gradient, which may be ``row``;
    otherwise it is a multiple of ``row``.
    """
    table, step, x, out = run.table, run.counts[STEPS], run.x, run.gradient
    total, squares, rate, reach = table[SUM], table[SQUARES], table[RATE], table[REACH]
    renews = step <= EARLY * plan.block or step % plan.block == 0
    back = path_back(table, plan.width) if renews and plan.searches else 0.0
    for k in range(x.size):
        total[k] += scale * row[k]
    if plan.width == 1:
        squares[0] += length * length
    else:
        for k in range(x.size):
            g = scale * row[k]
            squares[k] += g * g
    if renews:
        refresh(plan, table, run.rates, back, step, x)
    size = reach[0] / length if rate[0] * length > reach[0] else rate[0]
    if plan.width == 1 and abs(scale) * size < np.inf:
        return row, scale * size
    # Two loops, since one loop could compute rate · scale, which may overflow.
    for k in range(x.size):
        out[k] = scale * row[k]
    if plan.width == 1:
        return out, size
    for k in range(x.size):
        out[k] = min(max(rate[k] * out[k], -reach[k]), reach[k])
    return out, 1.0


@apart
def choose_unit(table, numbers, row, factor):
    """See :meth:`mixfree.steps.Ladder._change_unit`; returns ‖g‖² in the unit."""
    seen, size = 0.0, abs(factor) * scaled_size(row)
    for k in range(row.size):
        seen = max(seen, max(table[SQUARES, k], table[TOTAL, k]))
    change = changed_unit(numbers, size, seen)
    if change != 0:
        numbers[GAIN] = math.ldexp(numbers[GAIN], -change)
        numbers[FASTEST] = min(math.ldexp(numbers[FASTEST], change), _LARGEST)
        for r in range(table.shape[0]):
            vector, power = table[r], _POWERS[r if r < LEVELS else LEVELS + (r - LEVELS) % 3]
            for k in range(row.size):
                vector[k] = min(math.ldexp(vector[k], -power * change), _LARGEST)
    length = size * numbers[SHRINK]
    return length * length


@apart
def refresh(plan, table, numbers, back, step, x):
    """See :meth:`mixfree.steps.Ladder._refresh`; for ``back`` see :func:`path_back`.

    One short loop per sum, since only such loops are vectorised.
    """
    weight, width = numbers[PEAK], plan.width
    if plan.searches:
        add_gain(table, numbers, back, x)
    add_scaled(table[CARRY], weight, table[SUM])
    add_scaled(table[TOTAL], weight * weight, table[SQUARES])
    clear(table[SUM])
    clear(table[SQUARES])
    if step % plan.block == 0:
        climb(table, step // plan.block, plan.max_levels, width)
    if plan.searches:
        steps = 1 if step <= EARLY * plan.block else plan.block
        update_mean(table[MEAN], numbers, x, float(step), float(steps))
        bound_distance(width, table, numbers, float(step))
    # Without levels there is no excess: SUM, now a row of zeros, takes its place.
    excess = table[LEVELS + EXCESS] if table.shape[0] > LEVELS else table[SUM]
    rate, total, reach = table[RATE], table[TOTAL], table[REACH]
    peak = plan.length * numbers[PEAK]
    for k in range(width):
        whole = total[k] + excess[k]
        rate[k] = peak * reach[k] / math.sqrt(whole if whole > 0.0 else np.inf)
    fastest = 0.0
    for k in range(width):
        fastest = max(fastest, rate[k])
    numbers[FASTEST] = fastest


@apart
def path_back(table, width):
    """Σ g_i·(x_i − x) over the gradients since the last update of the rates, except the newest.

    It is computed before the newest gradient enters the sums, since subtracting it later would
    leave a rounding error, which a huge rate after a change of unit would multiply.
    """
    total, squares, rate, back = table[SUM], table[SQUARES], table[RATE], 0.0
    if width > 1:
        for k in range(total.size):
            back += rate[k] * (total[k] * total[k] + squares[k])
    else:
        for k in range(total.size):
            back += total[k] * total[k]
        back = rate[0] * (back + squares[0])
    return 0.5 * back


@apart
def add_gain(table, numbers, back, x):
    """See :meth:`mixfree.Distance.add`."""
    weight, total, origin, gain = numbers[PEAK], table[SUM], table[ORIGIN], 0.0
    for k in range(x.size):
        gain += total[k] * (origin[k] - x[k])
    numbers[GAIN] += weight * (gain - back)
    add_scaled(table[PULL], weight, total)


@apart
def update_mean(mean, numbers, x, step, steps):
    """Add the point to the mean of this epoch."""
    numbers[WEIGHT] += step * steps
    share = step * steps / numbers[WEIGHT]
    for k in range(x.size):
        mean[k] += share * (x[k] - mean[k])


@apart
def bound_distance(width, table, numbers, step):
    """See :meth:`mixfree.Distance.update`."""
    rbar, pull, mean, before = table[REACH], table[PULL], table[MEAN], table[BEFORE]
    reach, total, square = rbar[0], 0.0, 0.0
    for k in range(pull.size):
        total += abs(pull[k])
        square += pull[k] * pull[k]
    size = total if width > 1 else math.sqrt(square)
    if size > 0.0:
        reach = max(reach, numbers[MARGIN] * numbers[GAIN] / size)
    if step >= numbers[EPOCH]:
        numbers[EPOCH] *= 2.0
        numbers[WEIGHT] = 0.0
        far, moved = 0.0, 0.0
        for k in range(mean.size):
            gone = abs(mean[k] - before[k])
            far = max(far, gone)
            moved += gone * gone
        moved = MOVED * (far if width > 1 else math.sqrt(moved))
        if 0.0 < moved < reach:
            reach = max(moved, KEPT * reach)
            numbers[MARGIN] = 1.0
            numbers[GAIN] = 0.0
            copy(mean, table[ORIGIN])
            clear(pull)
        copy(mean, before)
    for k in range(width):
        rbar[k] = reach
    numbers[PEAK] = max(numbers[PEAK], reach)
    numbers[FARTHEST] = numbers[PEAK]


@apart
def climb(table, blocks, max_levels, width):
    """See :meth:`mixfree.steps.Ladder._climb`."""
    levels, complete = 0, 0
    while blocks >> levels > 0:
        levels += 1
    while (blocks >> complete) & 1 == 0:
        complete += 1
    levels = min(levels, max_levels)
    complete = min(complete, levels)
    carry, squares = table[CARRY], table[TOTAL]
    for j in range(complete):
        half, total = table[LEVELS + 3 * j + HALF], table[LEVELS + 3 * j + LEVEL]
        for k in range(carry.size):
            difference = carry[k] - half[k]
            total[k if width > 1 else 0] += difference * difference
            carry[k] += half[k]
    if complete < levels:
        copy(carry, table[LEVELS + 3 * complete + HALF])
    clear(carry)
    for j in range(complete - 1, -1, -1):
        total, excess = table[LEVELS + 3 * j + LEVEL], table[LEVELS + 3 * j + EXCESS]
        # Above the last level there is no excess; the row just cleared is zero.
        above = table[LEVELS + 3 * j + 3 + EXCESS] if j + 1 < levels else carry
        for k in range(width):
            excess[k] = above[k] + max(total[k] - squares[k], 0.0)
