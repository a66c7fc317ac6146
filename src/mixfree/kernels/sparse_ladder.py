"""The ladder over sparse rows, at a cost of their non-zeros.

Only a coordinate with a gradient moves, and its step depends on the shared numbers and on its own Q
alone. The mean point is kept as the output's sum is in :mod:`mixfree.kernels.sparse`: with
M = Σ t, it is x − lag/M, and when x moves by δ, its lag grows by M·δ.
"""

import math
from typing import NamedTuple

import numpy as np

from mixfree.kernels.jit import apart, inline
from mixfree.kernels.ladder import (
    CARRY,
    KAPPA,
    LAM,
    NEWEST,
    NUMERATOR,
    RBAR,
    SIZE,
    TOTAL,
    climb,
    ends_epoch,
    update_scale,
)
from mixfree.kernels.run import SAMPLES, STEPS
from mixfree.kernels.sparse import MASS, Q, V, certain, put_aside, put_back, record, take_row
from mixfree.steps.ladder_rule import WIDTH

# Columns of the cells after V and Q: a coordinate is one cache line.
SQUARES, WEIGHTED_SUM, ORIGIN, LAG, U, SIGN = range(2, 8)


class SparseLadderRun(NamedTuple):
    """The arrays of a run."""

    counts: np.ndarray
    numbers: np.ndarray
    rates: np.ndarray  # numbers of the ladder
    sketch: np.ndarray
    cells: np.ndarray  # one row per coordinate
    earlier: np.ndarray  # the mean when the number of steps last doubled
    before: np.ndarray  # the tail average's older sum
    kept: np.ndarray  # the random iterate


@put_back.register(SparseLadderRun)
def _(run):
    pass


@put_aside.register(SparseLadderRun)
def _(run):
    pass


@inline
def add_entry(run, place, g, lam):
    """Add one entry of the gradient to the sums; what it adds to the square of the sketch."""
    cells, rates, newest = run.cells, run.rates, run.sketch[NEWEST]
    weighted, ahead = lam * g, cells[place, ORIGIN] - cells[place, V]
    square = cells[place, SQUARES] + weighted * weighted
    cells[place, SQUARES] = square
    u = weighted / math.sqrt(square) if square > 0.0 else 0.0
    cells[place, U] = u
    if ahead != 0.0:
        before = cells[place, WEIGHTED_SUM]
        cells[place, WEIGHTED_SUM] = before + weighted
        rates[SIZE] += abs(before + weighted) - abs(before)
        rates[NUMERATOR] += weighted * ahead
    signed, bucket = cells[place, SIGN] * u, certain(place % WIDTH)
    there = newest[bucket]
    newest[bucket] = there + signed
    return signed * (2.0 * there + signed)


@inline
def move_entry(run, place, size, limit, weight, mass, whole):
    """Move one coordinate, with the lazy sums of the output and of the mean, and sketch it."""
    cells, bucket = run.cells, certain(place % WIDTH)
    u = cells[place, U]
    delta = -min(max(size * u, -limit), limit)
    cells[place, V] += delta
    cells[place, Q] += mass * delta
    cells[place, LAG] += whole * delta
    run.sketch[CARRY, bucket] += weight * cells[place, SIGN] * u
    run.sketch[NEWEST, bucket] = 0.0


@apart
def compare(run, whole):
    """The movement of the mean point over the epoch that ends; ‖Σ λ g‖₁ without rounding."""
    cells, earlier, moved, size = run.cells, run.earlier, 0.0, 0.0
    for k in range(cells.shape[0]):
        mean = cells[k, V] - cells[k, LAG] / whole
        moved = max(moved, abs(mean - earlier[k]))
        size += abs(cells[k, WEIGHTED_SUM])
        earlier[k] = mean
    run.rates[SIZE] = size
    return moved


@apart
def restart(run):
    """Measure distances from the mean point, which has just been compared."""
    for k in range(run.cells.shape[0]):
        run.cells[k, ORIGIN] = run.earlier[k]
        run.cells[k, WEIGHTED_SUM] = 0.0
    run.rates[SIZE] = 0.0


@take_row.register(SparseLadderRun)
def _(run, plan, values, columns, factors, square, along, l2, width, intercept, exact):
    step_along_entries(plan.step, plan.output, run, values, columns, factors, width, intercept)


@inline
def step_along_entries(rule, output, run, values, columns, factors, width, intercept):
    """Twin of :meth:`mixfree.steps.Ladder.move` along the gradient of one row."""
    rates, lam = run.rates, run.rates[LAM]
    run.counts[SAMPLES] += 1
    run.counts[STEPS] += 1
    step = run.counts[STEPS]
    whole, weight, square = 0.5 * step * (step + 1.0), lam * math.sqrt(step), 0.0
    for o in range(factors.size):
        base = o * (width + intercept)
        for p in range(values.size):
            place = certain(base + columns[p])
            square += add_entry(run, place, factors[o] * values[p], lam)
        if intercept:
            square += add_entry(run, certain(base + width), factors[o], lam)
    rates[TOTAL] += weight * weight * square
    moved = compare(run, whole) if ends_epoch(step) else 0.0
    if rule.searches and update_scale(rates, moved):
        restart(run)
    record(output, run)
    limit, mass = rule.length * rates[RBAR], run.numbers[MASS]
    size = limit * (rates[LAM] / lam) / math.sqrt(rates[KAPPA])
    for o in range(factors.size):
        base = o * (width + intercept)
        for p in range(values.size):
            place = certain(base + columns[p])
            move_entry(run, place, size, limit, weight, mass, whole)
        if intercept:
            move_entry(run, certain(base + width), size, limit, weight, mass, whole)
    if step % rule.block == 0:
        climb(rates, run.sketch, step // rule.block)
