"""The course of a stream, summed up in bins during the pass over it."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.draws import TESTED, key, words
from mixfree.base.state import State
from mixfree.linear.classes import most_probable, probabilities
from mixfree.linear.losses import Family, Logistic, Loss, mean_of, row_predictions

CHUNK = 1000  # rows predicted at a time before they are learnt, and rows of the shortest bins
MAX_BINS = 512  # most bins; beyond, neighbours are merged
ALL_PREDICTED = 1 << 15  # rows of a stream that are all predicted; then half of every doubling
WINDOW = 64  # successive rows that are predicted or not together
CELLS = 4096  # cells of the histogram of scores
MAX_PREDICTION = 1e140  # bound on predictions, so that sums of squares stay finite
UNKNOWN = np.iinfo(np.int64).min  # NaT as an integer
_DRAWS = key(0, TESTED)
# Sums of a bin: over all rows, and over the predicted rows with their weights.
COLUMNS = (
    *("rows", "target", "tested", "weight"),
    *("loss", "squares", "absolute", "correct"),
    *("constant_loss", "constant_squares", "constant_absolute", "constant_correct"),
    *("predicted", "tested_target", "tested_target_squares"),
)


class Outcomes(NamedTuple):
    """Predictions and outcomes of rows.

    For numbers, ``actual`` and ``predicted`` are in the units of the target. For two classes they
    are the indicator and the probability of the second class; for more classes, 1 and the
    probability of the actual class.
    """

    actual: Array
    predicted: Array
    losses: Array
    correct: Array
    scores: Array  # scores of the second of two classes; empty otherwise


class Bins(NamedTuple):
    """The course of a stream: one entry per bin, means over rows, NaN where none was predicted."""

    ends: Array  # row count at the end of each bin
    rows: Array
    target: Array
    least: Array
    greatest: Array
    predicted: Array
    loss: Array
    squares: Array
    times: Array  # of the first row, NaT without dates


@dataclass(slots=True)
class Timeline(State):
    """Sums over bins of a stream, and the weights that predict its next rows.

    Sums are taken row by row, so that the division into batches does not change a bit.
    """

    grows: ClassVar[tuple[str, ...]] = ("weights", "sums", "ranges", "times")

    weights: Array  # that predict the next rows, one column per output
    constant: Array  # with which they are compared
    scores: Array  # number of rows by class and score, for two classes
    columns: int = 0  # features that have weights; later ones add nothing
    predicts: bool = False  # whether the next rows are predicted
    until: int = 0  # row count at which weights and constant are replaced
    origin: float = 0.0  # the first target, subtracted from all targets before summing
    rows: int = 0
    per_bin: int = CHUNK  # rows of a full bin
    # Per bin: sums of ``COLUMNS``, least and greatest target, and time of the first row.
    sums: Array = field(default_factory=lambda: np.zeros((0, len(COLUMNS))))
    ranges: Array = field(default_factory=lambda: np.zeros((0, 2)))
    times: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def start(cls, outputs: int, classes: int | None) -> Self:
        """Return a timeline without rows."""
        scores = np.zeros((2, CELLS if classes == 2 else 0), np.int64)
        return cls(np.zeros((0, outputs)), np.zeros((outputs, 1)), scores)

    def check(self, what: str) -> None:
        """The bins have all rows."""
        bins, counted = len(self.sums), self.sums[:, 0].sum() == self.rows and self.per_bin > 0
        if not (bins == len(self.ranges) == len(self.times) <= MAX_BINS and counted):
            raise ValueError(f"state of the {what} is invalid: {bins} bins of {self.rows} rows")

    @property
    def tested(self) -> int:
        """Number of rows predicted before they were learnt."""
        return int(self.total("tested"))

    def total(self, column: str) -> float:
        """Return the sum of a column over the stream."""
        return float(self.sums[:, COLUMNS.index(column)].sum())

    @property
    def bins(self) -> Bins:
        """Means per bin; a short last one is part of the one before."""
        first = np.arange(len(self.sums))
        if len(first) > 1 and self.sums[-1, 0] < self.per_bin / 2:
            first = first[:-1]
        sums, low, high = self._joined(first)
        of = dict(zip(COLUMNS, sums.T, strict=True))
        weight = np.where(of["tested"] > 0.0, of["weight"], np.nan)
        target, predicted = of["target"] / of["rows"], of["predicted"] / weight
        means = [of[name] / weight for name in ("loss", "squares")]
        every = [np.cumsum(of["rows"]), of["rows"], target + self.origin, low, high]
        times = self.times[first].astype("M8[us]")
        return Bins._make([*every, predicted + self.origin, *means, times])

    def _joined(self, first: Array) -> tuple[Array, Array, Array]:
        """Return sums, least and greatest targets of bins joined from these on."""
        if not len(first):
            return self.sums, *self.ranges.T
        low, high = self.ranges.T
        ends = np.minimum.reduceat(low, first), np.maximum.reduceat(high, first)
        return np.add.reduceat(self.sums, first), *ends

    def renew(
        self,
        until: int,
        weights: Array | None = None,
        constant: Array | None = None,
        columns: int = 0,
    ) -> None:
        """Predict with these weights and constant up to a row count; do not predict if None."""
        self.predicts, self.until = weights is not None, until
        if weights is not None and constant is not None:
            self.weights, self.constant, self.columns = _bounded(weights).T, constant, columns

    def predicted_rows(self, count: int) -> tuple[Array, Array]:
        """Return which of the next rows to predict, and how many rows each of them stands for.

        All rows of a short stream, and random windows of a long one, so that predicting them costs
        less and less beside learning them.
        """
        first, last = self.rows, self.rows + count
        if last <= ALL_PREDICTED:
            return np.arange(count), np.ones(count)
        windows = np.arange(first // WINDOW, -(-last // WINDOW))
        halvings = np.frexp(windows * WINDOW // ALL_PREDICTED)[1]
        taken = words(_DRAWS, windows) >> (31 - halvings) >> 1 == 0
        rows = (windows[taken, None] * WINDOW + np.arange(WINDOW)).ravel()
        weights = np.repeat(np.ldexp(1.0, halvings[taken]), WINDOW)
        here = (rows >= first) & (rows < last)
        return rows[here] - first, weights[here]

    def add(self, loss: Loss, rows: Any, targets: Array, times: Array) -> None:
        """Add the next rows; ``times`` are in microseconds, empty without dates."""
        actual = actual_of(_bounded(targets), loss)
        if not self.rows and len(actual):
            self.origin = float(actual[0])
        which, tested = np.zeros(0, int), np.zeros((0, len(COLUMNS) - 2))
        if self.predicts:
            which, weights = self.predicted_rows(len(actual))
            some = targets[which]
            found = compare(loss, self.weights.T, rows[which][:, : self.columns], some)
            fixed = compare(loss, self.constant, np.zeros((len(some), 0)), some)
            centred = found.actual - self.origin
            sums = [1.0 / weights, np.ones(len(some)), *_errors(found), *_errors(fixed)]
            sums += [found.predicted - self.origin, centred, centred**2]
            tested = np.column_stack(sums) * weights[:, None]
            self._add_scores(found, weights)
        begin = 0
        while begin < len(actual):
            last = int(self.sums[-1, 0]) if len(self.sums) else self.per_bin
            full = len(self.sums) - (last < self.per_bin)
            if full == MAX_BINS:
                self._halve()
                continue
            end = begin + (MAX_BINS - full) * self.per_bin - last % self.per_bin
            here = slice(*which.searchsorted([begin, end]))
            part = actual[begin:end], times[begin:end]
            self._add_to_bins(full, *part, tested[here], which[here] - begin)
            begin = end
        self.rows += len(actual)

    def _add_to_bins(
        self, full: int, actual: Array, times: Array, tested: Array, which: Array
    ) -> None:
        """Add rows to the bins after so many full ones."""
        old, ranges = self.sums[full:], self.ranges[full:]  # of a bin that is not full, if any
        filled = int(old[:, 0].sum())
        starts = np.maximum(np.arange(0, filled + len(actual), self.per_bin) - filled, 0)
        counts, centred = np.diff(starts, append=len(actual)), actual - self.origin
        new = np.empty((len(starts), len(COLUMNS)))
        # Row by row, since a sum of sums would depend on where batches end.
        centred[: len(old)] += old[:, 1]
        new[:, 1] = [np.add.accumulate(each)[-1] for each in np.split(centred, starts[1:])]
        tested = np.vstack([old[:, 2:], tested])
        place = starts.searchsorted(which, "right") - 1
        cells = np.append(np.zeros(len(old), int), place)[:, None] * tested.shape[1]
        cells = (cells + np.arange(tested.shape[1])).ravel()
        sums = np.bincount(cells, tested.ravel(), len(new) * tested.shape[1])
        new[:, 2:] = sums.reshape(len(new), -1)
        new[:, 0] = counts
        new[: len(old), 0] += filled
        ends = [f.reduceat(actual, starts) for f in (np.minimum, np.maximum)]
        if len(old):
            ends[0][0], ends[1][0] = min(ends[0][0], ranges[0, 0]), max(ends[1][0], ranges[0, 1])
        first = times[starts[len(old) :]].astype(np.int64) if len(times) else UNKNOWN
        self.sums = np.vstack([self.sums[:full], new])
        self.ranges = np.vstack([self.ranges[:full], np.column_stack(ends)])
        self.times = np.append(self.times, np.full(len(starts) - len(old), first))

    def merge(self, other: Self) -> None:
        """Append the timeline of the rows that follow."""
        if not self.rows:
            self.origin = other.origin
        theirs = other.copy()
        shift, sums = other.origin - self.origin, theirs.sums
        of = dict(zip(COLUMNS, sums.T, strict=True))  # views
        of["tested_target_squares"] += shift * (2.0 * of["tested_target"] + shift * of["weight"])
        of["target"] += shift * of["rows"]
        for name in ("predicted", "tested_target"):
            of[name] += shift * of["weight"]
        while self.per_bin < theirs.per_bin:
            self._halve()
        while theirs.per_bin < self.per_bin:
            theirs._halve()
        for name in ("sums", "ranges", "times"):
            both = np.concatenate([getattr(self, name), getattr(theirs, name)])
            setattr(self, name, both)
        while len(self.sums) > MAX_BINS:
            self._halve()
        self.scores = self.scores + theirs.scores
        self.rows += theirs.rows

    def _halve(self) -> None:
        """Merge neighbouring bins into half as many of twice the length."""
        self.per_bin *= 2
        first = np.arange(0, len(self.sums), 2)
        self.sums, *ends = self._joined(first)
        self.ranges, self.times = np.column_stack(ends), self.times[first]

    def _add_scores(self, found: Outcomes, weights: Array) -> None:
        if len(scores := found.scores):
            # Cells are fine near 0, where most scores are, and cover the whole real line.
            place = (0.5 + 0.5 * scores / (1.0 + np.abs(scores))) * CELLS
            place = np.minimum(place.astype(np.int64), CELLS - 1)
            for label in (0, 1):
                of = found.actual == label
                self.scores[label] += np.bincount(place[of], weights[of], CELLS).astype(np.int64)


def compare(loss: Loss, weights: Array, rows: Array, targets: Array) -> Outcomes:
    """Predict rows with weights, one row per output, and compare with the targets.

    Predictions do not depend on the rows beside them, unlike in a matrix product.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        raw = _bounded(row_predictions(weights, rows))
    losses = _bounded(np.asarray(loss.value(raw, _bounded(targets))))
    actual, none = actual_of(_bounded(targets), loss), np.zeros(0)
    if loss.outputs > 1:
        place = targets.astype(np.int64)
        given = probabilities(raw)[np.arange(len(raw)), place]
        correct = most_probable(raw, np.arange(loss.outputs)) == place
        return Outcomes(actual, given, losses, correct, none)
    if isinstance(loss, Logistic):
        correct = (raw > 0.0) == (actual > 0.0)
        return Outcomes(actual, probabilities(raw)[:, 1], losses, correct, raw)
    return Outcomes(actual, _bounded(mean_of(loss, raw)), losses, np.zeros(len(raw)), none)


def best_constant(loss: Loss, targets: Array) -> Array:
    """Return the constant prediction of the least mean loss, one row per output."""
    assert isinstance(loss, Family)
    return loss.best_constant(_bounded(targets))


def actual_of(targets: Array, loss: Loss) -> Array:
    """Return targets as in :class:`Outcomes`."""
    if loss.outputs > 1:
        return np.ones(len(targets))
    return 0.5 * (targets + 1.0) if isinstance(loss, Logistic) else targets


def _errors(found: Outcomes) -> tuple[Array, Array, Array, Array]:
    error = found.actual - found.predicted
    return found.losses, error**2, np.abs(error), found.correct


def _bounded(values: Array) -> Array:
    """Clip values, and replace NaN, which diverged weights predict."""
    if not values.size or (values.min() >= -MAX_PREDICTION and values.max() <= MAX_PREDICTION):
        return values
    known = np.nan_to_num(values, nan=MAX_PREDICTION)
    return np.asarray(np.clip(known, -MAX_PREDICTION, MAX_PREDICTION))
