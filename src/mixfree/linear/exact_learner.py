"""The exact learner, whose result does not depend on the order of the rows."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeGuard

import numpy as np
import numpy.typing as npt
from scipy import sparse

from mixfree.base.arithmetic import Array, one_thread
from mixfree.base.checks import check_whole, shown
from mixfree.base.state import loading
from mixfree.linear.ahead import WINDOWS, Ahead
from mixfree.linear.exact.batch_means import BatchMeans
from mixfree.linear.exact.blocks import PARTS
from mixfree.linear.exact.forgetting import Forgetting
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.solve import dependent
from mixfree.linear.exact.squared import SquaredFit
from mixfree.linear.glm.fit import GlmFit
from mixfree.linear.glm.inference import Gap
from mixfree.linear.losses import Loss, Squared, predictions
from mixfree.steps import Profile


def knows_intervals(learner: Any) -> TypeGuard["ExactLearner"]:
    """Whether a learner has confidence intervals, and a profile at fixed weights."""
    return isinstance(learner, ExactLearner) and learner.forgetting is None


class ExactLearner:
    """Learns the weights of a linear model exactly; the chunking of the rows does not matter.

    Parameters are as for the estimators. The squared loss keeps no rows for its weights; bytes of
    memory limit the sums behind its intervals. All arithmetic is in double precision. If the
    learner ``looks_ahead``, some rows are predicted before they are learnt, for intervals of new
    rows.
    """

    method = "exact"

    def __init__(
        self,
        loss: Loss,
        columns: int,
        *,
        dtype: npt.DTypeLike = np.float64,
        intercept: bool = True,
        l2: float | None = 0.0,
        half_life: float | str | None = None,
        memory: int | str = "32MB",
        seed: int = 0,
        looks_ahead: bool = False,
    ) -> None:
        self.loss, self.dtype = loss, np.dtype(dtype)
        self._fit: SquaredFit | Forgetting | GlmFit
        if not isinstance(loss, Squared):
            if half_life is not None:
                raise ValueError(f"`half_life` needs `loss='squared'`, not {shown(loss)}")
            self._fit = GlmFit(loss, columns, intercept=intercept, l2=l2, memory=memory, seed=seed)
        elif not isinstance(memory, str):
            rows = check_whole(memory, "memory")
            raise ValueError(
                f"`memory={rows}` keeps rows, and the exact fit with the squared loss needs "
                "none: leave it out, give bytes such as '32MB', or name a `method`"
            )
        elif half_life is None:
            self._fit = SquaredFit(columns, intercept=intercept, l2=l2 or 0.0, memory=memory)
        else:
            self._fit = Forgetting(columns, half_life, intercept=intercept, l2=l2 or 0.0)
        self._ahead: Ahead | None = None
        if looks_ahead:
            # A fit to kept rows takes as long as learning some thousand rows.
            quick = isinstance(self._fit, SquaredFit)
            renewals = WINDOWS if half_life is not None else PARTS if quick else PARTS // 2
            self._ahead = Ahead.begin(loss.outputs, columns, intercept, renewals)

    @property
    @one_thread
    def weights(self) -> Array:
        """Weights in the units of the rows: one row per output, the intercept last."""
        weights = self._fit.weights()
        with np.errstate(over="ignore"):
            rounded = weights.astype(self.dtype)
        # The weight of a tiny column may be too large for single precision.
        return rounded if np.isfinite(rounded).all() else weights

    @property
    @one_thread
    def quick_weights(self) -> Array:
        """Weights to predict the next rows: on long streams they are only nearly the best ones."""
        return self._fit.quick_weights() if isinstance(self._fit, GlmFit) else self.weights

    @property
    def columns(self) -> int:
        """Number of features."""
        return self._fit.columns

    @property
    def samples(self) -> int:
        """Rows learnt from."""
        return self._fit.samples

    @property
    def forgetting(self) -> Forgetting | None:
        """Half-lives, their shares and their losses; None if nothing is forgotten."""
        return self._fit if isinstance(self._fit, Forgetting) else None

    def _remembering(self, what: str) -> SquaredFit | GlmFit:
        """Return the fit, which must forget nothing."""
        if isinstance(self._fit, Forgetting):
            raise ValueError(f"{what} half_life=None, with which no row is forgotten")
        return self._fit

    @property
    @one_thread
    def inference(self) -> BatchMeans:
        """Intervals and the correlation profile of the fit."""
        return self._remembering("intervals need").inference

    def advance(self, rows: Any, targets: Array, weights: Array | None = None) -> None:
        """Learn from rows in order, dense or sparse: from all of them or, with an error, none."""
        targets = np.asarray(targets)
        (self._advance if targets.size == 1 else self._advance_many)(rows, targets, weights)

    def _advance(self, rows: Any, y: Array, weights: Array | None) -> None:
        # Made beside and swapped: an error leaves nothing learnt.
        fit, ahead, done = self._fit.successor(), self._ahead, 0
        x = rows if hasattr(rows, "shape") else np.asarray(rows)
        if ahead is None or y.ndim != 1 or x.shape != (len(y), self.columns):
            fit.add(rows, y, weights)
            self._fit = fit
            return
        w, after = None if weights is None else np.asarray(weights), copy.copy(ahead)

        def part(start: int, stop: int | None) -> tuple[Any, Array, Array | None]:
            return x[start:stop], y[start:stop], None if w is None else w[start:stop]

        for start, stop, renewed in after.windows(len(y), w):
            if renewed:
                fit.add(*part(done, start))
                done, after.weights = start, fit.rough_weights()
            after.predict(*part(start, stop))
        fit.add(*part(done, None))
        vars(self).update(_fit=fit, _ahead=after)

    _advance_many = one_thread(_advance)

    @property
    def ahead(self) -> Ahead:
        """Predictions of rows before they were learnt, for intervals of new rows."""
        if self._ahead is None:
            raise ValueError("no rows were predicted before they were learnt")
        return self._ahead

    def predict(self, rows: Any) -> Array:
        """Return predictions: one column per output, or a vector if there is only one."""
        return predictions(self.weights.ravel(), rows, self.loss.outputs)

    def losses(self, rows: Any, targets: Array) -> Array:
        """Return the loss of each row, without regularisation."""
        return np.asarray(self.loss.value(self.predict(rows), targets))

    @one_thread
    def merge(self, other: Self) -> None:
        """Add the rows of another learner, as if they followed; ``other`` is unchanged."""
        if self.loss != other.loss:
            raise ValueError(f"cannot merge a fit with {other.loss!r} into one with {self.loss!r}")
        fit: Any = self._remembering("merge needs").successor()
        fit.merge(other._remembering("merge needs"))
        ahead = copy.copy(self._ahead)
        if ahead is not None and other._ahead is not None:
            ahead.merge(other._ahead)
        vars(self).update(_fit=fit, _ahead=ahead)  # both or neither, also after Ctrl-C

    def grow(self, columns: int) -> None:
        """Add columns, so that there are ``columns``; they were 0 in all rows so far."""
        columns = check_whole(columns, "columns", least=self.columns)
        vars(self).update(vars(self.placed(np.arange(self.columns), columns)))

    def placed(self, places: npt.ArrayLike, columns: int) -> Self:
        """Return a learner of ``columns`` columns, where column i of this one is ``places[i]``.

        The other columns were 0 in all rows so far. Learners of different columns can be merged
        once each is placed among the columns of both.
        """
        every = sparse.eye_array(columns, format="csr")
        return self.mapped(every[np.asarray(places, dtype=np.intp)])

    @one_thread
    def mapped(self, matrix: Any) -> Self:
        """Return a learner of the rows ``z @ matrix`` for all rows z of this one.

        Exact for the squared loss. Test-then-train losses of half-lives stay those of this
        learner's columns. Columns of the matrix, dense or sparse, that select one of this learner's
        columns, or are 0, cost next to nothing.
        """
        change = ColumnMap(matrix)
        if change.before != self.columns:
            raise ValueError(f"a map of {self.columns} columns is needed, not of {change.before}")
        found = copy.copy(self)
        found._fit = self._fit.mapped(change)
        found._ahead = None if self._ahead is None else self._ahead.mapped(change)
        return found

    @one_thread
    def solved(self, matrices: Sequence[Any]) -> list[tuple[Array, float]] | None:
        """Return the weights of :meth:`mapped` and their mean squared errors, per matrix.

        Cheaper, since intervals are not prepared. None for other losses than the squared one.
        """
        fit = self._fit
        return fit.solved([*map(ColumnMap, matrices)]) if isinstance(fit, SquaredFit) else None

    @one_thread
    def determined(self, matrix: Any) -> Array:
        """Return which columns of :meth:`mapped` are combinations of those before them."""
        return dependent(self._fit.columns_alone().mapped(ColumnMap(matrix)).scatter)

    def column_sums(self) -> Array:
        """Return the sum of each column over all rows, which must have no weights."""
        return self._fit.column_sums()

    def mean_squares(self, weights: Array) -> tuple[float, float] | None:
        """Return the mean squares of the errors of ``weights`` and of the mean; None if unknown."""
        return self._fit.mean_squares(weights) if isinstance(self._fit, SquaredFit) else None

    def mean_losses(self) -> tuple[float, float] | None:
        """Return the mean losses of the fit and of the best constant; None if not known."""
        fit = self._fit
        return fit.mean_losses() if isinstance(fit, GlmFit) else self.mean_squares(fit.weights())

    @property
    def explained(self) -> float | None:
        """Share of the best constant's loss that the model removes; None if it is not known."""
        found = self.mean_losses()
        return None if found is None or not found[1] > 0.0 else 1.0 - found[0] / found[1]

    @property
    @one_thread
    def gap(self) -> Gap:
        """Loss above that of the fit to all rows: an estimate and a 95 % upper bound."""
        return self._fit.inference.gap if isinstance(self._fit, GlmFit) else Gap()

    @property
    def ridge(self) -> float:
        """The ridge that was added because no weights were best; 0 where there are best ones."""
        return self._fit.ridge if isinstance(self._fit, GlmFit) else 0.0

    def mean_interval(self, rows: Any, level: float = 0.95) -> tuple[Array, Array]:
        """Return the ends of intervals of the predicted means, each shaped like predictions."""
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        inference, middle = self.inference, self.predict(dense)
        errors = inference.mean_error(dense).reshape(middle.shape)
        half = inference.quantile(1.0 - level) * errors
        return middle - half, middle + half

    def profile(self) -> Profile | None:
        """Return the variance inflation by block length; None with a half-life."""
        return None if self.forgetting is not None else self.inference.profile

    def state_dict(self) -> dict[str, Any]:
        """Return the state as numbers and copies of arrays."""
        ahead = {} if self._ahead is None else {"ahead": self.ahead.plain()}
        return self._fit.plain() | ahead

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a learner of the same arguments; an error changes nothing."""
        of_fit = {name: value for name, value in state.items() if name != "ahead"}
        with loading("exact learner"):
            fit = self._fit.restored(of_fit, "exact learner")
            ahead = None if self._ahead is None else self.ahead.restored(state["ahead"], "ahead")
        vars(self).update(_fit=fit, _ahead=ahead)
