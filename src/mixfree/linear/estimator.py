"""What the two estimators share: one run of an optimiser over the rows, in their order."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.core.contest import Choice
from mixfree.core.methods import Method, OptionError
from mixfree.linear.choice import EXACT_WEIGHTS, LinearLearner, learner_for
from mixfree.linear.exact.learner import ExactLearner
from mixfree.linear.losses import Loss
from mixfree.linear.scaling import TooFar


class StreamModel(BaseEstimator, ABC):
    """A linear model fitted in one pass to rows in the given order.

    Parameters
    ----------
    method
        ``"auto"``: exact up to 1,000 weights per output, the ladder above. ``"exact"``: the fit
        of all rows, whatever their order, from sums over the stream and a reservoir of rows. Or
        a name of the table of methods (:func:`mixfree.methods`), or a class derived from
        :class:`mixfree.Method`.
    memory
        What may be kept of the stream: rows, such as ``2048``, or bytes, such as ``"32MB"``, the
        exact method's default. Methods with steps draw from the rows kept, a uniform sample of
        all rows so far, at every step; 0 keeps nothing, the default of all but the ladder.
        ``"auto"``, the ladder's default: about 1,000 rows are never learnt from and choose
        between memory and none, one rate and one per weight, and three outputs (see
        :attr:`choice_`); it takes about four times as long.
    draws
        Draws from the memory per row, for methods with steps; 1 by default.
    half_life
        Of the exact method with squared loss: rows after which a row counts half, or ``"auto"``
        for the mixture of half-lives that has predicted best lately. ``None`` forgets nothing.
    step_scale
        α, the scale of the steps; ``None`` is 1, or D/√2 in a ball of diameter D, and the ladder
        finds its own. For mag and adagrad it is in the units of the weights: give about the size
        of the target. (scikit-learn's ``alpha``, the strength of regularisation, is ``l2`` here.)
    fit_intercept
        Whether there is an intercept.
    l2
        Adds ½·l2·‖weights‖² to every row's loss. The exact method leaves the intercept free;
        methods with steps include it. ``None`` is 0, or, for the exact method with classes, as
        little as keeps the weights finite where the classes can be separated.
    radius
        Keeps the weights in a ball of this radius around the origin.
    scale
        For methods with steps. ``"running"`` standardises the features by what has been seen of
        the stream so far; ``step_scale``, ``l2`` and ``radius`` then refer to the standardised
        features, while ``coef_`` and ``intercept_`` are in the original units. ``None`` takes
        the features as they are. ``"auto"`` is ``"running"``, except for sparse rows and for
        methods that replay old rows.
    epochs
        Passes that ``fit`` makes over the rows, each in the given order; the exact method needs
        one. Rows that ``memory="auto"`` holds out in one pass are learnt from in others.
    output
        ``"average"``, ``"weighted"``, ``"tail"``, ``"last"`` or ``"random"``; the method's own
        unless given.
    options
        Further options of the method by name, for instance ``{"levels": 6}`` or
        ``{"mixing_time": 100}``.
    seed
        Seed of every random draw.

    Attributes
    ----------
    coef_, intercept_
        The weights, as scikit-learn's linear models have them.
    n_samples_seen_
        Rows learnt from, epochs counted.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    """

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
        """Put the shared parameters where a docstring has ``{shared}``, for ``help`` to show."""
        super().__init_subclass__(**kwargs)
        if cls.__doc__ and StreamModel.__doc__:
            own, shared = inspect.cleandoc(cls.__doc__), inspect.cleandoc(StreamModel.__doc__)
            cls.__doc__ = own.replace("{shared}", shared.partition("----------\n")[2])

    @property
    def learner_(self) -> LinearLearner:
        """What learns: an exact learner, or one whose ``optimizer`` can be looked at."""
        check_is_fitted(self)
        return self._learner

    @property
    def n_samples_seen_(self) -> int:
        """Rows learnt from, epochs counted."""
        return self.learner_.samples

    @property
    def choice_(self) -> Choice | None:
        """What ``memory="auto"`` has chosen, and by how much; None for other fits."""
        return getattr(self.learner_, "choice", None)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[Any, Array]:
        if not reset and self._plain(X, y):
            return X, y
        checked: tuple[Any, Array] = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            reset=reset,
            ensure_all_finite=not self._learner_looks(X),
        )
        return checked

    def _plain(self, X: Any, y: Any) -> bool:
        """Whether the rows that follow need no check of scikit-learn's.

        Its checks take longer than learning from a few rows does.
        """
        return (
            type(X) is np.ndarray
            and type(y) is np.ndarray
            and X.dtype in (np.float64, np.float32)
            and X.ndim == 2
            and y.shape == X.shape[:1]
            and X.shape[0] > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
            and self._learner_looks(X)
            and (y.dtype.kind in "biu" or (y.dtype.kind == "f" and bool(np.isfinite(y).all())))
        )

    def _learner_looks(self, X: Any) -> bool:
        """Whether the learner itself sees what is not finite, which saves a pass over the rows."""
        columns = X.shape[1] if isinstance(X, np.ndarray) and X.ndim == 2 else EXACT_WEIGHTS
        exact = self.method == "exact" or (self.method == "auto" and columns < EXACT_WEIGHTS)
        return isinstance(X, np.ndarray) and (exact or self.scale is None)

    def _new_learner(self, loss: Loss, dtype: Any) -> LinearLearner:
        check_whole(self.epochs, "epochs")
        parameters = self.get_params(deep=False)
        del parameters["loss"], parameters["epochs"]
        try:
            return learner_for(loss, self.n_features_in_, dtype, **parameters)
        except OptionError as error:
            raise OptionError(f"{error}, as in options={{'name': value}}") from None

    def _learn(
        self, learner: LinearLearner, X: Any, targets: Array, sample_weight: Any, epochs: int = 1
    ) -> Self:
        """Let the learner have the rows; it becomes the estimator's own when that has worked."""
        factors = None
        if sample_weight is not None:
            factors = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        try:
            for _ in range(1 if isinstance(learner, ExactLearner) else epochs):
                learner.advance(X, targets, factors)
        except TooFar as error:
            if hasattr(self, "feature_names_in_"):
                raise error.named(self.feature_names_in_.tolist()) from None
            raise
        except ValueError:
            assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
            raise
        self._learner = learner
        return self

    def _predictions(self, X: Any) -> Array:
        """Predictions of every output: one column per output if there are several."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._learner.predict(X)

    def losses(self, X: Any, y: Any) -> Array:
        """Loss of each row, regularisation left out."""
        values: Array = self._learner.loss.value(self._predictions(X), self._targets(np.asarray(y)))
        return values

    @property
    def optimality_gap_(self) -> float:
        """95 % upper bound of the mean loss above that of the fit to all rows. Exact method only.

        0 for the squared loss, and for others while all rows fit into the memory.
        """
        return self._exact("optimality_gap_").gap.upper

    @property
    def effective_rows_(self) -> float:
        """Effective sample size: independent rows that would tell as much. Exact method only."""
        return self._exact("effective_rows_").effective_rows

    def merge(self, other: Self) -> Self:
        """Take all that another fit has learnt, as if its rows had followed. Exact method only.

        Examples
        --------
        >>> from mixfree.sklearn import StreamRegressor
        >>> X, y = np.arange(8.0)[:, None], np.arange(8.0) ** 2
        >>> parts = [StreamRegressor().fit(X[k::2], y[k::2]) for k in (0, 1)]
        >>> both = parts[0].merge(parts[1])
        >>> bool(np.allclose(both.coef_, StreamRegressor().fit(X, y).coef_))
        True
        """
        self._exact("merge").merge(other._exact("merge"))
        return self

    def _exact(self, asked: str) -> ExactLearner:
        learner = self.learner_
        if not isinstance(learner, ExactLearner):
            raise AttributeError(
                f"{asked} needs method='exact', and this model was fitted by another"
            )
        return learner

    @abstractmethod
    def _targets(self, y: Array) -> Array:
        """Targets as the loss wants them."""

    def _coefficients(self) -> tuple[Array, Array]:
        weights = self.learner_.weights
        columns = self.n_features_in_
        intercept = weights[:, columns] if self.fit_intercept else np.zeros(len(weights))
        return weights[:, :columns], intercept

    def state_dict(self) -> dict[str, Any]:
        """What the fit has come to, as plain values and arrays."""
        names = getattr(self, "feature_names_in_", None)
        return {
            "n_features_in": self.n_features_in_,
            "feature_names_in": None if names is None else list(names),
            "dtype": self.learner_.dtype.name,
            "learner": self._learner.state_dict(),
        }

    def _load(self, state: dict[str, Any], loss: Loss) -> Self:
        self.n_features_in_ = int(state["n_features_in"])
        if state["feature_names_in"] is not None:
            self.feature_names_in_ = np.array(state["feature_names_in"], dtype=object)
        learner = self._new_learner(loss, np.dtype(state["dtype"]))
        learner.load_state_dict(state["learner"])
        self._learner = learner
        return self
