"""Linear classification of a stream."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_one_of
from mixfree.linear.classes import (
    distinct_labels,
    log_probabilities,
    loss_of,
    most_probable,
    probabilities,
)
from mixfree.linear.losses import Loss
from mixfree.sklearn.estimator import StreamModel


@dataclass(repr=False, eq=False)
class StreamClassifier(ClassifierMixin, StreamModel):
    """Logistic regression on rows in time order, multinomial for more than two classes.

    Parameters
    ----------
    loss
        ``"logistic"``, the only one and the default.
    class_weight
        Weight of each class by label, 1 for classes that are not named; or ``"balanced"`` for the
        same total weight, which needs ``fit`` with all labels.
    {shared}

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((5000, 2))
    >>> y = np.where(X[:, 0] > X[:, 1], "left", "right")
    >>> model = StreamClassifier().fit(X, y)
    >>> model.predict([[2.0, 0.0], [0.0, 2.0]])
    array(['left', 'right'], dtype='<U5')
    """

    class_weight: Mapping[Any, float] | str | None = field(default=None, kw_only=True)

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        target: str | None = None,
        classes: Any = None,
    ) -> Self:
        """Start afresh, as :meth:`StreamRegressor.fit`.

        A stream that is read once needs ``classes``, unless its first 10,000 rows have all labels.
        """
        return self._learn(X, y, sample_weight, target, classes, whole=True)

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        target: str | None = None,
    ) -> Self:
        """Continue with the next rows; the first call needs ``classes``, all labels to come."""
        first = not self.__sklearn_is_fitted__()
        if first and classes is None:
            raise ValueError(
                "classes must be given in the first call of partial_fit: all labels of the stream"
            )
        if not (first or classes is None or np.array_equal(self.classes_, np.unique(classes))):
            raise ValueError(f"classes must be {self.classes_.tolist()} as before, not {classes!r}")
        return self._learn(X, y, sample_weight, target, classes, whole=False)

    def to_sklearn(self) -> LogisticRegression:
        """Return scikit-learn's ``LogisticRegression`` with these weights, as other tools know it.

        Of a fit to tables it takes the features that ``encoder_.transform`` returns.
        """
        found: LogisticRegression = self._plain(LogisticRegression())
        found.classes_, found.n_iter_ = self.classes_.copy(), np.array([1], dtype=np.int32)
        return found

    def decision_function(self, X: Any) -> Array:
        """Return margins: one per row for two classes (positive: the second), else per class."""
        return self._predictions(X)

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row."""
        return most_probable(self._predictions(X), self.classes_)

    def predict_proba(self, X: Any, calibrated: bool = False) -> Array:
        """Return the probability of each class.

        ``calibrated`` multiplies log-odds by the number, at most 1, by which rows that were
        predicted before they were learnt are most probable (exact method only).
        """
        found = self._predictions(X)
        if calibrated:
            learner = self._exact("calibrated")
            found = learner.ahead.temperature(learner.loss) * found
        return probabilities(found)

    def predict_set(self, X: Any, level: float = 0.9) -> Array:
        """Return which classes are in the prediction set of each row: rows × classes.

        A set contains the class of a new row with probability ``level`` in the long run, or more,
        since it is never empty; from rows predicted before they were learnt (exact method only).

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(4000, 1))
        >>> y = X[:, 0] + rng.logistic(size=4000) > 0.0
        >>> StreamClassifier().fit(X, y).predict_set([[0.0], [4.0]]).tolist()
        [[True, True], [False, True]]
        """
        found, learner = self._predictions(X), self._exact("predict_set")
        return learner.ahead.sets(learner.loss, found, level)

    def predict_log_proba(self, X: Any) -> Array:
        """Return the log-probability of each class, finite even where it underflows."""
        return log_probabilities(self._predictions(X))

    def merge(self, other: Self) -> Self:
        """Add the rows of another fit, as if they followed (exact method only)."""
        if not np.array_equal(self.classes_, other.classes_):
            raise ValueError(
                f"cannot merge a fit of the classes {other.classes_.tolist()} into one of "
                f"{self.classes_.tolist()}: give both all labels, by partial_fit(X, y, classes=…)"
            )
        return super().merge(other)

    def _classes_of(self, labels: Callable[[], Array], given: Any) -> Array:
        try:
            if given is None:
                check_classification_targets(found := distinct_labels(labels()))
            classes: Array = np.unique(found if given is None else given)
        except TypeError as error:  # such as None among texts
            raise ValueError("labels must be all texts or all numbers, without gaps") from error
        if len(classes) < 2:
            raise ValueError(
                f"{'y' if given is None else 'classes'} has only one class, {classes.tolist()}, "
                "but at least two are needed"
            )
        return classes

    def _class_weights(self, y: Array | None, classes: Array | None) -> Array | None:
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, str):
            check_one_of(self.class_weight, "class_weight", ("balanced",))
            if y is None:
                raise ValueError(
                    "class_weight='balanced' is for fit with y, which has all labels: otherwise "
                    "give the weights by label, such as class_weight={label: weight}"
                )
        weights: Array = compute_class_weight(
            self.class_weight, classes=classes, y=classes if y is None else y
        )
        return weights

    def _loss_of(self, classes: Any) -> Loss:
        check_one_of(self.loss or "logistic", "loss", ("logistic",))
        return loss_of(classes)
