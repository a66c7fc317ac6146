"""Fit the parts of a stream separately, also on other machines, and merge the fits."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from sklearn.base import clone

from mixfree.base.extras import require
from mixfree.sklearn.estimator import StreamModel

Model = TypeVar("Model", bound=StreamModel)


def fit_parts(
    model: Model, parts: Iterable[Any], *, target: str | None = None, classes: Any = None
) -> Model:
    """Fit an estimator to each part of a stream separately, and merge the fits in order.

    The result is the fit to all rows. Only one part at a time is held in memory. Dask's delayed
    parts are fitted where Dask computes them, such as the cluster of a ``distributed.Client``.

    Parameters
    ----------
    model
        An estimator with the exact method; it is not changed.
    parts
        Tuples (X, y) or (X, y, sample_weight) in the order of the stream; a list may have Dask's
        delayed ones. With ``target``: a Dask DataFrame, or an iterable of data frames.
    target
        Name of the target column, if parts are data frames; all other columns are features.
    classes
        For a classifier: all labels, since a part need not have every one.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfree.sklearn import StreamRegressor, fit_parts
    >>> X, y = np.arange(9.0)[:, None], np.arange(9.0) ** 2
    >>> parts = ((X[start : start + 3], y[start : start + 3]) for start in (0, 3, 6))
    >>> fit_parts(StreamRegressor(), parts).coef_
    array([8.])
    """
    parts = parts.to_delayed() if hasattr(parts, "to_delayed") else parts
    fits: Iterable[Model | None] = (_fitted(model, part, target, classes) for part in parts)
    if isinstance(parts, Sequence) and any(hasattr(part, "__dask_graph__") for part in parts):
        delayed = require("dask").delayed(_fitted)
        fits = require("dask").compute(*(delayed(model, p, target, classes) for p in parts))
    fitted = (each for each in fits if each is not None)
    if (merged := next(fitted, None)) is None:
        raise ValueError("parts must have at least one row, but all are empty")
    for each in fitted:
        merged.merge(each)
    return merged


def _fitted(model: Model, part: Any, target: str | None, classes: Any) -> Model | None:
    X, y, weights = (*part, None)[:3] if target is None else (part, None, None)
    if len(X if y is None else y) == 0:
        return None
    options = {} if classes is None else {"classes": classes}
    fitted: Model = clone(model).partial_fit(X, y, sample_weight=weights, target=target, **options)
    return fitted
