"""Least squares in one pass: the sums of a stream, the fit to them, and its intervals."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_bytes, check_not_negative, check_positive, check_whole
from mixfree.base.state import State, shallow
from mixfree.linear.exact.batches import Batches
from mixfree.linear.exact.drift import Forgetting
from mixfree.linear.exact.inference import Inference
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.solve import Solution, solve
from mixfree.linear.exact.sums import Sums

ROUNDING = 1e-10  # relative size of an error that may be due to the rounding of its sums


class SquaredFit(State):
    """Fits a linear model with the squared loss to a stream, exactly and in any order.

    Parameters
    ----------
    columns
        Number of features, of values up to 1e75. Their offsets cost no digits, and one that
        varies by less than 1e-75 counts as constant.
    intercept, l2, radius
        As in :func:`mixfree.linear.exact.solve.solve`.
    half_life
        Number of rows after which a row counts half, or ``"auto"``; None never forgets.
    memory
        Bytes such as ``"32MB"``, for the sums and rows behind the intervals.

    Examples
    --------
    >>> fit = SquaredFit(1)
    >>> fit.add(np.arange(100.0)[:, None], 3.0 * np.arange(100.0) + 1.0)
    >>> fit.weights()
    array([[3., 1.]])
    """

    def __init__(
        self,
        columns: int,
        *,
        intercept: bool = True,
        l2: float = 0.0,
        radius: float | None = None,
        half_life: float | str | None = None,
        memory: str = "32MB",
    ) -> None:
        self.l2, self.intercept = check_not_negative(l2, "l2"), bool(intercept)
        self.radius = None if radius is None else check_positive(radius, "radius")
        self.columns, self.samples = check_whole(columns, "columns", least=0), 0
        self._sums: Batches | Forgetting
        if half_life is None:
            self._sums = Batches(self.columns, memory=int(check_bytes(memory, "memory")))
        else:
            self._sums = Forgetting(
                self.columns,
                half_life=half_life,
                intercept=self.intercept,
                l2=self.l2,
                radius=self.radius,
            )
        self._solution: Solution | None = None
        self._inference: Inference | None = None

    @property
    def forgetting(self) -> Forgetting | None:
        """The sums of several half-lives; None if nothing is forgotten."""
        return self._sums if isinstance(self._sums, Forgetting) else None

    @property
    def solution(self) -> Solution:
        """The fit to all rows so far."""
        if self._solution is None:
            if isinstance(self._sums, Forgetting):
                self._solution = self._sums.solution
            else:
                self._solution = self._fitted(self._sums.total)
        return self._solution

    @property
    def inference(self) -> Inference:
        """Intervals and the correlation profile of the fit."""
        if isinstance(self._sums, Forgetting):
            raise ValueError(
                "intervals need half_life=None: they come from batches, which are not forgotten"
            )
        if self._inference is None:
            total = self._sums.total
            self._inference = Inference(self._sums, total, self.solution, intercept=self.intercept)
        return self._inference

    def weights(self) -> Array:
        """Return one row, in the units of the rows; an intercept is last."""
        return self.solution.weights

    rough_weights = weights  # solved for as quickly

    def _fitted(self, sums: Sums) -> Solution:
        return solve(sums, l2=self.l2, radius=self.radius, intercept=self.intercept)

    def mean_squares(self, weights: Array) -> tuple[float, float] | None:
        """Return the mean squared errors of any weights and of the targets' mean, over all rows.

        None if rows are forgotten, or if rounding errors of the sums hide the error.

        Examples
        --------
        >>> fit = SquaredFit(1)
        >>> fit.add(np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 4.0, 2.0]))
        >>> fit.mean_squares(np.array([[1.0, 0.0]]))
        (3.0, 2.6666666666666665)
        """
        return (
            None if isinstance(self._sums, Forgetting) else self._errors(self._sums.total, weights)
        )

    def solved(self, changes: Sequence[ColumnMap]) -> list[tuple[Array, float]]:
        """Return the weights of mapped columns and their mean squared error, per map.

        The error is 0 if rounding errors of the sums hide it.
        """
        if isinstance(self._sums, Forgetting):
            raise ValueError("solved needs half_life=None")
        total, found = self._sums.total, []
        for sums in (total.mapped(change) for change in changes):
            weights = self._fitted(sums).weights
            errors = self._errors(sums, weights)
            found.append((weights, 0.0 if errors is None else errors[0]))
        return found

    def column_sums(self) -> Array:
        """Return the sum of each column over all rows."""
        if isinstance(self._sums, Forgetting):
            raise ValueError("sums of columns need half_life=None")
        return self._sums.column_sums()

    def _errors(self, sums: Sums, weights: Array) -> tuple[float, float] | None:
        with np.errstate(all="ignore"):  # a result that is not finite is unknown
            slopes = weights[0, : len(sums.scatter)]
            level = weights[0] @ np.append(sums.mean[:-1], [1.0] * self.intercept) - sums.mean[-1]
            apart, spread = sums.weight * level**2, sums.squares[0]
            explained = 2.0 * slopes @ sums.cross[:, 0] - slopes @ sums.scatter @ slopes
            error = spread - explained + apart
            size = (np.abs(slopes) @ np.sqrt(np.diagonal(sums.scatter))) ** 2 + spread + apart
            found = np.array([error, spread]) / sums.weight
        known = error > ROUNDING * size and np.isfinite(found).all()
        return (float(found[0]), float(found[1])) if known else None

    def successor(self) -> Self:
        """Return a copy that shares all sums; only one of the two may be continued."""
        twin = shallow(self)
        twin._sums = self._sums.successor()
        return twin

    def add(self, rows: Any, targets: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> None:
        """Add rows in order, dense or sparse, of any real dtype.

        Raises
        ------
        ValueError
            If a shape is wrong, or a value is not finite or above 1e75; go on with the predecessor.
        """
        self._sums.add(rows, targets, weights)
        self.samples += np.shape(targets)[0]
        self._forget_fit()

    def merge(self, other: Self) -> None:
        """Add all rows of ``other``, as if they followed; ``other`` is unchanged."""
        if isinstance(self._sums, Forgetting) or isinstance(other._sums, Forgetting):
            raise ValueError(
                "merge needs half_life=None, since it is not known which rows are older"
            )
        self._sums.merge(other._sums)
        self.samples += other.samples
        self._forget_fit()

    def mapped(self, change: ColumnMap) -> Self:
        """Return a fit to the same rows with mapped columns; both may be continued."""
        twin = shallow(self)
        twin._sums, twin.columns = self._sums.mapped(change), change.after
        twin._forget_fit()
        return twin

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The attributes to save."""
        return "samples", "_sums"

    def restored(self, plain: Any, what: str) -> Self:
        """Return the fit from which ``plain`` was made, after checking it."""
        found = super().restored(plain, what)
        found._forget_fit()
        return found

    def _forget_fit(self) -> None:
        self._solution = self._inference = None
