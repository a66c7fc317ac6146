"""The base class of the two estimators: parameters, validation, fitting and saving."""

import copy
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils.validation import _check_sample_weight, _check_y, check_is_fitted, validate_data

from mixfree.base.arithmetic import Array, inner
from mixfree.base.checks import check_one_of, check_whole
from mixfree.base.state import check_room, loading, shallow
from mixfree.core.method import Method, OptionError
from mixfree.linear.classes import targets_of
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.learner_for import LinearLearner, learner_for
from mixfree.linear.losses import Loss
from mixfree.sklearn import tables
from mixfree.sklearn.results import ROWS, Results, check_unmasked
from mixfree.streams.fit.plan import FitPlan
from mixfree.streams.fit.stream_fit import StreamFit


@dataclass(repr=False, eq=False)
class StreamModel(Results, ABC):
    """A linear model fitted in one pass to rows in the given order.

    Parameters
    ----------
    method
        ``"auto"``: exact up to 2,000 weights per output (1,000 where the loss is not the squared
        one), the ladder above. ``"exact"``: the fit to all rows, independent of their order.
        Otherwise a name from :func:`mixfree.methods`, or a subclass of :class:`mixfree.Method`.
    memory
        What to keep of the stream: rows, such as ``2048``, or bytes, such as ``"32MB"``, the
        default of the exact method (which takes bytes only with the squared loss) and of the
        ladder, or 8,192 sparse rows. Iterative methods draw from it at every step; 0 keeps nothing.
    draws
        Draws from the memory per row, for iterative methods; 1 by default.
    half_life
        Number of rows after which a row counts half, or ``"auto"``: the mixture that has predicted
        best recently. For the exact method with the squared loss; ``None`` forgets nothing.
    step_scale
        α, the scale of the steps, in the units of the weights for mag and adagrad. ``None`` is 1,
        or D/√2 in a ball of diameter D; the ladder finds its own.
    fit_intercept
        Whether to fit an intercept.
    l2
        Adds ½·l2·‖weights‖² to every row's loss (scikit-learn's ``alpha``). ``None`` is 0, or, for
        the exact method with classes, just enough to keep the weights of separable ones finite.
    radius
        For iterative methods: keeps the weights in a ball of this radius around the origin.
    scale
        ``"running"`` standardises the features for iterative methods by the rows seen so far, to
        which ``step_scale``, ``l2`` and ``radius`` then refer; ``None`` does not. ``"auto"`` is
        ``"running"``, except for sparse rows and for methods that replay old rows.
    epochs
        Passes that ``fit`` makes over the rows, each in the given order; for iterative methods.
    output
        ``"average"``, ``"weighted"``, ``"tail"``, ``"last"``, ``"random"``, or that of the method.
    options
        Further options of the method, for instance ``{"levels": 6}`` or ``{"mixing_time": 100}``.
    seed
        Seed of all random draws.

    Attributes
    ----------
    coef_, intercept_
        The weights, in the shapes of scikit-learn's linear models and the units of the rows.
    encoder_
        The :class:`StreamEncoder` of rows that were given with ``target``, or as a data frame with
        texts, dates or gaps. All rows decide on its features; with iterative methods or a
        half-life, the first rows.
    """

    loss: str | Loss | None = None
    _: KW_ONLY
    method: str | type[Method] = "auto"
    memory: int | str | None = None
    draws: int | None = None
    half_life: float | str | None = None
    step_scale: float | None = None
    fit_intercept: bool = True
    l2: float | None = None
    radius: float | None = None
    scale: str | None = "auto"
    epochs: int = 1
    output: str | None = None
    options: Mapping[str, Any] | None = None
    seed: int = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Insert the shared parameters into the subclass's docstring at ``{shared}``."""
        super().__init_subclass__(**kwargs)
        if cls.__doc__ and StreamModel.__doc__:
            doc, shared = inspect.cleandoc(cls.__doc__), inspect.cleandoc(StreamModel.__doc__)
            cls.__doc__ = doc.replace("{shared}", shared.partition("----------\n")[2])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @abstractmethod
    def _loss_of(self, classes: Any) -> Loss:
        """Return the loss of a row."""

    def _classes_of(self, labels: Callable[[], Array], given: Any) -> Array | None:
        """Return the sorted classes, those given or those of the labels; None for a regression."""
        return None

    def _class_weights(self, y: Array | None, classes: Array | None) -> Array | None:
        """Return the weights of the classes if they have any; ``y``: the labels of all rows."""
        return None

    def _learn(
        self, X: Any, y: Any, sample_weight: Any, target: str | None, classes: Any, whole: bool
    ) -> Self:
        """Learn from rows in order, and keep what was learnt if that succeeds.

        The rows of a ``whole`` stream are learnt ``epochs`` times; those of a part may all have
        weight 0.
        """
        check_unmasked(X=X, y=y, sample_weight=sample_weight)
        first = whole or not self.__sklearn_is_fitted__()
        epochs = check_whole(self.epochs, "epochs") if whole else 1
        if target is None or sample_weight is not None or epochs > 1:
            X = tables.read(X)
        source = None
        if self._encodes(X, y, target, first):
            if y is not None:
                check_consistent_length(X, y := _check_y(y))
            name = target if first else self._fit.encoder.target
            source = tables.TableSource(X, name, 0 if first else self._fit.read, y)
        else:
            X, y = self._check_data(X, y, reset=first)
        known = getattr(self, "classes_", None)
        if first:
            labels = source.labels if source is not None and y is None else lambda: y
            known = self._classes_of(labels, classes)
        weights = check_weights(sample_weight, X, part=not whole)
        by_class = self._class_weights(y if whole else None, known)
        if source is None:
            fit: Any = self._new_learner(known, X.shape[1], X.dtype) if first else self._fit
        else:
            source.weights, source.classes, source.by_class = weights, known, by_class
            fit = tables.begin(source, self._plan(source.target, known)) if first else self._fit
        if epochs > 1 and isinstance(getattr(fit, "learner", fit), ExactLearner):
            raise ValueError(
                f"`epochs={epochs}` is for iterative methods, such as `method='ladder'`: an "
                "exact fit needs one pass"
            )
        if source is not None:
            fit = tables.learnt(fit, source, epochs)
        else:
            targets = np.asarray(y, np.float64) if known is None else targets_of(y, known)
            weights = tables.row_weights(targets, weights, by_class)
            try:
                for _ in range(epochs):
                    fit.advance(X, targets, weights)
            except ValueError:
                assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
                raise
        if first and source is not None:
            names = [name for name in source.schema.names if name != source.target]
            self._set_names(len(names), names)
        self._fit = fit
        if known is not None:
            self.classes_ = known
        return self

    def _encodes(self, X: Any, y: Any, target: str | None, first: bool) -> bool:
        """Whether rows are learnt as those of a file, and not as numbers."""
        if y is None and target is None and tables.is_table(X):
            raise ValueError("target must be the column to predict, as in fit(table, target='y')")
        if y is not None and target is not None:
            raise ValueError("give y or target, not both")
        if first:
            return target is not None or tables.needs_encoding(X)
        if (table := self._table) is None and target is not None:
            raise ValueError("target must not be given: the fit was begun with X and y")
        if table is not None and target not in (None, table.encoder.target):
            raise ValueError(f"target must be {table.encoder.target!r} as before, not {target!r}")
        return table is not None

    def _check_data(self, X: Any, y: Any, reset: bool) -> tuple[Any, Array]:
        # scikit-learn's checks take longer than learning from a few rows of a plain array.
        if (
            not reset
            and type(X) is type(y) is np.ndarray
            and X.dtype.char in "df"
            and X.ndim == 2
            and y.shape == X.shape[:1] != (0,)
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
            and (y.dtype.kind in "biu" or (y.dtype.kind == "f" and float(inner(y, y)) < math.inf))
        ):
            return X, y
        unseen = not isinstance(X, np.ndarray)  # of an array, the learner finds what is not finite
        checked: tuple[Any, Array] = validate_data(
            self, X, y, reset=reset, ensure_all_finite=unseen, **ROWS
        )
        return checked

    def _new_learner(self, classes: Array | None, columns: int, dtype: Any) -> LinearLearner:
        loss, parameters = self._loss_of(classes), self._parameters()
        try:
            return learner_for(loss, columns, dtype, looks_ahead=True, **parameters)
        except OptionError as error:
            raise OptionError(f"{error}, as in options={{'name': value}}") from None

    def _plan(self, target: str, classes: Array | None) -> FitPlan:
        """Return the plan of a fit to tables, whose classes are places among those given."""
        loss, parameters = self._loss_of(classes), self._parameters()
        if classes is None:
            return FitPlan(target, loss, parameters=parameters)
        places = [str(place) for place in range(len(classes))]
        return FitPlan(target, "logistic", classes=places, parameters=parameters)

    def _parameters(self) -> dict[str, Any]:
        """Return the parameters of the learner."""
        given = self.get_params(deep=False)
        return {k: v for k, v in given.items() if k not in ("loss", "epochs", "class_weight")}

    def merge(self, other: Self) -> Self:
        """Add the rows of another fit, as if they followed (exact method only).

        Examples
        --------
        >>> from mixfree.sklearn import StreamRegressor
        >>> X, y = np.arange(8.0)[:, None], np.arange(8.0) ** 2
        >>> parts = [StreamRegressor().fit(X[k::2], y[k::2]) for k in (0, 1)]
        >>> both = parts[0].merge(parts[1])
        >>> bool(np.allclose(both.coef_, StreamRegressor().fit(X, y).coef_))
        True
        """
        for each in (self, other):
            each._exact("merge")
        mine, theirs = self._fit, other._fit
        if type(mine) is not type(theirs):
            raise ValueError(
                "cannot merge a fit to a table with encoded columns and one to numbers"
            )
        if self._table is not None:
            mine, theirs = copy.deepcopy((mine, theirs))  # merging changes both
        mine.merge(theirs)
        self._fit = mine
        return self

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the fit as plain values and arrays."""
        check_is_fitted(self)
        names, classes = (getattr(self, each, None) for each in ("feature_names_in_", "classes_"))
        found = {
            "n_features_in": self.n_features_in_,
            "feature_names_in": None if names is None else list(names),
            "classes": None if classes is None else classes.copy(),
        }
        if (table := self._table) is None:
            return {**found, "dtype": self._fit.dtype.name, "learner": self._fit.state_dict()}
        state = table.state_dict()
        del state["plan"]  # which may have a loss of the user's
        return {**found, "table": state, "target": table.plan.target}

    def load_state_dict(self, state: dict[str, Any]) -> Self:
        """Restore the state of an estimator with the same parameters."""
        after = shallow(self)
        with loading("estimator"):
            after._restore(state)
        self.__dict__ = after.__dict__
        return self

    def _restore(self, state: dict[str, Any]) -> None:
        columns = check_whole(state["n_features_in"], "n_features_in of the state")
        names = state["feature_names_in"]
        if names is not None and [*map(type, names)] != [str] * columns:
            raise ValueError(f"feature_names_in of the state must be {columns} names")
        self._set_names(columns, names)
        if (classes := state["classes"]) is not None:
            if np.ndim(classes) != 1 or len(set(classes.tolist())) < max(len(classes), 2):
                raise ValueError("classes of the state must be two or more different labels")
            self.classes_ = classes.copy()
        if "table" in state:
            plan = self._plan(state["target"], classes)
            self._fit = StreamFit.from_state(state["table"] | {"plan": plan.state_dict()})
            self._fit.tests_first = False  # as :func:`tables.begin` has it
        else:
            dtype = check_one_of(state["dtype"], "dtype of the state", ("float64", "float32"))
            check_room(state["learner"], columns, "estimator")
            self._fit = self._new_learner(classes, columns, np.dtype(dtype))
            self._fit.load_state_dict(state["learner"])

    def _set_names(self, columns: int, names: list[str] | None) -> None:
        self.n_features_in_ = columns
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)


def check_weights(sample_weight: Any, X: Any, part: bool) -> Array | None:
    """Check sample weights, if there are any; with ``part``, all of them may be 0."""
    if sample_weight is None:
        return None
    given: Array = np.asarray(sample_weight)
    if part and given.shape == (X.shape[0],) and given.dtype.kind in "biuf" and not given.any():
        return given.astype(np.float64)
    given = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    return given
