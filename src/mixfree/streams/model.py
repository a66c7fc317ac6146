"""The linear model that the commands fit: what the estimators have, without scikit-learn.

Importing that takes longer than learning from a million rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array, State
from mixfree.linear.classes import loss_of, most_probable, probabilities, targets_of
from mixfree.linear.learner import learner_for
from mixfree.linear.losses import REGRESSIONS


class LinearModel:
    """A linear regression, or a classification if there are classes.

    Parameters
    ----------
    loss
        Name of a regression's loss; a classification has its own.
    features
        How many there are.
    classes
        Labels of a classification.
    parameters
        Those of :class:`mixfree.sklearn.StreamRegressor`, by name.

    Examples
    --------
    >>> model = LinearModel("squared", 1, parameters={"method": "adagrad"})
    >>> model.learn(np.ones((500, 1)), np.full(500, 3.0))
    >>> model.predict(np.ones((1, 1))).round(1)
    array([3.])
    """

    def __init__(
        self,
        loss: str,
        features: int,
        classes: Sequence[str] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self.parameters = dict(parameters or {})
        self.classes = None if classes is None else np.unique(classes)
        kind = REGRESSIONS[loss] if self.classes is None else loss_of(self.classes)
        self.learner = learner_for(kind, features, **self.parameters)

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.parameters.get("method", "ladder"))

    @property
    def coef_(self) -> Array:
        """The weights, as the estimators have them."""
        found = self.learner.weights[:, : self.learner.columns]
        return found[0] if self.classes is None else found

    @property
    def intercept_(self) -> Array:
        """An intercept an output; empty if there are none."""
        return self.learner.weights[:, self.learner.columns :].ravel()

    def learn(self, rows: Array, targets: Array) -> None:
        """Go on with the rows that follow."""
        self.learner.advance(rows, self._targets(targets))

    def losses(self, rows: Array, targets: Array) -> Array:
        """Loss of each row, regularisation left out; infinite where a run has diverged."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.learner.losses(rows, self._targets(targets))

    def predict(self, rows: Array) -> Array:
        """A number a row, or its most probable class; not finite if it would be too large."""
        found = self._predictions(rows)
        return found if self.classes is None else most_probable(found, self.classes)

    def predict_proba(self, rows: Array) -> Array:
        """Probability of each class; NaN if the predictions would be too large."""
        found = self._predictions(rows)
        with np.errstate(invalid="ignore"):
            return probabilities(found)

    def state_dict(self) -> State:
        """What changes, as plain values and arrays."""
        return {"parameters": self.parameters, "learner": self.learner.state_dict()}

    def _predictions(self, rows: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return self.learner.predict(rows)

    def _targets(self, targets: Array) -> Array:
        return targets if self.classes is None else targets_of(targets, self.classes)
