"""Tables and streams of batches of any library, learnt as ``mixfree fit`` learns files."""

import copy
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.extras import require
from mixfree.base.state import shallow
from mixfree.linear.classes import unknown_labels
from mixfree.linear.exact_learner import ExactLearner
from mixfree.streams.columns.design import Design
from mixfree.streams.columns.encoder import Encoder
from mixfree.streams.fit.look import rows_to_look_at
from mixfree.streams.fit.plan import FitPlan
from mixfree.streams.fit.reservoir import Reservoir
from mixfree.streams.fit.stream_fit import StreamFit
from mixfree.streams.read.files import StreamFile
from mixfree.streams.read.source import Piece, Source, check_different
from mixfree.streams.read.values import decoded, flat

FRAMES = ("pandas", "polars", "pyarrow")  # packages whose tables scikit-learn takes as well


class TableSource(Source):
    """The rows of a table, or of a stream that is read once, batch after batch.

    Targets are the column ``target`` of X or, as a column of this name or a new one, ``y``. So many
    rows as ``start`` came before.
    """

    def __init__(self, X: Any, target: str | None, start: int = 0, y: Array | None = None) -> None:
        self.files, self.decimal_comma = [StreamFile("X", "arrow")], False
        self._names, self._ahead, self._pieces, self._once = [], [], iter(()), True
        self._start, self._y = start, y
        # Weights of rows; classes, of which labels become the places; weights of classes.
        self.weights: Array | None = None
        self.classes: Array | None = None
        self.by_class: Array | None = None
        self._batches = batches(X)
        self._looked = list(islice(self._batches, 1 if is_stream(X) else None))
        if not self._looked:
            raise ValueError("X has no rows: a reader or a query can be read only once")
        names = self._looked[0].schema.names
        self.target = target or ("y" if "y" not in names else max(names, key=len) + " ")
        self.schema = self._with_targets(self._looked[0], 0).schema
        check_different("X", self.schema.names)

    def labels(self) -> Array:
        """The labels in the target column: of all rows of a table, of the first of a stream."""
        self.require_columns([self.target], "target column")
        rows = rows_to_look_at(len(self.schema.names))
        while sum(map(len, self._looked)) < rows:
            if (batch := next(self._batches, None)) is None:
                break
            self._looked.append(batch)
        columns = [each.column(self.target) for each in self._looked]
        different = require("pyarrow").chunked_array(columns).unique().drop_null()
        found: Array = different.to_numpy(zero_copy_only=False)
        return found

    def _read(self, numbers: frozenset[str], threads: bool = True) -> Iterator[Piece]:
        start = 0
        for batch in chain(self._looked, self._batches):
            end = start + batch.num_rows
            batch = self._with_targets(batch, start)
            weights = None if self.weights is None else self.weights[start:end]
            if self.classes is not None:
                places = self._places(batch.column(self.target), self.classes)
                at = batch.schema.get_field_index(self.target)
                batch = batch.set_column(at, self.target, places)
                weights = row_weights(places.fill_null(0).to_numpy(), weights, self.by_class)
            yield Piece("X", self._start + start, batch.select(self._names), weights)
            start = end

    def _with_targets(self, batch: Any, start: int) -> Any:
        if self._y is None:
            return batch
        y = require("pyarrow").array(self._y[start : start + batch.num_rows])
        return batch.append_column(self.target, y)

    def _places(self, values: Any, classes: Array) -> Any:
        """Return the places of labels among the classes."""
        compute, known = require("pyarrow.compute"), require("pyarrow").array(classes)
        found = compute.index_in(values.cast(known.type), value_set=known)
        if found.null_count > values.null_count:
            new = values.filter(compute.and_(found.is_null(), values.is_valid())).unique()
            raise unknown_labels(repr(self.target), new.to_pylist(), classes)
        return found


def row_weights(
    targets: Array, sample_weight: Array | None, by_class: Array | None
) -> Array | None:
    """Multiply sample weights by those of the classes, at targets or places; None if neither."""
    if by_class is None:
        return sample_weight
    weights: Array = by_class[np.maximum(targets, 0).astype(int)]
    return weights if sample_weight is None else weights * sample_weight


def is_table(X: Any) -> bool:
    """Whether X is a data frame, a table or a stream of batches."""
    return hasattr(X, "__arrow_c_stream__") or type(X).__module__.split(".")[0] in FRAMES


def is_stream(X: Any) -> bool:
    """Whether X can be read only once: a reader, a query, or a lazy frame of Polars."""
    once = hasattr(X, "read_next_batch") or hasattr(X, "collect")
    return is_table(X) and (once or type(X).__module__.split(".")[0] not in FRAMES)


def batches(X: Any) -> Iterator[Any]:
    """Yield a table as record batches, without empty ones; a matrix has columns x0, x1, …."""
    pyarrow = require("pyarrow")
    if isinstance(X, np.ndarray | Sequence):
        matrix = np.asarray(X)
        if matrix.ndim != 2:
            raise ValueError(f"X must have 2 dimensions, not {matrix.ndim}")
        X = {f"x{place}": column for place, column in enumerate(matrix.T)}
    if hasattr(X, "collect"):
        parts = X.collect_batches() if hasattr(X, "collect_batches") else [X.collect()]
    elif is_stream(X):
        parts = pyarrow.RecordBatchReader.from_stream(X)
    else:
        try:
            if type(X).__module__.startswith("pandas"):
                parts = [pyarrow.Table.from_pandas(X, preserve_index=False)]
            else:
                parts = [pyarrow.table(X)]
        except pyarrow.ArrowException as error:
            what = ": ".join(reversed(error.args))  # which column, and why
            remedy = "X[name] = X[name].astype(str) makes a column of several types texts"
            raise ValueError(f"X cannot be converted by PyArrow: {what}; {remedy}") from error
        except TypeError as error:
            what = f"not {type(X).__name__}: {error}"
            raise TypeError(f"X must be a table that PyArrow can convert, {what}") from error
    for part in parts:
        table = flat(pyarrow.table(part))
        columns = [decoded(column.combine_chunks()) for column in table.columns]
        if len(table):
            yield pyarrow.RecordBatch.from_arrays(columns, names=table.schema.names)


def read(X: Any) -> Any:
    """Return X, but a stream of batches as one table."""
    return require("pyarrow").Table.from_batches(list(batches(X))) if is_stream(X) else X


def needs_encoding(X: Any) -> bool:
    """Whether X is a data frame or table with texts, dates or gaps."""
    if not is_table(X):
        return False
    types = require("pyarrow").types
    plain = (types.is_integer, types.is_floating, types.is_boolean)
    return any(
        column.null_count or not any(is_plain(column.type) for is_plain in plain)
        for batch in batches(X)
        for column in batch.columns
    )


def begin(source: TableSource, plan: FitPlan) -> StreamFit:
    """Return an untrained fit; fits of parts that begin with different rows can be merged."""
    fit = StreamFit.begin(source, plan)
    first = source.look(1)[0].batch.slice(0, 1).to_pylist()
    fit.reservoir = Reservoir(seed=zlib.crc32(repr((plan.parameters["seed"], first)).encode()))
    fit.tests_first = False
    return fit


def learnt(fit: StreamFit, source: TableSource, epochs: int = 1) -> StreamFit:
    """Return the fit that has also learnt from a source; ``fit`` itself stays as it is."""
    after = copy.copy(fit)
    exact = isinstance(fit.learner, ExactLearner)
    after.learner = shallow(fit.learner) if exact else copy.deepcopy(fit.learner)
    for name in ("encoder", "reservoir", "timeline", "read_record"):
        setattr(after, name, copy.deepcopy(getattr(fit, name)))
    source.require_columns(fit.encoder.needs, "column")
    source.open(fit.encoder.needs)
    for piece in source.pieces() if epochs == 1 else [*source.pieces()] * epochs:
        after.learn(piece)
    after.end()
    if not after.used:
        raise ValueError(f"no row has a target {source.target!r}")
    return after


def encoded(encoder: Encoder, design: Design, X: Any) -> Iterator[Array]:
    """Yield the features of the rows of a table, batch after batch; the first has no rows."""
    encoder, start = copy.copy(encoder), 0
    encoder.unknown, encoder.not_parsed = Counter(), {}
    yield np.zeros((0, len(design.features)))
    for batch in batches(X):
        for name in encoder.needed(design):
            if name not in batch.schema.names:
                raise ValueError(f"X has no column {name!r}")
        yield encoder.encode_for_prediction(Piece("X", start, batch), design)[0]
        start += batch.num_rows
