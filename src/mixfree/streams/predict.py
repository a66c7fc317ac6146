"""Predictions for every row of a stream, written batch by batch to a file."""

import copy
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_one_of, shown
from mixfree.base.extras import require
from mixfree.base.files import replacing
from mixfree.linear.classes import most_probable, probabilities
from mixfree.linear.exact_learner import ExactLearner, knows_intervals
from mixfree.linear.losses import mean_of, row_predictions
from mixfree.streams.fit.stream_fit import StreamFit
from mixfree.streams.read.files import STDIN, StreamFile
from mixfree.streams.read.source import Piece, Source
from mixfree.streams.read.values import decoded

ENDINGS = (".parquet", ".csv", ".arrow")
MARK = {b"mixfree": b"mixfree predictions"}  # metadata of Parquet and Arrow files


class Written(NamedTuple):
    """Rows written, rows without a prediction, and unknown categories per column.

    ``not_parsed`` has the number of texts that are no numbers or dates, and the first, per column.
    """

    rows: int
    empty: int
    unknown: Counter[str]
    not_parsed: dict[str, list[Any]]


def write_predictions(
    fit: StreamFit,
    source: Source,
    output: str | os.PathLike[str] | IO[bytes],
    keep: Sequence[str] = (),
    interval: float | None = None,
    interval_of: str = "row",
) -> Written:
    """Write one row of predictions per row of the stream.

    Rows that cannot be predicted because of missing values have empty predictions. For
    classifications, the probability of each class is also written.

    Parameters
    ----------
    output
        A file, written atomically. Or a stream, for CSV or JSON lines from standard input, read
        with ``arriving=True``: predictions are written in the format of the source as rows arrive,
        and do not depend on how many arrive together.
    keep
        Columns of the data to copy, in the types in which they are read; those of CSV are texts.
    interval, interval_of
        Level of intervals: of new rows, or of the mean if ``"mean"``; for classes, of sets of them.
    """
    return Predictor(fit, keep, interval, interval_of).write(source, output)


def beside(file: StreamFile) -> Path:
    """Return the file for predictions beside a file of data.

    Examples
    --------
    >>> beside(StreamFile("days/new.csv.gz", "csv")).as_posix()
    'days/new-predictions.csv'
    """
    if file.path == STDIN:
        raise ValueError("give `output`: predictions of an Arrow stream are written to a file")
    ending = {"csv": ".csv", "jsonl": ".csv"}.get(file.format, f".{file.format}")
    path = Path(file.path)
    return path.with_name(path.name.split(".")[0] + "-predictions" + ending)


@dataclass
class Predictor:
    """Predictions of rows, which do not depend on the rows beside them.

    Parameters are those of :func:`write_predictions`; ``names`` are those of the columns written.
    """

    fit: StreamFit
    keep: Sequence[str] = ()
    interval: float | None = None
    interval_of: str = "row"

    def __post_init__(self) -> None:
        fit, interval = self.fit, self.interval
        self.model, self._weights = fit.model, fit.model.learner.weights
        self._encoder = copy.copy(fit.encoder)  # counts of its own
        self.classes = fit.encoder.classes
        self.of_mean = check_one_of(self.interval_of, "interval_of", ("row", "mean")) == "mean"
        ends = list[str]()
        if interval is not None:
            if not 0.0 < interval < 1.0:
                raise ValueError(f"interval must be between 0 and 1, not {shown(interval)}")
            if self.of_mean and self.classes is not None:
                raise ValueError("`interval_of='mean'` applies to regressions only")
            if not isinstance(fit.learner, ExactLearner):
                raise ValueError("`interval` needs a model of the method exact")
            if self.of_mean and not knows_intervals(fit.learner):
                raise ValueError("`interval_of='mean'` needs a model without a half-life")
            ends = ["mean_lower", "mean_upper"] if self.of_mean else ["lower", "upper"]
            ends = ends if self.classes is None else ["set"]
        of_classes = [f"probability of {each}" for each in self.classes or ()]
        self.names = ["prediction", *of_classes, *ends]
        if taken := [name for name in self.keep if name in self.names]:
            raise ValueError(f"keep must not contain {taken[0]!r}, a name of the predictions")

    def mark(self, output: str | os.PathLike[str]) -> bytes:
        """Return the mark of a file of predictions; for CSV, how its header begins."""
        if Path(output).suffix != ".csv":
            return MARK[b"mixfree"]
        names = ('"' + name.replace('"', '""') + '"' for name in (*self.keep, "prediction"))
        return f"\n{','.join(names)}".encode()

    def write(self, source: Source, output: str | os.PathLike[str] | IO[bytes]) -> Written:
        """Predict and write all batches; to a stream, also the rows before an invalid one."""
        path = output if isinstance(output, str | os.PathLike) else None
        ending = f".{source.files[0].format}" if path is None else Path(path).suffix
        if path is not None and ending not in ENDINGS:
            raise ValueError(f"output must end in {', '.join(ENDINGS)}, not be {str(path)!r}")
        encoder, rows, empty = self._encoder, 0, 0
        needed = encoder.needed(self.model.design)
        encoder.unknown, encoder.not_parsed = Counter(), {}
        if ending != ".jsonl":  # objects may lack columns
            source.require_columns([*needed, *self.keep], "column")
        numbers = [name for name in encoder.numbers if name in needed and name not in self.keep]
        source.open([*self.keep, *needed], numbers)
        opened: Any = nullcontext(output) if path is None else replacing(path)
        with opened as file, _writer(file, ending) as write:
            for piece in source.pieces():
                try:
                    found: Iterable[Any] = [self.batch(piece)]
                except ValueError:
                    if path is not None:
                        raise
                    every = range(piece.batch.num_rows)  # the invalid row raises again
                    found = (self.batch(piece.slice(at, 1)) for at in every)
                for batch, usable in found:
                    write(batch, piece.file)
                    rows, empty = rows + len(usable), empty + int((~usable).sum())
            if rows == 0:
                raise ValueError(f"{source.files[0]}: there are no rows")
        return Written(rows, empty, encoder.unknown, encoder.not_parsed)

    def batch(self, piece: Piece) -> tuple[Any, Array]:
        """Return the batch to write, and which of its rows have a prediction."""
        rows, usable = self._encoder.encode_for_prediction(piece, self.model.design)
        columns = {name: decoded(piece.batch.column(name)) for name in self.keep}
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = row_predictions(self._weights, rows)
            loss, single = self.fit.row_loss, self.classes is None
            means = mean_of(loss, outputs)[:, None] if single else probabilities(outputs)
            finite = np.isfinite(means).all(axis=1)
            if not finite.all():
                where = f"{piece.file}, row {piece.start + int(finite.argmin()) + 1}"
                raise ValueError(f"{where}, has values too large to predict")
            predicted = [*means.T, *self._intervals(rows, outputs)]
        if self.classes is not None:
            predicted.insert(0, most_probable(outputs, np.array(self.classes)))
        pyarrow = require("pyarrow")
        for name, values in zip(self.names, predicted, strict=True):
            columns[name] = pyarrow.array(np.ascontiguousarray(values), mask=~usable)
        return pyarrow.RecordBatch.from_pydict(columns, metadata=MARK), usable

    def _intervals(self, rows: Array, outputs: Array) -> list[Array]:
        """Return the ends of intervals, or sets of classes as texts, if asked for."""
        loss, learner, level = self.fit.row_loss, self.model.learner, self.interval
        if level is None or not isinstance(learner, ExactLearner):
            return []
        if self.of_mean:
            return [mean_of(loss, end) for end in learner.mean_interval(rows, level)]
        if self.classes is None:
            return list(learner.ahead.ends(loss, outputs, level))
        sets = learner.ahead.sets(loss, outputs, level)
        kinds, which = np.unique(sets, axis=0, return_inverse=True)
        texts = ["|".join(np.array(self.classes)[kind]) for kind in kinds]
        return [np.array(texts, dtype=object)[which.ravel()]]


@contextmanager
def _writer(file: IO[bytes], ending: str) -> Iterator[Callable[[Any, str], None]]:
    """Provide a function that writes batches, of files that errors name, in a format."""
    opened: list[Any] = []

    def write(batch: Any, source: str) -> None:
        if ending == ".jsonl":
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in batch.to_pylist())
            file.write("".join(lines).encode())
            file.flush()
            return
        if not opened:
            opened.extend((stack.enter_context(_open(file, ending, batch.schema)), batch.schema))
        try:
            batch = batch.cast(opened[1])  # files may store a column to keep in other types
        except require("pyarrow").ArrowException as error:
            why = f"{error}: remove columns that change their type from `keep`"
            raise ValueError(f"{source}: {why}") from error
        if ending == ".csv" and batch.num_columns == 1:
            # NaN, since CSV readers skip empty lines.
            (name,), (values,) = batch.schema.names, batch.columns
            batch = batch.set_column(0, name, values.fill_null(np.nan))
        opened[0].write_batch(batch)
        file.flush()

    with ExitStack() as stack:
        yield write


def _open(file: IO[bytes], ending: str, schema: Any) -> Any:
    if ending == ".csv":
        return require("pyarrow.csv").CSVWriter(file, schema)
    if ending == ".arrow":
        return require("pyarrow").ipc.new_file(file, schema)
    return require("pyarrow.parquet").ParquetWriter(file, schema)
