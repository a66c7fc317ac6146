"""What the pictures of a report show, as numbers and sentences, whoever draws them."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.streams.metrics import NAMES, metrics
from mixfree.streams.stream_fit import StreamFit
from mixfree.streams.weights import INTERCEPT, weights_of

__all__ = ["Cells", "Course", "Effect", "Jump", "by_time", "course", "effects", "summary"]

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
AROUND = 3  # bins before and after a moment that are compared
JUMP = 1.5  # the least ratio of errors that is called a jump
UNUSUAL = 4.0  # so many typical changes from bin to bin must a jump have
MOST_JUMPS = 5


class Jump(NamedTuple):
    """A moment after which predictions were worse or better than before."""

    at: int  # the bin
    row: int
    when: str  # its date, or empty
    before: float
    after: float

    def sentence(self, error: str) -> str:
        """In words.

        Examples
        --------
        >>> Jump(9, 12_000, "", 2.0, 5.0).sentence("RMSE")
        'RMSE rises from 2 to 5 at about row 12,000'
        """
        moves = "rises" if self.after > self.before else "falls"
        when = f" ({self.when})" if self.when else ""
        change = f"{moves} from {self.before:.3g} to {self.after:.3g}"
        return f"{error} {change} at about row {self.row:,}{when}"


class Course(NamedTuple):
    """The course of a stream; NaN where nothing was predicted.

    Attributes
    ----------
    x, dated
        Where each bin begins: its time in milliseconds since 1970, or its first row.
    rows
        Rows of each bin.
    actual, low, high, predicted
        Mean, least and greatest target, and mean prediction.
    of
        What these are of.
    error, error_name
        Test-then-train error of each bin and what it is called.
    jumps
        The moments at which it jumps.
    """

    x: Array
    dated: bool
    rows: Array
    actual: Array
    low: Array
    high: Array
    predicted: Array
    of: str
    error: Array
    error_name: str
    jumps: list[Jump]


class Effect(NamedTuple):
    """What one standard deviation of a feature adds to the prediction."""

    name: str
    effect: float
    low: float
    high: float
    may_be_zero: bool


class Cells(NamedTuple):
    """Mean error, actual minus predicted, of each hour or weekday, with its standard error."""

    labels: list[str]
    mean: Array
    error: Array


def course(fit: StreamFit) -> Course:
    """The course of a stream as it is drawn."""
    bins, classes, target = fit.timeline.bins, fit.encoder.classes, fit.encoder.target
    known = ~np.isnat(bins.times)
    dated = bool(known.all() and (np.diff(bins.times.astype(np.int64)) > 0).all())
    x = bins.times.astype(np.int64) / 1000.0 if dated else bins.ends - bins.rows + 1.0
    low, high, actual = bins.least, bins.greatest, bins.target
    if classes is None:
        of, error, name = target, np.sqrt(bins.squares), "RMSE"
    elif len(classes) == 2:
        of, error, name = f"share of {target} = {classes[1]}", bins.loss, "log loss"
    else:
        of, error, name = f"probability of the {target} that came", bins.loss, "log loss"
    jumps = list(_jumps(error, bins.ends - bins.rows, bins.times))
    if classes is not None:  # a class has no range worth drawing
        low = high = actual
    return Course(x, dated, bins.rows, actual, low, high, bins.predicted, of, error, name, jumps)


def _jumps(error: Array, starts: Array, times: Array) -> Iterator[Jump]:
    """Moments at which errors change, and more than they usually do from bin to bin."""
    known = np.flatnonzero(error > 0.0)
    if len(known) < 2 * AROUND:
        return
    logs = np.log(error[known])
    medians = np.median(np.lib.stride_tricks.sliding_window_view(logs, AROUND), axis=1)
    before, after = medians[:-AROUND], medians[AROUND:]
    steps = np.diff(logs)
    least = max(np.log(JUMP), UNUSUAL * float(np.median(np.abs(steps))))
    found: list[int] = []
    for index in np.argsort(-np.abs(after - before), kind="stable").tolist():
        change = after[index] - before[index]
        if abs(change) <= least or len(found) == MOST_JUMPS:
            break
        if any(abs(index - other) < AROUND for other in found):
            continue
        found.append(index)
    for index in sorted(found):
        # Medians cannot tell by one bin where it was: there the step itself is largest.
        near = steps[index + AROUND - 2 : index + AROUND + 1] * np.sign(
            after[index] - before[index]
        )
        at = int(known[index + AROUND - 1 + int(near.argmax())])
        when = "" if np.isnat(times[at]) else str(times[at].astype("M8[m]")).replace("T", " ")
        ends = float(np.exp(before[index])), float(np.exp(after[index]))
        yield Jump(at, int(starts[at]) + 1, when, *ends)


def effects(fit: StreamFit, most: int) -> list[Effect]:
    """The largest effects, in the units of the prediction, the largest first."""
    spread = dict(zip(fit.encoder.features, fit.reservoir.rows.std(axis=0), strict=True))
    found = []
    for each in weights_of(fit):
        if each.feature != INTERCEPT:
            name = each.feature if each.label is None else f"{each.feature} → {each.label}"
            by = float(spread[each.feature])
            ends = by * each.low, by * each.high
            found.append(Effect(name, by * each.weight, *ends, each.may_be_zero))
    return sorted(found, key=lambda each: -abs(each.effect))[:most]


def by_time(fit: StreamFit) -> dict[str, Cells]:
    """Errors by hour and weekday, as far as the stream has several of them."""
    found = {}
    for name, cells, labels in (
        ("hour", fit.timeline.hours, [str(hour) for hour in range(24)]),
        ("weekday", fit.timeline.weekdays, list(WEEKDAYS)),
    ):
        count, total, squares = cells.T
        seen = count > 0
        if seen.sum() > 1:
            mean = total[seen] / count[seen]
            spread = np.maximum(squares[seen] / count[seen] - mean**2, 0.0)
            names = [label for label, there in zip(labels, seen, strict=True) if there]
            found[name] = Cells(names, mean, np.sqrt(spread / count[seen]))
    return found


def summary(fit: StreamFit) -> Iterator[str]:
    """What the model is and how good, in sentences."""
    encoder, found = fit.encoder, metrics(fit)
    what = f"the {len(encoder.classes)} classes of" if encoder.classes else "the number"
    features = len(encoder.features)
    yield (
        f"A linear model predicts {what} {encoder.target!r} from {features:,} "
        f"feature{'s' if features > 1 else ''}; it has learnt from {fit.used:,} of {fit.read:,} "
        "rows, in their order."
    )
    inside, ahead, constant = (
        found.get(name) for name in ("in_sample", "test_then_train", "constant")
    )
    assert inside is not None and constant is not None
    if encoder.classes is None:
        yield f"It explains {_percent(inside['r2'])} of the variance of the rows it has learnt."
        if ahead is not None:
            yield (
                f"On rows that it had not seen yet it explained {_percent(ahead['r2'])} of the "
                f"variance: its typical error ({NAMES['rmse']}) was {ahead['rmse']:.3g}, and that "
                f"of the best constant in hindsight is {constant['rmse']:.3g}."
            )
        return
    yield (
        f"It is right in {_percent(inside['accuracy'])} of the rows that it has learnt; always to "
        f"say the most frequent class is right in {_percent(constant['accuracy'])}."
    )
    if ahead is not None:
        yield f"On rows that it had not seen yet it was right in {_percent(ahead['accuracy'])}."


def _percent(share: float) -> str:
    """A share in words.

    Examples
    --------
    >>> _percent(0.5), _percent(-1.0), _percent(0.99999)
    ('50 %', 'nothing', 'almost 100 %')
    """
    if share != share:
        return "an unknown part"
    if share <= 0.0:
        return "nothing"
    return "almost 100 %" if 0.9995 < share < 1.0 else f"{100.0 * share:.3g} %"
