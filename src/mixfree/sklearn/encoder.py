"""The encoder of ``mixfree fit`` as a transformer for scikit-learn pipelines."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_one_of
from mixfree.sklearn.tables import TableSource, encoded
from mixfree.streams.columns.encoder import Encoder
from mixfree.streams.columns.kinds import matching
from mixfree.streams.fit.look import first_look
from mixfree.streams.fit.plan import FitPlan

NO_TARGETS = np.broadcast_to(0.0, 2**40)  # a column of targets for any number of rows


@dataclass(repr=False, eq=False)
class StreamEncoder(TransformerMixin, BaseEstimator):
    """Encode the columns of a table as features, as ``mixfree fit`` does.

    All rows, in any order, decide how columns are used: dates become hours, weekdays, season and
    trend, texts become categories, row numbers are left out.

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
    >>> table = {"No": [1, 2, 3, 4], "sky": ["sun", "rain", "sun", "rain"]}
    >>> encoder = StreamEncoder()
    >>> encoder.fit_transform(table).ravel(), encoder.get_feature_names_out()
    (array([0., 1., 0., 1.]), array(['sky=rain'], dtype=object))
    >>> encoder.left_out_
    {'No': 'row numbers'}
    """

    features: Sequence[str] = ()
    exclude: Sequence[str] = ()
    categories: Sequence[str] = ()
    time: str = "auto"
    dates: Mapping[str, str] | None = None
    hash_columns: int = 0
    missing: str = "auto"
    encoder_: Encoder = field(init=False)
    _why: dict[str, str] = field(init=False)  # columns that no row can make a feature of

    def fit(self, X: Any, y: Any = None) -> Self:
        """Start anew, with all rows."""
        return self._see(X, fresh=True, whole=True)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add rows, which may add features; the first call decides on the kinds of columns."""
        return self._see(X, fresh=not hasattr(self, "encoder_"))

    def transform(self, X: Any) -> Array:
        """Return one row of features per row."""
        check_is_fitted(self)
        encoder = copy.copy(self.encoder_)
        encoder.missing = self.missing
        return np.concatenate(list(encoded(encoder, self.design_, X)))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the features."""
        check_is_fitted(self)
        return np.array(self.design_.features, dtype=object)

    def _see(self, X: Any, fresh: bool, whole: bool = False) -> Self:
        """Update the state with all of the rows, or leave it unchanged if one is invalid.

        Only ``whole`` streams must have features: columns may be constant in a first part.
        """
        check_one_of(self.missing, "missing", ("auto", "error"))
        source = TableSource(X, None if fresh else self.encoder_.target, y=NO_TARGETS)
        if fresh:
            names = source.schema.names[:-1]
            if set(names) <= set(matching(self.exclude, names)):
                raise ValueError("X has no column to learn from")
            given = self.get_params() | {"dates": self.dates or {}}
            look = first_look(source, FitPlan(source.target, "squared", **given))
            encoder, why = look.encoder.again(fixed=False), look.left_out
        else:
            encoder, why = copy.deepcopy(self.encoder_), self._why
            encoder.missing = self.missing
            source.require_columns(encoder.needs, "column")
            source.open(encoder.needs)
        for piece in source.pieces():
            encoder.see(piece)
        design = encoder.design()
        left_out = {**why, **design.left_out}
        if whole and not design.features:
            listed = "; ".join(f"{name!r}: {why}" for name, why in left_out.items())
            raise ValueError(f"X has no column to learn from: {listed}")
        self.encoder_, self.design_, self._why, self.left_out_ = encoder, design, why, left_out
        self.n_samples_seen_ = encoder.rows
        return self
