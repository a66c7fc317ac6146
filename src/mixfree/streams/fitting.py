"""One pass over a stream that can be saved between any two batches and resumed."""

import os
import time
from collections.abc import Callable, Iterator

import numpy as np

import mixfree
from mixfree.base.arithmetic import Array, State
from mixfree.linear.scaling import TooFar
from mixfree.streams import model_file as models
from mixfree.streams.encoder import Encoder
from mixfree.streams.model import LinearModel
from mixfree.streams.reading import Reading
from mixfree.streams.sample import UniformSample
from mixfree.streams.source import Piece

KIND = "stream fit"


class StreamFit:
    """A model, how columns become its features, and the record of what it has learnt from.

    Parameters
    ----------
    encoder
        Columns to features.
    model
        What is fitted.
    rival
        A second model fitted to the same rows, to compare with.
    settings
        Kept with the model: what the user asked for.
    """

    def __init__(
        self,
        encoder: Encoder,
        model: LinearModel,
        rival: LinearModel | None = None,
        settings: State | None = None,
    ) -> None:
        self.encoder, self.model, self.rival = encoder, model, rival
        self.settings = settings or {}
        self.sample = UniformSample()
        self.reading = Reading()
        self.complete = False
        self.seconds = 0.0
        self.varied = False  # whether two rows had different targets
        self.loss = np.zeros(2)  # sum over rows before they were learnt, and their number

    @property
    def read(self) -> int:
        """Rows read, whether used or left out."""
        return self.reading.rows

    @property
    def used(self) -> int:
        """Rows learnt from."""
        return self.sample.seen

    @property
    def running_loss(self) -> float:
        """Mean loss of rows just before they were learnt."""
        return float(self.loss[0] / self.loss[1]) if self.loss[1] else float("nan")

    def learn(self, piece: Piece) -> None:
        """Take one batch."""
        rows, targets = self.encoder.encode(piece)
        if len(rows):
            self._judge(rows, targets)
            try:
                self.model.learn(rows, targets)
            except TooFar as error:
                raise error.named(self.encoder.features) from None
            if self.rival is not None:
                self._fit_rival(self.rival, rows, targets)
            one = self.sample.targets[0] if self.used else targets[0]
            self.varied = self.varied or bool((targets != one).any())
            self.sample.add(rows, targets)
        self.reading.add(piece)

    def run(
        self,
        pieces: Iterator[Piece],
        path: str | os.PathLike[str] | None = None,
        every: int | None = None,
        show: Callable[["StreamFit"], None] | None = None,
    ) -> None:
        """Learn from all batches that have not been read, which are after those that have.

        Save to ``path`` after every ``every`` rows or more.
        """
        began, saved = time.monotonic() - self.seconds, self.read
        self.complete = False
        for piece in self.reading.rest(pieces):
            self.learn(piece)
            self.seconds = time.monotonic() - began
            if show is not None:
                show(self)
            if path is not None and every is not None and self.read - saved >= every:
                self.save(path)
                saved = self.read
        self.complete = True

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a model file; the one before survives if that fails."""
        try:
            models.save(path, self._content())
        except OSError as error:
            raise OSError(
                f"cannot write {path}: {error.strerror or error}; what was there is unchanged"
            ) from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "StreamFit":
        """Read what :meth:`save` wrote."""
        content = models.load(path)
        if content.get("kind") != KIND:
            raise ValueError(f"{path} holds a {content.get('kind')!r}, not a {KIND!r}")
        encoder, settings = Encoder.from_state(content["encoder"]), content["settings"]

        def model(state: State) -> LinearModel:
            features = len(encoder.features)
            found = LinearModel(settings["loss"], features, encoder.classes, state["parameters"])
            found.learner.load_state_dict(state["learner"])
            return found

        rival, record = content["rival"], content["record"]
        fit = cls(
            encoder, model(content["model"]), None if rival is None else model(rival), settings
        )
        fit.sample = UniformSample.from_state(content["sample"])
        fit.reading, fit.complete = Reading.from_state(record["reading"]), record["complete"]
        fit.seconds, fit.varied, fit.loss = record["seconds"], record["varied"], record["loss"]
        return fit

    def _content(self) -> State:
        return {
            "kind": KIND,
            "mixfree": mixfree.__version__,
            "settings": self.settings,
            "encoder": self.encoder.state_dict(),
            "model": self.model.state_dict(),
            "rival": None if self.rival is None else self.rival.state_dict(),
            "sample": self.sample.state_dict(),
            "record": {
                "reading": self.reading.state_dict(),
                "complete": self.complete,
                "seconds": self.seconds,
                "varied": self.varied,
                "loss": self.loss.copy(),
            },
        }

    def _judge(self, rows: Array, targets: Array) -> None:
        if self.used:
            self.loss += self.model.losses(rows, targets).sum(), len(rows)

    def _fit_rival(self, rival: LinearModel, rows: Array, targets: Array) -> None:
        """Fit the rival; rows that the model could learn from can only fail by its divergence."""
        try:
            rival.learn(rows, targets)
        except ValueError:
            self.rival, self.settings["rival_diverged"] = None, True
