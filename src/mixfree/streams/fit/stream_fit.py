"""A fit to a stream in one pass, which can be saved after any batch and resumed."""

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

import mixfree
from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole, shown
from mixfree.base.state import State, loading
from mixfree.base.terminal import interrupts_wait
from mixfree.linear.exact.coded import Coded
from mixfree.linear.exact_learner import ExactLearner, knows_intervals
from mixfree.linear.learner_for import LinearLearner
from mixfree.linear.losses import Squared
from mixfree.streams.columns.design import Design
from mixfree.streams.columns.encoder import Encoded, Encoder
from mixfree.streams.columns.time import CALENDARS
from mixfree.streams.fit import model_file
from mixfree.streams.fit.look import FirstLook, first_look
from mixfree.streams.fit.plan import FitPlan
from mixfree.streams.fit.reservoir import Reservoir
from mixfree.streams.fit.timeline import ALL_PREDICTED, CHUNK, Timeline, best_constant
from mixfree.streams.read.record import ReadRecord
from mixfree.streams.read.source import Piece, Source

KIND = "stream fit"
CELLS = 1 << 21  # most values of a matrix of features, to bound the memory
REDECIDED = 4  # growth of a stream after which test-then-train decides on calendars again
# With fewer indicators, and rows before, multiplying indicators as numbers is faster.
MIN_INDICATORS, MIN_CODED = 16, 1 << 14
MIN_ROWS_PER_FEATURE = 2  # below which rows are too few to tell that features depend
MIN_PREDICTED = 64  # rows that a fit with forgetting predicts at a time, but more for many features


class Model(NamedTuple):
    """The features that all rows have decided on, their learner, and the kept rows' features."""

    design: Design
    learner: LinearLearner
    rows: Array
    targets: Array

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        return self.design.features


@dataclass(slots=True)
class _Record(State):
    """The attributes saved in a model file besides the parts with a state of their own."""

    complete: bool = False
    seconds: float = 0.0
    varied: bool = False
    unused_columns: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    format: str = ""
    calendar: str = "cycles"
    decided: int = 0


class StreamFit:
    """A learner, the encoder of its features, and the record of the rows it has learnt from.

    Parameters
    ----------
    plan
        The settings, with the loss decided.
    encoder
        Encodes columns as features.

    Attributes
    ----------
    unused_columns, notes, format
        Columns that cannot be used with reasons, remarks of the first look, and the format of the
        files if their names do not imply it.
    learner
        The linear model of the raw features, or of features fixed by the first rows.
    reservoir, timeline
        A uniform sample of the rows learnt from, and the course of the stream.
    calendar, decided
        How test-then-train predictions use hours and weekdays, and the row count of that decision.
    """

    def __init__(self, plan: FitPlan, encoder: Encoder) -> None:
        self.plan, self.encoder = plan, encoder
        self.unused_columns: dict[str, str] = {}
        self.notes: list[str] = []
        self.format = ""
        columns = encoder.width if encoder.growing else len(encoder.design().features)
        self.learner = plan.learner(columns, encoder.classes, exact=encoder.growing)
        self.reservoir = Reservoir()
        self.read_record = ReadRecord()
        self.complete = False
        self.seconds = 0.0
        self.varied = False  # whether two rows had different targets
        self.tests_first = True  # whether to predict rows before learning from them
        self.calendar, self.decided = CALENDARS[0], 0
        self.row_loss = plan.row_loss(encoder.classes)
        classes = None if encoder.classes is None else len(encoder.classes)
        self.timeline = Timeline.start(self.row_loss.outputs, classes)
        self._model: tuple[int, Model] | None = None

    @classmethod
    def begin(cls, source: Source, plan: FitPlan) -> "StreamFit":
        """Take a first look at the source, and return an untrained fit."""
        return cls.from_look(first_look(source, plan), plan, source)

    @classmethod
    def from_look(cls, look: FirstLook, plan: FitPlan, source: Source) -> "StreamFit":
        """Return an untrained fit; only exact fits that never forget let all rows decide."""
        plan, features = replace(plan, loss=look.loss), len(look.encoder.design().features)
        learner = plan.learner(features, look.encoder.classes)
        exact = knows_intervals(learner)
        fit = cls(plan, look.encoder.again(fixed=not exact))
        fit.unused_columns, fit.notes = look.left_out, list(look.notes)
        if not exact:
            fit.notes.append(f"the first {look.rows:,} rows decided how columns are used")
            if not features:
                raise ValueError("there is no column to learn from in the first rows")
        fit.format = next((file.format for file in source.files if not file.named), "")
        return fit

    def resume(self, source: Source, plan: FitPlan) -> None:
        """Open the source to resume this fit; raise ValueError if the plan differs."""
        self.plan.check_same(plan)
        source.require_columns(self.encoder.needs[:-1], "column")
        source.require_columns([self.encoder.target], "target column")
        source.open(self.encoder.needs, self.encoder.numbers)

    def __repr__(self) -> str:
        return (
            f"<stream fit: {self.plan.target} by {self.learner.method} with {self.plan.loss} loss, "
            f"{len(self.model.features):,} features, {self.used:,} rows>"
        )

    @property
    def read(self) -> int:
        """Rows read, whether used or left out."""
        return self.read_record.rows

    @property
    def used(self) -> int:
        """Rows learnt from."""
        return self.reservoir.seen

    @property
    def running_loss(self) -> float:
        """Test-then-train loss: the mean over rows predicted before they were learnt.

        NaN during the first 1,000 rows, which are not predicted.
        """
        weight = self.timeline.total("weight")
        return self.timeline.total("loss") / weight if weight else float("nan")

    @property
    def model(self) -> Model:
        """The model of all rows so far."""
        if self._model is None or self._model[0] != self.used:
            design, learner = self._design(self._best_calendar()), self.learner
            rows = self.reservoir.rows
            if (growing := self._growing) is not None:
                design = self._independent(growing, design)
                learner = self._mapped(growing, design)
                rows = np.ascontiguousarray(rows @ design.matrix[: rows.shape[1]])
            self._model = self.used, Model(design, learner, rows, self.reservoir.targets)
        return self._model[1]

    def learn(self, piece: Piece) -> None:
        """Learn from one batch, in parts of at most ``CELLS`` values."""
        step = max(MIN_PREDICTED, 1 << (CELLS // max(self.encoder.width, 1)).bit_length() >> 1)
        if not self.encoder.growing and piece.batch.num_rows > step:
            self.learn(piece.slice(0, step))
            self.learn(piece.slice(step))
            return
        whole, found = piece, self.encoder.encode(piece, unchecked=True)
        self._follow_encoder()
        begin = 0
        while begin < len(found.targets):
            # Split where the predicting weights change, so that batch sizes do not matter.
            self._renew()
            end = min(begin + self.timeline.until - self.timeline.rows, len(found.targets))
            end = end if self._takes_codes(found.rows, found.weights) else min(end, begin + step)
            try:
                self._learn(piece.name, found, begin, end)
                begin = end
            except ValueError:
                if np.isfinite(np.asarray(found.rows)).all():
                    self.encoder.check_allowed(piece, self.row_loss)
                    raise
                piece, begin = piece.slice(begin), 0
                found = self.encoder.encode(piece)
                self._follow_encoder()
        self.read_record.add(whole)

    def _follow_encoder(self) -> None:
        """Replace and add raw features as the encoder has done."""
        change, self.encoder.change = self.encoder.change, None
        if (learner := self._growing) is None:
            return
        if change is not None:
            self.learner = learner = learner.mapped(change)
            self.reservoir = self.reservoir.mapped(change)
            self.timeline.until = self.timeline.rows  # the weights are for other columns
        if self.encoder.width > learner.columns:
            learner.grow(self.encoder.width)

    def merge(self, other: "StreamFit") -> None:
        """Add a fit with the same plan to the rows that follow.

        Those rows were not predicted by this fit, and have no test-then-train loss.
        """
        mine, theirs = self.learner, other.learner
        if not (isinstance(mine, ExactLearner) and isinstance(theirs, ExactLearner)):
            raise ValueError("only fits with `method='exact'` can be merged")
        if not (self.encoder.growing and other.encoder.growing):
            raise ValueError("only fits with `half_life=None` can be merged")
        if self.encoder.sums.any() or other.encoder.sums.any():
            self.encoder.sums, other.encoder.sums = self._raw_sums(), other._raw_sums()
        change, of_other = self.encoder.merge(other.encoder)
        self.learner = mine.mapped(change)
        self.learner.merge(theirs.mapped(of_other))
        if self.used and other.used:
            self.varied |= bool(self.reservoir.targets[0] != other.reservoir.targets[0])
        self.varied |= other.varied
        self.reservoir = self.reservoir.mapped(change)
        self.reservoir.merge(other.reservoir.mapped(of_other))
        self.read_record.merge(other.read_record)
        self.timeline.merge(other.timeline)
        self.timeline.until = self.timeline.rows
        self._model = None

    def run(
        self,
        pieces: Iterator[Piece],
        path: str | os.PathLike[str] | None = None,
        every: int | None = None,
        show: Callable[["StreamFit"], None] | None = None,
    ) -> None:
        """Learn from all batches after those already read, which must come first.

        Save to ``path`` after at least ``every`` rows since the last save, and call ``show`` after
        each batch. Ctrl-C raises KeyboardInterrupt; the fit then includes whole batches only, and
        can be saved.
        """
        self.complete = False
        began, unsaved = time.monotonic() - self.seconds, 0
        for piece in self.read_record.rest(pieces):
            with interrupts_wait():
                self.learn(piece)
                unsaved += piece.batch.num_rows
                self.seconds = time.monotonic() - began
                if show is not None:
                    show(self)
                if path is not None and every is not None and unsaved >= every:
                    self.save(path)
                    unsaved = 0
        self.complete = True

    def end(self, seconds: float | None = None) -> None:
        """Mark the fit as complete, unless a column of numbers or dates had too many other texts.

        It took ``seconds`` unless :meth:`run` has measured them.
        """
        self.encoder.check_parsed(self.read)
        self.complete = True
        self.seconds = self.seconds if seconds is None else seconds

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state as plain values and arrays."""
        return {
            "kind": KIND,
            "mixfree": mixfree.__version__,
            "plan": self.plan.state_dict(),
            "encoder": self.encoder.state_dict(),
            "learner": self.learner.state_dict(),
            "reservoir": {"seed": self.reservoir.seed, **self.reservoir.plain()},
            "timeline": self.timeline.plain(),
            "read": self.read_record.state_dict(),
            "record": {name: getattr(self, name) for name in _Record.names()},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "StreamFit":
        """Rebuild the fit that gave ``state``; raise ValueError if the state is invalid."""
        with loading("model"):
            plan, encoder = FitPlan(**state["plan"]), Encoder.from_state(state["encoder"])
            fit = cls(plan, encoder)
            if (plan.target, plan.loss == "logistic") != (encoder.target, bool(encoder.classes)):
                raise ValueError("state of the model is invalid: its parts have different targets")
            fit.learner.load_state_dict(state["learner"])
            sample = dict(state["reservoir"])
            seed = check_whole(sample.pop("seed"), "seed of the state", least=0, most=2**64 - 1)
            fit.reservoir = Reservoir(seed=seed).restored(sample, "reservoir")
            if fit.reservoir.rows.shape[1] > fit.learner.columns:
                raise ValueError("state of the reservoir is invalid: rows have too many values")
            fit.timeline = fit.timeline.restored(state["timeline"], "timeline")
            fit.read_record = ReadRecord.from_state(state["read"])
            record = _Record().restored(state["record"], "record")
            vars(fit).update({name: getattr(record, name) for name in record.names()})
        return fit

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to a model file; if that fails, the old file stays."""
        model_file.save(path, self.state_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "StreamFit":
        """Read what :meth:`save` wrote."""
        content = model_file.load(path)
        if content.get("kind") != KIND:
            raise ValueError(f"{path} contains a {shown(content.get('kind'))}, not a {KIND!r}")
        return cls.from_state(content)

    @property
    def _growing(self) -> ExactLearner | None:
        """The learner, if all rows decide on the features."""
        learner = self.learner
        return learner if self.encoder.growing and isinstance(learner, ExactLearner) else None

    @staticmethod
    def _mapped(learner: ExactLearner, design: Design) -> ExactLearner:
        """Return the learner of the features: itself, if these are the raw ones."""
        return learner if design.is_identity else learner.mapped(design.matrix)

    def _independent(self, learner: ExactLearner, design: Design) -> Design:
        """Return the features without those that others determine, as R's ``lm`` does.

        A ridge shares the weight between them instead, and few rows determine too much.
        """
        few = self.used < MIN_ROWS_PER_FEATURE * len(design.features)
        if few or self.plan.parameters.get("l2"):
            return design
        gone, names = learner.determined(design.matrix), [c.name for c in self.encoder.columns]
        return design.without(gone, names) if gone.any() else design

    def _design(self, calendar: str) -> Design:
        """Return the features as far as rows have shown them."""
        return self.encoder.design(calendar, self._raw_sums())

    def _raw_sums(self) -> Array:
        """Return the sums of raw features: the learner's, but the encoder's if rows had weights."""
        sums, growing = self.encoder.sums, self._growing
        return sums if growing is None or sums.any() else growing.column_sums()

    def _best_calendar(self) -> str:
        r"""Return how hours and weekdays are expected to predict best, by Akaike's criterion.

        .. math:: 2 n \bar\ell + 2 k

        with the mean loss :math:`\bar\ell` (for the squared loss, half the logarithm of the mean
        squared error) and k weights, and not rows but the days that they cover as n, since the rows
        of a day are alike. So the choice does not depend on the order of the rows.
        """
        time, learner, rows = self.encoder.times, self._growing, self.encoder.rows
        ways = CALENDARS[:1] if time is None or learner is None else time.calendars(rows)
        if time is None or learner is None or len(ways) < 2:
            return ways[0]
        days = max(min(time.days, rows), 1.0)
        matrices = [self._design(way).matrix for way in ways]
        if (found := learner.solved(matrices)) is not None:
            losses = [0.5 * math.log(max(error, 1e-300)) for _, error in found]
        else:
            models = [learner.mapped(each).mean_losses() for each in matrices]
            losses = [math.inf if each is None else each[0] for each in models]
        weights = [learner.loss.outputs * each.shape[1] for each in matrices]
        criteria = [2.0 * (days * a + k) for a, k in zip(losses, weights, strict=True)]
        return ways[int(np.argmin(criteria))]

    def _renew(self) -> None:
        """Update the predicting weights if due."""
        course = self.timeline
        if course.rows < course.until:
            return
        until = self._next_renewal(course.rows)
        if not (course.rows and self.tests_first):
            course.renew(until)
            return
        if course.rows >= REDECIDED * self.decided:
            self.calendar, self.decided = self._best_calendar(), course.rows
        if (growing := self._growing) is not None:
            design = self._design(self.calendar)
            found = growing.solved([design.matrix])
            weights = found[0][0] if found else self._mapped(growing, design).quick_weights
            weights = design.raw_weights(weights)
        else:
            weights = self.learner.weights
        constant = best_constant(self.row_loss, self.reservoir.targets)
        course.renew(until, weights, constant, self.learner.columns)

    def _next_renewal(self, rows: int) -> int:
        """Return the row count after ``rows`` at which the predicting weights are updated."""
        if not isinstance(self.learner, ExactLearner):
            # Pausing an iterative method takes as long as a thousand rows: chunks grow with the
            # stream, up to 1/64 of its length.
            return rows + CHUNK * (1 << max((rows // (64 * CHUNK)).bit_length() - 1, 0))
        if getattr(self.learner, "forgetting", None) is not None:
            return rows + max(MIN_PREDICTED, 4 * self.learner.columns)
        # Solving for the weights costs more than learning 1,000 rows, and 20,000 if rows are kept.
        if rows >= ALL_PREDICTED:
            return 1 << rows.bit_length()  # where blocks of rows end
        growth = 9 / 8 if isinstance(self.row_loss, Squared) else 3 / 2
        return max(math.ceil(growth * rows / CHUNK), 1) * CHUNK

    def _takes_codes(self, rows: Array | Coded, weights: Array | None) -> bool:
        """Whether the learner takes columns, or indicators by their codes if these are many."""
        if not isinstance(rows, Coded) or weights is not None:
            return False
        many = len(rows) >= rows.shape[1] >= MIN_INDICATORS + len(rows.at)
        many = many and self.used >= MIN_CODED and isinstance(self.row_loss, Squared)
        return many or not rows.codes

    def _learn(self, name: str, found: Encoded, begin: int, end: int) -> None:
        rows, targets = found.rows[begin:end], found.targets[begin:end]
        weights = None if found.weights is None else found.weights[begin:end]
        rows = rows if self._takes_codes(rows, weights) else np.asarray(rows)
        sums = self.encoder.sums
        if self.encoder.growing and (weights is not None or sums.any()):
            sums = self._raw_sums() + np.asarray(rows).sum(axis=0)
        self.learner.advance(rows, targets, weights)
        self.encoder.sums = sums
        self.encoder.learn(found, begin, end)
        self.timeline.add(self.row_loss, rows, targets, found.times[begin:end])
        self.reservoir.add(rows, targets, name, found.places[begin:end])
        self.varied = self.varied or bool((targets != self.reservoir.targets[0]).any())
