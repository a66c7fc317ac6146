"""One pass over a stream that can be saved between any two batches and resumed."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

import mixfree
from mixfree.base.arithmetic import Array
from mixfree.linear.choice import LinearLearner
from mixfree.linear.scaling import TooFar
from mixfree.streams import model_file
from mixfree.streams.columns import FIRST_ROWS, choose, kind_of, values_in, with_categories
from mixfree.streams.encoder import Encoder
from mixfree.streams.plan import FitPlan
from mixfree.streams.read_record import ReadRecord
from mixfree.streams.reservoir import Reservoir
from mixfree.streams.source import Piece, Source

__all__ = ["StreamFit"]

KIND = "stream fit"
# What a model file keeps besides the parts that have a state of their own.
_KEPT = ("complete", "seconds", "varied", "loss", "unused_columns", "rival_diverged")


class StreamFit:
    """A learner, how columns become its features, and the record of what it has learnt from.

    Parameters
    ----------
    plan
        What was asked for, with the loss decided.
    encoder
        Turns columns into features.
    unused_columns
        Columns of a type that cannot be a feature.

    Attributes
    ----------
    learner, rival
        The linear model, and plain SGD beside it if the plan compares.
    reservoir
        A uniform sample of the rows learnt from.
    """

    def __init__(self, plan: FitPlan, encoder: Encoder, unused_columns: Sequence[str] = ()) -> None:
        self.plan, self.encoder, self.unused_columns = plan, encoder, list(unused_columns)
        shape = len(encoder.features), encoder.classes
        self.learner: LinearLearner = plan.learner(*shape)
        self.rival: LinearLearner | None = plan.rival(*shape) if plan.compare else None
        self.rival_diverged = False
        self.reservoir = Reservoir()
        self.read_record = ReadRecord()
        self.complete = False
        self.seconds = 0.0
        self.varied = False  # whether two rows had different targets
        self.loss = np.zeros(2)  # sum over rows before they were learnt, and their number

    @classmethod
    def begin(cls, source: Source, plan: FitPlan) -> "StreamFit":
        """A fit that has learnt nothing yet; opens the source at its beginning."""
        columns, unused = choose(source, plan.target, plan.features, plan.exclude, plan.categories)
        loss = plan.loss
        if loss is None:
            kind = kind_of(source.schema.field(plan.target).type)
            loss = "squared" if kind == "number" and not plan.classes else "logistic"
        classified = loss == "logistic"
        source.open(Encoder(columns, plan.target, [] if classified else None).types)
        first = source.look(FIRST_ROWS)
        if not first:
            raise ValueError(f"{source.files[0]}: there are no rows")
        columns = with_categories(columns, first)
        classes = None
        if classified:
            classes = sorted(plan.classes or values_in(first, plan.target))
            if len(classes) < 2:
                found = f"only one class, {classes[0]!r}," if classes else "no value"
                raise ValueError(
                    f"the target {plan.target!r} has {found} in the first {FIRST_ROWS:,} rows; "
                    "give all of its classes as `classes`"
                )
        encoder = Encoder(columns, plan.target, classes, plan.missing)
        return cls(replace(plan, loss=loss), encoder, unused)

    def resume(self, source: Source, plan: FitPlan) -> None:
        """Open the source to go on with this fit; ValueError if the plan is another."""
        self.plan.check_same(plan)
        source.require_columns([column.name for column in self.encoder.columns], "column")
        source.require_columns([self.encoder.target], "target column")
        source.open(self.encoder.types)

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
        """Test-then-train loss: the mean over rows, each taken just before it was learnt."""
        return float(self.loss[0] / self.loss[1]) if self.loss[1] else float("nan")

    def learn(self, piece: Piece) -> None:
        """Learn from one batch."""
        rows, targets = self.encoder.encode(piece)
        if len(rows):
            if self.used:
                self.loss += losses(self.learner, rows, targets).sum(), len(rows)
            try:
                self.learner.advance(rows, targets)
            except TooFar as error:
                raise error.named(self.encoder.features) from None
            if self.rival is not None:
                self._advance_rival(self.rival, rows, targets)
            one = self.reservoir.targets[0] if self.used else targets[0]
            self.varied = self.varied or bool((targets != one).any())
            self.reservoir.add(rows, targets)
        self.read_record.add(piece)

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
        """
        began, saved = time.monotonic() - self.seconds, self.read
        self.complete = False
        for piece in self.read_record.rest(pieces):
            self.learn(piece)
            self.seconds = time.monotonic() - began
            if show is not None:
                show(self)
            if path is not None and every is not None and self.read - saved >= every:
                self.save(path)
                saved = self.read
        self.complete = True

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a model file; if that fails, the old file stays."""
        content = {
            "kind": KIND,
            "mixfree": mixfree.__version__,
            "plan": self.plan.state_dict(),
            "encoder": self.encoder.state_dict(),
            "learner": self.learner.state_dict(),
            "rival": None if self.rival is None else self.rival.state_dict(),
            "reservoir": self.reservoir.state_dict(),
            "read": self.read_record.state_dict(),
            "record": {name: getattr(self, name) for name in _KEPT},
        }
        try:
            model_file.save(path, content)
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
        encoder = Encoder.from_state(content["encoder"])
        fit = cls(FitPlan(**content["plan"]), encoder)
        for name in _KEPT:
            setattr(fit, name, content["record"][name])
        fit.learner.load_state_dict(content["learner"])
        if content["rival"] is None:
            fit.rival = None
        elif fit.rival is not None:
            fit.rival.load_state_dict(content["rival"])
        fit.reservoir = Reservoir.from_state(content["reservoir"])
        fit.read_record = ReadRecord.from_state(content["read"])
        return fit

    def _advance_rival(self, rival: LinearLearner, rows: Array, targets: Array) -> None:
        """Advance the rival; rows that the learner accepted can only fail if it diverged."""
        try:
            rival.advance(rows, targets)
        except ValueError:
            self.rival, self.rival_diverged = None, True


def losses(learner: LinearLearner, rows: Array, targets: Array) -> Array:
    """Loss of each row; infinite or NaN where a run has diverged."""
    with np.errstate(over="ignore", invalid="ignore"):
        return learner.losses(rows, targets)
