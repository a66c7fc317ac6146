r"""Logistic, softmax, Poisson, Huber and robust regression in one pass over rows in any order.

A uniform sample of the rows and sums of size p² are kept. As long as all rows fit in memory, the
fit is exactly that to all rows. Beyond that, every row is added to the sums

.. math:: \sum_i x_i x_i^\top, \qquad \sum_i u_j(z_i, y_i)\, x_i ,

where :math:`z_i` is the prediction by the reference weights when the row arrived, and :math:`u_j`
are the target, the slope at :math:`z_i`, and :math:`z_i` itself. The fit minimises the loss of the
kept rows, corrected by the sums over all rows (:mod:`mixfree.linear.glm.newton`) with a curvature
that is chosen at the end, so that reference weights may be far off, as for rows sorted by class.
"""

import hashlib
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_not_negative, check_values, check_whole, shown
from mixfree.base.sample import UniformSample
from mixfree.base.state import shallow
from mixfree.linear.exact.blocks import PARTS, Chunk, Fit, block_lengths
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.streamsums import StreamSums
from mixfree.linear.exact.sums import Sums
from mixfree.linear.glm.control_variates import FUNCTIONS, functions
from mixfree.linear.glm.inference import GlmInference
from mixfree.linear.glm.newton import DECREMENT, Point
from mixfree.linear.glm.problem import ROUGH_DECREMENT, Problem
from mixfree.linear.glm.rows import MIN_ROWS, Kept, Settings, rows_of
from mixfree.linear.losses import Family, Loss, Squared, predictions

GROWTH = 1.5  # growth of the stream between updates of the reference weights
LATE_GROWTH = 2.0  # the same once the stream is 16 times as long as the sample
REFERENCE_ROWS = 2048  # rows of the sample that are enough for reference weights
REFERENCE_RIDGE = 1 / 300  # of the reference weights, in standardised rows per column
QUICK_ROWS = 1 << 15  # rows that are enough to predict the next ones
START_ROWS = 4096  # rows of the sample for the fit from which the final one starts
MANY = 2 * START_ROWS  # rows from which on there is such a fit


class GlmFit(Fit):
    r"""Fits a linear model with one of five losses to a stream, in bounded memory.

    It minimises, over all rows i with weights :math:`\omega_i`,

    .. math:: \sum_i \omega_i \big( \ell(w^\top x_i + b, y_i) + \tfrac12 \lambda \|w\|^2 \big) .

    The result does not depend on how the rows are chunked. Once the stream exceeds the memory, it
    depends on which rows the seed keeps, by about the gap of its :attr:`inference`.

    ``l2`` is λ, for weights in the units of the rows; by default it is 1e-8 for standardised
    columns, too little to be noticed, or the :attr:`ridge` where weights cannot be estimated.
    ``memory`` is a number of rows, at least 3 per column, or bytes; the sums take another
    8·columns² bytes for each of 16 to 64 batches.
    """

    order = "K"  # products have the same bits
    saved = "samples", "size", "_blocks", "_sums", "_sample", "_reference", "_due", "_streams"

    def __init__(
        self,
        loss: Loss,
        columns: int,
        *,
        intercept: bool = True,
        l2: float | None = None,
        memory: int | str = "32MB",
        seed: int = 0,
    ) -> None:
        if not isinstance(loss, Family) or isinstance(loss, Squared):
            names = "Logistic, Softmax, Poisson, Huber or Robust"
            raise ValueError(f"loss must be {names}, not {shown(loss)}")
        super().__init__(columns)  # all rows are pending as long as there are not more than `size`
        l2 = None if l2 is None else check_not_negative(l2, "l2")
        self.settings = Settings(loss, columns, bool(intercept), l2)
        self.seed = check_whole(seed, "seed", least=0, most=2**64 - 1)
        self.memory, self.size = memory, rows_of(memory, columns, loss.outputs)
        self._sums = StreamSums(*self._functions)  # of all rows; empty while all are kept
        self._sample = UniformSample(self.size, self.seed)  # rows, targets, weights, predictions
        self._reference = np.zeros(self._shape)  # reference weights, in the units of the rows
        self._due = 0  # number of rows at which they are updated
        self._streams: list[int] = []  # seeds of the sample and of all merged ones

    @property
    def _shape(self) -> tuple[int, int]:
        return self.settings.loss.outputs, self.settings.columns + self.settings.intercept

    @property
    def _functions(self) -> tuple[int, int]:
        return self.settings.columns, FUNCTIONS * self._shape[0]

    @property
    def complete(self) -> bool:
        """Whether all rows are stored, so that the fit is exactly that to all rows."""
        return self._sums.rows == 0

    def successor(self) -> Self:
        """Return a copy that shares all rows and sums; only one of the two may be continued."""
        found = super().successor()
        found._sums, found._sample = shallow(self._sums), self._sample.copy()
        return found

    def copy(self) -> Self:
        """Return an independent copy."""
        found = self.successor()
        found._blocks = self._blocks.copy()
        return found

    def _check_targets(self, targets: Array) -> None:
        check_values(targets=targets)
        self.settings.loss.check_targets(targets[:, 0])

    def _length(self) -> int:
        if self.complete:
            return self.size + 1
        # Beside few kept rows, few are pending.
        rows, most = self._sums.rows, block_lengths(self.columns)[1]
        part = 1 << (rows // PARTS).bit_length() >> 1
        return part if part < most else most - rows % most  # which chunks of files often fit

    def _take(self, rows: Array, targets: Array, weights: Array | None) -> None:
        """Add a block to the sums, and offer its rows to the sample."""
        by_row = isinstance(rows, np.ndarray) and rows.flags.c_contiguous
        rows = np.asarray(rows, order="C" if by_row else "F")  # predictions round by strides
        check_values(rows=rows)
        new = self._unpredicted(rows, targets, weights)
        if self.complete:
            # From now on not all rows are kept.
            self._reference = self._rough(new, None)
            self._streams = [stream_seed(self.seed, new)]
            self._sums = StreamSums(*self._functions, len(rows))
            self._sample = UniformSample(self.size, self._streams[0])
            self._due = int(GROWTH * len(rows))
        new.before = self._predictions(rows)
        values = functions(self.settings.loss, new.before, new.targets)
        self._sums.add(rows, values, weights)
        self._sample.offer([rows, new.targets, new.weights, new.before])
        if self._sums.rows >= self._due:
            self._update_reference(self._reference)

    def _unpredicted(self, rows: Array, targets: Array, weights: Array | None) -> Kept:
        """Return rows whose predictions are not known."""
        ones = np.ones(len(rows)) if weights is None else weights
        return Kept(rows, targets[:, 0], ones, np.zeros((len(rows), self._shape[0])))

    def _predictions(self, rows: Array) -> Array:
        """Predict rows by the reference weights."""
        most = self.settings.loss.largest
        z: Array = np.dot(rows, self._reference[:, : self.columns].T)
        z += self._reference[:, self.columns :].T.sum(axis=0)
        # Such predictions are far from all targets: a column that hardly varied became huge.
        return np.clip(z, -most, most, out=z)

    def _update_reference(self, start: Array | None) -> None:
        """Update the reference weights by a fit to some rows of the sample."""
        rows = self._sums.rows
        self._reference = self._rough(self._rows(), start)
        self._due = int((LATE_GROWTH if rows >= 16 * self.size else GROWTH) * rows)

    def rough_weights(self) -> Array:
        """Return weights as good as a sample of some thousand rows gives."""
        return self._rough(self._rows(), None) if self.complete else self._reference

    def _rough(self, kept: Kept, start: Array | None, most: int = REFERENCE_ROWS) -> Array:
        """Fit to about ``most`` of the kept rows; weights in the units of the rows."""
        few = kept.take(slice(None, None, self._stride(len(kept), most)))
        ridge = REFERENCE_RIDGE * self.columns / max(len(few), 1)
        count = self._sums.rows or len(kept)
        problem = Problem.of(self.settings, few, count, self._total, ridge)
        return problem.weights(problem.solved(start, ROUGH_DECREMENT))

    @property
    def _total(self) -> Sums | None:
        return None if self.complete else self._sums.total

    def _stride(self, count: int, most: int) -> int:
        """Return the stride that leaves about ``most`` of some rows, but enough for the columns."""
        return max(count // max(most, 16 * (self.columns + 1)), 1)

    def _rows(self) -> Kept:
        """Return the kept rows in order of arrival, of those in the sums."""
        if self.complete:
            return self._unpredicted(*self._waiting)
        return Kept(*self._sample.columns)

    def weights(self) -> Array:
        """Return one row per output in the units of the rows; an intercept is last."""
        problem, point = self.solution
        return problem.weights(point)

    def mean_losses(self) -> tuple[float, float]:
        """Return the mean losses of the fit and of the best constant, over the kept rows."""
        kept, loss = self.solution[0].rows.sample, self.settings.loss
        constant = np.zeros((loss.outputs, 1))
        if self.settings.intercept:
            constant = loss.best_constant(kept.targets, kept.weights)
        z = (self.weights(), kept.rows), (constant, kept.rows[:, :0])
        values = (loss.value(predictions(w, x, loss.outputs), kept.targets) for w, x in z)
        found, least = (float(np.average(value, weights=kept.weights)) for value in values)
        return found, least

    def quick_weights(self) -> Array:
        """Return weights to predict the next rows: of many rows only nearly the best ones."""
        if not self.complete:
            return self._reference
        if self._filled <= MANY:
            return self.weights()
        problem, point = self._solved(QUICK_ROWS, ROUGH_DECREMENT)
        return problem.weights(point)

    @cached_property
    def solution(self) -> tuple[Problem, Point]:
        """The problem and its minimum."""
        return self._solved()

    def _solved(self, most: int = 1 << 62, close: float = DECREMENT) -> tuple[Problem, Point]:
        """Return the problem of about ``most`` of the kept rows, and nearly its minimum."""
        whole = self
        if not self.complete and self._filled:
            whole = self.copy()
            whole._flush()
        start, rows = None, whole._rows()
        rows = rows.take(slice(None, None, self._stride(len(rows), most)))
        problem = Problem.of(self.settings, rows, whole._sums.rows or len(rows), whole._total)
        # The search for a ridge starts at 0, where a strong one holds the weights.
        if (len(rows) > MANY or not self.complete) and not problem.scarce:
            start = whole._rough(rows, whole._reference, START_ROWS)
        return problem.solved_with_ridge(start, close)

    @property
    def ridge(self) -> float:
        """τ of ½τ‖w‖² beside the losses of the kept rows, for standardised columns; usually 0."""
        problem, _ = self.solution
        return problem.ridge * float(problem.rows.sample.weights.sum())

    @cached_property
    def inference(self) -> GlmInference:
        """Intervals and the correlation profile of the fit."""
        rows, batches = self._sums.rows + self._filled, self._sums.batches
        return GlmInference(*self.solution, rows, None if self.complete else batches)

    def merge(self, other: Self) -> None:
        """Add all rows of another fit, as if they followed; ``other`` is unchanged.

        An error if both fits began with the same rows and the same seed, and may share rows.
        """
        mine, others = ((each.settings, each.size) for each in (self, other))
        if mine != others:
            kinds = "{} that keeps {:,} rows into one with {} that keeps {:,}"
            raise ValueError(f"cannot merge a fit with {kinds.format(*others, *mine)}")
        if set(self._streams) & set(other._streams):
            raise ValueError(
                "cannot merge fits that begin with the same rows and the same seed: "
                "if later rows differ, give one of them another seed"
            )
        samples, theirs = self.samples + other.samples, other.copy()
        if self.complete and not other.complete:
            shorter = self.copy()
            for name in self.saved:
                setattr(self, name, getattr(theirs, name))
            theirs = shorter
        if theirs.complete:
            self._cut(*theirs._waiting)
        else:
            self._flush()
            theirs._flush()
            self._sums.merge(theirs._sums)
            self._sample.merge(theirs._sample)
            self._streams = self._streams + theirs._streams
            self._update_reference(self._reference)
        self.samples = samples
        self._forget()

    def mapped(self, change: ColumnMap) -> Self:
        """Return a fit to the same rows with mapped columns; both may be continued.

        Bytes of memory hold fewer rows if there are more columns.
        """
        found = self._mapped(change)
        found.settings = replace(self.settings, columns=change.after)
        found.size = min(self.size, rows_of(self.memory, change.after, self._shape[0]))
        found._sums, found._sample = self._sums.mapped(change), self._sample.shrunk(found.size)
        found._sample.transform(change.rows)
        slopes, level = np.split(self._reference, [self.columns], axis=1)
        found._reference = np.hstack([change.rows(slopes), level])
        if not (change.places or self.complete):  # no weights of the new columns need predict alike
            found._update_reference(None)
        if found._filled >= found._length():
            waiting, found._blocks = found._waiting, Chunk.nothing(change.after)
            found._cut(*waiting)
        return found

    def restored(self, plain: Any, what: str) -> Self:
        """Return the fit from which ``plain`` was made, after checking it."""
        found = shallow(self)
        found.size = check_whole(plain["size"], "size of the state", most=2**31)
        found._sample = UniformSample(found.size, (*plain["streams"], self.seed)[0])
        found._sums = StreamSums(*self._functions)
        return Fit.restored(found, plain, what)

    def check(self, what: str) -> None:
        """The sample is of the rows in the sums, and all targets suit the loss."""
        kept = self._sample.filled
        shapes = (kept, self.columns), (kept,), (kept,), (kept, self._shape[0])
        found = tuple(np.shape(column) for column in self._sample.columns)
        if self._sums.rows != self._sample.seen or found != shapes[: 4 * (kept > 0)]:
            raise ValueError(f"state of the {what} does not fit: its sample is of other rows")
        for targets in (*self._sample.columns[1:2], self._blocks.targets[:, 0]):
            self.settings.loss.check_targets(targets)


def stream_seed(seed: int, kept: Kept) -> int:
    """Return a seed that two streams share only if they begin with the same rows.

    With a common seed, merging would keep rows with the same numbers from both streams.
    """
    found = hashlib.blake2b(seed.to_bytes(8, "little"), digest_size=8)
    for array in (kept.rows, kept.targets):
        found.update(array[:MIN_ROWS].astype("<f8").tobytes())
    return int.from_bytes(found.digest(), "little")
