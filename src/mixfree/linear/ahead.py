r"""Intervals for new rows, from predictions of rows before they were learnt.

Windows of rows are predicted by the weights just before them. Over the last of these rows, in their
order, the ends of an interval at level 1 − 2a follow the errors: with e the share of a few rows
above the upper end :math:`q`, whose number is n,

.. math:: q \leftarrow q + \gamma n (e - a) h ,

and alike for the lower end, where h is half the width. The sum of :math:`e - a` over all rows stays
bounded, so that the interval covers its share of the rows in the long run, however they are
correlated or drift (adaptive conformal inference: Gibbs and Candès 2021, Angelopoulos et al. 2023).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import shown
from mixfree.base.state import State
from mixfree.linear.classes import log_probabilities
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.losses import Logistic, Loss, predictions_apart

SPACING = 64  # rows after which the next window begins, at least
OFTEN, SELDOM = 64, 16  # windows begin after 1/OFTEN of the rows, or SELDOM where weights cost more
WINDOW = 128  # most rows of a window
KEPT = 2048  # predictions that are kept, the last ones
TOGETHER = 64  # rows after which an interval moves
RATE = 0.03  # γ, in halves of the width per row
AT_LEAST = math.log(2.0)  # least −log of the probability at which two classes can be in a set


@dataclass(slots=True)
class Ahead(State):
    """The last predictions of rows before they were learnt.

    Parameters
    ----------
    rows
        Rows of the stream so far.
    start
        Row at which the last window began, or the first one will begin.
    often
        Windows begin after 1/often of the rows so far.
    weights
        Those that predict the window; one row per output.
    predictions, targets, counts
        Predictions (rows × outputs), targets, and 0 for a row of weight 0, else 1.
    buffer, waiting
        Room for the rows of a window with targets and weights, and how many are not predicted yet.

    Examples
    --------
    >>> ahead = Ahead.begin(outputs=1, columns=1, intercept=True)
    >>> list(ahead.windows(100))
    [(68, 100, True)]
    >>> from mixfree.linear.losses import Squared
    >>> rng = np.random.default_rng(0)
    >>> ahead.keep(np.zeros(2000), rng.normal(size=2000), None)
    >>> ahead.ends(Squared(), np.array([5.0]), 0.9)
    (array([3.08...]), array([6.66...]))
    """

    rows: int
    start: int
    often: int
    weights: Array
    predictions: Array
    targets: Array
    counts: Array
    buffer: Array
    waiting: int = 0
    grows: ClassVar[tuple[str, ...]] = ("predictions", "targets", "counts")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The fields to save, of a settled state."""
        return "rows", "start", "often", "weights", "predictions", "targets", "counts"

    @classmethod
    def begin(cls, outputs: int, columns: int, intercept: bool, often: int = OFTEN) -> Self:
        """Return a state without rows; the first window begins when weights are meaningful."""
        weights = np.zeros((outputs, columns + intercept))
        nothing = np.zeros((0, outputs)), np.zeros(0), np.zeros(0)
        buffer = np.empty((WINDOW, columns + 2))
        return cls(0, SPACING + 4 * columns, often, weights, *nothing, buffer)

    def check(self, what: str) -> None:
        """Check that rows, windows and the lengths of arrays agree."""
        lengths = {len(self.predictions), len(self.targets), len(self.counts)}
        counts = self.rows, self.start, self.often - 1
        if len(lengths) > 1 or len(self.targets) > KEPT or min(counts) < 0:
            raise ValueError(f"state of the {what} does not fit: {shown(sorted(lengths))} tests")

    def within(self, rows: Any, targets: Array, weights: Array | None) -> Self | None:
        """Return the state after the next rows if no window begins among them, else None.

        Rows of a window wait to be predicted, for the sake of streams that come row by row. They
        are written where this state does not look; only one of the two may be continued.
        """
        first, count, waiting = self.rows, len(targets), self.waiting
        spacing = max(SPACING, self.start // self.often)
        begun = first > self.start
        if first + count > (self.start + spacing if begun else self.start):
            return None
        room = self.start + min(WINDOW, spacing) - first
        if begun and room > 0:
            here = slice(waiting, waiting + min(room, count))
            x = rows if count <= room else rows[:room]
            self.buffer[here, :-2] = x if isinstance(x, np.ndarray) else x.toarray()
            self.buffer[here, -2] = targets[:room]
            self.buffer[here, -1] = 1.0 if weights is None else weights[:room]
            waiting = here.stop
        kept = self.weights, self.predictions, self.targets, self.counts, self.buffer
        return type(self)(first + count, self.start, self.often, *kept, waiting)

    def settled(self) -> Self:
        """Return an independent copy in which no rows wait."""
        found = replace(self, waiting=0, buffer=np.empty_like(self.buffer))
        if self.waiting:
            rows, targets, weights = np.split(self.buffer[: self.waiting], [-2, -1], axis=1)
            found.predict(rows, targets[:, 0], weights[:, 0])
        return found

    def predict(self, rows: Any, targets: Array, weights: Array | None) -> None:
        """Predict the next rows of a window, and keep the predictions."""
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        self.keep(predictions_apart(self.weights, dense), targets, weights)

    def windows(self, count: int) -> Iterator[tuple[int, int, bool]]:
        """Yield which of the next ``count`` rows to predict, and whether with new weights.

        Windows whose predictions would not be kept are left out, so that the result does not
        depend on how the stream is cut into chunks.
        """
        last, start, found = self.rows + count, self.start, list[tuple[int, int]]()
        while start < last:
            spacing = max(SPACING, start // self.often)
            found.append((start, min(start + min(WINDOW, spacing), last)))
            start += spacing
        room = 0
        for place in reversed(range(len(found))):
            room += found[place][1] - found[place][0]
            if room >= KEPT:
                found = found[place:]
                break
        first = self.rows
        for start, stop in found:
            if stop > first:
                yield max(start, first) - first, stop - first, start >= first
            self.start = start
        self.rows = last

    def keep(self, predictions: Array, targets: Array, weights: Array | None) -> None:
        """Keep the predictions of the next rows of a window."""
        rows = predictions.reshape(len(targets), self.predictions.shape[1])
        counts = np.ones(len(targets)) if weights is None else np.sign(weights)
        if not counts.all():  # rows of weight 0 may have any values
            rows, targets = np.where(counts[:, None], rows, 0.0), np.where(counts, targets, 0.0)
        self.predictions = np.concatenate([self.predictions, rows])[-KEPT:]
        self.targets = np.concatenate([self.targets, targets])[-KEPT:]
        self.counts = np.concatenate([self.counts, counts])[-KEPT:]

    def merge(self, other: Self) -> None:
        """Add the predictions of another stream, as if it followed."""
        self.keep(other.predictions, other.targets, other.counts)
        self.rows += other.rows
        self.start = max(self.rows, self.start)  # a new window

    def mapped(self, change: ColumnMap) -> Self:
        """Return the same predictions, for mapped columns; unless they are placed, a new window."""
        if not change.places:  # no weights of the new columns need predict the same
            outputs, width = self.weights.shape
            weights = np.zeros((outputs, width - change.before + change.after))
            start = max(self.rows, self.start)
        else:
            slopes, level = np.split(self.weights, [change.before], axis=1)
            weights, start = np.hstack([change.rows(slopes), level]), self.start
        buffer = np.empty((WINDOW, change.after + 2))
        return replace(self, weights=weights, start=start, buffer=buffer)

    def _tests(self) -> tuple[Array, Array]:
        used = self.counts > 0.0
        found = self.predictions[used]
        return found[:, 0] if found.shape[1] == 1 else found, self.targets[used]

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
        own = scores[np.arange(len(scores)), place]
        limit = _followed(own[None], level, scores.min(axis=1, initial=math.inf), AT_LEAST)
        found = -log_probabilities(predictions)
        chosen: Array = found <= np.maximum(limit[0], found.min(axis=1, keepdims=True))
        return chosen

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
    least = np.full(rows, -math.inf) if least is None else least
    for start in range(first, rows, TOGETHER):
        here = slice(start, start + TOGETHER)
        outside = scores[:, here] > np.maximum(limit[:, None], least[here])
        excess = np.sum(outside - share, axis=1)
        limit = np.maximum(limit + RATE * excess * float(limit.mean()), floor)
    return limit
