"""What the estimators know about a fit: weights, predictions, intervals, correlation of rows."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from mixfree.base.arithmetic import Array
from mixfree.base.checks import shown
from mixfree.linear.exact.batch_means import Wald
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.learner_for import LinearLearner
from mixfree.linear.summary import Summary, summary_of
from mixfree.sklearn.encoder import StreamEncoder
from mixfree.sklearn.tables import encoded, read
from mixfree.steps import CorrelationScale, Profile
from mixfree.steps.profile import BLOCK_AT_HALF, SUM_AT_HALF
from mixfree.streams.columns.kinds import matching
from mixfree.streams.fit.stream_fit import StreamFit

# What validate_data takes for rows of numbers, in fits and in predictions.
ROWS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


class Results(BaseEstimator):
    """The part of an estimator that describes its fit."""

    fit_intercept: bool
    _fit: Any  # a learner of rows of numbers, or a StreamFit to tables

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fit")

    @property
    def _table(self) -> StreamFit | None:
        """The fit to tables, with an encoder of their columns; None for rows of numbers."""
        return self._fit if isinstance(getattr(self, "_fit", None), StreamFit) else None

    @property
    def learner_(self) -> LinearLearner:
        """The learner: an exact one, or one with an ``optimizer``."""
        check_is_fitted(self)
        found: LinearLearner = self._fit if (table := self._table) is None else table.model.learner
        return found

    @property
    def encoder_(self) -> StreamEncoder:
        """The encoder of the columns of tables."""
        if (table := self._table) is None:
            raise AttributeError("encoder_ is for fits to tables: these rows were numbers")
        found, design, why = StreamEncoder(), table.model.design, table.unused_columns
        found.encoder_, found.design_, found._why = table.encoder, design, why
        found.left_out_, found.n_samples_seen_ = {**why, **design.left_out}, table.used
        return found

    @property
    def _names(self) -> list[str]:
        if (table := self._table) is not None:
            return table.model.features
        given = getattr(self, "feature_names_in_", None)
        return [f"x{k}" for k in range(self.n_features_in_)] if given is None else list(given)

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

    def _predictions(self, X: Any) -> Array:
        """Return predictions: one column per output if there are several."""
        check_unmasked(X=X)
        learner = self.learner_
        return np.concatenate([learner.predict(rows) for rows in self._features(X)])

    def _features(self, X: Any) -> Iterator[Any]:
        """Yield the features of rows to predict, batch after batch if the fit is one to tables."""
        if (table := self._table) is not None:
            yield from encoded(table.encoder, table.model.design, X)
            return
        yield validate_data(self, read(X), reset=False, **ROWS)

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
        """Number of rows over which gradients stay correlated; None if the method has none."""
        profile = self.profile_
        # Iterative methods profile differences of blocks, the exact method sums.
        at_half = SUM_AT_HALF if isinstance(self.learner_, ExactLearner) else BLOCK_AT_HALF
        return None if profile is None else profile.correlation_scale(at_half)

    @property
    def optimality_gap_(self) -> float:
        """95 % upper bound on the mean loss above that of the fit to all rows (exact only)."""
        return self._exact("optimality_gap_").gap.upper

    @property
    def effective_rows_(self) -> float:
        """Effective sample size: equivalent number of independent rows (exact method only)."""
        return self._exact("effective_rows_").inference.effective_rows

    @property
    def bse_(self) -> Array:
        """Standard errors, like :attr:`coef_` with the intercept last (exact method only)."""
        return self._like_coef(self._exact("bse_").inference.bse)

    @property
    def pvalues_(self) -> Array:
        """P-values of weights being 0, like :attr:`coef_` with the intercept last (exact only)."""
        return self._like_coef(self._exact("pvalues_").inference.p_values)

    def conf_int(self, alpha: float = 0.05, anytime: bool = False) -> Array:
        """Return intervals of the weights at level 1 − alpha, for correlated rows (exact only).

        One row per feature, then the intercept; one such table per row of :attr:`coef_` if there
        are several. With ``anytime``, all intervals after every chunk contain the weight with
        probability 1 − alpha, for streams that are watched from about 1,000 rows on.
        """
        found = self._exact("conf_int").inference.conf_int(alpha, anytime)
        return found[0] if len(found) == 1 else found

    def wald(self, names: Sequence[str | int] | str) -> Wald:
        """Test that the weights of several features are all 0 (exact method only).

        ``names`` are names of features, or their places; ``"sky=*"`` is all that begin so.

        Examples
        --------
        >>> from mixfree.sklearn import StreamRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(4000, 3))
        >>> model = StreamRegressor().fit(X, X[:, 0] + rng.normal(size=4000))
        >>> bool(model.wald([0, 1]).p_value < 0.001), bool(model.wald(["x1", "x2"]).p_value > 0.05)
        (True, True)
        """
        known, asked = self._names, [names] if isinstance(names, str) else names
        places = set[int]()
        for name in asked:
            found = matching([name], known) if isinstance(name, str) else known[name : name + 1]
            if not found:
                raise ValueError(f"there is no feature {shown(name)}: {shown(known)}")
            places |= {known.index(each) for each in found}
        return self._exact("wald").inference.wald(sorted(places))

    def summary(self, alpha: float = 0.05) -> Summary:
        """Return the table of the fit: weights, standard errors, t, p and intervals."""
        labels, groups = getattr(self, "classes_", ()), {}
        if (table := self._table) is not None:
            pairs = zip(table.encoder.columns, table.model.design.ranges, strict=True)
            groups = {f"{c.name} as a whole": range(*ends) for c, ends in pairs if np.ptp(ends) > 1}
        return summary_of(self._exact("summary"), self._names, labels, groups, alpha)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Show the table of an exact fit in a notebook, instead of the parameters."""
        found: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        fitted = self.__sklearn_is_fitted__() and isinstance(self.learner_, ExactLearner)
        if "text/html" in found and fitted:
            found["text/html"] = self.summary()._repr_html_()
        return found

    def _repr_html_inner(self) -> str:
        return self._repr_mimebundle_()["text/html"]

    def _like_coef(self, found: Array) -> Array:
        return found[0] if np.ndim(self.coef_) == 1 else found

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
        if hasattr(self, "feature_names_in_"):
            kind.feature_names_in_ = np.array(self._names, dtype=object)
        return kind


def check_unmasked(**given: Any) -> None:
    """Raise ValueError for masked values, whose masks NumPy's functions would drop."""
    for name, values in given.items():
        if np.ma.is_masked(values):
            raise ValueError(f"{name} has masked values: fill them, or leave out their rows")
