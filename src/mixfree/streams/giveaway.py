"""Columns that give the target away: known only when the target is known, too."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.streams.stream_fit import StreamFit

__all__ = ["giveaways"]

SUSPICIOUS = 0.999  # share of the target that a column must explain to be named
TELLING = 0.9  # share of a constant's mistakes that a threshold of one column may avoid
PAIRS = 1000  # most columns of which all pairs are tried
ROWS = 32  # rows below which anything may be explained by chance


def giveaways(fit: StreamFit) -> Iterator[str]:
    """Sentences that name the columns which explain the target almost alone.

    The share is that of the variance in a uniform sample of the rows; for two classes it is that of
    the rows whose class one threshold tells.
    """
    rows, targets = fit.reservoir.rows, fit.reservoir.targets
    if len(rows) < ROWS or (targets == targets[0]).all():
        return
    columns = _columns(fit)
    if fit.encoder.classes is None:
        found = _explaining(rows, targets, columns)
    else:
        found = _telling(rows, targets, columns)
    two = fit.encoder.classes is not None and len(fit.encoder.classes) == 2
    for each in found:
        what = " and ".join(repr(name) for name in each.names)
        verb = "alone explains" if len(each.names) == 1 else "together explain"
        share = f"{100 * each.share:.4g} % of {fit.encoder.target!r}"
        if two:
            verb, share = "alone tells the class of", f"{100 * each.share:.4g} % of the rows"
        yield (
            f"{what} {verb} {share}; if that is not known before the target, "
            f"`exclude={list(each.names)!r}`"
        )


class _Found(NamedTuple):
    names: tuple[str, ...]
    share: float


class _Place(NamedTuple):
    name: str
    begin: int
    end: int


def _columns(fit: StreamFit) -> list[_Place]:
    """Which features are those of which column."""
    places, begin = [], 0
    for column in fit.encoder.columns:
        end = begin + len(column.features)
        places.append(_Place(column.name, begin, end))
        begin = end
    return places


def _explaining(rows: Array, targets: Array, columns: Sequence[_Place]) -> list[_Found]:
    """Columns, and pairs of them, that explain the variance of a target."""
    centred, size = _standardised(rows)
    target, _ = _standardised(targets[:, None])
    found, rest = [], []
    for place in columns:
        part = centred[:, place.begin : place.end]
        share = _explained(part, target)
        if share > SUSPICIOUS:
            found.append(_Found((place.name,), share))
        elif part.shape[1] == 1 and size[place.begin] > 0.0:
            rest.append(place)
    if found or len(rest) > PAIRS:
        return found
    at = [place.begin for place in rest]
    each = centred[:, at]
    with_target, together = (each.T @ target)[:, 0], each.T @ each
    # The share that two columns explain, from their correlations with the target and one another.
    one, other = with_target[:, None], with_target[None, :]
    apart = 1.0 - together**2
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = (one**2 + other**2 - 2.0 * one * other * together) / apart
    for i, j in np.argwhere(np.triu((apart > 1e-9) & (shares > SUSPICIOUS), 1)):
        found.append(_Found((rest[i].name, rest[j].name), min(float(shares[i, j]), 1.0)))
    return sorted(found, key=lambda pair: -pair.share)[:3]


def _standardised(values: Array) -> tuple[Array, Array]:
    """Columns with mean 0 and length 1, 0 for a constant one; and their lengths before."""
    largest = np.abs(values).max(axis=0)
    values = values / np.where(largest > 0.0, largest, 1.0)
    centred = values - values.mean(axis=0)
    size = np.sqrt((centred**2).sum(axis=0))
    size = np.where(size > 1e-12 * np.sqrt(len(values)), size, 0.0)
    return centred / np.where(size > 0.0, size, np.inf), size


def _explained(part: Array, target: Array) -> float:
    """Share of the target's variance that a linear function of some features explains."""
    if part.shape[1] == 1:
        return float((part.T @ target)[0, 0] ** 2)
    weights = np.linalg.lstsq(part, target, rcond=1e-9)[0]
    return 1.0 - float(((target - part @ weights) ** 2).sum())


def _telling(rows: Array, targets: Array, columns: Sequence[_Place]) -> list[_Found]:
    """Columns of which one threshold tells the class."""
    classes, which = np.unique(targets, return_inverse=True)
    if len(classes) > 2:
        return _same_within(rows, which, columns)
    second = which == 1
    mistakes = min(second.sum(), (~second).sum())
    found = []
    for place in columns:
        best = min(_mistakes(rows[:, at], second) for at in range(place.begin, place.end))
        if best < (1.0 - TELLING) * mistakes:
            found.append(_Found((place.name,), 1.0 - best / len(rows)))
    return found


def _mistakes(values: Array, second: Array) -> int:
    """Rows in the wrong class if those above the best threshold are in one class."""
    order = np.argsort(values, kind="stable")
    below = np.concatenate([[0], np.cumsum(second[order])])
    cut = np.concatenate([[True], values[order][1:] != values[order][:-1], [True]])
    number = np.arange(len(values) + 1)
    # Second above: those of the second below, and those of the first above, are wrong.
    wrong = below + (len(values) - number) - (below[-1] - below)
    wrong = wrong[cut]
    return int(min(wrong.min(), len(values) - wrong.max()))


def _same_within(rows: Array, which: Array, columns: Sequence[_Place]) -> list[_Found]:
    """Columns with one feature that hardly varies within a class."""
    found = []
    centred, size = _standardised(rows)
    count = np.bincount(which)
    for place in columns:
        if place.end - place.begin == 1 and size[place.begin] > 0.0:
            sums = np.bincount(which, centred[:, place.begin])
            share = float((sums**2 / count).sum())
            if share > SUSPICIOUS:
                found.append(_Found((place.name,), share))
    return found
