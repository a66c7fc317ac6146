"""A linear learner that lets a held-out sample of the rows decide how it learns."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.held_out import HeldOut
from mixfree.core.contest import Choice, Contest
from mixfree.core.optimizer import Optimizer
from mixfree.linear.learner import Learner, dense
from mixfree.linear.losses import predictions
from mixfree.steps import Profile

ROWS = 4096  # rows to look at together for those to be held out


class ChoosingLearner(Learner):
    """Runs of one method with and without memory, and the weights that a held-out sample chooses.

    About one row of eight, and 1,000 at most, are not learnt from: a uniform sample of all rows,
    which judges the runs' outputs. See :class:`mixfree.core.contest.Contest`. Sparse rows are
    learnt from by one run without memory, if they come first.

    Parameters
    ----------
    *args, **settings
        Those of :class:`Learner`, but for ``memory``.

    Examples
    --------
    >>> from mixfree.linear.losses import Squared
    >>> rng = np.random.default_rng(0)
    >>> rows = np.repeat(rng.standard_normal((20, 2)), 200, axis=0)   # 200 alike in a row
    >>> learner = ChoosingLearner(Squared(), 2)
    >>> learner.advance(rows, rows @ [1.0, 2.0] + rng.standard_normal(4000))
    >>> learner.choice.chosen.memory
    4096
    """

    def __init__(
        self, *args: Any, draws: int = 1, seed: int = 0, **settings: Any
    ) -> None:
        self._contest: Contest | None = None  # while there is only the run of a plain learner
        super().__init__(*args, seed=seed, **settings)
        if not self.optimizer.gradient.rescales:
            raise ValueError(f"memory does not go with {self.method}, which replays samples")
        self._draws = draws
        self._held_out = HeldOut.start(seed)
        self._judged = False

    @property
    def optimizer(self) -> Optimizer:
        """The run whose output the weights are."""
        if self._contest is None:
            return self._optimizer
        self._judge(self._contest)
        return self._contest.optimizer

    @property
    def choice(self) -> Choice | None:
        """What was chosen, and by how much; None before the first row, and for sparse rows."""
        return None if self._contest is None else self._judge(self._contest)

    @property
    def weights(self) -> Array:
        """The chosen output in the rows' own units: one row per output, the intercept last."""
        if self._contest is None:
            return super().weights
        self._judge(self._contest)
        return self._in_own_units(self._contest.average).reshape(self.loss.outputs, -1)

    @property
    def samples(self) -> int:
        """Rows seen, those held out included."""
        return super().samples if self._contest is None else self._held_out.seen

    def profile(self) -> Profile | None:
        """How correlated the gradients are at each scale, by the run without memory."""
        run = self._first
        return run.profile() if hasattr(run.step, "profile") else None

    def advance(self, rows: Any, targets: Array, weights: Array | None = None) -> None:
        """Learn from rows in their order, from all of them or from none."""
        contest, held_out = self._contest, self._held_out.copy()
        before = contest and (contest.runs, contest.choice)
        if contest is None and self.samples == 0 and not hasattr(rows, "indptr"):
            self._contest = self._new_contest()
        try:
            super().advance(rows, targets, weights)
            self._judged = False
        except BaseException:
            self._contest, self._held_out = contest, held_out
            if contest and before:
                contest.runs, contest.choice = before
            raise

    @property
    def _runs(self) -> Iterable[Optimizer]:
        return (self._optimizer,) if self._contest is None else self._contest.runs.values()

    def _new_contest(self) -> Contest:
        values = self.columns + 2
        found: Contest = self._begin(Contest, values=values, draws=self._draws)
        return found

    def _advance(self, rows: Any, targets: Array, weights: Array | None) -> None:
        contest = self._contest
        if contest is None:
            super()._advance(rows, targets, weights)
            return
        rows, count = dense(rows), len(targets)
        factors = np.ones(count) if weights is None else weights
        start = 0
        while start < count:
            seen = self._held_out.seen
            stop = min(count, start + ROWS - seen % ROWS, start + (1 << seen.bit_length()) - seen)
            now = slice(start, stop)
            given = rows[now], targets[now], factors[now]
            learnt = self._held_out.split(stop - start, lambda held: [x[held] for x in given])
            which = slice(None) if learnt.all() else learnt
            x, y, w = (part[which] for part in given)
            super()._advance(x, y, None if weights is None else w)
            contest.cut(self._held_out.seen, *self._judges())
            start = stop

    def _judge(self, contest: Contest) -> Choice:
        if not self._judged:
            contest.judge(*self._judges())
            self._judged = True
        return contest.choice

    def _judges(self) -> tuple[Any, Array]:
        """Losses of the held-out rows at a point, and the rows' weights."""
        sample = self._held_out.sample
        if not sample.filled:
            return lambda point: np.zeros(0), np.zeros(0)
        rows, targets, weights = (sample.column(place) for place in range(3))

        def losses(point: Array) -> Array:
            with np.errstate(over="ignore", invalid="ignore"):  # a run that diverged has lost
                predicted = predictions(self._in_own_units(point), rows, self.loss.outputs)
                return np.asarray(self.loss.value(predicted, targets), dtype=np.float64)

        return losses, weights

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes, as numbers and arrays of its own."""
        contest = self._contest
        return {
            **super().state_dict(),
            "contest": None if contest is None else contest.state_dict(),
            "held_out": self._held_out.plain(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where the learner that gave ``state`` was, made with the same arguments."""
        if not isinstance(state, Mapping) or not {"contest", "held_out"} <= state.keys():
            raise ValueError("state is not that of a learner with `memory='auto'`")
        own = dict(state)
        contest, held_out = own.pop("contest"), own.pop("held_out")
        found = self._held_out.restored(held_out, "held-out sample")
        fresh = None if contest is None else self._new_contest()
        if fresh is not None:
            fresh.load_state_dict(contest)
        super().load_state_dict(own)
        self._contest, self._held_out, self._judged = fresh, found, False
