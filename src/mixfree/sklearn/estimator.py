"""The base class of the two estimators: parameters, validation, fitting and saving."""

import inspect
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from mixfree.base.arithmetic import Array, inner
from mixfree.base.checks import check_one_of, check_values, check_whole
from mixfree.base.state import check_room, loading, shallow
from mixfree.core.method import Method, OptionError
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.learner_for import LinearLearner, learner_for
from mixfree.linear.losses import Loss
from mixfree.sklearn.results import Results, check_unmasked
from mixfree.sklearn.tables import (
    TableSource,
    begin,
    is_table,
    learnt,
    merged,
    needs_encoding,
    read,
    row_weights,
)
from mixfree.streams.fit.plan import FitPlan
from mixfree.streams.fit.stream_fit import StreamFit

MAX_LOSS_RATIO = 10.0  # ratio to the loss at the start from which an iterative fit has led away
MAX_COMPARED_ROWS = 2048  # by which an iterative fit is compared with its start
_OPTION = "options__"  # prefix of the name of a single option


@dataclass(repr=False, eq=False)
class StreamModel(Results, ABC):
    """A linear model fitted in one pass to rows in the given order.

    An estimator learns in one thread at a time; a second thread that is noticed is refused.

    Parameters
    ----------
    method
        ``"auto"``: exact up to 2,000 weights per output (1,000 where the loss is not the squared
        one), the ladder above. ``"exact"``: the fit to all rows, independent of their order, from
        sums over the stream and a reservoir of rows. Otherwise a name from the table of methods
        (:func:`mixfree.methods`), or a subclass of :class:`mixfree.Method`.
    memory
        What to keep of the stream: a number of rows, such as ``2048``, or bytes, such as
        ``"32MB"``, the exact method's default (a MB is 10⁶ bytes, a MiB 2²⁰); with the squared loss
        the exact method keeps sums, and takes bytes only. Iterative methods keep a uniform sample
        of the rows so far and draw from it at every step. ``"auto"``, the ladder's default, keeps
        32 MB of dense rows and no sparse ones; 0, the default of the other iterative methods, keeps
        nothing.
    draws
        Draws from the memory per row, for iterative methods with a memory; 1 by default.
    half_life
        For the exact method with the squared loss: the number of rows after which a row counts
        half, or ``"auto"`` for the mixture of half-lives that has predicted best recently.
        ``None`` forgets nothing.
    step_scale
        α, the scale of the steps. ``None`` is 1, or D/√2 in a ball of diameter D; the ladder
        finds its own. For mag and adagrad it has the units of the weights: give about the size
        of the target. (scikit-learn's ``alpha``, the strength of regularisation, is ``l2`` here.)
    fit_intercept
        Whether to fit an intercept.
    l2
        Adds ½·l2·‖weights‖² to every row's loss. The exact method does not penalise the
        intercept; iterative methods do. ``None`` is 0, or, for the exact method with classes,
        just enough to keep the weights finite where the classes can be separated.
    radius
        Keeps the weights in a ball of this radius around the origin.
    scale
        For iterative methods. ``"running"`` standardises the features by the rows seen so far;
        ``step_scale``, ``l2`` and ``radius`` then refer to the standardised features, while
        ``coef_`` and ``intercept_`` are in the original units. ``None`` does not standardise.
        ``"auto"`` is ``"running"``, except for sparse rows and for methods that replay old rows.
    epochs
        Passes that ``fit`` makes over the rows, each in the given order; for iterative methods.
    output
        ``"average"``, ``"weighted"``, ``"tail"``, ``"last"`` or ``"random"``; by default that of
        the method.
    options
        Further options of the method by name, for instance ``{"levels": 6}`` or
        ``{"mixing_time": 100}``. In ``set_params`` and in grids also one by one, as
        ``options__levels``.
    seed
        Seed of all random draws.

    Attributes
    ----------
    coef_, intercept_
        The weights, in the shapes of scikit-learn's linear models.
    n_samples_seen_
        Rows learnt from, over all epochs.
    n_features_in_, feature_names_in_
        As for every scikit-learn estimator.
    encoder_
        The :class:`StreamEncoder` of rows that were given with ``target``, or as a data frame with
        texts, dates or gaps; absent otherwise. All rows decide on its features, as in ``mixfree
        fit``: a category that appears later has a weight of its own. With iterative methods or a
        half-life, the first rows decide on them.
    """

    # Parameters that may change between calls of `partial_fit`.
    _may_change: ClassVar[tuple[str, ...]] = ("epochs",)

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
    _fit: Any = field(init=False)  # a learner of rows of numbers, or a StreamFit to tables
    _fit_parameters: dict[str, Any] | None = field(init=False, default=None)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Insert the shared parameters into the subclass's docstring at ``{shared}``."""
        super().__init_subclass__(**kwargs)
        if cls.__doc__ and StreamModel.__doc__:
            own, shared = inspect.cleandoc(cls.__doc__), inspect.cleandoc(StreamModel.__doc__)
            cls.__doc__ = own.replace("{shared}", shared.partition("----------\n")[2])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return parameters by name; with ``deep``, also each option as ``options__name``."""
        found: dict[str, Any] = super().get_params(deep=deep)
        if deep and isinstance(self.options, Mapping):
            found |= {f"{_OPTION}{name}": value for name, value in self.options.items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Change parameters for the next ``fit``; ``options__name`` changes one option.

        Examples
        --------
        >>> from mixfree.sklearn import StreamRegressor
        >>> StreamRegressor(method="mag").set_params(options__levels=3).options
        {'levels': 3}
        """
        own = {name: value for name, value in params.items() if not name.startswith(_OPTION)}
        single = {
            name.removeprefix(_OPTION): value for name, value in params.items() if name not in own
        }
        super().set_params(**own)
        if single:
            self.options = {**(self.options or {}), **single}
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Leave out that another thread is learning, which does not concern a copy."""
        return {k: v for k, v in super().__getstate__().items() if k != "_learning"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @abstractmethod
    def _classes_of(self, labels: Callable[[], Array], given: Any) -> Array | None:
        """Return the sorted classes, those given or those of the labels; None for a regression."""

    @abstractmethod
    def _loss_of(self, classes: Array | None) -> Loss:
        """Return the loss of a row."""

    def _class_weights(self, y: Array | None, classes: Array | None) -> Array | None:
        """Return the weights of the classes if they have any; ``y``: the labels of all rows."""
        return None

    def _learn(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        target: str | None,
        *,
        first: bool,
        whole: bool = False,
        classes: Any = None,
    ) -> Self:
        """Learn from rows in order, and keep what was learnt if that succeeds.

        The rows of a ``whole`` stream are learnt ``epochs`` times; those of a part may all have
        weight 0.
        """
        if "_learning" in self.__dict__:
            raise ValueError(
                "another thread is learning: call fit or partial_fit from one thread at a time"
            )
        self._learning = True
        try:
            if not first:
                self._warn_of_changes()
            epochs = check_whole(self.epochs, "epochs") if whole else 1
            if target is None or sample_weight is not None or epochs > 1:
                X = read(X)
            source = self._source(X, y, target, first)
            if source is None:
                X, y = self._check_data(X, y, reset=first)
            elif y is not None:
                source.use_targets(y := check_targets(X, y))
            known = getattr(self, "classes_", None)
            if first:
                labels = source.labels if source and y is None else lambda: y
                known = self._classes_of(labels, classes)
            weights = check_weights(sample_weight, X, part=not whole)
            by_class = self._class_weights(y if whole else None, known)
            if source is not None:
                source.use(weights, known, by_class)
            fit = self._begun(X, source, known) if first else self._fit
            if epochs > 1 and isinstance(getattr(fit, "learner", fit), ExactLearner):
                raise ValueError(
                    f"`epochs={epochs}` is for iterative methods, such as `method='ladder'`: an "
                    "exact fit needs one pass"
                )
            if source is not None:
                fit = learnt(fit, source, epochs)
            else:
                targets = self._targets(y, known)
                self._advance(fit, X, targets, row_weights(targets, weights, by_class), epochs)
                if whole and not isinstance(fit, ExactLearner):
                    self._warn_if_led_away(fit, X, targets)
            if first:
                self._fit_parameters = self._parameters()
                if source is not None:
                    names = [name for name in source.schema.names if name != source.target]
                    self.n_features_in_ = len(names)
                    self.feature_names_in_ = np.array(names, dtype=object)
            self._fit = fit
            if known is not None:
                self.classes_ = known
        finally:
            del self._learning
        return self

    def _source(self, X: Any, y: Any, target: str | None, first: bool) -> TableSource | None:
        """Return the rows if they are learnt as those of a file, and not as numbers."""
        if y is None and target is None and is_table(X):
            raise ValueError("target must be the column to predict, as in fit(table, target='y')")
        if y is not None and target is not None:
            raise ValueError("give y or target, not both")
        if first:
            encodes = target is not None or needs_encoding(X)
            return TableSource(X, target) if encodes else None
        if (table := self._table) is None:
            if target is not None:
                raise ValueError("target must not be given: the fit was begun with X and y")
            return None
        if target not in (None, table.encoder.target):
            raise ValueError(f"target must be {table.encoder.target!r} as before, not {target!r}")
        return TableSource(X, table.encoder.target, table.read)

    def _advance(
        self, learner: LinearLearner, X: Any, targets: Array, weights: Array | None, epochs: int
    ) -> None:
        """Learn from rows of numbers; an error names the feature."""
        try:
            for _ in range(epochs):
                learner.advance(X, targets, weights)
        except ValueError:
            assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
            if isinstance(X, np.ndarray) and hasattr(self, "feature_names_in_"):
                for name, column in zip(self.feature_names_in_, X.T, strict=True):
                    check_values(**{f"feature {str(name)!r}": column})
            raise

    def _check_data(self, X: Any, y: Any, reset: bool) -> tuple[Any, Array]:
        if not reset and self._needs_no_check(X, y):
            return X, y
        check_unmasked(X, "X")
        check_unmasked(y, "y")
        checked: tuple[Any, Array] = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            reset=reset,
            ensure_all_finite=not isinstance(X, np.ndarray),  # else the learner finds them
        )
        return checked

    def _needs_no_check(self, X: Any, y: Any) -> bool:
        """Whether later rows are plain arrays, so that scikit-learn's checks can be skipped.

        Those checks take longer than learning from a few rows.
        """
        return (
            type(X) is np.ndarray
            and type(y) is np.ndarray
            and X.dtype.char in "df"
            and X.ndim == 2
            and y.shape == X.shape[:1]
            and X.shape[0] > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
            and (y.dtype.kind in "biu" or (y.dtype.kind == "f" and float(inner(y, y)) < math.inf))
        )

    def _begun(self, X: Any, source: TableSource | None, classes: Array | None) -> Any:
        """Return an untrained learner, or an untrained fit to tables."""
        if source is not None:
            return begin(source, self._plan(source.target, classes))
        return self._new_learner(classes, X.shape[1], X.dtype)

    def _new_learner(self, classes: Array | None, columns: int, dtype: Any) -> LinearLearner:
        loss, parameters = self._loss_of(classes), self._parameters()
        del parameters["loss"]
        try:
            return learner_for(loss, columns, dtype, looks_ahead=True, **parameters)
        except OptionError as error:
            raise OptionError(f"{error}, as in options={{'name': value}}") from None

    def _plan(self, target: str, classes: Array | None) -> FitPlan:
        """Return the plan of a fit to tables, whose classes are places among those given."""
        loss, parameters = self._loss_of(classes), self._parameters()
        del parameters["loss"]
        if classes is None:
            return FitPlan(target, loss, parameters=parameters)
        places = [str(place) for place in range(len(classes))]
        return FitPlan(target, "logistic", classes=places, parameters=parameters)

    def _parameters(self) -> dict[str, Any]:
        """Return the parameters that are fixed when a fit begins."""
        given = self.get_params(deep=False)
        return {name: value for name, value in given.items() if name not in self._may_change}

    def _warn_of_changes(self) -> None:
        """Warn of parameters that were changed after the fit began and have no effect."""
        if self._fit_parameters is None:
            return
        changed = [
            name for name, value in self._fit_parameters.items() if getattr(self, name) != value
        ]
        if changed:
            warnings.warn(
                f"{', '.join(changed)} changed after the fit began, which has no effect on "
                "partial_fit: call fit to start afresh with the new value",
                UserWarning,
                stacklevel=3,
            )

    def _warn_if_led_away(self, learner: LinearLearner, X: Any, y: Array) -> None:
        """Warn if the rows just learnt have a far larger loss than at weights of 0, the start."""
        some = slice(None, None, -(-X.shape[0] // MAX_COMPARED_ROWS))
        with np.errstate(over="ignore", invalid="ignore"):  # a loss that is not finite is larger
            found = float(learner.losses(X[some], y[some]).mean())
            start = float(
                learner.loss.value(np.zeros_like(learner.predict(X[some])), y[some]).mean()
            )
        if not found <= MAX_LOSS_RATIO * start:
            warnings.warn(
                f"the steps of {learner.method!r} have led away from the minimum: the mean loss is "
                f"{found:.3g}, and was {start:.3g} at weights of 0; use method='auto', which needs "
                "no step size, or a smaller step_scale",
                ConvergenceWarning,
                stacklevel=4,
            )

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
        mine, theirs = self._exact("merge"), other._exact("merge")
        table, others = self._table, other._table
        if table is not None and others is not None:
            self._fit = merged(table, others)
        elif table is None and others is None:
            mine.merge(theirs)
        else:
            raise ValueError(
                "cannot merge a fit to a table with encoded columns and one to numbers"
            )
        return self

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the fit as plain values and arrays."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        found = {
            "n_features_in": self.n_features_in_,
            "feature_names_in": None if names is None else list(names),
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
        self.n_features_in_, names = columns, state["feature_names_in"]
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            if not isinstance(names, list) or [*map(type, names)] != [str] * columns:
                raise ValueError(f"feature_names_in of the state must be {columns} names")
            self.feature_names_in_ = np.array(names, dtype=object)
        classes = self._restored_classes(state)
        if "table" in state:
            plan = self._plan(state["target"], classes)
            self._fit = StreamFit.from_state(state["table"] | {"plan": plan.state_dict()})
        else:
            dtype = check_one_of(state["dtype"], "dtype of the state", ("float64", "float32"))
            check_room(state["learner"], columns, "estimator")
            self._fit = self._new_learner(classes, columns, np.dtype(dtype))
            self._fit.load_state_dict(state["learner"])
        self._fit_parameters = None

    def _restored_classes(self, state: dict[str, Any]) -> Array | None:
        return None


def check_targets(X: Any, y: Any) -> Array:
    """Check targets that are given beside a table."""
    check_unmasked(y, "y")
    targets: Array = column_or_1d(y, warn=True)
    assert_all_finite(targets, input_name="y")
    check_consistent_length(X, targets)
    return targets


def check_weights(sample_weight: Any, X: Any, part: bool) -> Array | None:
    """Check sample weights, if there are any; with ``part``, all of them may be 0."""
    if sample_weight is None:
        return None
    check_unmasked(sample_weight, "sample_weight")
    given = np.asarray(sample_weight)
    if part and given.shape == (X.shape[0],) and given.dtype.kind in "biuf" and not given.any():
        return np.zeros(X.shape[0])
    weights: Array = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    return weights
