"""A linear learner that chooses between settings by their losses on a sample of the rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.sample import UniformSample
from mixfree.core.contest import Choice, Contest
from mixfree.core.optimizer import Optimizer
from mixfree.linear.learner import Learner, check_between_samples, dense
from mixfree.linear.losses import predictions
from mixfree.linear.scaling import Rescaling, RunningScale
from mixfree.steps import Profile

JUDGES = 1 << 17  # rows of the sample that judges, fewer if rows are long


class ChoosingLearner(Learner):
    """Runs one method with and without memory, and chooses by the loss on a sample of the rows.

    A uniform sample of all rows judges the runs' outputs: see
    :class:`mixfree.core.contest.Contest`. If the first rows are sparse, there is a single run
    without memory.

    Parameters
    ----------
    *args, **settings
        As for :class:`Learner`, except for ``memory``.
    draws
        Draws from the memory per row.

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
        # Raises an error for settings that do not work with memory. With one weight only: runs of
        # a million weights would take as long as thousands of sparse rows.
        self._new_contest(weights=1)

    @property
    def optimizer(self) -> Optimizer:
        """The run whose output gives the weights."""
        if self._contest is None:
            return self._optimizer
        return self._contest.optimizer

    @property
    def choice(self) -> Choice | None:
        """What was chosen, and by which margin; None before the first row and for sparse rows."""
        return None if self._contest is None else self._contest.choice

    @property
    def weights(self) -> Array:
        """The chosen output in the units of the rows: one row per output, the intercept last."""
        if self._contest is None:
            return super().weights
        return self._in_own_units(self._contest.average).reshape(self.loss.outputs, -1)

    @property
    def samples(self) -> int:
        """Rows learnt from."""
        return super().samples if self._contest is None else self._contest.samples

    def profile(self) -> Profile | None:
        """Return the correlation profile of the gradients in the run without memory."""
        return self._first.profile() if hasattr(self._first.step, "profile") else None

    def advance(self, rows: Any, targets: Array, weights: Array | None = None) -> None:
        """Learn from rows in order: from all of them, or from none if there is an error."""
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
        """Start a contest, of all weights or of the first ones."""
        (method, start, options), common = self._common
        return Contest(
            method,
            start[:weights],
            options,
            losses=self._judged_losses,
            draws=self._draws,
            values=self.columns + 2,
            judges=JUDGES,
            **common,
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

    def _tell_in_units(
        self, scale: RunningScale, rows: Array, targets: Array, weights: Array | None
    ) -> int:
        return self._tell_piece(scale, rows, targets, weights)

    def _change_units(self, change: Rescaling) -> None:
        if self._contest is None:
            super()._change_units(change)
        else:
            self._contest.change_units(change)

    def _judged_losses(self, points: Sequence[Array], judges: UniformSample) -> list[Array]:
        """Return the weighted losses of the judging rows at each point."""
        rows, targets, weights = (judges.column(place) for place in range(3))
        share, outputs = weights / weights.mean() if weights.any() else weights, self.loss.outputs
        with np.errstate(over="ignore", invalid="ignore"):  # a run that diverged loses
            found = predictions(np.concatenate(points), rows, len(points) * outputs)
            each = np.split(found.reshape(len(targets), -1), len(points), axis=1)
            return [
                share * self.loss.value(one[:, 0] if outputs == 1 else one, targets)
                + 0.5 * self.l2 * float(x @ x)
                for one, x in zip(each, points, strict=True)
            ]

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
            for run in contest.runs.values():
                check_between_samples(run)
        super().load_state_dict(own)
        self._contest = contest
