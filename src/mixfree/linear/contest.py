"""A linear learner that lets a sample of the rows decide how it learns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.sample import UniformSample
from mixfree.core.contest import Choice, Contest
from mixfree.core.optimizer import Optimizer
from mixfree.linear.learner import Learner, check_between_samples, dense
from mixfree.linear.losses import predictions
from mixfree.linear.scaling import Rescaling
from mixfree.steps import Profile

JUDGES = 1 << 17  # rows that judge, if they are not too large


class ChoosingLearner(Learner):
    """Runs of one method with and without memory, and a sample of the rows that chooses.

    A uniform sample of all rows judges the runs' outputs: see
    :class:`mixfree.core.contest.Contest`. Sparse rows are learnt from by one run without memory,
    if they come first.

    Parameters
    ----------
    *args, **settings
        Those of :class:`Learner`, but for ``memory``.
    draws
        Draws per row.

    Examples
    --------
    >>> from mixfree.linear.losses import Squared
    >>> rng = np.random.default_rng(0)
    >>> rows = np.repeat(rng.standard_normal((10, 2)), 400, axis=0)   # 400 alike in a row
    >>> learner = ChoosingLearner(Squared(), 2)
    >>> learner.advance(rows, rows @ [1.0, 2.0] + rng.standard_normal(4000))
    >>> learner.choice.chosen.memory > 0
    True
    """

    def __init__(self, *args: Any, draws: int = 1, **settings: Any) -> None:
        self._contest: Contest | None = None  # until there are rows, and for sparse ones
        super().__init__(*args, **settings)
        self._draws = draws
        # Raises for what does not go with memory; three runs of a million weights would take as
        # long as thousands of sparse rows.
        self._new_contest(weights=1)

    @property
    def optimizer(self) -> Optimizer:
        """The run whose output the weights are."""
        if self._contest is None:
            return self._optimizer
        return self._contest.optimizer

    @property
    def choice(self) -> Choice | None:
        """What was chosen, and by how much; None before the first row, and for sparse rows."""
        return None if self._contest is None else self._contest.choice

    @property
    def weights(self) -> Array:
        """The chosen output in the rows' own units: one row per output, the intercept last."""
        if self._contest is None:
            return super().weights
        return self._in_own_units(self._contest.average).reshape(self.loss.outputs, -1)

    @property
    def samples(self) -> int:
        """Rows learnt from."""
        return super().samples if self._contest is None else self._contest.samples

    def profile(self) -> Profile | None:
        """How correlated the gradients are at each scale, by the run without memory."""
        return self._first.profile() if hasattr(self._first.step, "profile") else None

    def advance(self, rows: Any, targets: Array, weights: Array | None = None) -> None:
        """Learn from rows in their order, from all of them or from none."""
        contest = self._contest
        before = None if contest is None else contest.export()
        if contest is None and super().samples == 0 and not hasattr(rows, "indptr"):
            self._contest = self._new_contest()
        try:
            super().advance(rows, targets, weights)
        except BaseException:
            self._contest = contest
            if contest is not None and before is not None:
                contest.restore(before)
            raise

    @property
    def _runs(self) -> Iterable[Optimizer]:
        return (self._optimizer,) if self._contest is None else self._contest.runs.values()

    def _teach(self, learn: Callable[[Optimizer], None]) -> None:
        if self._contest is None:
            super()._teach(learn)
        else:
            self._contest.teach(learn)

    def _new_contest(self, weights: int | None = None) -> Contest:
        """A contest that has seen nothing, of all weights or of the first ones."""
        (method, start, options), common = self._common
        settings: dict[str, Any] = {**common, "values": self.columns + 2, "judges": JUDGES}
        return Contest(
            method,
            start[:weights],
            options,
            losses=self._judged_losses,
            draws=self._draws,
            **settings,
        )

    def _advance(self, rows: Any, targets: Array, weights: Array | None) -> None:
        super()._advance(rows if self._contest is None else dense(rows), targets, weights)

    def _tell(self, rows: Array, targets: Array, weights: Array | None) -> None:
        if self._contest is None:
            super()._tell(rows, targets, weights)
            return
        factors = np.ones(len(targets)) if weights is None else weights
        for now in self._contest.pieces((rows, targets, factors)):
            super()._tell(rows[now], targets[now], None if weights is None else weights[now])

    def _change_units(self, change: Rescaling) -> None:
        if self._contest is None:
            super()._change_units(change)
        else:
            self._contest.change_units(change)

    def _judged_losses(self, points: Sequence[Array], judges: UniformSample) -> list[Array]:
        """Losses of the rows that judge at each point, as often as a row's weight says."""
        rows, targets, weights = (judges.column(place) for place in range(3))
        share, outputs = weights / weights.mean() if weights.any() else weights, self.loss.outputs
        with np.errstate(over="ignore", invalid="ignore"):  # a run that diverged has lost
            found = predictions(np.concatenate(points), rows, len(points) * outputs)
            each = np.split(found.reshape(len(targets), -1), len(points), axis=1)
            return [
                share * self.loss.value(one[:, 0] if outputs == 1 else one, targets)
                + 0.5 * self.l2 * float(x @ x)
                for one, x in zip(each, points, strict=True)
            ]

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes, as numbers and arrays of its own."""
        contest = None if self._contest is None else self._contest.state_dict()
        return {**super().state_dict(), "contest": contest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where the learner that gave ``state`` was, made with the same arguments."""
        if not isinstance(state, Mapping) or "contest" not in state:
            raise ValueError("state is not that of a learner with memory='auto'")
        own = {name: value for name, value in state.items() if name != "contest"}
        contest = None
        if state["contest"] is not None:
            contest = self._new_contest()
            contest.load_state_dict(state["contest"])
            for run in contest.runs.values():
                check_between_samples(run)
        super().load_state_dict(own)
        self._contest = contest
