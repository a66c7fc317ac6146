"""The encoder of ``mixfree fit`` as a transformer for scikit-learn pipelines."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_one_of, check_whole
from mixfree.base.extras import require
from mixfree.streams.columns.column import Number
from mixfree.streams.columns.encoder import Encoder
from mixfree.streams.columns.kinds import Choices, check_dates, columns_of, matching
from mixfree.streams.fit.look import rows_to_look_at
from mixfree.streams.fit.plan import TIMES
from mixfree.streams.read.json_lines import flat
from mixfree.streams.read.source import Piece
from mixfree.streams.read.values import without_views

__all__ = ["StreamEncoder"]

POLICIES = ("error", "mean", "keep")


class StreamEncoder(TransformerMixin, BaseEstimator):
    """Encode the columns of a table as features, as ``mixfree fit`` does.

    The first rows of the first call decide on the kind of each column: dates become hour, weekday
    and season, texts become categories, row numbers are left out.

    Parameters
    ----------
    features, exclude
        Columns to use (all if empty), and columns to leave out; ``*`` matches any characters.
    categories
        All categories of text columns, for columns whose first rows lack some.
    time, dates, hash_columns
        Encoding of dates and of text columns; see :class:`mixfree.streams.FitPlan`.
    missing
        ``"error"`` refuses missing values, ``"mean"`` fills in the mean of the training rows,
        ``"keep"`` returns NaN.

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
    ...     "sky": ["sun", "rain", "sun", "sun"],
    ... }
    >>> encoder = StreamEncoder(time="linear")
    >>> encoder.fit_transform(table)
    array([[0. , 0. , 1. ],
           [0.5, 1. , 0. ],
           [1. , 0. , 1. ],
           [1.5, 0. , 1. ]])
    >>> encoder.get_feature_names_out().tolist()
    ['when: days', 'sky=rain', 'sky=sun']
    >>> encoder.left_out_
    {'No': 'row numbers'}
    """

    def __init__(
        self,
        features: Sequence[str] = (),
        exclude: Sequence[str] = (),
        categories: Mapping[str, Sequence[str]] | None = None,
        time: str = "auto",
        dates: Mapping[str, str] | None = None,
        hash_columns: int | None = None,
        missing: str = "error",
    ) -> None:
        self.features, self.exclude, self.categories = features, exclude, categories
        self.time, self.dates, self.hash_columns = time, dates, hash_columns
        self.missing = missing

    def fit(self, X: Any, y: Any = None) -> Self:
        """Start anew, and judge the columns by the first rows."""
        batch = _batch(X)
        return self._advance(batch, *self._decided(batch), 0)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Update the means with the next rows; the first call also judges the columns."""
        batch = _batch(X)
        if not hasattr(self, "encoder_"):
            return self._advance(batch, *self._decided(batch), 0)
        return self._advance(batch, self.encoder_, self.left_out_, self.n_samples_seen_)

    def transform(self, X: Any) -> Array:
        """Return one row of features per row."""
        check_is_fitted(self)
        encoder = self._copy(self.encoder_)
        rows, gaps = _features(encoder, _batch(X))
        return encoder.with_means(rows, gaps) if self.missing == "mean" else rows

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the features."""
        check_is_fitted(self)
        return np.array(self.encoder_.features, dtype=object)

    def _decided(self, batch: Any) -> tuple[Encoder, dict[str, str]]:
        check_one_of(self.missing, "missing", POLICIES)
        check_one_of(self.time, "time", TIMES)
        if self.hash_columns is not None:
            check_whole(self.hash_columns, "hash_columns", least=0)
        names = batch.schema.names
        check_dates(self.dates or {})
        named = *(self.categories or ()), *(self.dates or ())
        for name in (*self.features, *self.exclude, *named):
            if not matching([name], names):
                raise ValueError(f"there is no column {name!r}")
        chosen = matching(self.features, names) if self.features else names
        without = set(matching(self.exclude, names))
        first = batch.slice(0, rows_to_look_at(len(names)))
        choices = Choices(
            self.features,
            self.exclude,
            self.categories or {},
            self.time,
            self.dates or {},
            self.hash_columns,
        )
        table = {name: first.column(name) for name in chosen if name not in without}
        verdicts = columns_of(table, [0], choices)
        columns = [each.column for each in verdicts.values() if each.column is not None]
        if not columns:
            raise ValueError("X has no column to learn from")
        why = {name: each.why for name, each in verdicts.items() if each.column is None}
        unnamed = Number(max(names, key=len) + " ")  # a name that no column has
        return Encoder(columns, unnamed, missing="skip"), why

    def _advance(self, batch: Any, encoder: Encoder, left_out: dict[str, str], seen: int) -> Self:
        """Update the state with all of the rows, or leave it unchanged if one is invalid."""
        encoder = self._copy(encoder)
        rows, _ = _features(encoder, batch)
        encoder.add_to_means(rows)
        self.encoder_, self.left_out_, self.n_samples_seen_ = encoder, left_out, seen + len(rows)
        return self

    def _copy(self, encoder: Encoder) -> Encoder:
        found = Encoder.from_state(encoder.state_dict())
        found.missing = "error" if self.missing == "error" else "skip"
        return found


def _features(encoder: Encoder, batch: Any) -> tuple[Array, Array]:
    """Return features, NaN where missing, and where values are missing."""
    for column in encoder.columns:
        if column.name not in batch.schema.names:
            raise ValueError(f"X has no column {column.name!r}")
    return encoder.rows_and_gaps(Piece("X", 0, batch))


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
