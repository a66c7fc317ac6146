"""Predictions for every row of a stream, written batch by batch, whole or not at all."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from mixfree.base.extras import require
from mixfree.base.files import replacing
from mixfree.streams.encoder import at
from mixfree.streams.fitting import StreamFit
from mixfree.streams.source import Piece

ENDINGS = (".parquet", ".csv", ".arrow")


class Written(NamedTuple):
    """Rows written, those of them without a prediction, and texts that are new, by column."""

    rows: int
    empty: int
    unseen: Counter[str]


def predict(
    fit: StreamFit, pieces: Iterator[Piece], path: str | os.PathLike[str], keep: list[str]
) -> Written:
    """Write one row of predictions a row of the stream.

    Rows that the encoder's policy does without are empty. A classifier also writes the probability
    of each class. ``keep`` names columns of the data to copy.
    """
    if Path(path).suffix not in ENDINGS:
        raise ValueError(f"the output must end in {', '.join(ENDINGS)}, not be {str(path)!r}")
    for name in keep:
        if name in _names(fit):
            raise ValueError(f"keep must not have {name!r}: a column of predictions is called so")
    rows, empty, before = 0, 0, fit.encoder.unseen.copy()
    with replacing(path) as file, _writer(file, Path(path).suffix) as write:
        for piece in pieces:
            batch, usable = _predictions(fit, piece, keep)
            write(batch)
            rows, empty = rows + len(usable), empty + int((~usable).sum())
        if rows == 0:
            raise ValueError("there are no rows")
    return Written(rows, empty, fit.encoder.unseen - before)


def _predictions(fit: StreamFit, piece: Piece, keep: list[str]) -> tuple[Any, Any]:
    pyarrow = require("pyarrow")
    rows, usable = fit.encoder.encode_for_prediction(piece)
    columns = {name: piece.batch.column(name) for name in keep}
    found = [fit.model.predict(rows)]
    if fit.encoder.classes is not None:
        found += list(fit.model.predict_proba(rows).T)
    for values in found:
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise ValueError(at(piece, row, "has values that are too large for a prediction"))
    for name, values in zip(_names(fit), found, strict=True):
        columns[name] = pyarrow.array(np.ascontiguousarray(values), mask=~usable)
    return pyarrow.RecordBatch.from_pydict(columns), usable


def _names(fit: StreamFit) -> list[str]:
    """What the columns of predictions are called."""
    return ["prediction", *(f"probability of {label}" for label in fit.encoder.classes or ())]


@contextmanager
def _writer(file: IO[bytes], ending: str) -> Any:
    """What writes batches in the format of the ending; it opens with the first batch."""
    opened: list[Any] = []

    def write(batch: Any) -> None:
        if not opened:
            opened.append(_open(file, ending, batch.schema))
        if ending == ".csv" and batch.num_columns == 1:
            # A line with nothing in it is skipped by those who read the file: one of NaN is not.
            batch = batch.set_column(0, batch.schema.names[0], batch.column(0).fill_null(np.nan))
        opened[0].write_batch(batch)

    try:
        yield write
    finally:
        for writer in opened:
            writer.close()


def _open(file: IO[bytes], ending: str, schema: Any) -> Any:
    if ending == ".csv":
        return require("pyarrow.csv").CSVWriter(file, schema)
    if ending == ".arrow":
        return require("pyarrow").ipc.new_file(file, schema)
    return require("pyarrow.parquet").ParquetWriter(file, schema)
