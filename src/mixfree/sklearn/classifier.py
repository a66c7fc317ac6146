"""Linear classification of a stream."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_one_of
from mixfree.core.method import Method
from mixfree.linear.classes import (
    distinct_labels,
    log_probabilities,
    loss_of,
    most_probable,
    probabilities,
    targets_of,
)
from mixfree.linear.losses import Loss
from mixfree.sklearn.estimator import StreamModel, check_weights

_RULE = "name all labels of the stream as classes, in fit or in the first call of partial_fit"


class StreamClassifier(ClassifierMixin, StreamModel):
    """Logistic regression on rows in time order, multinomial for more than two classes.

    Parameters
    ----------
    loss
        ``"logistic"``, the only one and the default.
    class_weight
        Weight of each class by label, 1 for classes that are not named; or ``"balanced"``, which
        gives every class the same total weight. ``partial_fit`` refuses ``"balanced"``, because
        class frequencies are not known before the end of a stream.
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

    _may_change = ("epochs", "class_weight")

    def __init__(
        self,
        loss: str | Loss | None = None,
        *,
        class_weight: Mapping[Any, float] | str | None = None,
        method: str | type[Method] = "auto",
        memory: int | str | None = None,
        draws: int | None = None,
        half_life: float | str | None = None,
        step_scale: float | None = None,
        fit_intercept: bool = True,
        l2: float | None = None,
        radius: float | None = None,
        scale: str | None = "auto",
        epochs: int = 1,
        output: str | None = None,
        options: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(
            loss,
            method=method,
            memory=memory,
            draws=draws,
            half_life=half_life,
            step_scale=step_scale,
            fit_intercept=fit_intercept,
            l2=l2,
            radius=radius,
            scale=scale,
            epochs=epochs,
            output=output,
            options=options,
            seed=seed,
        )
        self.class_weight = class_weight

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        target: str | None = None,
        classes: Any = None,
    ) -> Self:
        """Start afresh and learn from the rows in order, ``epochs`` times.

        Instead of y, ``target`` names a column of X, as for :meth:`StreamRegressor.fit`. A stream
        that is read once needs ``classes``, all labels, unless its first 10,000 rows have all.
        """
        if self._takes_table(X, y, sample_weight, target, first=True, epochs=self.epochs):
            return self._learn_labels(X, y, target, classes, first=True)
        X, y = self._check_data(X, y, reset=True)
        classes = _check_classes(np.unique(distinct_labels(y)), "y")
        learner = self._new_learner(self._loss(classes), X.dtype)
        weights = self._weights(X, y, classes, sample_weight)
        self._learn(learner, X, targets_of(y, classes), weights, self.epochs)
        self.classes_ = classes
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        target: str | None = None,
    ) -> Self:
        """Continue with the next rows, as if they had followed in one call of ``fit``.

        As everywhere in scikit-learn, the first call needs ``classes``, all labels that will ever
        occur, and later rows with another label are refused.
        """
        first = not self.__sklearn_is_fitted__()
        if first and classes is None:
            raise ValueError(
                "classes must be given in the first call of partial_fit: all labels of the stream"
            )
        known = self.classes_ if classes is None else np.unique(classes)
        if not (first or classes is None or np.array_equal(self.classes_, known)):
            raise ValueError(f"classes must be {self.classes_.tolist()} as before, not {classes!r}")
        if not first:
            self._warn_of_changes()
        if self._takes_table(X, y, sample_weight, target, first):
            return self._learn_labels(X, y, target, known, first)
        X, y = self._check_data(X, y, reset=first)
        targets = self._targets(y, known)
        _check_classes(known, "classes")
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' is for fit, which sees all labels: give partial_fit the "
                "weights by label, such as class_weight={label: weight}"
            )
        learner = self._new_learner(self._loss(known), X.dtype) if first else self._learner
        self._learn(learner, X, targets, self._weights(X, y, known, sample_weight))
        self.classes_ = known
        return self

    def _learn_labels(self, X: Any, y: Any, target: str | None, classes: Any, first: bool) -> Self:
        """Learn from a table, with labels as their places among the classes."""
        source = self._table_source(X, y, target, first)
        if classes is None:
            classes = source.labels() if y is None else distinct_labels(np.asarray(y))
            check_classification_targets(classes)
        known = np.unique(classes)
        source.use_labels(_check_classes(known, "y" if target is None else repr(target)), _RULE)
        self._loss(known)
        self._learn_table(source, "logistic", first, known)
        self.classes_ = known
        return self

    def to_sklearn(self) -> LogisticRegression:
        """Return scikit-learn's ``LogisticRegression`` with these weights, as other tools know it.

        Of a fit to tables it takes the features that ``encoder_.transform`` returns.

        Examples
        --------
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["a", "b", "a", "b"])
        >>> model = StreamClassifier().fit(X, y)
        >>> bool(np.allclose(model.to_sklearn().predict_proba(X), model.predict_proba(X)))
        True
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

        With ``calibrated`` (exact method only), log-odds are multiplied by the number, at most 1,
        by which rows that were predicted before they were learnt are most probable.
        """
        found = self._predictions(X)
        if calibrated:
            learner = self._exact("calibrated")
            found = learner.ahead.temperature(learner.loss) * found
        return probabilities(found)

    def predict_set(self, X: Any, level: float = 0.9) -> Array:
        """Return which classes are in the prediction set of each row: rows × classes.

        A set contains the class of a new row with probability ``level`` in the long run, from rows
        that were predicted before they were learnt; or more often, because none is empty (exact
        method only).

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(4000, 1))
        >>> y = X[:, 0] + rng.logistic(size=4000) > 0.0
        >>> StreamClassifier().fit(X, y).predict_set([[0.0], [4.0]])
        array([[ True,  True],
               [False,  True]])
        """
        found, learner = self._predictions(X), self._exact("predict_set")
        return learner.ahead.sets(learner.loss, found, level)

    def predict_log_proba(self, X: Any) -> Array:
        """Return the log-probability of each class, finite even where it underflows."""
        return log_probabilities(self._predictions(X))

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the fit as plain values and arrays."""
        kind = self.classes_.dtype
        plain = self.classes_.astype(np.int64) if kind.kind in "mM" else self.classes_
        return {**super().state_dict(), "classes": plain.tolist(), "kind": kind.str}

    def load_state_dict(self, state: dict[str, Any]) -> Self:
        """Restore the state of an estimator with the same parameters."""

        def loss() -> Loss:
            classes, kind = state["classes"], np.dtype(state["kind"])
            if not isinstance(classes, list) or kind.kind not in "biufmMUSO":
                raise ValueError("classes of the state must be a list of labels")
            self.classes_ = np.array(classes, dtype=kind)
            if self.classes_.ndim != 1 or len(set(self.classes_.tolist())) < max(len(classes), 2):
                raise ValueError("classes of the state must be at least two different labels")
            return self._loss(self.classes_)

        return self._load(state, loss)

    def _check_data(self, X: Any, y: Any, reset: bool) -> tuple[Any, Array]:
        X, y = super()._check_data(X, y, reset)
        if reset:  # later labels are looked up among the classes
            check_classification_targets(distinct_labels(y))
        return X, y

    def merge(self, other: Self) -> Self:
        """Add the rows of another fit, as if they followed (exact method only)."""
        if not np.array_equal(self.classes_, other.classes_):
            raise ValueError(
                f"cannot merge a fit of the classes {other.classes_.tolist()} into one of "
                f"{self.classes_.tolist()}: give both all labels, by partial_fit(X, y, classes=…)"
            )
        return super().merge(other)

    def _weights(self, X: Any, y: Array, classes: Array, sample_weight: Any) -> Any:
        """Multiply sample weights by class weights; None if neither is given."""
        if self.class_weight is None:
            return sample_weight
        if isinstance(self.class_weight, str):
            check_one_of(self.class_weight, "class_weight", ("balanced",))
        if sample_weight is not None:
            sample_weight = check_weights(sample_weight, X, part=True)
        by_class = compute_class_weight(self.class_weight, classes=classes, y=y)
        weights = by_class[np.searchsorted(classes, y)]
        return weights if sample_weight is None else weights * sample_weight

    def _loss(self, classes: Array) -> Loss:
        if self.loss is not None:
            check_one_of(self.loss, "loss", ("logistic",))
        return loss_of(classes)

    def _targets(self, y: Array, classes: Array | None = None) -> Array:
        try:
            return targets_of(y, self.classes_ if classes is None else classes)
        except ValueError as error:
            raise ValueError(f"{error}: {_RULE}") from None


def _check_classes(classes: Array, origin: str) -> Array:
    if len(classes) < 2:
        raise ValueError(
            f"{origin} has only one class, {classes.tolist()}, but at least two are needed"
        )
    return classes
