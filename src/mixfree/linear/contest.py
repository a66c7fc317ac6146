"""A linear learner that may return the fit to a uniform sample of the rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array, narrowed
from mixfree.base.interrupts import interrupts_wait
from mixfree.base.sample import UniformSample
from mixfree.core.contest import Choice, Contest
from mixfree.linear.learner import Learner, dense
from mixfree.linear.losses import Loss, has_twin, linear_gradient, loss_twin, predictions
from mixfree.linear.scaling import Units, gradients_in, original, points_in

SOME = 1 << 12  # kept rows from which the units of the fit are computed, at least
ROUNDING = 1e-9  # a column that varies less, relative to its values, counts as constant


class ChoosingLearner(Learner):
    """Learns by steps without memory, keeps a uniform sample of the rows, and fits it on request.

    The weights are the output of the run or the fit, whichever has the lower loss: see
    :class:`mixfree.core.contest.Contest`. If the first rows are sparse, none are kept.

    Parameters
    ----------
    *args, **settings
        As for :class:`Learner`, except for ``memory`` and ``draws``.

    Examples
    --------
    >>> from mixfree.linear.losses import Squared
    >>> rng = np.random.default_rng(0)
    >>> rows = np.repeat(rng.standard_normal((10, 2)), 400, axis=0)   # 400 alike in a row
    >>> learner = ChoosingLearner(Squared(), 2)
    >>> learner.advance(rows, rows @ [1.0, 2.0] + rng.standard_normal(4000))
    >>> learner.choice.fitted
    True
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._contest: Contest | None = None  # until there are rows, and for sparse ones

    @property
    def choice(self) -> Choice | None:
        """What was chosen, and by which margin; None before the first row and for sparse rows."""
        return None if self._contest is None else self._chosen(self._contest)[0]

    @property
    def fits(self) -> bool:
        """Whether requesting the weights after new rows takes as long as a fit."""
        return self._contest is not None

    @property
    def weights(self) -> Array:
        """The chosen weights in the units of the rows: one row per output, the intercept last."""
        if self._contest is None:
            return super().weights
        _, point = self._chosen(self._contest)
        return narrowed(point, self.dtype).reshape(self.loss.outputs, -1)

    def advance(self, rows: Any, targets: Array, weights: Array | None = None) -> None:
        """Learn from rows in order: from all of them, or from none if there is an error."""
        contest = self._contest
        if contest is None and self.samples == 0 and not hasattr(rows, "indptr"):
            contest = self._new_contest()
        if contest is None:
            super().advance(rows, targets, weights)
            return
        rows = dense(rows)
        with interrupts_wait():
            super().advance(rows, targets, weights)
            if len(rows):
                self._contest = contest
                self._keep(contest, rows, targets, weights)

    def _new_contest(self) -> Contest:
        (_, start, _), common = self._common
        objective = LinearObjective(self.loss, self.columns, self._intercept)
        return Contest(start, objective, values=self.columns + 2, seed=common["seed"])

    def _keep(self, contest: Contest, rows: Array, targets: Array, weights: Array | None) -> None:
        columns = [
            np.asarray(rows, self.dtype),
            np.asarray(targets, np.float64),
            np.ones(len(targets)) if weights is None else np.asarray(weights, np.float64),
        ]

        def add(x: Array, now: slice, out: Array) -> None:
            rows, targets, weights = (column[now] for column in columns)
            add_gradients(self.loss, x, rows, targets, weights, out)

        contest.offer(columns, add)

    def _chosen(self, contest: Contest) -> tuple[Choice, Array]:
        """The choice, and the chosen weights in the units of the rows, as one vector."""
        own = original(self.columns)
        units = own if self._scale is None else self._scale.units
        outputs, domain = self.loss.outputs, self._optimizer.domain

        def project(w: Array) -> Array:
            return points_in(domain.project(points_in(w, outputs, own, units)), outputs, units, own)

        def penalty(w: Array) -> tuple[float, Array | float]:
            if self.l2 == 0.0:
                return 0.0, 0.0
            u = points_in(w, outputs, own, units)
            return 0.5 * self.l2 * float(u @ u), gradients_in(self.l2 * u, outputs, units, own)

        return contest.choose(super().weights.ravel(), project, penalty)

    def state_dict(self) -> dict[str, Any]:
        """Return the state as numbers and copies of arrays."""
        contest = None if self._contest is None else self._contest.state_dict()
        return {**super().state_dict(), "contest": contest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a learner that was made with the same arguments."""
        if not isinstance(state, Mapping) or "contest" not in state:
            raise ValueError("state must be of a learner with memory='auto': it has no 'contest'")
        own = {name: value for name, value in state.items() if name != "contest"}
        contest = None
        if state["contest"] is not None:
            contest = self._new_contest()
            contest.load_state_dict(state["contest"])
        run, scale = self._restored(own)
        if contest is not None and contest.samples != run.samples:
            raise ValueError("state of the learner does not fit: it keeps rows of another stream")
        self._continue(run, scale)
        self._contest = contest


class LinearObjective:
    """Losses of rows, and their gradients, at weights in the units of the rows."""

    def __init__(self, loss: Loss, columns: int, intercept: int) -> None:
        self._loss, self._columns, self._intercept = loss, columns, intercept

    def total(self, x: Array, kept: UniformSample) -> Array:
        """Return the sum of the gradients of the kept rows."""
        out = np.zeros_like(x)
        rows, targets, weights = (kept.column(place) for place in range(3))
        add_gradients(self._loss, x, rows, targets, weights, out)
        return out

    def losses(self, x: Array, kept: UniformSample) -> Array:
        """Return the weighted loss of each kept row."""
        rows, targets, weights = (kept.column(place) for place in range(3))
        found: Array = weights * self._loss.value(predictions(x, rows, self._loss.outputs), targets)
        return found

    def slopes(self, x: Array, along: Array, kept: UniformSample) -> Array:
        """Return the derivative of each kept row's weighted loss along a vector."""
        rows, targets, weights = (kept.column(place) for place in range(3))
        slopes = self._loss.derivative(predictions(x, rows, self._loss.outputs), targets)
        way = predictions(along, rows, self._loss.outputs)
        found: Array = weights * (slopes * way).reshape(len(rows), -1).sum(axis=1)
        return found

    def coordinates(self, kept: UniformSample) -> "Standardised":
        """Return the coordinates in which the features are standardised."""
        rows = kept.column(0)[:: max(1, kept.filled // SOME)].astype(np.float64)
        with np.errstate(all="ignore"):
            mean = rows.mean(axis=0) if self._intercept else np.zeros(self._columns)
            low, high = rows.min(axis=0), rows.max(axis=0)
            far = np.maximum(high - mean, mean - low)
            rows -= mean
            rows /= far
            rows *= rows
            deviation = far * np.sqrt(rows.mean(axis=0))
            largest = np.maximum(np.abs(low), np.abs(high))
            known = np.isfinite(deviation) & (deviation > ROUNDING * largest)
        units = Units(np.where(known, mean, 0.0), np.where(known, deviation, 1.0))
        return Standardised(self._loss.outputs, units, original(self._columns))


class Standardised:
    """Weights of standardised features as coordinates: see :func:`points_in`."""

    def __init__(self, outputs: int, units: Units, own: Units) -> None:
        self._outputs, self._units, self._own = outputs, units, own

    def of_point(self, x: Array) -> Array:
        """Return the weights in these units."""
        return points_in(x, self._outputs, self._own, self._units)

    def point(self, v: Array) -> Array:
        """Return the weights in the units of the rows."""
        return points_in(v, self._outputs, self._units, self._own)

    def of_gradient(self, g: Array) -> Array:
        """Return the gradient with respect to the weights in these units."""
        return gradients_in(g, self._outputs, self._own, self._units)


def add_gradients(
    loss: Loss, x: Array, rows: Array, targets: Array, weights: Array, out: Array
) -> None:
    """Add the gradients of weighted rows at ``x`` to ``out``, in the order of the rows.

    Examples
    --------
    >>> from mixfree.linear.losses import Squared
    >>> out = np.zeros(2)
    >>> add_gradients(Squared(), np.zeros(2), np.eye(2), np.array([1.0, 2.0]), np.ones(2), out)
    >>> out
    array([-1., -2.])
    """
    rows = np.ascontiguousarray(rows, np.float64)
    if not has_twin(loss):
        for row, target, weight in zip(rows, targets, weights, strict=True):
            out += linear_gradient(loss, x, row, target, weight=weight)
        return
    from mixfree.kernels import gradient_sums

    twin, margins = loss_twin(loss), np.zeros(loss.outputs)
    arrays = (np.ascontiguousarray(each) for each in (rows, targets, weights))
    gradient_sums.add_gradients(twin, x, *arrays, margins, np.zeros_like(x), out)
