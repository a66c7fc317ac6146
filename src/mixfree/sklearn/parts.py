"""Fit the parts of a stream separately, also on other machines, and merge the fits."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any, TypeVar

from sklearn.base import clone

from mixfree.base.extras import require
from mixfree.sklearn.estimator import StreamModel

Model = TypeVar("Model", bound=StreamModel)


def fit_parts(
    model: Model, parts: Iterable[Any], *, target: str | None = None, classes: Any = None
) -> Model:
    """Fit an estimator to each part of a stream separately, and merge the fits in order.

    The result is the fit to all rows, as for :meth:`StreamModel.merge`. Only one part at a time is
    held in memory. Dask's delayed parts are fitted in parallel where Dask computes them: on the
    cluster of the current ``distributed.Client`` if there is one.

    Parameters
    ----------
    model
        An estimator with the exact method; it is not changed.
    parts
        Tuples (X, y) or (X, y, sample_weight) in the order of the stream, or Dask's delayed tuples.
        With ``target``: a Dask DataFrame, or an iterable of data frames.
    target
        Name of the target column, if parts are data frames; all other columns are features.
    classes
        For a classifier: all labels, since a part need not have every one.

    Returns
    -------
    A new estimator, fitted to all parts.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfree.sklearn import StreamRegressor, fit_parts
    >>> X, y = np.arange(9.0)[:, None], np.arange(9.0) ** 2
    >>> parts = ((X[start : start + 3], y[start : start + 3]) for start in (0, 3, 6))
    >>> fit_parts(StreamRegressor(), parts).coef_
    array([8.])
    """
    if hasattr(parts, "to_delayed"):
        parts = parts.to_delayed()
    merged: Model | None = None
    for fitted in _fits(model, parts, target, classes):
        if fitted is not None:
            merged = fitted if merged is None else merged.merge(fitted)
    if merged is None:
        raise ValueError("parts must have at least one row, but all are empty")
    return merged


def _fits(
    model: Model, parts: Iterable[Any], target: str | None, classes: Any
) -> Iterable[Model | None]:
    """Yield the fits of the parts in order; consecutive Dask parts are fitted in parallel."""
    for lazy, group in groupby(parts, lambda part: hasattr(part, "__dask_graph__")):
        if lazy:
            fitted = require("dask").delayed(_fitted)
            yield from require("dask").compute(
                *(fitted(model, part, target, classes) for part in group)
            )
        else:
            yield from (_fitted(model, part, target, classes) for part in group)


def _fitted(model: Model, part: Any, target: str | None, classes: Any) -> Model | None:
    X, y, *weights = (part, None) if target is not None else part
    if len(X if y is None else y) == 0:
        return None
    fresh: Any = clone(model)
    options = {} if classes is None else {"classes": classes}
    sample_weight = weights[0] if weights else None
    fitted: Model = fresh.partial_fit(X, y, sample_weight=sample_weight, target=target, **options)
    return fitted
