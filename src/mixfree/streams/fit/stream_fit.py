"""A fit to a stream in one pass, which can be saved after any batch and resumed."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import mixfree
from mixfree.base.arithmetic import MAX_VALUE, Array
from mixfree.base.checks import shown
from mixfree.base.interrupts import interrupts_wait
from mixfree.base.state import State, check_room, loading
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.learner_for import LinearLearner
from mixfree.streams.columns.encoder import Encoded, Encoder
from mixfree.streams.fit import model_file
from mixfree.streams.fit.look import first_look
from mixfree.streams.fit.plan import FitPlan
from mixfree.streams.fit.reservoir import Reservoir
from mixfree.streams.fit.timeline import (
    CHUNK,
    Timeline,
    actual_of,
    best_constant,
    judged,
    judged_constant,
)
from mixfree.streams.read.record import ReadRecord
from mixfree.streams.read.source import Piece, Source

__all__ = ["StreamFit"]

KIND = "stream fit"
CELLS = 1 << 22  # most values of a matrix of features, to bound the memory
FEW = 64  # rows that a fit with forgetting predicts at a time, but more for many features


@dataclass(slots=True)
class _Record(State):
    """The attributes saved in a model file besides the parts with a state of their own."""

    complete: bool = False
    seconds: float = 0.0
    varied: bool = False
    unused_columns: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    format: str = ""

    def check(self, what: str) -> None:
        """Check that all remarks are texts and the duration is nonnegative."""
        texts = [*self.notes, *self.unfinished, *self.unused_columns, *self.unused_columns.values()]
        if not (self.seconds >= 0 and all(isinstance(text, str) for text in texts)):
            raise ValueError(f"state of the {what} does not fit: {shown(texts)}")


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
    unused_columns
        Columns left out, with reasons.
    notes
        Remarks of the first look.
    unfinished
        Files whose last line was left out since it did not end in a newline.
    format
        Format of the files, if their names do not imply it.
    learner
        The linear model.
    reservoir
        A uniform sample of the rows learnt from.
    timeline
        The course of the stream and its test-then-train predictions.
    """

    def __init__(self, plan: FitPlan, encoder: Encoder) -> None:
        self.plan, self.encoder = plan, encoder
        self.unused_columns: dict[str, str] = {}
        self.notes: list[str] = []
        self.unfinished: list[str] = []
        self.format = ""
        shape = len(encoder.features), encoder.classes
        self.learner: LinearLearner = plan.learner(*shape)
        self.reservoir = Reservoir()
        self.read_record = ReadRecord()
        self.complete = False
        self.seconds = 0.0
        self.varied = False  # whether two rows had different targets
        self.tests_first = True  # whether to predict rows before learning from them
        classes = None if encoder.classes is None else len(encoder.classes)
        width = shape[0] + bool(plan.parameters.get("fit_intercept", True))
        self.row_loss = plan.row_loss(encoder.classes)
        self.timeline = Timeline.start((self.row_loss.outputs, width), classes)

    @classmethod
    def begin(cls, source: Source, plan: FitPlan) -> "StreamFit":
        """Take a first look at the source, and return an untrained fit."""
        look = first_look(source, plan)
        fit = cls(replace(plan, loss=look.loss), look.encoder)
        fit.unused_columns, fit.notes = look.left_out, list(look.notes)
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
            f"{len(self.encoder.features):,} features, {self.used:,} rows>"
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
        tested = self.timeline.tested
        return self.timeline.total("loss") / tested if tested else float("nan")

    def learn(self, piece: Piece) -> None:
        """Learn from one batch, encoded in parts of at most ``CELLS`` values."""
        for part in self._parts(piece):
            self._learn_part(part)

    def _parts(self, piece: Piece) -> Iterator[Piece]:
        step = max(FEW, CELLS // max(len(self.encoder.features), 1))
        for begin in range(0, piece.batch.num_rows, step):
            yield Piece(piece.file, piece.start + begin, piece.batch.slice(begin, step))

    def _learn_part(self, piece: Piece) -> None:
        found = self.encoder.encode(piece)
        begin, count = 0, len(found.rows)
        while begin < count:
            # Split where the predicting weights change, so that batch sizes do not matter.
            left = self._renew() - self.timeline.rows
            self._learn(piece, found.part(slice(begin, begin + left)))
            begin += left
        if count:
            self.varied |= bool((found.targets != self.reservoir.targets[0]).any())
        self.read_record.add(piece)

    def merge(self, other: "StreamFit") -> None:
        """Add a fit with the same plan to the rows that follow.

        Those rows were not predicted by this fit, and have no test-then-train loss.
        """
        if not (isinstance(self.learner, ExactLearner) and isinstance(other.learner, ExactLearner)):
            raise ValueError("only fits with `method='exact'` can be merged")
        self.learner.merge(other.learner)
        if self.used and other.used:
            self.varied |= bool(self.reservoir.targets[0] != other.reservoir.targets[0])
        self.varied |= other.varied
        self.reservoir.merge(other.reservoir)
        self.encoder.merge(other.encoder)
        self.unfinished += other.unfinished
        self.read_record.merge(other.read_record)
        self.timeline.merge(other.timeline)

    def run(
        self,
        pieces: Iterator[Piece],
        path: str | os.PathLike[str] | None = None,
        every: int | None = None,
        show: Callable[["StreamFit"], None] | None = None,
    ) -> None:
        """Learn from all batches after those already read, which must come first.

        Parameters
        ----------
        pieces
            The whole stream, from its beginning.
        path, every
            Save to this file after at least this number of rows since the last save.
        show
            Called after each batch.

        Raises
        ------
        KeyboardInterrupt
            When Ctrl-C is pressed; the fit then includes whole batches only, and can be saved.
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

    def end(self, unfinished: Sequence[str] | None = None, seconds: float | None = None) -> None:
        """Mark the fit as complete.

        Parameters
        ----------
        unfinished
            Files whose last line had no newline; None to keep those of the parts.
        seconds
            Duration; None to keep that measured by :meth:`run`.
        """
        self.complete = True
        self.unfinished = self.unfinished if unfinished is None else list(unfinished)
        self.seconds = self.seconds if seconds is None else seconds

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state as plain values and arrays."""
        return {
            "kind": KIND,
            "mixfree": mixfree.__version__,
            "plan": self.plan.state_dict(),
            "encoder": self.encoder.state_dict(),
            "learner": self.learner.state_dict(),
            "reservoir": self.reservoir.state_dict(),
            "timeline": self.timeline.plain(),
            "read": self.read_record.state_dict(),
            "record": {name: getattr(self, name) for name in _Record.names()},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "StreamFit":
        """Rebuild the fit that gave ``state``; raise ValueError if the state is invalid."""
        with loading("model"):
            plan, encoder = FitPlan(**state["plan"]), Encoder.from_state(state["encoder"])
            check_room(state["timeline"], len(encoder.features), "model")
            fit = cls(plan, encoder)
            if (plan.target, plan.loss == "logistic") != (
                encoder.target,
                encoder.classes is not None,
            ):
                raise ValueError(
                    "state of the model is invalid: plan and encoder have different targets"
                )
            fit.learner.load_state_dict(state["learner"])
            fit.reservoir = Reservoir.from_state(state["reservoir"])
            fit.reservoir.check_columns(len(encoder.features))
            fit.timeline = fit.timeline.restored(state["timeline"], "timeline")
            fit.read_record = ReadRecord.from_state(state["read"])
            record = _Record().restored(state["record"], "record")
            for name in record.names():
                setattr(fit, name, getattr(record, name))
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

    def _renew(self) -> int:
        """Update the predicting weights if due; return the row count at which they are due next."""
        course = self.timeline
        if course.rows >= course.until:
            weights = constant = None
            if course.rows and self.tests_first:
                weights = self.learner.weights
                constant = best_constant(self.row_loss, self.reservoir.targets)
            course.renew(weights, self._next_renewal(course.rows), constant)
        return course.until

    def _next_renewal(self, rows: int) -> int:
        """Return the row count after ``rows`` at which the predicting weights are updated."""
        if not isinstance(self.learner, ExactLearner):
            # Pausing a method with steps takes as long as a thousand rows: chunks grow with the
            # stream, up to 1/64 of its length.
            return rows + CHUNK * (1 << max((rows // (64 * CHUNK)).bit_length() - 1, 0))
        if getattr(self.learner, "forgetting", None) is not None:
            return rows + max(FEW, 4 * len(self.encoder.features))
        # Solving for the weights costs more than learning 1,000 rows, least for the squared loss,
        # and the next small part of a long stream hardly changes them.
        part = 8 if self.plan.loss == "squared" else 2
        return max(-(-(part + 1) * rows // (part * CHUNK)), 1) * CHUNK

    def _learn(self, piece: Piece, part: Encoded) -> None:
        rows, targets, times = part
        loss, course = self.row_loss, self.timeline
        found = constant = None
        if course.predicts:
            found = judged(loss, course.weights, rows, targets)
            constant = judged_constant(loss, course.constant, targets)
        self._advance(piece, rows, targets)
        course.add(actual_of(targets, loss), found, times, constant)
        self.reservoir.add(rows, targets)

    def _advance(self, piece: Piece, rows: Array, targets: Array) -> None:
        """Train the learner on rows."""
        try:
            self.learner.advance(rows, targets)
        except ValueError:
            self.encoder.check_sizes(piece, MAX_VALUE)
            raise
