"""Linear regression on a stream."""

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.linear_model import LinearRegression

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_one_of, shown
from mixfree.linear.losses import REGRESSIONS, Huber, Loss, Robust, Squared, mean_of
from mixfree.sklearn.estimator import StreamModel


class StreamRegressor(RegressorMixin, StreamModel):
    """Linear regression on rows in time order.

    Parameters
    ----------
    loss
        ``"squared"`` (½ error², the default), ``"huber"``, ``"robust"``, ``"poisson"`` (half the
        deviance of counts, whose logarithm of the mean is linear), or a loss with its own settings
        such as ``mixfree.linear.losses.Huber(delta=0.5)``.
    {shared}

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((5000, 3))
    >>> y = X @ [1.0, -2.0, 0.5] + 4.0
    >>> model = StreamRegressor().fit(X, y)
    >>> round(model.score(X, y), 2)
    1.0
    """

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, target: str | None = None
    ) -> Self:
        """Start afresh and learn from the rows in order, ``epochs`` times.

        Instead of y, ``target`` names a column of X: a data frame, an Arrow table or reader, a
        query of DuckDB or a lazy frame of Polars, read batch after batch. Rows without a target
        are left out.

        Examples
        --------
        >>> import pyarrow
        >>> table = pyarrow.table({"sky": ["sun", "rain"] * 50, "load": [2.0, 5.0] * 50})
        >>> model = StreamRegressor().fit(table.to_reader(max_chunksize=10), target="load")
        >>> model.encoder_.get_feature_names_out(), model.coef_.round(6)
        (array(['sky=rain'], dtype=object), array([3.]))
        """
        return self._learn(X, y, sample_weight, target, None, whole=True)

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, target: str | None = None
    ) -> Self:
        """Continue with the next rows, as if they had followed in one call of ``fit``."""
        return self._learn(X, y, sample_weight, target, None, whole=False)

    def predict(
        self, X: Any, interval: float | None = None, interval_of: str = "row"
    ) -> Array | tuple[Array, Array, Array]:
        """Predict the target of each row.

        With ``interval``, such as 0.9, also return the lower and upper ends of intervals at that
        level, for correlated rows (exact method only): with ``interval_of="row"`` of the targets of
        new rows, also under drift; with ``"mean"`` of the predicted means.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(4000, 1))
        >>> model = StreamRegressor().fit(X, X[:, 0] + rng.normal(size=4000))
        >>> _, lower, upper = model.predict([[3.0]], interval=0.9)
        >>> lower.round(1), upper.round(1)
        (array([1.4]), array([4.8]))
        """
        loss, found = self.learner_.loss, self._predictions(X)
        mean: Array = mean_of(loss, found)
        if interval is None:
            return mean
        learner = self._exact("interval")
        if check_one_of(interval_of, "interval_of", ("row", "mean")) == "row":
            return mean, *learner.ahead.ends(learner.loss, found, interval)
        if not 0.0 < interval < 1.0:
            raise ValueError(f"interval must be between 0 and 1, not {shown(interval)}")
        ends = [learner.mean_interval(rows, interval) for rows in self._features(X)]
        low, high = (np.concatenate(each) for each in zip(*ends, strict=True))
        return mean, mean_of(loss, low), mean_of(loss, high)

    def to_sklearn(self) -> LinearRegression:
        """Return scikit-learn's ``LinearRegression`` with these weights, as other tools know it.

        Of a fit to tables it takes the features that ``encoder_.transform`` returns. Refused for
        the Poisson loss and for losses of your own, which may have a link.
        """
        loss = self.learner_.loss
        if type(loss) not in (Squared, Huber, Robust):
            raise ValueError(
                f"a fit with {loss!r} is no LinearRegression: its predictions need not be linear"
            )
        found: LinearRegression = self._plain(LinearRegression())
        found.intercept_ = float(found.intercept_[0])
        return found

    @property
    def coef_(self) -> Array:
        """One weight per feature."""
        weights: Array = super().coef_[0]
        return weights

    def _loss_of(self, classes: Any) -> Loss:
        if self.loss is None or isinstance(self.loss, str):
            return REGRESSIONS[check_one_of(self.loss or "squared", "loss", tuple(REGRESSIONS))]
        if getattr(self.loss, "outputs", None) != 1:
            raise ValueError(
                f"loss must be one of {', '.join(REGRESSIONS)}, or an object with one output, "
                f"not {self.loss!r}"
            )
        return self.loss
