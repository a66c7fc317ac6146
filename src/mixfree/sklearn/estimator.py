"""The base class of the two estimators: parameters, validation, fitting and saving."""

import inspect
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from mixfree.base.arithmetic import Array, inner
from mixfree.base.checks import check_one_of, check_values, check_whole, shown
from mixfree.base.state import check_room, loading
from mixfree.core.method import Method, OptionError
from mixfree.linear.exact.batch_means import Wald
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.learner_for import LinearLearner, learner_for
from mixfree.linear.losses import Loss
from mixfree.linear.summary import Summary, summary_of
from mixfree.sklearn.encoder import StreamEncoder
from mixfree.sklearn.tables import (
    TableSource,
    begin,
    encoded,
    is_table,
    learn,
    merged,
    needs_encoding,
    read,
)
from mixfree.steps import CorrelationScale, Profile
from mixfree.steps.profile import BLOCK_AT_HALF, SUM_AT_HALF
from mixfree.streams.fit.plan import FitPlan
from mixfree.streams.fit.stream_fit import StreamFit

MAX_LOSS_RATIO = 10.0  # ratio to the loss at the start from which an iterative fit has led away
MAX_COMPARED_ROWS = 2048  # by which an iterative fit is compared with its start
_OPTION = "options__"  # prefix of the name of a single option


class StreamModel(BaseEstimator, ABC):
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
        fit``: a category that appears later has a weight of its own. With weights of rows or
        classes, a loss that is not given by its name or several epochs, the rows of ``fit``, or of
        the first ``partial_fit``, decide on them.
    """

    # Parameters that may change between calls of `partial_fit`.
    _may_change: ClassVar[tuple[str, ...]] = ("epochs",)
    _fit_parameters: dict[str, Any] | None = None
    _learner: LinearLearner
    _table: StreamFit  # instead of a learner: a fit to tables, with the encoder of their columns
    _encoder: StreamEncoder  # beside a learner: the encoder that the first rows have decided on

    def __init__(
        self,
        loss: str | Loss | None = None,
        *,
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
        self.loss = loss
        self.method = method
        self.memory = memory
        self.draws = draws
        self.half_life = half_life
        self.step_scale = step_scale
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.radius = radius
        self.scale = scale
        self.epochs = epochs
        self.output = output
        self.options = options
        self.seed = seed

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Insert the shared parameters into the subclass's docstring at ``{shared}``."""
        super().__init_subclass__(**kwargs)
        if cls.__doc__ and StreamModel.__doc__:
            own, shared = inspect.cleandoc(cls.__doc__), inspect.cleandoc(StreamModel.__doc__)
            cls.__doc__ = own.replace("{shared}", shared.partition("----------\n")[2])

    @property
    def learner_(self) -> LinearLearner:
        """The learner: an exact one, or one with an ``optimizer``."""
        check_is_fitted(self)
        return self._table.model.learner if hasattr(self, "_table") else self._learner

    @property
    def encoder_(self) -> StreamEncoder:
        """The encoder of the columns of tables."""
        if not hasattr(self, "_table"):
            return self._encoder
        found, model = StreamEncoder(), self._table.model
        found.encoder_, found.design_, found._why = self._table.encoder, model.design, {}
        found.left_out_ = {**self._table.unused_columns, **model.design.left_out}
        found.n_samples_seen_ = self._table.used
        return found

    @property
    def n_samples_seen_(self) -> int:
        """Rows learnt from, over all epochs."""
        return self.learner_.samples

    @property
    def profile_(self) -> Profile | None:
        """Variance inflation of gradients by block length; None if the method has none."""
        return self.learner_.profile()

    @property
    def correlation_scale_(self) -> CorrelationScale | None:
        """Number of rows over which gradients stay correlated; None if the method has none.

        Examples
        --------
        >>> from mixfree.sklearn import StreamRegressor
        >>> rows = np.random.default_rng(0).standard_normal((4096, 2)).repeat(8, axis=0)
        >>> found = StreamRegressor().fit(rows, rows[:, 0] ** 2).correlation_scale_
        >>> 2 <= found.samples <= 8, found.resolved
        (True, True)
        """
        profile = self.profile_
        if profile is None:
            return None
        # Iterative methods profile differences of blocks, the exact method sums.
        exact = isinstance(self.learner_, ExactLearner)
        return profile.correlation_scale(SUM_AT_HALF if exact else BLOCK_AT_HALF)

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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner") or hasattr(self, "_table")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _encoded(self, X: Any, reset: bool = False) -> Any:
        """Return the features of a table with texts, dates or gaps; other rows as they are."""
        X = read(X)
        if reset:
            self.__dict__.pop("_encoder", None)
            if needs_encoding(X):
                self._encoder = StreamEncoder().fit(X)
        return self._encoder.transform(X) if hasattr(self, "_encoder") else X

    def _takes_table(
        self, X: Any, y: Any, sample_weight: Any, target: str | None, first: bool, epochs: int = 1
    ) -> bool:
        """Whether rows are learnt as those of a file, where all of them decide on the features."""
        if type(X) is np.ndarray and target is None and (first or "_table" not in self.__dict__):
            return False
        if y is None and target is None and is_table(X):
            raise ValueError("target must be the column to predict, as in fit(table, target='y')")
        if y is not None and target is not None:
            raise ValueError("give y or target, not both")
        weighted = sample_weight is not None or getattr(self, "class_weight", None) is not None
        unusual = weighted or epochs != 1 or not isinstance(self.loss, str | None)
        if first and not unusual:
            return target is not None or needs_encoding(X)
        begun = not first and hasattr(self, "_table")
        if begun and not unusual:
            return True
        if begun or target is not None:
            raise ValueError(
                "a fit with target, or of texts, dates and gaps, has no weights, one epoch and a "
                "loss given by its name: give X and y, encoded by StreamEncoder"
                if unusual
                else "target must not be given: the fit was begun with X and y"
            )
        return False

    def _learn_table(
        self, source: TableSource, loss: str, first: bool, classes: Array | None = None
    ) -> Self:
        """Learn from a table, and keep the fit if that succeeds."""
        return self._alone(self._learn_batches, source, loss, first, classes)

    def _learn_batches(
        self, source: TableSource, loss: str, first: bool, classes: Array | None
    ) -> Self:
        if first:
            parameters = self._parameters()
            del parameters["loss"]
            places = [] if classes is None else [str(k) for k in range(len(classes))]
            plan = FitPlan(source.target, loss, classes=places, parameters=parameters)
            fit = begin(source, plan, self.seed)
        else:
            fit = self._table
            source.require_columns(fit.encoder.needs, "column")
            source.open(fit.encoder.needs)
        fit = learn(fit, source)
        if not fit.used:
            raise ValueError(f"no row has a target {source.target!r}")
        if first:
            names = [name for name in source.schema.names if name != source.target]
            self._fit_parameters = self._parameters()
            self.n_features_in_ = len(names)
            self.feature_names_in_ = np.array(names, dtype=object)
            self._forget()
        self._table = fit
        return self

    def _table_source(self, X: Any, y: Any, target: str | None, first: bool) -> TableSource:
        """The rows of a table with their targets."""
        if y is not None:
            y = column_or_1d(y, warn=True)
            assert_all_finite(y, input_name="y")
            check_consistent_length(X, y)
        if first:
            return TableSource(read(X) if y is not None else X, target, y)
        begun = self._table.plan.target
        if target not in (None, begun):
            raise ValueError(f"target must be {begun!r} as before, not {target!r}")
        return TableSource(X, begun, y, self._table.read)

    def _forget(self) -> None:
        """Drop what an earlier fit has learnt."""
        for name in ("_learner", "_table", "_encoder"):
            self.__dict__.pop(name, None)

    def _check_data(self, X: Any, y: Any, reset: bool) -> tuple[Any, Array]:
        X = self._encoded(X, reset)
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

    def _new_learner(self, loss: Loss, dtype: Any) -> LinearLearner:
        check_whole(self.epochs, "epochs")
        parameters = self._parameters()
        del parameters["loss"]
        try:
            return learner_for(loss, self.n_features_in_, dtype, looks_ahead=True, **parameters)
        except OptionError as error:
            raise OptionError(f"{error}, as in options={{'name': value}}") from None

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

    def _learn(
        self,
        learner: LinearLearner,
        X: Any,
        targets: Array,
        sample_weight: Any,
        epochs: int | None = None,
    ) -> Self:
        """Teach the learner the rows, and keep it as the estimator's own if that succeeds.

        Without ``epochs``, the rows are a part of a stream, and all of them may have weight 0.
        """
        return self._alone(self._learn_rows, learner, X, targets, sample_weight, epochs)

    def _alone(self, work: Callable[..., Self], *arguments: Any) -> Self:
        """Call a method; raise ValueError if another thread is learning."""
        if "_learning" in self.__dict__:
            raise ValueError(
                "another thread is learning: call fit or partial_fit from one thread at a time"
            )
        self._learning = True
        try:
            return work(*arguments)
        finally:
            self.__dict__.pop("_learning", None)

    def _learn_rows(
        self, learner: LinearLearner, X: Any, targets: Array, sample_weight: Any, epochs: int | None
    ) -> Self:
        factors = None
        if sample_weight is not None:
            factors = check_weights(sample_weight, X, part=epochs is None)
        if (epochs or 1) > 1 and isinstance(learner, ExactLearner):
            raise ValueError(
                f"`epochs={epochs}` is for iterative methods, such as `method='ladder'`: an exact "
                "fit needs one pass"
            )
        try:
            for _ in range(epochs or 1):
                learner.advance(X, targets, factors)
        except ValueError:
            assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
            if isinstance(X, np.ndarray) and hasattr(self, "feature_names_in_"):
                for name, column in zip(self.feature_names_in_, X.T, strict=True):
                    check_values(**{f"feature {str(name)!r}": column})
            raise
        if getattr(self, "_learner", None) is not learner:
            self._fit_parameters = self._parameters()
        self.__dict__.pop("_table", None)
        self._learner = learner
        if epochs is not None and not isinstance(learner, ExactLearner):
            self._warn_if_led_away(learner, X, targets)
        return self

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
                stacklevel=5,
            )

    def _predictions(self, X: Any) -> Array:
        """Return predictions: one column per output if there are several."""
        check_is_fitted(self)
        check_unmasked(X, "X")
        learner = self.learner_
        return np.concatenate([learner.predict(rows) for rows in self._features(X)])

    def _features(self, X: Any) -> Iterator[Any]:
        """Yield the features of rows to predict, batch after batch if the fit is one to tables."""
        if hasattr(self, "_table"):
            yield from encoded(self._table.encoder, self._table.model.design, X)
            return
        dtypes = [np.float64, np.float32]
        yield validate_data(self, self._encoded(X), accept_sparse="csr", dtype=dtypes, reset=False)

    def losses(self, X: Any, y: Any) -> Array:
        """Return the loss of each row, without regularisation."""
        loss = self.learner_.loss
        values: Array = loss.value(self._predictions(X), self._targets(np.asarray(y)))
        return values

    @property
    def optimality_gap_(self) -> float:
        """95 % upper bound on the mean loss above that of the fit to all rows (exact method only).

        0 for the squared loss, and for other losses while all rows fit in memory.
        """
        return self._exact("optimality_gap_").gap.upper

    @property
    def effective_rows_(self) -> float:
        """Effective sample size: equivalent number of independent rows (exact method only)."""
        return self._exact("effective_rows_").effective_rows

    @property
    def bse_(self) -> Array:
        """Standard errors, like :attr:`coef_` with the intercept last (exact method only)."""
        return self._like_coef(self._exact("bse_").bse)

    @property
    def pvalues_(self) -> Array:
        """P-values of weights being 0, like :attr:`coef_` with the intercept last (exact only)."""
        return self._like_coef(self._exact("pvalues_").p_values)

    def conf_int(self, alpha: float = 0.05, anytime: bool = False) -> Array:
        """Return intervals of the weights at level 1 − alpha by batch means (exact method only).

        One row per feature, then the intercept; one such table per row of :attr:`coef_` if there
        are several. The intervals allow for correlated rows. With ``anytime`` they may be looked at
        after every chunk: with probability 1 − alpha all of them contain the weight, for streams
        that are watched from about 1,000 rows on.
        """
        found = self._exact("conf_int").conf_int(alpha, anytime)
        return found[0] if len(found) == 1 else found

    def wald(self, names: Sequence[str | int] | str) -> Wald:
        """Test that the weights of several features are all 0 (exact method only).

        Parameters
        ----------
        names
            Names of features, or their places; a name that ends in ``*`` stands for all that begin
            so, such as ``"sky=*"``.

        Examples
        --------
        >>> from mixfree.sklearn import StreamRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(4000, 3))
        >>> model = StreamRegressor().fit(X, X[:, 0] + rng.normal(size=4000))
        >>> bool(model.wald([0, 1]).p_value < 0.001), bool(model.wald(["x1", "x2"]).p_value > 0.05)
        (True, True)
        """
        known, places = self._names, list[int]()
        for name in [names] if isinstance(names, str) else names:
            found = [
                place
                for place, each in enumerate(known)
                if name in (place, each)
                or (isinstance(name, str) and name[-1:] == "*" and each.startswith(name[:-1]))
            ]
            if not found:
                raise ValueError(f"there is no feature {shown(name)}: {shown(known)}")
            places += found
        return self._exact("wald").wald(sorted(set(places)))

    def summary(self, alpha: float = 0.05) -> Summary:
        """Return the table of the fit: weights, standard errors, t, p and intervals.

        Examples
        --------
        >>> from mixfree.sklearn import StreamRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(4000, 2))
        >>> print(StreamRegressor().fit(X, X[:, 0] + rng.normal(size=4000)).summary())
        rows            4,000
        ...
        """
        labels = getattr(self, "classes_", ())
        return summary_of(self._exact("summary"), self._names, labels, alpha=alpha)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Show the table of an exact fit in a notebook, instead of the parameters."""
        found: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in found and isinstance(getattr(self, "_learner", None), ExactLearner):
            found["text/html"] = self.summary()._repr_html_()
        return found

    def _repr_html_inner(self) -> str:
        return self._repr_mimebundle_()["text/html"]

    @property
    def _names(self) -> list[str]:
        if hasattr(self, "_table"):
            return self._table.model.features
        given = getattr(self, "feature_names_in_", None)
        return [f"x{k}" for k in range(self.n_features_in_)] if given is None else list(given)

    def _like_coef(self, found: Array) -> Array:
        return found[0] if np.ndim(self.coef_) == 1 else found

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
        if hasattr(self, "_table") != hasattr(other, "_table"):
            raise ValueError(
                "cannot merge a fit to a table with encoded columns and one to numbers"
            )
        if hasattr(self, "_table"):
            self._table = merged(self._table, other._table)
        else:
            mine.merge(theirs)
        return self

    def _exact(self, asked: str) -> ExactLearner:
        learner = self.learner_
        if not isinstance(learner, ExactLearner):
            raise AttributeError(
                f"{asked} needs method='exact', but this model was fitted by {learner.method!r}"
            )
        return learner

    def _plain(self, kind: Any) -> Any:
        """Return an estimator of scikit-learn with the weights of this one."""
        kind.coef_, kind.intercept_ = np.array(self.coef_), np.array(self.intercept_)
        kind.n_features_in_ = kind.coef_.shape[-1]
        if hasattr(self, "_table") or hasattr(self, "feature_names_in_"):
            kind.feature_names_in_ = np.array(self._names, dtype=object)
        return kind

    @abstractmethod
    def _targets(self, y: Array) -> Array:
        """Convert targets to those of the loss."""

    @property
    def coef_(self) -> Array:
        """One row of weights per class, a single row for two classes; a vector of a regressor."""
        weights = self.learner_.weights
        return weights[:, :-1] if self.fit_intercept else weights

    @property
    def intercept_(self) -> Array:
        """One intercept per row of weights."""
        weights = self.learner_.weights
        return weights[:, -1] if self.fit_intercept else np.zeros(len(weights))

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the fit as plain values and arrays."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        found = {
            "n_features_in": self.n_features_in_,
            "feature_names_in": None if names is None else list(names),
        }
        if hasattr(self, "_table"):
            return {**found, "table": self._table.state_dict()}
        return {**found, "dtype": self._learner.dtype.name, "learner": self._learner.state_dict()}

    def _load(self, state: dict[str, Any], loss: Callable[[], Loss]) -> Self:
        before = dict(self.__dict__)
        try:
            with loading("estimator"):
                columns = check_whole(state["n_features_in"], "n_features_in of the state")
                self.n_features_in_ = columns
                self.__dict__.pop("feature_names_in_", None)
                if state["feature_names_in"] is not None:
                    names = state["feature_names_in"]
                    if not isinstance(names, list) or [*map(type, names)] != [str] * columns:
                        raise ValueError(f"feature_names_in of the state must be {columns} names")
                    self.feature_names_in_ = np.array(names, dtype=object)
                self._forget()
                self._fit_parameters, own = None, loss()
                if "table" in state:
                    self._table = StreamFit.from_state(state["table"])
                    if self._table.row_loss != own:
                        raise ValueError("the state is of a fit with another loss")
                    return self
                dtype = check_one_of(state["dtype"], "dtype of the state", ("float64", "float32"))
                check_room(state["learner"], columns, "estimator")
                learner = self._new_learner(own, np.dtype(dtype))
                learner.load_state_dict(state["learner"])
                self._learner = learner
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self


def check_unmasked(values: Any, name: str) -> None:
    """Raise ValueError for masked values, whose masks NumPy's functions would drop."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} has masked values: fill them, or leave out their rows")


def check_weights(sample_weight: Any, X: Any, part: bool) -> Array:
    """Check sample weights; with ``part``, all of them may be 0."""
    check_unmasked(sample_weight, "sample_weight")
    given = np.asarray(sample_weight)
    if part and given.shape == (X.shape[0],) and given.dtype.kind in "biuf" and not given.any():
        return np.zeros(X.shape[0])
    weights: Array = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    return weights
