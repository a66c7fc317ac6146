"""What a fit is asked to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from mixfree.base.checks import check_one_of, check_whole
from mixfree.linear.classes import loss_of
from mixfree.linear.exact.learner import ExactLearner
from mixfree.linear.learner_for import EXACT_WEIGHTS, LinearLearner, learner_for
from mixfree.linear.losses import REGRESSIONS, Loss, Squared
from mixfree.streams.columns import MOST_HASHED
from mixfree.streams.encoder import POLICIES

__all__ = ["TIMES", "FitPlan"]

TIMES = ("auto", "cyclic", "linear", "none")  # what may become of dates
BESIDE = 100  # most features for which a fit that solves equations runs beside one with steps
KEPT = "4MB"  # what it keeps of the stream
FORGETTING = 100  # most features for which a comparison with forgetting does not take too long


@dataclass(frozen=True)
class FitPlan:
    """What to predict, from which columns, and how; checked when made.

    Attributes
    ----------
    target
        The column to predict.
    loss
        ``"squared"``, ``"huber"``, ``"robust"`` or ``"logistic"``; None: by the target's values.
    features, exclude
        Columns to learn from (all but the target if empty), and columns to leave out; ``*`` and
        ``?`` in a name stand for any letters and any letter.
    categories, classes
        All categories of text columns, and all classes of the target, where the first rows would
        not show them.
    missing
        What to do with missing values: ``"error"``, ``"skip"``, ``"mean"`` or ``"auto"``, which
        leaves out rows without a target, and rows without a feature if the first rows show that
        this happens.
    parameters
        Those of :func:`mixfree.linear.learner_for.learner_for`: ``method``, ``scale``, ``l2``, ….
    compare
        Whether plain SGD, and for least squares also a fit that forgets, learn from the same
        rows, for comparison.
    time
        What becomes of dates: ``"cyclic"`` hour, weekday and season, ``"linear"`` days,
        ``"none"``, or ``"auto"``, which is cyclic as far as the first rows cover a day, a week
        and a year.
    day_first
        Whether 1/2/2019 is in February; None: by the dates of the first rows.
    hash_columns
        Number of columns that texts without a column of their own share; None: 16 for a column
        of more than 64 different texts, or in which new ones are to be expected, else none.
    epochs
        Passes over the rows, for methods with steps; only the first one tests before it trains.

    Examples
    --------
    >>> FitPlan("load", missing="drop")
    Traceback (most recent call last):
    ValueError: missing must be one of 'error', 'skip', 'mean', 'auto', not 'drop'
    """

    target: str
    loss: str | None = None
    features: Sequence[str] = ()
    exclude: Sequence[str] = ()
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    classes: Sequence[str] = ()
    missing: str = "auto"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    compare: bool = False
    time: str = "auto"
    day_first: bool | None = None
    hash_columns: int | None = None
    epochs: int = 1

    def __post_init__(self) -> None:
        # Tuples, so that a plan equals the one that a model file gives back.
        for name in ("features", "exclude", "classes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        known = {column: tuple(texts) for column, texts in self.categories.items()}
        for column, texts in known.items():
            if len(set(texts)) < len(texts):
                raise ValueError(f"categories must be different, but {column!r} has one twice")
        object.__setattr__(self, "categories", known)
        check_one_of(self.missing, "missing", POLICIES)
        check_one_of(self.time, "time", TIMES)
        if self.hash_columns is not None:
            check_whole(self.hash_columns, "hash_columns", least=0, most=MOST_HASHED)
        check_whole(self.epochs, "epochs")
        if self.loss is not None:
            check_one_of(self.loss, "loss", (*REGRESSIONS, "logistic"))
        if self.classes:
            if len(set(self.classes)) < max(2, len(self.classes)):
                raise ValueError(
                    f"classes must be at least two and all different, not {', '.join(self.classes)}"
                )
            if self.loss not in (None, "logistic"):
                raise ValueError(f"classes must not be given with the {self.loss} loss")
        learner_for(Squared(), 1, **self.parameters)  # raises for a wrong parameter

    def learner(self, features: int, classes: Sequence[str] | None) -> LinearLearner:
        """A learner that has learnt nothing yet."""
        found = self._learner(features, classes, self.parameters)
        if self.epochs > 1 and isinstance(found, ExactLearner):
            raise ValueError(
                "`epochs` is for methods with steps, such as `method='ladder'`: one pass is all "
                "that an exact fit needs"
            )
        return found

    def exact(
        self, features: int, classes: Sequence[str] | None, learner: LinearLearner
    ) -> ExactLearner | None:
        """The exact fit of all rows beside a method with steps, if that is not too much work."""
        intercept = bool(self.parameters.get("fit_intercept", True))
        most = EXACT_WEIGHTS - intercept if self.loss == "squared" else BESIDE
        if isinstance(learner, ExactLearner) or features > most:
            return None
        parameters = {"method": "exact", "fit_intercept": intercept, "memory": KEPT}
        found = self._learner(features, classes, parameters)
        assert isinstance(found, ExactLearner)
        return found

    def rival(self, features: int, classes: Sequence[str] | None) -> LinearLearner:
        """Plain SGD to compare with."""
        given = {**self.parameters, "method": "sgd"}
        for_others = ("options", "memory", "draws", "half_life", "output")
        parameters = {name: value for name, value in given.items() if name not in for_others}
        parameters["step_scale"] = self.rival_step_scale(features)
        return self._learner(features, classes, parameters)

    def forgetting(self, features: int, learner: LinearLearner) -> ExactLearner | None:
        """The same fit with the half-life that predicts best, if it is one of least squares."""
        exact = isinstance(learner, ExactLearner) and learner.forgetting is None
        if not exact or self.loss != "squared" or features > FORGETTING:
            return None
        parameters = {**self.parameters, "method": "exact", "half_life": "auto"}
        found = self._learner(features, None, parameters)
        assert isinstance(found, ExactLearner)
        return found

    def rival_step_scale(self, features: int) -> float | None:
        """1 over the mean squared length of a standardised row, which has an intercept, too."""
        return None if self.parameters.get("scale", "auto") is None else 1.0 / (features + 1)

    def check_same(self, asked: "FitPlan") -> None:
        """ValueError if a fit with this plan cannot go on as ``asked``."""
        before, now = self._flat(), asked._flat()
        if asked.loss is None:
            now["loss"] = before["loss"]
        for name in before | now:
            if before.get(name) != now.get(name):
                raise ValueError(
                    f"the model was begun with `{name}={before.get(name)!r}`, "
                    f"but now `{name}={now.get(name)!r}` is asked for"
                )

    def row_loss(self, classes: Sequence[str] | None) -> Loss:
        """The loss of a row, for a target with these classes or without any."""
        return REGRESSIONS[str(self.loss)] if classes is None else loss_of(np.array(classes))

    def written(self) -> str:
        """What was asked for beyond the defaults, as arguments of a call.

        Examples
        --------
        >>> FitPlan("load", exclude=["a"], parameters={"method": "auto", "l2": 0.5}).written()
        "target='load', exclude=['a'], l2=0.5"
        """
        usual = FitPlan(self.target)._flat() | {
            "method": "auto",
            "scale": "auto",
            "fit_intercept": True,
            "seed": 0,
            "target": None,
        }
        given = {name: value for name, value in self._flat().items() if value != usual.get(name)}
        lists = {name: list(value) for name, value in given.items() if isinstance(value, tuple)}
        return ", ".join(f"{name}={value!r}" for name, value in (given | lists).items())

    def state_dict(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def _flat(self) -> dict[str, Any]:
        state = self.state_dict()
        parameters = state.pop("parameters")
        return {**state, **parameters}

    def _learner(
        self, features: int, classes: Sequence[str] | None, parameters: Mapping[str, Any]
    ) -> LinearLearner:
        return learner_for(self.row_loss(classes), features, **parameters)
