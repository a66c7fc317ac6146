"""The settings of a fit."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from mixfree.base.checks import check_one_of, check_whole
from mixfree.linear.classes import loss_of
from mixfree.linear.learner_for import LinearLearner, learner_for
from mixfree.linear.losses import REGRESSIONS, Loss
from mixfree.streams.columns.category import MAX_HASHED
from mixfree.streams.columns.dates import check_form
from mixfree.streams.columns.encoder import POLICIES
from mixfree.streams.columns.time import TIMES


@dataclass(frozen=True)
class FitPlan:
    """What to predict, from which columns, and how.

    Attributes
    ----------
    target
        The column to predict.
    loss
        ``"squared"``, ``"huber"``, ``"robust"``, ``"poisson"``, ``"logistic"``, or a loss of
        :mod:`mixfree.linear.losses`; None: by the target's values.
    features, exclude
        Columns to learn from (all but the target if empty), and columns to leave out; ``*`` and
        ``?`` in a name match any characters and any single character.
    categories
        Columns whose numbers are names of categories.
    classes
        All classes of the target, if the first rows lack some.
    missing
        Treatment of missing values: ``"auto"`` leaves out rows without a target, and uses the mean
        where a feature is missing, with a weight of its own for gaps if they are many;
        ``"skip"`` leaves out rows with missing values, ``"error"`` refuses them.
    parameters
        Parameters of :func:`mixfree.linear.learner_for.learner_for`: ``method``, ``l2``, ….
    time
        Encoding of dates: ``"cyclic"`` hour, weekday and season, ``"calendar"`` hours and weekdays
        as categories, ``"linear"`` days, ``"none"``, or ``"auto"``: the cycles of a day, a week and
        a year that the rows cover, days if they cover two years, and categories instead of cycles
        where these are expected to predict better.
    dates
        Columns of dates that are not recognised as such, each with its format: one of strptime,
        ``"seconds"`` (or ``"milliseconds"``, …) since 1970, or ``""``: by the first rows.
    hash_columns
        Number of features into which a column with too many texts is hashed; 0: it is left out.

    Examples
    --------
    >>> FitPlan("load", missing="drop")
    Traceback (most recent call last):
    ValueError: missing must be one of 'auto', 'skip', 'error', not 'drop'
    """

    target: str
    loss: str | Loss | None = None
    features: Sequence[str] = ()
    exclude: Sequence[str] = ()
    categories: Sequence[str] = ()
    classes: Sequence[str] = ()
    missing: str = "auto"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    time: str = "auto"
    dates: Mapping[str, str] = field(default_factory=dict)
    hash_columns: int = 0

    def __post_init__(self) -> None:
        # Tuples, so that a plan equals its copy restored from a model file.
        for name in ("features", "exclude", "categories", "classes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "dates", dict(self.dates))
        for form in filter(None, self.dates.values()):
            check_form(form)
        check_one_of(self.missing, "missing", POLICIES)
        check_one_of(self.time, "time", TIMES)
        check_whole(self.hash_columns, "hash_columns", least=0, most=MAX_HASHED)
        if isinstance(self.loss, str):
            check_one_of(self.loss, "loss", (*REGRESSIONS, "logistic"))
        if self.classes and len(set(self.classes)) < max(2, len(self.classes)):
            raise ValueError(
                f"classes must be at least two and all different, not {', '.join(self.classes)}"
            )
        if self.classes and self.loss not in (None, "logistic"):
            raise ValueError(f"classes must not be given with the {self.loss} loss")

    def learner(
        self, columns: int, classes: Sequence[str] | None, exact: bool = False
    ) -> LinearLearner:
        """Return an untrained learner, with ``exact`` of this method."""
        given = {**self.parameters, "looks_ahead": True}
        given |= {"method": "exact"} if exact else {}
        return learner_for(self.row_loss(classes), columns, **given)

    def check_same(self, asked: "FitPlan") -> None:
        """Raise ValueError if a fit with this plan cannot be resumed as ``asked``."""
        before, now = self._flat(), asked._flat()
        if asked.loss is None:
            now["loss"] = before["loss"]
        for name in before | now:
            if before.get(name) != now.get(name):
                raise ValueError(
                    f"the model was begun with `{name}={before.get(name)!r}`: "
                    f"it cannot be resumed with `{name}={now.get(name)!r}`"
                )

    def row_loss(self, classes: Sequence[str] | None) -> Loss:
        """Return the loss of a row, for a target with these classes or without any."""
        if classes is not None:
            return loss_of(np.array(classes))
        loss = self.loss or "squared"
        return REGRESSIONS[loss] if isinstance(loss, str) else loss

    def given(self) -> dict[str, Any]:
        """Return the settings other than the defaults, those of the learner among them.

        Examples
        --------
        >>> FitPlan("load", exclude=["a"], parameters={"method": "auto", "l2": 0.5}).given()
        {'target': 'load', 'exclude': ['a'], 'l2': 0.5}
        """
        of_learner = inspect.signature(learner_for).parameters.items()
        usual = {name: each.default for name, each in of_learner}
        usual |= FitPlan(self.target)._flat() | {"target": None}
        given = {name: value for name, value in self._flat().items() if value != usual.get(name)}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in given.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return all settings as plain values."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def _flat(self) -> dict[str, Any]:
        state = self.state_dict()
        parameters = state.pop("parameters")
        return {**state, **parameters}
