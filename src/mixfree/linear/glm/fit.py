r"""Logistic, softmax, Huber and robust regression in one pass over rows in any order.

A uniform sample of the rows and sums of size p² are kept. As long as all rows fit in memory, the
fit is exactly that to all rows. Beyond that, every row is added to the sums

.. math:: \sum_i x_i x_i^\top, \qquad \sum_i u_j(z_i, y_i)\, x_i ,

where :math:`z_i` is the prediction by the reference weights when the row arrived, and :math:`u_j`
are the target, the probability (or slope) at :math:`z_i`, and :math:`z_i` itself. They make one
quadratic per row, with a common curvature whose size is chosen at the end, when the fit is known.
Curvatures are therefore never out of date, which matters where the reference weights were far off:
rows sorted by class or by margin. The fit minimises the loss of the kept rows, corrected by the
sums over all rows (:mod:`mixfree.linear.glm.newton`). For the squared loss the correction would
be perfect.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import MAX_VALUE, Array
from mixfree.base.checks import (
    check_not_negative,
    check_positive,
    check_values,
    check_whole,
    shown,
)
from mixfree.base.interrupts import all_or_nothing, shallow
from mixfree.linear.exact.blocks import Blocks, block_rows, check_array, check_rows
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.reservoir import FEWEST, Kept, Reservoir, rows_of, stream_seed
from mixfree.linear.exact.streamsums import StreamSums, origin_of
from mixfree.linear.glm.gap import NOTHING, Gap, gap_of
from mixfree.linear.glm.inference import GlmInference
from mixfree.linear.glm.newton import CLOSE, Part, Point
from mixfree.linear.glm.problem import ROUGH, Problem, Settings
from mixfree.linear.losses import Huber, Logistic, Loss, Robust, Softmax

GROWTH = 1.5  # growth of the stream between updates of the reference weights
LATE_GROWTH = 2.0  # the same once the stream is 16 times as long as the sample
REFERENCE_ROWS = 2048  # rows of the sample that are enough for reference weights
REFERENCE_RIDGE = 1 / 300  # of the reference weights, in standardised rows per column
START_ROWS = 4096  # rows of the sample for the fit from which the final one starts


class GlmFit:
    r"""Fits a linear model with one of four losses to a stream, in bounded memory.

    It minimises, over all rows i with weights :math:`\omega_i`,

    .. math:: \sum_i \omega_i \big( \ell(w^\top x_i + b, y_i) + \tfrac12 \lambda \|w\|^2 \big)
              \quad\text{with}\quad \|w\| \le r .

    The result does not depend on how the rows are chunked. Once the stream exceeds the memory, it
    depends on which rows the seed keeps; :meth:`gap` estimates by how much. If neither λ nor r is
    given, columns along which the classes of the kept rows can be separated get a weak ridge
    (:attr:`separated`), as strong as scikit-learn's default: no best weights exist without one.
    All columns get it if a class that is separated has fewer rows than weights, or if the kept rows
    do not hold back the correction by the sums.

    The robust loss is not convex: the fit is the minimum that Newton's method finds from the fit
    with Huber's loss of the same width.

    Parameters
    ----------
    loss
        ``Logistic()``, ``Softmax(classes)``, ``Huber()`` or ``Robust()``.
    columns
        Number of features, of values up to 1e75. Their offsets cost no digits, and one that
        varies by less than 1e-75 counts as constant.
    intercept
        Whether each output has an intercept b, to which penalty and ball do not apply.
    l2
        λ, for weights in the units of the rows. By default 1e-8 for weights of standardised
        columns, too little to be noticed, and more where classes can be separated. With λ = 0 the
        weights of such classes grow until the loss no longer decreases noticeably.
    radius
        r. The norm runs over the weights of all outputs, in the units of the rows.
    memory
        Rows to keep: their number, at least 3 per column, or bytes such as ``"32MB"``. An eighth
        more is stored temporarily, and is part of the bytes. The sums take another 8·columns²
        bytes for each of 16 to 64 batches: 5 MB for 100 columns, 128 MB for 1,000.
    seed
        Seed of the sample of rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(5000, 2))
    >>> targets = np.where(rng.random(5000) < 1 / (1 + np.exp(-2 * rows[:, 0])), 1.0, -1.0)
    >>> fit = GlmFit(Logistic(), 2, memory=500)
    >>> for chunk in range(0, 5000, 700):
    ...     fit.add(rows[chunk : chunk + 700], targets[chunk : chunk + 700])
    >>> fit.samples, fit.complete
    (5000, False)
    >>> fit.weights().shape, float(fit.weights()[0, 0].round(1))
    ((1, 3), 2.1)
    >>> 0 < fit.gap().estimate < fit.gap().upper < 1e-3
    True
    """

    def __init__(
        self,
        loss: Loss,
        columns: int,
        *,
        intercept: bool = True,
        l2: float | None = None,
        radius: float | None = None,
        memory: int | str = "32MB",
        seed: int = 0,
    ) -> None:
        if not isinstance(loss, Logistic | Softmax | Huber | Robust):
            raise ValueError(f"loss must be Logistic, Softmax, Huber or Robust, not {shown(loss)}")
        columns = check_whole(columns, "columns", least=0)
        l2 = None if l2 is None else check_not_negative(l2, "l2")
        radius = None if radius is None else check_positive(radius, "radius")
        self.settings = Settings(loss, columns, bool(intercept), l2, radius)
        self.seed = check_whole(seed, "seed", least=0, most=2**64 - 1)
        self.samples, self.memory = 0, memory
        self._family = self.settings.family
        self._sample = Reservoir(rows_of(memory, columns, loss.outputs), columns, loss.outputs)
        self._blocks = Blocks(columns)
        self._sums: StreamSums | None = None  # None while all rows are kept
        self._reference = np.zeros(self._shape)  # reference weights, in the units of the rows
        self._due = 0  # number of rows at which they are updated
        self._streams: tuple[int, ...] = ()  # seeds of all merged streams
        self._solution: tuple[Problem, Point] | None = None
        self._inference: GlmInference | None = None

    @property
    def _shape(self) -> tuple[int, int]:
        return self.settings.loss.outputs, self.settings.columns + self.settings.intercept

    @property
    def kept(self) -> int:
        """Number of rows that are stored."""
        return min(self._sample.stored, self._sample.size) + self._blocks.filled

    @property
    def complete(self) -> bool:
        """Whether all rows are stored, so that the fit is exactly that to all rows."""
        return self._sums is None

    def successor(self) -> Self:
        """Return a copy that shares all rows and sums; only one of the two may be continued."""
        twin = shallow(self)
        twin._sample, twin._blocks = self._sample.successor(), self._blocks.successor()
        twin._sums = None if self._sums is None else self._sums.copy()
        return twin

    @all_or_nothing
    def add(self, rows: Any, targets: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> None:
        """Add rows in order, dense or sparse, of any real dtype.

        Rows of weight 0 count as samples, but have no other effect.

        Raises
        ------
        ValueError
            If a shape is wrong, a value is not finite or above 1e75, or a target does not suit
            the loss; nothing has changed then.
        """
        x, y, w = check_rows(rows, targets, weights, self.settings.columns, 1)
        check_values(targets=y)
        self._family.check_targets(y[:, 0])
        self._add(x, y, w)
        self.samples += int(np.shape(targets)[0])
        self._solution = self._inference = None

    def _add(self, x: Any, y: Array, w: Array | None) -> None:
        room = self._sample.size - self._sample.seen if self._sums is None else 0
        if room > 0 and len(y):
            kept = x[:room] if isinstance(x, np.ndarray) else x[:room].toarray()
            check_values(rows=kept)
            ones = np.ones(len(kept)) if w is None else w[:room]
            before = np.zeros((len(kept), self._shape[0]))
            self._sample.fill(Kept(kept, y[:room, 0], ones, before))
        if len(y) > room:
            rest = slice(room, None)
            given = None if w is None else w[rest]
            self._blocks.cut(x[rest], y[rest], given, self._length, self._fold)

    def _length(self) -> int:
        """Return the rows of the next block: more as the stream grows, for speed."""
        eighth = max(self._sample.seen, FEWEST) // 8
        return min(1 << eighth.bit_length() >> 1, block_rows(self.settings.columns))

    def _fold(self, rows: Array, targets: Array, weights: Array | None) -> None:
        """Add a block to the sums, and offer its rows to the sample."""
        check_values(rows=rows)
        if self._sums is None:
            self._sums = self._begin()
        before = self._predictions(rows)
        self._sums.add(rows, self._family.expand(before, targets[:, 0]), weights)
        self._sample.offer(rows, targets[:, 0], weights, before)
        if self._sample.seen >= self._due:
            self._update_reference()

    def _begin(self) -> StreamSums:
        """Start the sums with all rows so far: from now on not all rows are kept."""
        sample = self._sample
        kept = sample.rows()
        self._update_reference()
        kept = replace(kept, before=self._predictions(kept.rows))
        sample.seed = stream_seed(self.seed, kept)
        sample.draw_keys(kept.before)
        self._streams = (sample.seed,)
        sums = StreamSums(*self._functions, origin_of(kept), len(kept))
        for piece in kept.pieces:
            expanded = self._family.expand(piece.before, piece.targets)
            alike = (piece.weights == 1.0).all()
            sums.add(piece.rows, expanded, None if alike else piece.weights)
        return sums

    @property
    def _functions(self) -> tuple[int, int]:
        return self.settings.columns, self._family.functions * self._shape[0]

    def _predictions(self, rows: Array) -> Array:
        """Predict rows by the reference weights."""
        columns = self.settings.columns
        z: Array = rows @ self._reference[:, :columns].T
        z += self._reference[:, columns:].T.sum(axis=0)
        # Such predictions are far from all targets: a column that hardly varied became huge.
        return np.clip(z, -MAX_VALUE, MAX_VALUE, out=z)

    def _update_reference(self) -> None:
        """Update the reference weights."""
        self._reference = self._rough(REFERENCE_ROWS, pending=False)
        late = self._sample.seen >= 16 * self._sample.size
        self._due = int((LATE_GROWTH if late else GROWTH) * self._sample.seen)

    def _rough(self, most: int, pending: bool) -> Array:
        """Fit to at most about ``most`` of the kept rows; weights in the units of the rows."""
        parts = self._parts(most, pending)
        ridge = REFERENCE_RIDGE * self.settings.columns / max(len(parts[0].rows), 1)
        problem = replace(self._problem_of(parts), ridge=ridge)
        _, point = problem.solved(None if self._sums is None else self._reference, ROUGH)
        return problem.own(point.theta)

    def _problem_of(self, parts: list[Part]) -> Problem:
        """Pose the fit to rows of the sample, and to the sums if there are any."""
        if self._sums is None:
            return Problem.of_rows(self.settings, parts)
        return Problem.of_sample(self.settings, parts, self._sums.total)

    def _parts(self, most: int | None = None, pending: bool = True) -> list[Part]:
        """Return the sample, whose rows represent the whole stream, then pending rows.

        With ``most``, only about so many rows of the sample, each of which represents more rows.
        While a block is being folded, it is not known which rows are pending.
        """
        sample, stride = self._sample, 1
        if most is not None:
            most = max(most, 16 * (self.settings.columns + 1))
            stride = max(min(sample.stored, sample.size) // most, 1)
        kept = sample.rows(stride)
        parts = [Part(kept, sample.seen / max(len(kept), 1))]
        block = self._blocks.pending if pending else None
        if block is not None:
            rows, targets, weights = block
            ones = np.ones(len(rows)) if weights is None else weights
            before = np.zeros((len(rows), self._shape[0]))
            parts.append(Part(Kept(rows, targets[:, 0], ones, before), 1.0))
        return parts

    def weights(self) -> Array:
        """Return one row per output in the units of the rows; an intercept is last."""
        problem, point = self._solved()
        return problem.own(point.theta)

    def _solved(self) -> tuple[Problem, Point]:
        """Return the problem and its minimum."""
        if self._solution is None:
            start = None
            if self._sums is not None or self.kept > 2 * START_ROWS:
                start = self._rough(START_ROWS, pending=True)
            given = self.settings.l2 is not None or self.settings.radius is not None
            problem = self._problem_of(self._parts())
            self._solution = problem.solved(start, CLOSE, watch=not given)
        return self._solution

    @property
    def separated(self) -> int:
        """Number of columns with a ridge: classes can be separated along them, or nearly."""
        return int(np.count_nonzero(self._solved()[0].ridge))

    def gap(self) -> Gap:
        """Estimate the mean loss above that of the fit to all rows, with a 95 % upper bound.

        It is 0 as long as all rows are kept. Otherwise it follows from the part of the kept rows'
        slopes that the sums do not explain or, if classes were separated, from held-out losses.
        """
        return NOTHING if self.complete else gap_of(*self._solved(), self._problem_of)

    @property
    def inference(self) -> GlmInference:
        """Intervals and the correlation profile of the fit."""
        if self._inference is None:
            rows = self._sample.seen + self._blocks.filled
            self._inference = GlmInference(*self._solved(), rows, self._sums)
        return self._inference

    @all_or_nothing
    def merge(self, other: Self) -> None:
        """Add all rows of another fit, as if they followed; ``other`` is unchanged.

        Raises
        ------
        ValueError
            If the settings differ, or if both fits began with the same rows and the same seed,
            so that they may share rows.
        """
        if self.settings != other.settings:
            raise ValueError(
                f"cannot merge a fit with {other.settings} into one with {self.settings}"
            )
        if self._sample.size != other._sample.size:
            raise ValueError(
                f"cannot merge a fit that keeps {other._sample.size:,} rows into one that keeps "
                f"{self._sample.size:,}"
            )
        if set(self._streams) & set(other._streams):
            raise ValueError(
                "cannot merge fits that begin with the same rows and the same seed: "
                "if later rows differ, give one of them another seed"
            )
        samples = self.samples + other.samples
        if other._sums is None:
            self._add_all(other)
        elif self._sums is None:
            mine = self._copy()
            self._set(other._state())
            self._add_all(mine)
        else:
            theirs = other._copy()
            self._flush()
            theirs._flush()
            assert theirs._sums is not None
            self._sums.merge(theirs._sums)
            self._sample.merge(theirs._sample)
            self._streams = tuple(sorted((*self._streams, *theirs._streams)))
            self._update_reference()
        self.samples, self._solution, self._inference = samples, None, None

    def mapped(self, change: ColumnMap) -> Self:
        """Return a fit to the same rows with mapped columns; both may be continued.

        Bytes of memory hold fewer rows if there are more columns.
        """
        twin, outputs = self._copy(), self._shape[0]
        size = min(self._sample.size, rows_of(self.memory, change.after, outputs))
        if twin._sums is None and twin._sample.seen > size:
            twin._sums = twin._begin()
        twin.settings = replace(self.settings, columns=change.after)
        twin._sample, twin._blocks = twin._sample.mapped(change, size), self._blocks.mapped(change)
        twin._sums = None if twin._sums is None else twin._sums.mapped(change)
        slopes, level = np.split(twin._reference, [self.settings.columns], axis=1)
        if not change.places:  # no weights of the new columns need predict the same
            slopes, level, twin._due = np.zeros_like(slopes), np.zeros_like(level), 0
        twin._reference = np.hstack([change.rows(slopes), level])
        if (waiting := twin._blocks.pending) is not None and twin._blocks.filled >= twin._length():
            twin._blocks = Blocks(change.after)
            twin._blocks.cut(*waiting, twin._length, twin._fold)
        return twin

    def _add_all(self, other: Self) -> None:
        """Add the rows of a fit that has kept all its rows."""
        for rows, _ in other._parts():
            self._add(rows.rows, rows.targets[:, None], rows.weights)

    def _flush(self) -> None:
        """Fold the pending rows."""
        waiting = self._blocks.pending
        if waiting is not None:
            self._blocks = Blocks(self.settings.columns)
            self._fold(*waiting)

    def _copy(self) -> Self:
        twin = copy.copy(self)
        twin._set(self._state())
        return twin

    def _state(self) -> tuple[Any, ...]:
        """Return copies of all attributes that change."""
        sums = None if self._sums is None else self._sums.copy()
        parts = self._sample.copy(), self._blocks.copy(), sums
        return self.samples, *parts, self._reference, self._due, self._streams

    def _set(self, state: tuple[Any, ...]) -> None:
        self.samples, self._sample, self._blocks, self._sums, *rest = state
        self._reference, self._due, self._streams = rest
        self._solution = self._inference = None

    def plain(self) -> dict[str, Any]:
        """Return the state as numbers and copies of arrays."""
        return {
            "samples": self.samples,
            "sample": self._sample.plain(),
            "blocks": self._blocks.plain(),
            "sums": None if self._sums is None else self._sums.plain(),
            "now": self._reference.copy(),
            "due": self._due,
            "streams": list(self._streams),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that :meth:`plain` returned; an error changes nothing."""
        names = {"samples", "sample", "blocks", "sums", "now", "due", "streams"}
        if set(state) != names:
            raise ValueError(f"the state must have {sorted(names)}, not {sorted(state)}")
        samples = check_whole(state["samples"], "samples of the state", least=0)
        columns = self.settings.columns
        sample = Reservoir(self._sample.size, columns, self._shape[0])
        sample.restore(state["sample"])
        blocks, sums = Blocks(columns), None
        blocks.restore(state["blocks"])
        self._family.check_targets(sample.rows().targets)
        if blocks.pending is not None:
            self._family.check_targets(blocks.pending[1][:, 0])
        if state["sums"] is not None:
            sums = StreamSums(*self._functions)
            sums.restore(state["sums"])
        if (0 if sums is None else sums.rows) != (0 if sample.seed is None else sample.seen):
            raise ValueError("sums and sample of the state have different numbers of rows")
        now = check_array(state["now"], "now", self._shape)
        due = check_whole(state["due"], "due of the state", least=0)
        streams = tuple(
            check_whole(each, "streams of the state", least=0, most=2**64 - 1)
            for each in state["streams"]
        )
        self._set((samples, sample, blocks, sums, now, due, streams))
