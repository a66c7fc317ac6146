"""Cross-validation of fits to few rows.

Where the kept rows hardly determine the weights (separable classes, few rows per weight), the loss
of these rows says nothing about the rest of the stream. The fit is then repeated without a fifth of
the rows at a time, with ridges of several sizes, and the ridge with the least loss on the held-out
rows is chosen. Where fits are slow, only one fifth is held out and one ridge is tried. A fit to all
rows of a stream is cross-validated only if they determine the weights of a class even less, or if
a class has all or none of the rows with one value of an indicator.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.linear.exact.families import Family, probabilities
from mixfree.linear.exact.newton import CLOSE, Part, standardised
from mixfree.linear.exact.problem import ROUGH, Fitted, Problem
from mixfree.linear.exact.reservoir import Kept

FOLDS = 5
ENOUGH = 20.0  # rows of full curvature per weight for which a sample needs no cross-validation
ENOUGH_OF_ALL = 3.0  # the same if all rows of the stream are kept
OWN = 1.0  # rows of full curvature for each value of a column that has only two
FULL = 0.25  # full curvature p(1 − p) of a class
RIDGES = (100.0, 10.0, 1.0, 0.1, 0.0)  # strength of each, in rows of standardised columns
FEWEST = 2  # rows per fold
SMALL = 1 << 19  # values of the kept rows, times outputs, up to which all ridges are tried

_MIXING = np.uint64(0x9E3779B97F4A7C15)  # an odd number with well-mixed bits

ProblemOf = Callable[[list[Part]], Problem]


class Mean(NamedTuple):
    """A mean over rows, and its standard error."""

    value: float
    error: float


@dataclass(frozen=True)
class HeldOut:
    """Losses of held-out rows, and two fits without a ridge that include these rows.

    In expectation, held-out rows have the loss of the stream. The fit to the kept rows alone has
    the least loss on them, less than the best fit to the stream; the fit to rows and sums is
    closer to that, where the sums help.
    """

    losses: Array
    rows: Array  # which of the kept rows were held out
    problem: Problem
    fitted: Fitted
    start: Array  # weights from which the fit to the rows alone starts

    @property
    def above_fit(self) -> Mean:
        """Loss above that of the same rows at the fit to rows and sums."""
        return self._above(self.fitted)

    @cached_property
    def above_least(self) -> Mean:
        """Loss above that of the same rows at the fit to the rows alone."""
        if not self.fitted.beta.any():  # the sums were of no use
            return self.above_fit
        return self._above(replace(self.problem, known=None).solved(self.start, ROUGH))

    def _above(self, fitted: Fitted) -> Mean:
        kept = self.problem.parts[0].rows.take(self.rows)
        lost = self.losses[self.rows] - losses_at(self.problem, fitted, kept)
        return _mean(lost, kept.weights / kept.weights.sum())


class Solved(NamedTuple):
    """A problem, its minimum, and the losses of held-out rows if it was cross-validated."""

    problem: Problem
    fitted: Fitted
    held_out: HeldOut | None = None


def determined(fitted: Fitted, complete: bool) -> bool:
    """Whether the kept rows, which may be all, have enough curvature per weight at the fit.

    If all rows are kept, every class needs enough of its own. So does, within every class, each
    value of a column with only two values, such as the indicator of a text: a class may lack the
    rows of a rare text, or have no other ones.
    """
    objective, point = fitted.objective, fitted.point
    slabs = list(zip(objective.slabs, point.predictions, strict=True))
    if not complete:
        curvature = objective.family.curvature
        found = 0.0
        for slab, z in slabs:
            most = curvature(np.zeros_like(z), np.zeros_like(slab.targets), False)
            found += float(np.sum(np.maximum(curvature(z, slab.targets, False), 0.0) / most))
        return bool(found >= ENOUGH * point.theta.shape[1])
    shares = [_of_classes(objective.family, z, slab.targets) / FULL for slab, z in slabs]
    rows = sum((share.sum(axis=0) for share in shares), np.zeros(objective.family.outputs))[:, None]
    if rows.min() < ENOUGH_OF_ALL * point.theta.shape[1]:
        return False
    least = np.min([slab.x.min(axis=0) for slab, _ in slabs], axis=0)
    most = np.max([slab.x.max(axis=0) for slab, _ in slabs], axis=0)
    two, high = least < most, np.zeros((len(rows), len(most)))
    for (slab, _), share in zip(slabs, shares, strict=True):
        above = slab.x == most
        two &= (above | (slab.x == least)).all(axis=0)
        high += share.T @ above
    return bool((np.minimum(high, rows - high)[:, two] >= OWN).all())


def _of_classes(family: Family, z: Array, targets: Array) -> Array:
    """Return p(1 − p) of every class, or of one of two, at predictions: one row per input row."""
    if family.outputs == 1:
        return family.curvature(z, targets, False)[:, None]
    p = probabilities(z)
    return p * (1.0 - p)


def cross_validated(
    problem_of: ProblemOf, parts: list[Part], first: Solved, start: Array, complete: bool
) -> Solved:
    """Choose the ridge with the least loss on held-out rows, and return its fit.

    The search starts with the largest ridge, which is fitted fastest, and stops when a smaller
    ridge is worse by more than a standard error.

    Parameters
    ----------
    problem_of
        Makes the problem for given parts.
    parts
        The kept rows, then pending rows.
    first
        The fit without a ridge.
    start
        Weights at which the sums are known to help; those of a fit without a ridge may not be.
    complete
        Whether all rows of the stream are kept. Their folds, and so the fit, then do not depend
        on the order of the rows.
    """
    kept = parts[0].rows
    fold = folds_by_value(kept) if complete else np.arange(len(kept)) % FOLDS
    if np.bincount(fold, minlength=FOLDS).min() < FEWEST:
        return first
    small = kept.rows.size * len(start) <= SMALL
    folds, ridges = (FOLDS, RIDGES) if small else (1, (1.0, 0.0))
    out = fold < folds  # rows that some fold holds out
    shares = kept.weights[out] / kept.weights[out].sum()
    without = [_without(problem_of, parts, fold == number) for number in range(folds)]
    chosen, held_out = ridges[0], _held_out_losses(without, kept, ridges[0], start, fold)
    for ridge in ridges[1:]:
        if not ridge and not first.fitted.beta.any():  # the sums do not help without a ridge
            without = [replace(problem, known=None) for problem in without]
        tried = _held_out_losses(without, kept, ridge, start, fold)
        loss = _mean((tried - held_out)[out], shares)
        if loss.value > loss.error:
            break
        if loss.value < 0.0:
            chosen, held_out = ridge, tried
    best = first
    if chosen:
        problem = replace(first.problem, ridge=chosen / len(kept))
        best = Solved(problem, problem.solved(start, CLOSE))
    return best._replace(held_out=HeldOut(held_out, out, first.problem, first.fitted, start))


def folds_by_value(kept: Kept) -> Array:
    """Assign each row to a fold by a hash of its values, whatever the order of the rows.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(1000, 2))
    >>> kept = Kept(rows, np.ones(1000), np.ones(1000), np.zeros((1000, 1)))
    >>> np.bincount(folds_by_value(kept)).tolist()
    [213, 177, 212, 185, 213]
    """
    hashed = np.zeros(len(kept), dtype=np.uint64)
    for column in (*kept.rows.T, kept.targets):
        hashed = (hashed ^ np.ascontiguousarray(column).view(np.uint64)) * _MIXING
        hashed ^= hashed >> np.uint64(32)
    found: Array = (hashed % np.uint64(FOLDS)).astype(np.int64)
    return found


def losses_at(problem: Problem, fitted: Fitted, rows: Kept) -> Array:
    """Return the loss of each row at a fit, in the unit of the targets."""
    units, family = problem.units, problem.settings.family
    z = standardised(rows.rows, units, problem.settings.intercept) @ fitted.point.theta.T
    at = family.in_units(units.scale).at(z, (rows.targets - units.shift) / units.scale)
    return at.value * (units.scale**2 * family.weight)


def _without(problem_of: ProblemOf, parts: list[Part], out: Array) -> Problem:
    """Pose the problem without some of the kept rows."""
    (kept, factor), *others = parts
    rest = kept.take(~out)
    return problem_of([Part(rest, factor * len(kept) / len(rest)), *others])


def _held_out_losses(
    without: list[Problem], kept: Kept, ridge: float, start: Array, fold: Array
) -> Array:
    """Return the loss of each row of the first folds at a fit to the other rows."""
    found = np.zeros(len(kept))
    for number, each in enumerate(without):
        problem = replace(each, ridge=ridge / len(kept))
        out = fold == number
        found[out] = losses_at(problem, problem.solved(start, ROUGH), kept.take(out))
    return found


def _mean(values: Array, shares: Array) -> Mean:
    """Return the mean weighted by ``shares``, which sum to 1."""
    mean = float(shares @ values)
    return Mean(mean, float(np.sqrt(np.sum((shares * (values - mean)) ** 2))))
