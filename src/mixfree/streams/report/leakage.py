"""Target leakage: columns that may be known only once the target is known.

A numeric target is leaked by one column, or two, that explain more than 99.9 % of its variance. A
binary target is leaked by a column whose own classifier avoids 99.9 % of the errors of the best
constant, or is right in 95 % of the rows while all other columns together add less than 5 % to its
gain over the constant, at 95 % confidence; in both cases only if chance is excluded. The classifier
of a numeric column is a threshold; that of a text column is the majority class of each text.
"""

import math
from collections.abc import Iterator

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.streams.fit.stream_fit import StreamFit
from mixfree.streams.fit.timeline import compare

__all__ = ["leakage_warnings"]

SUSPICIOUS = 0.999  # share of the target above which a column is reported
CHANCE = 0.001  # largest probability that a column classifies as well by chance
LITTLE = 0.05  # share of rows, and of the gain, that is left to all other columns
NORMAL_95 = 1.645  # one-sided 95 % quantile of the normal distribution
MAX_PAIRED = 1000  # most columns of which all pairs are tried
MIN_ROWS = 32  # fewer may be explained by chance

Leaks = list[tuple[float, list[str]]]  # shares of the target, and the columns that explain them


def leakage_warnings(fit: StreamFit) -> Iterator[str]:
    """Yield a warning per column, or pair, that explains the target almost alone.

    A uniform sample of the rows is tested.
    """
    rows, targets, classes = fit.model.rows, fit.model.targets, fit.encoder.classes
    if len(rows) < MIN_ROWS or (targets == targets[0]).all():
        return
    ranges = zip(fit.encoder.columns, fit.model.design.ranges, strict=True)
    columns = {column.name: rows[:, slice(*ends)] for column, ends in ranges if ends[1] > ends[0]}
    two = classes is not None and len(classes) == 2
    if classes is None:
        found = _explaining(columns, targets)
    elif two:
        right = compare(fit.row_loss, fit.model.learner.weights, rows, targets).correct
        found = _classifying(columns, targets > 0.0, right.astype(bool))
    else:
        found = _constant_within(columns, targets[:, None] == np.unique(targets))
    for part, names in found:
        verb, known = "alone explains", "it is"
        if len(names) > 1:
            verb, known = "together explain", "they are"
        share = f"{verb} {100 * part:.4g} % of {fit.encoder.target!r}"
        if two:
            share = f"alone classifies {100 * part:.4g} % of the rows correctly"
        yield (
            f"{' and '.join(map(repr, names))} {share}; if {known} not known before the target, "
            f"give `exclude={names!r}`"
        )


def _explaining(columns: dict[str, Array], targets: Array) -> Leaks:
    """Find columns, or pairs of columns, that explain the variance of a numeric target."""
    shares = ((float(_shares(part, targets)), [name]) for name, part in columns.items())
    found = [each for each in shares if each[0] > SUSPICIOUS]
    names = [name for name, part in columns.items() if part.shape[1] == 1]
    if found or not names or len(names) > MAX_PAIRED:
        return found
    both = _standardised(np.hstack([columns[name] for name in names]))
    with_target, together = both.T @ _standardised(targets), both.T @ both
    # Share explained by two columns, from their correlations with the target and each other.
    one, other = with_target[:, None], with_target[None, :]
    determinant = 1.0 - together**2
    with np.errstate(divide="ignore", invalid="ignore"):
        pairs = (one**2 + other**2 - 2.0 * one * other * together) / determinant
    for i, j in np.argwhere(np.triu((determinant > 1e-9) & (pairs > SUSPICIOUS), 1)):
        found.append((min(float(pairs[i, j]), 1.0), [names[i], names[j]]))
    return sorted(found, key=lambda pair: -pair[0])[:3]


def _constant_within(columns: dict[str, Array], classes: Array) -> Leaks:
    """Find columns with a single feature that hardly varies within a class."""
    single = {name: part[:, 0] for name, part in columns.items() if part.shape[1] == 1}
    if not single:
        return []
    shares = _shares(classes.astype(np.float64), np.column_stack([*single.values()])).tolist()
    pairs = zip(shares, single, strict=True)
    return [(share, [name]) for share, name in pairs if share > SUSPICIOUS]


def _shares(rows: Array, targets: Array) -> Array:
    """Return the share of the variance of each target that a linear model of the rows explains."""
    rows, targets = _standardised(rows), _standardised(targets)
    weights = np.linalg.lstsq(rows, targets, rcond=1e-9)[0]
    return np.asarray((targets**2).sum(axis=0) - ((targets - rows @ weights) ** 2).sum(axis=0))


def _standardised(values: Array) -> Array:
    """Return columns with mean 0 and norm 1, or 0 if they are constant."""
    centred = values - values.mean(axis=0)
    size, largest = np.linalg.norm(centred, axis=0), np.abs(values).max(axis=0)
    varies = size > 1e-12 * np.sqrt(len(values)) * largest
    return np.asarray(centred / np.where(varies, size, np.inf))


def _classifying(columns: dict[str, Array], second: Array, model: Array) -> Leaks:
    """Find columns that alone classify almost all rows into the first and the second class.

    ``model`` tells in which rows the fit to all columns is right.
    """
    count, constant = len(second), int(min(second.sum(), (~second).sum()))
    found = Leaks()
    for name, part in columns.items():
        right, cells = _alone(part, second)
        wrong = int((~right).sum())
        # Union bound on the probability that any column does as well by chance.
        ways = _log_ways(count, constant) - _log_ways(count, wrong)
        if math.log(len(columns)) + cells * math.log(2.0) - ways > math.log(CHANCE):
            continue
        better, worse = int((model & ~right).sum()), int((right & ~model).sum())
        added = better - worse + NORMAL_95 * math.sqrt(better + worse)
        alone = wrong < LITTLE * count and added < LITTLE * (constant - wrong)
        if alone or wrong <= (1.0 - SUSPICIOUS) * constant:
            found.append((1.0 - wrong / count, [name]))
    return found


def _log_ways(count: int, some: int) -> float:
    """Return the logarithm of the binomial coefficient."""
    return math.lgamma(count + 1) - math.lgamma(some + 1) - math.lgamma(count - some + 1)


def _alone(part: Array, second: Array) -> tuple[Array, int]:
    """Return the rows that a column alone classifies correctly, and its number of cells."""
    if part.shape[1] > 1 and ((part == 0.0) | (part == 1.0)).all():  # one feature per text
        text = np.where(part.any(axis=1), part.argmax(axis=1), part.shape[1])
        rows, of_second = np.bincount(text), np.bincount(text, second)
        return (of_second > rows / 2.0)[text] == second, int((rows > 0).sum())
    each = [_by_threshold(values, second) for values in part.T]
    return max(each, key=lambda right: int(right.sum())), 1


def _by_threshold(values: Array, second: Array) -> Array:
    """Return the rows that the best threshold classifies correctly."""
    order = np.argsort(values, kind="stable")
    edges = np.append(values[order], np.inf)
    cuts = np.flatnonzero(np.diff(edges, prepend=-np.inf))  # where values differ
    below = np.concatenate([[0], np.cumsum(np.where(second[order], -1, 1))])[cuts]
    right = below + second.sum()  # rows if the second class is above the cut
    if right.max() >= len(values) - right.min():
        return np.asarray((values >= edges[cuts[right.argmax()]]) == second)
    return np.asarray((values < edges[cuts[right.argmin()]]) == second)
