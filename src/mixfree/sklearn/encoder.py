"""The encoder of ``mixfree fit`` as a transformer for scikit-learn pipelines."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_one_of, check_whole
from mixfree.base.extras import require
from mixfree.streams.columns.category import MAX_HASHED
from mixfree.streams.columns.column import Number
from mixfree.streams.columns.encoder import Encoder
from mixfree.streams.columns.kinds import Choices, check_dates, columns_of, matching
from mixfree.streams.columns.time import TIMES
from mixfree.streams.fit.look import rows_to_look_at
from mixfree.streams.read.json_lines import flat
from mixfree.streams.read.source import Piece
from mixfree.streams.read.values import without_views

__all__ = ["StreamEncoder", "needs_encoding"]

POLICIES = ("auto", "error")


class StreamEncoder(TransformerMixin, BaseEstimator):
    """Encode the columns of a table as features, as ``mixfree fit`` does.

    All rows decide how columns are used: dates become hours, weekdays, season and trend, texts
    become categories, row numbers are left out. Their order does not matter.

    Parameters
    ----------
    features, exclude
        Columns to use (all if empty), and columns to leave out; ``*`` matches any characters.
    categories
        Columns whose numbers are names of categories.
    time, dates, hash_columns
        Encoding of dates and of text columns; see :class:`mixfree.streams.FitPlan`.
    missing
        ``"auto"`` uses the mean where a value is missing, and a feature for gaps if they are many;
        ``"error"`` refuses missing values.

    Attributes
    ----------
    left_out_
        Columns left out, with reasons.
    n_samples_seen_
        Number of training rows.

    Examples
    --------
    >>> table = {
    ...     "No": [1, 2, 3, 4],
    ...     "when": ["2019-01-02 00", "2019-01-02 12", "2019-01-03 00", "2019-01-03 12"],
    ...     "sky": ["sun", "rain", "sun", "rain"],
    ... }
    >>> encoder = StreamEncoder(time="linear")
    >>> encoder.fit_transform(table)
    array([[6.9410e+03, 0.0000e+00],
           [6.9415e+03, 1.0000e+00],
           [6.9420e+03, 0.0000e+00],
           [6.9425e+03, 1.0000e+00]])
    >>> encoder.get_feature_names_out().tolist()
    ['when: days', 'sky=rain']
    >>> encoder.left_out_
    {'No': 'row numbers'}
    """

    def __init__(
        self,
        features: Sequence[str] = (),
        exclude: Sequence[str] = (),
        categories: Sequence[str] = (),
        time: str = "auto",
        dates: Mapping[str, str] | None = None,
        hash_columns: int = 0,
        missing: str = "auto",
    ) -> None:
        self.features, self.exclude, self.categories = features, exclude, categories
        self.time, self.dates, self.hash_columns = time, dates, hash_columns
        self.missing = missing

    def fit(self, X: Any, y: Any = None) -> Self:
        """Start anew, with all rows."""
        return self._see(_batch(X), None)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add rows, which may add features; the first call judges the kinds of columns."""
        return self._see(_batch(X), getattr(self, "encoder_", None))

    def transform(self, X: Any) -> Array:
        """Return one row of features per row."""
        check_is_fitted(self)
        encoder, batch = self._copy(), _batch(X)
        for name in encoder.needed(self.design_):
            if name not in batch.schema.names:
                raise ValueError(f"X has no column {name!r}")
        return encoder.encode_for_prediction(Piece("X", 0, batch), self.design_)[0]

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the features."""
        check_is_fitted(self)
        return np.array(self.design_.features, dtype=object)

    def _decided(self, batch: Any) -> Encoder:
        check_one_of(self.missing, "missing", POLICIES)
        check_one_of(self.time, "time", TIMES)
        check_whole(self.hash_columns, "hash_columns", least=0, most=MAX_HASHED)
        names = batch.schema.names
        check_dates(self.dates or {})
        for name in (*self.features, *self.exclude, *self.categories, *(self.dates or ())):
            if not matching([name], names):
                raise ValueError(f"there is no column {name!r}")
        chosen = matching(self.features, names) if self.features else names
        without = set(matching(self.exclude, names))
        first = batch.slice(0, rows_to_look_at(len(names)))
        choices = Choices(
            self.features,
            self.exclude,
            self.categories,
            self.time,
            self.dates or {},
            self.hash_columns,
        )
        table = {name: first.column(name) for name in chosen if name not in without}
        verdicts = columns_of(table, choices)
        columns = [each.column for each in verdicts.values() if each.column is not None]
        if not columns:
            raise ValueError("X has no column to learn from")
        parts = {name for column in columns for name in column.sources}
        self._why = {
            name: each.why
            for name, each in verdicts.items()
            if each.column is None and name not in parts
        }
        unnamed = Number(max(names, key=len) + " ")  # a name that no column has
        return Encoder(columns, unnamed, missing=self.missing)

    def _see(self, batch: Any, encoder: Encoder | None) -> Self:
        """Update the state with all of the rows, or leave it unchanged if one is invalid."""
        encoder = self._decided(batch) if encoder is None else self._copy()
        pyarrow = require("pyarrow")
        columns = [*batch.columns, pyarrow.array(np.zeros(batch.num_rows))]
        names = [*batch.schema.names, encoder.target]
        encoder.see(Piece("X", 0, pyarrow.RecordBatch.from_arrays(columns, names=names)))
        self.encoder_, self.design_ = encoder, encoder.design()
        if not self.design_.features:
            why = "; ".join(f"{name!r}: {why}" for name, why in self.design_.left_out.items())
            raise ValueError(f"X has no column to learn from: {why}")
        self.left_out_ = {**self._why, **self.design_.left_out}
        self.n_samples_seen_ = encoder.rows
        return self

    def _copy(self) -> Encoder:
        found = Encoder.from_state(self.encoder_.state_dict())
        found.missing = self.missing
        return found


def needs_encoding(X: Any) -> bool:
    """Whether X is a data frame or table with texts, dates or gaps."""
    if type(X).__module__.split(".")[0] not in ("pandas", "polars", "pyarrow"):
        return False
    types, batch = require("pyarrow").types, _batch(X)
    plain = (types.is_integer, types.is_floating, types.is_boolean)
    return any(
        column.null_count or not any(is_plain(column.type) for is_plain in plain)
        for column in batch.columns
    )


def _batch(X: Any) -> Any:
    """Convert a table of any library to one record batch; a matrix has columns x0, x1, …."""
    pyarrow = require("pyarrow")
    if isinstance(X, pyarrow.RecordBatch):
        X = pyarrow.Table.from_batches([X])
    if isinstance(X, np.ndarray | Sequence):
        matrix = np.asarray(X)
        if matrix.ndim != 2:
            raise ValueError(f"X must have 2 dimensions, not {matrix.ndim}")
        X = {f"x{place}": column for place, column in enumerate(matrix.T)}
    if type(X).__module__.startswith("pandas"):
        table = pyarrow.Table.from_pandas(X, preserve_index=False)
    else:
        try:
            table = pyarrow.table(X)
        except TypeError as error:
            kind = type(X).__name__
            raise TypeError(f"X must be a table that PyArrow can convert, not {kind}") from error
    table = flat(table)
    columns = [_plain(column.combine_chunks()) for column in table.columns]
    return pyarrow.RecordBatch.from_arrays(columns, names=table.schema.names)


def _plain(values: Any) -> Any:
    values = without_views(values)
    dictionary = require("pyarrow").types.is_dictionary(values.type)
    return values.dictionary_decode() if dictionary else values
