"""Target leakage: columns that may be known only once the target is known.

A numeric target is leaked by one column, or two, that explain more than 99.9 % of its variance. A
binary target is leaked by a column whose own classifier avoids 99.9 % of the errors of the best
constant, or is right in 95 % of the rows while all other columns together add less than 5 % to its
gain over the constant, at 95 % confidence; in both cases only if chance is excluded. The classifier
of a numeric column is a threshold; that of a text column is the majority class of each text.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.streams.fit.stream_fit import StreamFit
from mixfree.streams.fit.timeline import judged

__all__ = ["leakage_warnings"]

SUSPICIOUS = 0.999  # share of the target above which a column is reported
CHANCE = 0.001  # largest probability that a column classifies as well by chance
LITTLE = 0.05  # share of rows, and of the gain, that is left to all other columns
NORMAL_95 = 1.645  # one-sided 95 % quantile of the normal distribution
PAIRS = 1000  # most columns of which all pairs are tried
ROWS = 32  # least rows; fewer may be explained by chance


def leakage_warnings(fit: StreamFit) -> Iterator[str]:
    """Yield a warning per column, or pair, that explains the target almost alone.

    The columns are judged on a uniform sample of the rows.
    """
    rows, targets = fit.model.rows, fit.model.targets
    if len(rows) < ROWS or (targets == targets[0]).all():
        return
    columns = _columns(fit)
    two = fit.encoder.classes is not None and len(fit.encoder.classes) == 2
    if fit.encoder.classes is None:
        found = _explaining(rows, targets, columns)
    elif two:
        correct = judged(fit.row_loss, fit.model.learner.weights, rows, targets).correct.astype(
            bool
        )
        found = _classifying(rows, targets > 0.0, columns, correct)
    else:
        found = _constant_within(rows, np.unique(targets, return_inverse=True)[1], columns)
    for each in found:
        what = " and ".join(repr(name) for name in each.names)
        verb = "alone explains" if len(each.names) == 1 else "together explain"
        share = f"{100 * each.share:.4g} % of {fit.encoder.target!r}"
        if two:
            verb, share = "alone classifies", f"{100 * each.share:.4g} % of the rows correctly"
        yield (
            f"{what} {verb} {share}; if it is not known before the target, give "
            f"`exclude={list(each.names)!r}`"
        )


class _Leak(NamedTuple):
    names: tuple[str, ...]
    share: float


class _Place(NamedTuple):
    name: str
    begin: int
    end: int


def _columns(fit: StreamFit) -> list[_Place]:
    """Return the range of features of each column."""
    ranges = zip(fit.encoder.columns, fit.model.design.ranges, strict=True)
    return [_Place(column.name, *ends) for column, ends in ranges if ends[1] > ends[0]]


def _explaining(rows: Array, targets: Array, columns: Sequence[_Place]) -> list[_Leak]:
    """Find columns, or pairs of columns, that explain the variance of a numeric target."""
    centred, size = _standardised(rows)
    target, _ = _standardised(targets[:, None])
    found, rest = [], []
    for place in columns:
        part = centred[:, place.begin : place.end]
        share = _explained(part, target)
        if share > SUSPICIOUS:
            found.append(_Leak((place.name,), share))
        elif part.shape[1] == 1 and size[place.begin] > 0.0:
            rest.append(place)
    if found or len(rest) > PAIRS:
        return found
    at = [place.begin for place in rest]
    each = centred[:, at]
    with_target, together = (each.T @ target)[:, 0], each.T @ each
    # Share explained by two columns, from their correlations with the target and each other.
    one, other = with_target[:, None], with_target[None, :]
    determinant = 1.0 - together**2
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = (one**2 + other**2 - 2.0 * one * other * together) / determinant
    for i, j in np.argwhere(np.triu((determinant > 1e-9) & (shares > SUSPICIOUS), 1)):
        found.append(_Leak((rest[i].name, rest[j].name), min(float(shares[i, j]), 1.0)))
    return sorted(found, key=lambda pair: -pair.share)[:3]


def _standardised(values: Array) -> tuple[Array, Array]:
    """Return columns with mean 0 and norm 1 (0 if constant), and their norms before scaling."""
    largest = np.abs(values).max(axis=0)
    values = values / np.where(largest > 0.0, largest, 1.0)
    centred = values - values.mean(axis=0)
    size = np.sqrt((centred**2).sum(axis=0))
    size = np.where(size > 1e-12 * np.sqrt(len(values)), size, 0.0)
    return centred / np.where(size > 0.0, size, np.inf), size


def _explained(part: Array, target: Array) -> float:
    """Return the share of the target's variance that a linear function of features explains."""
    if part.shape[1] == 1:
        return float((part.T @ target)[0, 0] ** 2)
    weights = np.linalg.lstsq(part, target, rcond=1e-9)[0]
    return 1.0 - float(((target - part @ weights) ** 2).sum())


def _classifying(
    rows: Array, second: Array, columns: Sequence[_Place], model: Array
) -> list[_Leak]:
    """Find columns that alone classify almost all rows into the first and the second class.

    ``model`` tells in which rows the fit to all columns is right.
    """
    count, constant = len(rows), int(min(second.sum(), (~second).sum()))
    found = []
    for place in columns:
        right, parts = _alone(rows[:, place.begin : place.end], second)
        wrong = int((~right).sum())
        # Union bound on the probability that any column does as well by chance.
        ways = _log_ways(count, constant) - _log_ways(count, wrong)
        if math.log(len(columns)) + parts * math.log(2.0) - ways > math.log(CHANCE):
            continue
        perfect = wrong <= (1.0 - SUSPICIOUS) * constant
        if perfect or (wrong < LITTLE * count and _adds_little(right, model, constant - wrong)):
            found.append(_Leak((place.name,), 1.0 - wrong / count))
    return found


def _log_ways(count: int, some: int) -> float:
    """Return the logarithm of the binomial coefficient."""
    return math.lgamma(count + 1) - math.lgamma(some + 1) - math.lgamma(count - some + 1)


def _adds_little(right: Array, model: Array, gain: int) -> bool:
    """Whether the fit to all columns is hardly better than one column, by a one-sided test."""
    better, worse = int((model & ~right).sum()), int((right & ~model).sum())
    return better - worse + NORMAL_95 * math.sqrt(better + worse) < LITTLE * gain


def _alone(part: Array, second: Array) -> tuple[Array, int]:
    """Return the rows that a column alone classifies correctly, and its number of cells."""
    binary = bool(((part == 0.0) | (part == 1.0)).all())
    if part.shape[1] > 1 and binary:  # one feature per text
        text = np.where(part.any(axis=1), part.argmax(axis=1), part.shape[1])
        count = np.bincount(text), np.bincount(text, second, minlength=int(text.max()) + 1)
        most = count[1] > count[0] / 2.0
        return most[text] == second, int((count[0] > 0).sum())
    each = [_by_threshold(part[:, at], second) for at in range(part.shape[1])]
    return max(each, key=lambda right: int(right.sum())), 1


def _by_threshold(values: Array, second: Array) -> Array:
    """Return the rows that the best threshold classifies correctly."""
    order = np.argsort(values, kind="stable")
    below = np.concatenate([[0], np.cumsum(second[order])])
    apart = np.concatenate([[True], values[order][1:] != values[order][:-1], [True]])
    cuts = np.flatnonzero(apart)
    # If the second class is above, its rows below and the first class's rows above are wrong.
    wrong = below[cuts] + (len(values) - cuts) - (below[-1] - below[cuts])
    if wrong.min() <= len(values) - wrong.max():
        above = np.arange(len(values)) >= cuts[wrong.argmin()]
    else:
        above = np.arange(len(values)) < cuts[wrong.argmax()]
    right = np.empty(len(values), bool)
    right[order] = above == second[order]
    return right


def _constant_within(rows: Array, which: Array, columns: Sequence[_Place]) -> list[_Leak]:
    """Find columns with a single feature that hardly varies within a class."""
    found = []
    centred, size = _standardised(rows)
    count = np.bincount(which)
    for place in columns:
        if place.end - place.begin == 1 and size[place.begin] > 0.0:
            sums = np.bincount(which, centred[:, place.begin])
            share = float((sums**2 / count).sum())
            if share > SUSPICIOUS:
                found.append(_Leak((place.name,), share))
    return found
