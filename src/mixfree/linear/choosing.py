"""A linear learner that lets a held-out sample of the rows decide how it learns."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.sample import UniformSample
from mixfree.core.contest import Choice, Contest
from mixfree.core.optimizer import Optimizer
from mixfree.linear.learner import Learner, dense
from mixfree.linear.losses import predictions
from mixfree.linear.scaling import Rescaling
from mixfree.steps import Profile


class ChoosingLearner(Learner):
    """Runs of one method with and without memory, and the weights that a held-out sample chooses.

    About one row of eight, and 1,000 at a time, are not learnt from: a uniform sample of all
    rows, which judges the runs' outputs: see :class:`mixfree.core.contest.Contest`. Sparse rows
    are learnt from by one run without memory, if they come first.

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
    >>> learner.choice.chosen.memory
    4096
    """

    def __init__(self, *args: Any, draws: int = 1, **settings: Any) -> None:
        self._contest: Contest | None = None  # until there are rows, and for sparse ones
        super().__init__(*args, **settings)
        self._draws = draws
        self._new_contest()  # raises for what does not go with memory

    @property
    def optimizer(self) -> Optimizer:
        """The run whose output the weights are."""
        if self._contest is None:
            return self._optimizer
        self._contest.judge()
        return self._contest.optimizer

    @property
    def choice(self) -> Choice | None:
        """What was chosen, and by how much; None before the first row, and for sparse rows."""
        return None if self._contest is None else self._contest.judge()

    @property
    def weights(self) -> Array:
        """The chosen output in the rows' own units: one row per output, the intercept last."""
        if self._contest is None:
            return super().weights
        self._contest.judge()
        return self._in_own_units(self._contest.average).reshape(self.loss.outputs, -1)

    @property
    def samples(self) -> int:
        """Rows seen, those held out included."""
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

    def _new_contest(self) -> Contest:
        sizes = {"values": self.columns + 2, "draws": self._draws}
        found: Contest = self._begin(Contest, losses=self._held_out_losses, **sizes)
        return found

    def _advance(self, rows: Any, targets: Array, weights: Array | None) -> None:
        super()._advance(rows if self._contest is None else dense(rows), targets, weights)

    def _tell(self, rows: Array, targets: Array, weights: Array | None) -> None:
        if self._contest is None:
            super()._tell(rows, targets, weights)
            return
        factors = np.ones(len(targets)) if weights is None else weights
        columns = rows, targets, factors
        for now, learnt in self._contest.pieces(columns):
            # What is learnt is looked at when its gradient is taken.
            for column in columns[:2]:
                if not np.isfinite(column[now][~learnt]).all():
                    raise ValueError("a row that is held out is not finite")
            which = slice(None) if learnt.all() else learnt
            x, y, w = (column[now][which] for column in columns)
            super()._tell(x, y, None if weights is None else w)

    def _change_units(self, change: Rescaling) -> None:
        if self._contest is None:
            super()._change_units(change)
        else:
            self._contest.change_units(change)

    def _held_out_losses(self, point: Array, held: UniformSample) -> Array:
        """Losses of the held-out rows, each as often as its weight says."""
        rows, targets, weights = (held.column(place) for place in range(3))
        with np.errstate(over="ignore", invalid="ignore"):  # a run that diverged has lost
            predicted = predictions(point, rows, self.loss.outputs)
            losses = np.asarray(self.loss.value(predicted, targets), dtype=np.float64)
            return losses * (weights / weights.mean()) if weights.any() else losses

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
        super().load_state_dict(own)
        self._contest = contest
