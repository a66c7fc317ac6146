"""The content of the figures of a report, independent of the plotting library."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.streams.fit.stream_fit import StreamFit
from mixfree.streams.report.weights import weights_of

__all__ = ["Cells", "Course", "Effect", "Jump", "by_time", "course", "effects"]

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
AROUND = 3  # bins compared before and after a jump
JUMP = 1.5  # least ratio of errors at a jump
UNUSUAL = 4.0  # least size of a jump, in typical changes from bin to bin
MOST_JUMPS = 5  # most jumps reported
EFFECTS = 30  # most features in the figure of the weights
# Dates beyond are drawn by their rows: most software has only years from 1 to 9999.
DRAWN = np.datetime64("1000-01-01"), np.datetime64("9000-01-01")


class Jump(NamedTuple):
    """A bin from which on predictions were clearly worse or better."""

    at: int  # index of the bin
    row: int
    when: str  # date, or empty
    before: float
    after: float

    def sentence(self, error: str) -> str:
        """Describe the jump.

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
    """The course of a stream, with NaN for bins without predictions.

    Attributes
    ----------
    x, dated
        Beginning of each bin, and whether it is in milliseconds since 1970 or a row number.
    actual, low, high, predicted
        Mean, least and greatest target, and mean prediction.
    of
        Name of these quantities.
    error, error_name
        Test-then-train error per bin, and its name.
    jumps
        Bins at which the error jumps.
    """

    x: Array
    dated: bool
    actual: Array
    low: Array
    high: Array
    predicted: Array
    of: str
    error: Array
    error_name: str
    jumps: list[Jump]

    @property
    def ranged(self) -> bool:
        """Whether targets vary within bins."""
        return bool((self.low < self.high).any())


class Effect(NamedTuple):
    """Change of the prediction per standard deviation of a feature."""

    name: str
    effect: float
    low: float
    high: float
    may_be_zero: bool


class Cells(NamedTuple):
    """Mean of actual minus predicted per hour or weekday, with its standard error."""

    labels: list[str]
    mean: Array
    error: Array


def course(fit: StreamFit) -> Course:
    """Return the course of a stream for plotting."""
    bins, classes, target = fit.timeline.bins, fit.encoder.classes, fit.encoder.target
    known = (bins.times >= DRAWN[0]) & (bins.times <= DRAWN[1])  # false for NaT
    dated = bool(known.all() and (np.diff(bins.times.astype(np.int64)) > 0).all())
    x = bins.times.astype(np.int64) / 1000.0 if dated else bins.ends - bins.rows + 1.0
    low, high, actual = bins.least, bins.greatest, bins.target
    if classes is None:
        of, error, name = target, np.sqrt(bins.squares), "RMSE"
    elif len(classes) == 2:
        of, error, name = f"share of {target} = {classes[1]}", bins.loss, "log loss"
    else:
        of, error, name = f"probability of the actual {target}", bins.loss, "log loss"
    jumps = list(_jumps(error, bins.ends - bins.rows, bins.times))
    if classes is not None:  # classes have no range
        low = high = actual
    return Course(x, dated, actual, low, high, bins.predicted, of, error, name, jumps)


def _jumps(error: Array, starts: Array, times: Array) -> Iterator[Jump]:
    """Yield the bins at which errors change by more than they usually do from bin to bin."""
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
        # Medians locate the jump within a bin or so; the largest step locates it exactly.
        near = steps[index + AROUND - 2 : index + AROUND + 1] * np.sign(
            after[index] - before[index]
        )
        at = int(known[index + AROUND - 1 + int(near.argmax())])
        when = "" if np.isnat(times[at]) else str(times[at].astype("M8[m]")).replace("T", " ")
        ends = float(np.exp(before[index])), float(np.exp(after[index]))
        yield Jump(at, int(starts[at]) + 1, when, *ends)


def effects(fit: StreamFit, most: int = EFFECTS) -> list[Effect]:
    """Return the largest effects, in the units of the prediction, in decreasing order."""
    spread = fit.model.rows.std(axis=0)
    found = []
    for place, each in enumerate(weights_of(fit)):
        # By place: a column may have the name of the intercept or of another column's feature.
        column = place % fit.model.learner.weights.shape[1]
        if column < len(spread):
            name = each.feature if each.label is None else f"{each.feature} → {each.label}"
            by = float(spread[column])
            ends = by * each.low, by * each.high
            found.append(Effect(name, by * each.weight, *ends, each.may_be_zero))
    return sorted(found, key=lambda each: -abs(each.effect))[:most]


def by_time(fit: StreamFit) -> dict[str, Cells]:
    """Return errors by hour and by weekday, for streams with more than one of each."""
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
