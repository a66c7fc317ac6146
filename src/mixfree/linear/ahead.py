r"""Intervals for new rows, from predictions of rows before they were learnt.

Windows of rows are predicted by the weights just before them. Over the last of these rows, in their
order, the ends of an interval at level 1 − 2a follow the errors: with e the share of a few rows
above the upper end :math:`q`, whose number is n,

.. math:: q \leftarrow q + \gamma n (e - a) h ,

and alike for the lower end, where h is half the width, or the median error of these rows if that is
larger, so that the ends also follow errors that begin after a stretch without any; but where errors
are dense around an end, no more than in proportion to their spread there. The sum of
:math:`e - a` over all rows stays bounded, so that the interval covers its share of the rows in the
long run, however they are correlated or drift (adaptive conformal inference: Gibbs and Candès 2021,
Angelopoulos et al. 2023).
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import shown
from mixfree.base.state import State
from mixfree.linear.classes import log_probabilities
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.losses import Logistic, Loss, row_predictions

SPACING = 64  # rows after which the next window begins, at least
WINDOWS = 64  # windows begin after 1/WINDOWS of the rows or sooner, at multiples of a power of 2
WINDOW = 128  # most rows of a window
KEPT = 2048  # predictions that are kept, the last ones
TOGETHER = 64  # rows after which an interval moves
RATE = 0.03  # γ, in halves of the width per row
NORMAL = 2.4  # half the width at level 0.9, over the spread around an end, of normal errors
FINEST = 0.05  # least h, in halves of the width
AT_LEAST = math.log(2.0)  # least −log of the probability at which two classes can be in a set


@dataclass(slots=True)
class Ahead(State):
    """The last predictions of rows before they were learnt."""

    rows: int  # of the stream so far
    start: int  # row at which the last window began, or the first one will begin
    due: int  # row from which on the next window has new weights
    weights: Array  # those that predict, one row per output
    tests: Array  # predictions per output and the target of each row, of the last rows
    renewals: int  # weights are new after 1/renewals of the rows or sooner

    grows: ClassVar[tuple[str, ...]] = ("tests",)
    saved: ClassVar[tuple[str, ...]] = ("rows", "start", "due", "weights", "tests")

    @classmethod
    def begin(cls, outputs: int, columns: int, intercept: bool, renewals: int) -> Self:
        """Return a state without rows; the first window begins when weights are meaningful."""
        weights, start = np.zeros((outputs, columns + intercept)), SPACING + 4 * columns
        return cls(0, start, start, weights, np.empty((0, outputs + 1)), renewals)

    def windows(self, count: int, weights: Array | None = None) -> list[tuple[int, int, bool]]:
        """Return which of the next ``count`` rows to predict, and whether with new weights.

        Windows whose predictions would not be kept are left out, so that the result does not
        depend on how the stream is cut into chunks. ``weights`` are those of the rows.
        """
        first, last = self.rows, self.rows + count
        found: list[tuple[int, int, bool]] = []
        start = self.start
        while start < last:
            following, renewed = _next(start, WINDOWS), start >= max(self.due, first)
            stop = min(start + WINDOW, following, last)
            if found and not renewed and found[-1][1] == start - first:
                found[-1] = found[-1][0], stop - first, found[-1][2]
            elif stop > first:
                found.append((max(start, first) - first, stop - first, renewed))
            if renewed:
                self.due = _next(start, self.renewals)
            self.start, start = start, following
        self.rows, place, room = last, len(found), 0
        while place and (room < KEPT or not found[place][2]):
            place -= 1
            here = slice(*found[place][:2])
            used = here.stop - here.start if weights is None else np.count_nonzero(weights[here])
            room += int(used)
        return found[place:]

    def predict(self, rows: Any, targets: Array, weights: Array | None) -> None:
        """Predict the next rows of a window, and keep the predictions."""
        if weights is not None and not weights.all():  # rows of weight 0 may have any values
            rows, targets = (each[weights != 0.0] for each in (rows, targets))
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        self.keep(row_predictions(self.weights, dense), targets)

    def keep(self, predictions: Array, targets: Array) -> None:
        """Keep predictions, in an array of their own: a copy of this state keeps the others."""
        count = len(targets)
        new = np.column_stack([predictions.reshape(count, self.tests.shape[1] - 1), targets])
        self.tests = np.concatenate([self.tests, new])[-KEPT:]

    def merge(self, other: Self) -> None:
        """Add the predictions of another stream, as if it followed."""
        self.keep(other.tests[:, :-1], other.tests[:, -1])
        self.rows += other.rows
        self.start = self.due = max(self.rows, self.start)  # the next window is a new one

    def mapped(self, change: ColumnMap) -> Self:
        """Return the same predictions, for mapped columns; unless they are placed, a new window."""
        slopes, level = np.split(self.weights, [change.before], axis=1)
        found = replace(self, weights=np.hstack([change.rows(slopes), level]))
        if not change.places:  # no weights of the new columns need predict the same
            found.start = found.due = max(found.rows, found.start)
        return found

    def _tests(self) -> tuple[Array, Array]:
        predictions, targets = self.tests[:, :-1], self.tests[:, -1]
        return predictions[:, 0] if predictions.shape[1] == 1 else predictions, targets

    def ends(self, loss: Any, predictions: Array, level: float) -> tuple[Array, Array]:
        """Return the ends of intervals that contain the targets of new rows."""
        before, targets = self._tests()
        mean, least = loss.mean(before), loss.mean(-math.inf)
        errors = (targets - mean) / loss.deviation(mean)
        below, above = _followed(np.stack([-errors, errors]), level)
        mean = loss.mean(predictions)
        unit = loss.deviation(mean)
        return np.maximum(mean - below * unit, least), mean + above * unit

    def sets(self, loss: Loss, predictions: Array, level: float) -> Array:
        """Return which classes are in the prediction set of each row; never none of them."""
        before, targets = self._tests()
        scores = -log_probabilities(before)
        place = (targets > 0.0 if isinstance(loss, Logistic) else targets).astype(int)
        actual = scores[np.arange(len(scores)), place]
        limit = _followed(actual[None], level, scores.min(axis=1, initial=math.inf), AT_LEAST)
        found = -log_probabilities(predictions)
        return np.asarray(found <= np.maximum(limit[0], found.min(axis=1, keepdims=True)))

    def temperature(self, loss: Loss) -> float:
        """Return the factor from log-odds to calibrated ones: at most 1, by maximum likelihood.

        Weights that were fitted to other rows than those they predict are too sure, not too unsure.
        """
        before, targets = self._tests()
        low, high = 0.0, 1.0
        slope = np.atleast_2d(before.T).T
        for _ in range(40 if len(targets) else 0):
            middle = 0.5 * (low + high)
            pull = np.asarray(loss.derivative(middle * before, targets)).reshape(slope.shape)
            falls = float(np.vdot(pull, slope)) < 0.0  # the loss falls as the factor grows
            low, high = (middle, high) if falls else (low, middle)
        return high


def _next(row: int, per: int) -> int:
    """Return the next multiple of the largest power of two up to row/per, or of SPACING."""
    step = max(1 << (row // per).bit_length() >> 1, SPACING)
    return (row // step + 1) * step


def _followed(scores: Array, level: float, least: Any = None, floor: float = -math.inf) -> Array:
    """Follow the limits that the scores of all tails exceed in a share 1 − level of the rows.

    A score counts as exceeding the limit only if it is above ``least``, of one value per row.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"interval must be between 0 and 1, not {shown(level)}")
    tails, rows = scores.shape
    share = (1.0 - level) / tails
    first = min(max(rows // 4, TOGETHER), rows)
    place = math.ceil((first + 1) * (1.0 - share))
    if place > first:
        return np.full(tails, np.inf)
    limit: Array = np.maximum(np.sort(scores[:, :first], axis=1)[:, place - 1], floor)
    around = [max(1.0 - 2.0 * share, 0.0), 1.0 - 0.5 * share]
    spread = NORMAL * np.diff(np.quantile(scores, around, axis=1), axis=0)[0]
    least = np.full(rows, -math.inf) if least is None else least
    for start in range(first, rows, TOGETHER):
        here = slice(start, start + TOGETHER)
        outside = scores[:, here] > np.maximum(limit[:, None], least[here])
        excess = np.sum(outside - share, axis=1)
        unit = max(float(limit.mean()), float(np.median(np.abs(scores[:, here]))))
        limit = np.maximum(limit + RATE * excess * np.clip(spread, FINEST * unit, unit), floor)
    return limit
