"""One pass over a stream that can be saved between any two batches and resumed."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import mixfree
from mixfree.base.arithmetic import Array
from mixfree.base.interrupts import interrupts_wait
from mixfree.linear.choice import LinearLearner
from mixfree.linear.exact.learner import ExactLearner
from mixfree.linear.exact.sums import LARGEST
from mixfree.linear.scaling import TooFar
from mixfree.streams import model_file
from mixfree.streams.encoder import Encoded, Encoder
from mixfree.streams.look import first_look
from mixfree.streams.plan import FitPlan
from mixfree.streams.read_record import ReadRecord
from mixfree.streams.reservoir import Reservoir
from mixfree.streams.source import Piece, Source
from mixfree.streams.timeline import CHUNK, Timeline, actual_of, judged

__all__ = ["StreamFit"]

KIND = "stream fit"
CELLS = 1 << 22  # values of a matrix of features, so that many features need no more memory
FEW = 64  # rows that a fit that forgets predicts at a time, but more for many features
# What a model file keeps besides the parts that have a state of their own.
_KEPT = (
    "complete",
    "seconds",
    "varied",
    "unused_columns",
    "notes",
    "unfinished",
    "rival_diverged",
)


class StreamFit:
    """A learner, how columns become its features, and the record of what it has learnt from.

    Parameters
    ----------
    plan
        What was asked for, with the loss decided.
    encoder
        Turns columns into features.

    Attributes
    ----------
    unused_columns
        Columns that are not learnt from, each with the reason.
    notes
        What the first look has found, in sentences.
    unfinished
        Files whose last line had no end, and was left out.
    learner
        The linear model.
    rival, forgetting
        Plain SGD, and least squares that forgets, beside it if the plan compares.
    reservoir
        A uniform sample of the rows learnt from.
    timeline
        The course of the stream, with its rows predicted before they were learnt.
    """

    def __init__(self, plan: FitPlan, encoder: Encoder) -> None:
        self.plan, self.encoder = plan, encoder
        self.unused_columns: dict[str, str] = {}
        self.notes: list[str] = []
        self.unfinished: list[str] = []
        shape = len(encoder.features), encoder.classes
        self.learner: LinearLearner = plan.learner(*shape)
        self.rival: LinearLearner | None = plan.rival(*shape) if plan.compare else None
        self.rival_diverged = False
        self.forgetting: ExactLearner | None = None
        if plan.compare:
            self.forgetting = plan.forgetting(shape[0], self.learner)
        self.reservoir = Reservoir()
        self.read_record = ReadRecord()
        self.complete = False
        self.seconds = 0.0
        self.varied = False  # whether two rows had different targets
        self.tests_first = True  # whether rows are predicted before they are learnt
        classes = None if encoder.classes is None else len(encoder.classes)
        width = shape[0] + bool(plan.parameters.get("fit_intercept", True))
        self.row_loss = plan.row_loss(encoder.classes)
        self.timeline = Timeline.start((self.row_loss.outputs, width), classes)

    @classmethod
    def begin(cls, source: Source, plan: FitPlan) -> "StreamFit":
        """A fit that has learnt nothing yet; opens the source at its beginning."""
        look = first_look(source, plan)
        fit = cls(replace(plan, loss=look.loss), look.encoder)
        fit.unused_columns, fit.notes = look.left_out, list(look.notes)
        return fit

    def resume(self, source: Source, plan: FitPlan) -> None:
        """Open the source to go on with this fit; ValueError if the plan is another."""
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
        """Test-then-train loss: the mean over rows, each predicted before it was learnt.

        NaN as long as nothing was predicted: the first 1,000 rows are not.
        """
        tested = self.timeline.tested
        return self.timeline.total("loss") / tested if tested else float("nan")

    def learn(self, piece: Piece) -> None:
        """Learn from one batch, of which no more is encoded at a time than ``CELLS`` values."""
        step = max(FEW, CELLS // max(len(self.encoder.features), 1))
        for begin in range(0, piece.batch.num_rows, step):
            part = piece.batch.slice(begin, step)
            self._learn_part(Piece(piece.file, piece.start + begin, part))

    def _learn_part(self, piece: Piece) -> None:
        found = self.encoder.encode(piece)
        begin, count = 0, len(found.rows)
        while begin < count:
            # Cut where the weights that predict change, so that batches do not matter.
            left = self._renew() - self.timeline.rows
            self._learn(piece, found.part(slice(begin, begin + left)))
            begin += left
        if count:
            one = self.reservoir.targets[0] if self.used else found.targets[0]
            self.varied = self.varied or bool((found.targets != one).any())
            self.reservoir.add(found.rows, found.targets)
        self.read_record.add(piece)

    def merge(self, other: "StreamFit") -> None:
        """Take all that a fit with the same plan has learnt from the rows that follow.

        Rows that follow were not predicted by what was learnt here: the merged fit has no
        test-then-train loss of them.
        """
        if not (isinstance(self.learner, ExactLearner) and isinstance(other.learner, ExactLearner)):
            raise ValueError("fits to parts of a stream can be merged for `method='exact'` only")
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
        """Learn from all batches that follow those already read, which must come first.

        Parameters
        ----------
        pieces
            The whole stream, from its beginning.
        path, every
            Save to this file whenever at least so many rows have been read since the last time.
        show
            Called after each batch.

        Raises
        ------
        KeyboardInterrupt
            When Ctrl-C is pressed; the fit is then one to whole batches, and can be saved.
        """
        began, saved = time.monotonic() - self.seconds, self.read
        self.complete = False
        for piece in self.read_record.rest(pieces):
            with interrupts_wait():
                self.learn(piece)
                self.seconds = time.monotonic() - began
                if show is not None:
                    show(self)
                if path is not None and every is not None and self.read - saved >= every:
                    self.save(path)
                    saved = self.read
        self.complete = True

    def state_dict(self) -> dict[str, Any]:
        """Everything, as plain values and arrays."""
        return {
            "kind": KIND,
            "mixfree": mixfree.__version__,
            "plan": self.plan.state_dict(),
            "encoder": self.encoder.state_dict(),
            **{name: each and each.state_dict() for name, each in self._learners.items()},
            "reservoir": self.reservoir.state_dict(),
            "timeline": self.timeline.plain(),
            "read": self.read_record.state_dict(),
            "record": {name: getattr(self, name) for name in _KEPT},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "StreamFit":
        """The fit that gave ``state``."""
        fit = cls(FitPlan(**state["plan"]), Encoder.from_state(state["encoder"]))
        for name in _KEPT:
            setattr(fit, name, state["record"][name])
        for name, learner in fit._learners.items():
            if state[name] is None:
                setattr(fit, name, None)
            elif learner is not None:
                learner.load_state_dict(state[name])
        fit.reservoir = Reservoir.from_state(state["reservoir"])
        fit.timeline = fit.timeline.restored(state["timeline"], "timeline")
        fit.read_record = ReadRecord.from_state(state["read"])
        return fit

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a model file; if that fails, the old file stays."""
        try:
            model_file.save(path, self.state_dict())
        except OSError as error:
            raise OSError(
                f"cannot write {path}: {error.strerror or error}; what was there is unchanged"
            ) from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "StreamFit":
        """Read what :meth:`save` wrote."""
        content = model_file.load(path)
        if content.get("kind") != KIND:
            raise ValueError(f"{path} holds a {content.get('kind')!r}, not a {KIND!r}")
        return cls.from_state(content)

    @property
    def _learners(self) -> dict[str, LinearLearner | None]:
        return {"learner": self.learner, "rival": self.rival, "forgetting": self.forgetting}

    def _renew(self) -> int:
        """Take the weights that predict anew if it is time; the row count at which it is next."""
        course = self.timeline
        if course.rows >= course.until:
            weights = self.learner.weights if course.rows and self.tests_first else None
            course.renew(weights, self._next_renewal(course.rows))
        return course.until

    def _next_renewal(self, rows: int) -> int:
        """The row count, after ``rows``, at which the weights that predict are taken anew."""
        if not isinstance(self.learner, ExactLearner):
            # To stop and go on takes a method with steps as long as a thousand rows do: chunks
            # grow with the stream, of which they stay below a sixty-fourth.
            return rows + CHUNK * (1 << max((rows // (64 * CHUNK)).bit_length() - 1, 0))
        if self.learner.forgetting is not None:
            return rows + max(FEW, 4 * len(self.encoder.features))
        # To solve for the weights costs more than to learn 1,000 rows, least so for the squared
        # loss; a part more of a long stream hardly changes them.
        part = 8 if self.plan.loss == "squared" else 2
        return max(-(-(part + 1) * rows // (part * CHUNK)), 1) * CHUNK

    def _learn(self, piece: Piece, part: Encoded) -> None:
        rows, targets, times = part
        loss, course = self.row_loss, self.timeline
        found = judged(loss, course.weights, rows, targets) if course.predicts else None
        try:
            self.learner.advance(rows, targets)
        except TooFar as error:
            raise error.named(self.encoder.features) from None
        except ValueError:
            self.encoder.check_sizes(piece, LARGEST)
            raise
        if self.rival is not None:
            self._advance_rival(self.rival, rows, targets)
        if self.forgetting is not None:
            self.forgetting.advance(rows, targets)
        course.add(actual_of(targets, loss), found, times)

    def _advance_rival(self, rival: LinearLearner, rows: Array, targets: Array) -> None:
        """Advance the rival; rows that the learner accepted can only fail if it diverged."""
        try:
            rival.advance(rows, targets)
        except ValueError:
            self.rival, self.rival_diverged = None, True
