"""Tables and streams of batches of any library, read as ``mixfree fit`` reads files."""

import copy
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.extras import require
from mixfree.base.state import shallow
from mixfree.linear.exact_learner import ExactLearner
from mixfree.streams.columns.design import Design
from mixfree.streams.columns.encoder import Encoder
from mixfree.streams.fit.look import rows_to_look_at
from mixfree.streams.fit.plan import FitPlan
from mixfree.streams.fit.reservoir import Reservoir
from mixfree.streams.fit.stream_fit import StreamFit
from mixfree.streams.read.files import StreamFile
from mixfree.streams.read.json_lines import flat
from mixfree.streams.read.source import Piece, Source, check_different
from mixfree.streams.read.values import decoded

__all__ = [
    "TableSource",
    "begin",
    "encoded",
    "is_table",
    "learn",
    "merged",
    "needs_encoding",
    "read",
]

FRAMES = ("pandas", "polars", "pyarrow")  # packages whose tables scikit-learn takes as well


class TableSource(Source):
    """The rows of a table, or of a stream that is read once, batch after batch.

    Parameters
    ----------
    X
        A data frame, an Arrow table or reader, a query of DuckDB, a lazy frame of Polars, or
        anything else with ``__arrow_c_stream__``.
    target
        Name of the target column; None for a name that no column has, if ``y`` is given.
    y
        The targets of the rows, or one for all, if they are not a column of X.
    start
        Number of rows that came before.
    """

    def __init__(self, X: Any, target: str | None, y: Any = None, start: int = 0) -> None:
        self.files, self.decimal_comma = [StreamFile("X", "arrow")], False
        self._names, self._ahead, self._pieces, self._once = [], [], iter(()), True
        self._y, self._start = y, start
        self._convert: Callable[[Any], Any] | None = None
        self._batches = batches(X)
        self._looked = list(islice(self._batches, None if _in_memory(X) else 1))
        if not self._looked:
            raise ValueError("X has no rows: a reader or a query can be read only once")
        names = self._looked[0].schema.names
        self.target = target or ("y" if "y" not in names else max(names, key=len) + " ")
        self.schema = self._whole(self._looked[0], 0).schema
        check_different("X", self.schema.names)

    def labels(self) -> Array:
        """The labels in the target column: of all rows of a table, of the first of a stream."""
        self.require_columns([self.target], "target column")
        rows = rows_to_look_at(len(self.schema.names))
        while sum(len(each) for each in self._looked) < rows:
            batch = next(self._batches, None)
            if batch is None:
                break
            self._looked.append(batch)
        columns = [each.column(self.target) for each in self._looked]
        different = require("pyarrow").chunked_array(columns).unique().drop_null()
        found: Array = different.to_numpy(zero_copy_only=False)
        return found

    def use_labels(self, classes: Array, label: str) -> None:
        """Replace labels by their places among the classes; ``label`` says what to do otherwise."""
        pyarrow, compute = require("pyarrow"), require("pyarrow.compute")
        known = pyarrow.array(classes)

        def places(values: Any) -> Any:
            found = compute.index_in(values.cast(known.type), value_set=known)
            if found.null_count > values.null_count:
                new = values.filter(compute.and_(found.is_null(), values.is_valid())).unique()
                raise ValueError(
                    f"{self.target!r} has labels {new.to_pylist()}, which are not among the "
                    f"classes {classes.tolist()}: {label}"
                )
            return found

        self._convert = places

    def _read(self, numbers: frozenset[str], threads: bool = True) -> Iterator[Piece]:
        start = 0
        for batch in chain(self._looked, self._batches):
            whole = self._whole(batch, start)
            if self._convert is not None:
                place = whole.schema.get_field_index(self.target)
                whole = whole.set_column(place, self.target, self._convert(whole.column(place)))
            yield Piece("X", self._start + start, whole.select(self._names))
            start += batch.num_rows

    def _whole(self, batch: Any, start: int) -> Any:
        """Append the targets, if they were given."""
        if self._y is None:
            return batch
        count = batch.num_rows
        y = np.full(count, self._y) if np.ndim(self._y) == 0 else self._y[start : start + count]
        names = [*batch.schema.names, self.target]
        columns = [*batch.columns, require("pyarrow").array(y)]
        return type(batch).from_arrays(columns, names=names)


def batches(X: Any) -> Iterator[Any]:
    """Yield a table as record batches, without empty ones; a matrix has columns x0, x1, …."""
    pyarrow = require("pyarrow")
    if isinstance(X, np.ndarray | Sequence):
        matrix = np.asarray(X)
        if matrix.ndim != 2:
            raise ValueError(f"X must have 2 dimensions, not {matrix.ndim}")
        X = {f"x{place}": column for place, column in enumerate(matrix.T)}
    parts: Iterator[Any]
    if _is_lazy(X):
        frames = X.collect_batches() if hasattr(X, "collect_batches") else [X.collect()]
        parts = (pyarrow.table(frame) for frame in frames)
    elif type(X).__module__.startswith("pandas"):
        parts = iter([pyarrow.Table.from_pandas(X, preserve_index=False)])
    elif isinstance(X, pyarrow.RecordBatch):
        parts = iter([pyarrow.Table.from_batches([X])])
    elif hasattr(X, "__arrow_c_stream__") and not isinstance(X, pyarrow.Table):
        reader = pyarrow.RecordBatchReader.from_stream(X)
        parts = (pyarrow.Table.from_batches([batch]) for batch in reader)
    else:
        try:
            parts = iter([pyarrow.table(X)])
        except TypeError as error:
            kind = type(X).__name__
            raise TypeError(f"X must be a table that PyArrow can convert, not {kind}") from error
    for part in parts:
        table = flat(part)
        columns = [decoded(column.combine_chunks()) for column in table.columns]
        if len(table):
            yield pyarrow.RecordBatch.from_arrays(columns, names=table.schema.names)


def is_table(X: Any) -> bool:
    """Whether X is a data frame, a table or a stream of batches."""
    if type(X) is np.ndarray:  # most often, and quicker than to look for an attribute
        return False
    return hasattr(X, "__arrow_c_stream__") or type(X).__module__.split(".")[0] in FRAMES


def _is_lazy(X: Any) -> bool:
    """Whether X is a lazy frame of Polars."""
    return hasattr(X, "collect") and type(X).__module__.startswith("polars")


def _in_memory(X: Any) -> bool:
    """Whether X can be read again; a reader, a query or a lazy frame need not."""
    once = _is_lazy(X) or hasattr(X, "read_next_batch")
    return not once and (not is_table(X) or type(X).__module__.split(".")[0] in FRAMES)


def read(X: Any) -> Any:
    """Return X, but a stream of batches as one table."""
    if is_table(X) and not _in_memory(X):
        return require("pyarrow").Table.from_batches(list(batches(X)))
    return X


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


def begin(source: TableSource, plan: FitPlan, seed: int) -> StreamFit:
    """Return an untrained fit; fits of parts that begin with different rows can be merged."""
    fit = StreamFit.begin(source, plan)
    first = source.look(1)[0].batch.slice(0, 1).to_pylist()
    fit.reservoir = Reservoir(seed=zlib.crc32(repr((seed, first)).encode()))
    fit.tests_first = False
    return fit


def merged(fit: StreamFit, other: StreamFit) -> StreamFit:
    """Return the fit of both streams."""
    after = copy.deepcopy(fit)
    if fit.reservoir.seed == other.reservoir.seed:
        raise ValueError("both fits begin with the same row: fit one of them with another seed")
    after.merge(other)
    return after


def learn(fit: StreamFit, source: TableSource) -> StreamFit:
    """Return the fit that has also learnt from a source; ``fit`` itself stays as it is."""
    after = copy.copy(fit)
    exact = isinstance(fit.learner, ExactLearner)
    after.learner = shallow(fit.learner) if exact else copy.deepcopy(fit.learner)
    for name in ("encoder", "reservoir", "timeline", "read_record"):
        setattr(after, name, copy.deepcopy(getattr(fit, name)))
    for piece in source.pieces():
        after.learn(piece)
    after.end()
    return after


def encoded(encoder: Encoder, design: Design, X: Any) -> Iterator[Array]:
    """Yield the features of the rows of a table, batch after batch; the first has no rows."""
    encoder, start = copy.copy(encoder), 0
    encoder.unknown = Counter()
    yield np.zeros((0, len(design.features)))
    for batch in batches(X):
        for name in encoder.needed(design):
            if name not in batch.schema.names:
                raise ValueError(f"X has no column {name!r}")
        yield encoder.encode_for_prediction(Piece("X", start, batch), design)[0]
        start += batch.num_rows
