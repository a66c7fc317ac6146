"""Evaluate a policy from one trajectory of an environment."""

from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.progress import progress_bar
from mixfree.chains import AutocorrelationTime, autocorrelation_time
from mixfree.core.history import History, follow
from mixfree.core.optimizer import Optimizer
from mixfree.outputs import Average
from mixfree.td.certificate import BATCHES, ENTRIES, LARGEST, Certificate
from mixfree.td.episodes import spaces, transitions
from mixfree.td.features import tabular
from mixfree.td.learner import TDLearner

__all__ = ["Evaluation", "evaluate_policy"]

CHUNK = 512  # transitions whose features are held in memory at a time
RECENT = 1 << 16  # states kept for the autocorrelation time


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The values of a policy, estimated from one trajectory.

    Attributes
    ----------
    theta
        The estimate: the mean of the iterates in the second half of the run.
    learner
        The learner, to continue with or to save.
    history
        θ̄ on a logarithmic grid of transition counts.
    recent
        V(s_t) along the end of the trajectory.
    samples, episodes
        Transitions observed, and episodes that terminated among them.
    certificate
        The trajectory's own fixed point with its error; None if there are too many features.
    """

    theta: Array
    learner: TDLearner
    history: History
    recent: Array
    samples: int
    episodes: int
    certificate: Certificate | None

    def __repr__(self) -> str:
        return (
            f"<Evaluation by {self.learner.method}: {self.theta.size} features, "
            f"{self.samples} transitions, {self.episodes} episodes>"
        )

    def values(self, states: Sequence[Any] | Array) -> Array:
        """V of each state."""
        return self.learner.features.rows(states) @ self.theta

    def interval(self, states: Sequence[Any] | Array, level: float = 0.99) -> tuple[Array, Array]:
        """Intervals around :meth:`values` that contain V_θ* of all these states simultaneously.

        The half-width is the distance to the trajectory's own fixed point, which is how far the
        learner is from convergence, plus the sampling error of that fixed point, with the level
        divided among the states (Bonferroni). It assumes that each of the trajectory's twenty
        batches is much longer than the mixing time. The interval is unbounded for a state that
        fewer than five batches visited, and for one on whose value all batches agree exactly.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1, not {level!r}")
        certificate, rows = self._certified(), self.learner.features.rows(states)
        found = rows @ self.theta
        half = np.abs(found - rows @ certificate.theta) + certificate.errors(rows, level)
        return found - half, found + half

    def batches_met(self, states: Sequence[Any] | Array) -> Array:
        """Number of the trajectory's twenty batches in which all of a state's features occur."""
        return self._certified().batches_met(self.learner.features.rows(states))

    def _certified(self) -> Certificate:
        if self.certificate is None:
            raise ValueError(
                "an interval needs the products of all pairs of features, which do not fit in "
                f"memory for {self.learner.features.size} features"
            )
        return self.certificate

    @property
    def autocorrelation(self) -> AutocorrelationTime:
        """Autocorrelation time of the values along the trajectory."""
        return autocorrelation_time(self.recent)


def evaluate_policy(
    env: Any,
    policy: Any = "uniform",
    features: Any = None,
    gamma: float = 0.99,
    samples: int = 100_000,
    *,
    radius: float | None = None,
    method: str | None = None,
    seed: int = 0,
    progress: bool = False,
    **options: Any,
) -> Evaluation:
    """Estimate the values of a policy from one trajectory, with TD learning.

    Parameters
    ----------
    env
        A Gymnasium environment, or a vector environment in any of the autoreset modes.
    policy
        ``"uniform"``, an action or a row of action probabilities for each state, or a function
        ``policy(observation, generator)``.
    features
        As for :class:`TDLearner`; one per state unless given.
    gamma, radius, method, **options
        As for :class:`TDLearner`.
    samples
        Transitions to observe.
    seed
        Seed of the environment, the policy and the learner.
    progress
        Show a progress bar (extra ``cli``).

    Examples
    --------
    >>> import gymnasium
    >>> lake = gymnasium.make("FrozenLake-v1")
    >>> found = evaluate_policy(lake, "uniform", gamma=0.9, samples=2000)
    >>> found
    <Evaluation by mag-dog: 16 features, 2000 transitions, 259 episodes>
    """
    check_whole(samples, "samples", least=10 * BATCHES)
    options.setdefault("output", "average")
    learner = TDLearner(_features_for(env, features), gamma, radius, method, seed=seed, **options)
    if not isinstance(learner.optimizer.output, Average):
        raise ValueError("output must be 'average' here: the estimate is a mean of iterates")
    record = _Record(learner, samples)
    path = transitions(env, policy, seed)
    bar = progress_bar("transitions", samples) if progress else nullcontext(lambda count: None)
    with bar as show:

        def each(at: Optimizer, at_mark: bool) -> None:
            show(at.samples)

        def advance(start: int, stop: int) -> None:
            for first, last in pairwise(record.cut(start, stop)):
                record.take(first, *zip(*islice(path, last - first), strict=True))

        history = follow(learner.optimizer, advance, samples, each, chunk=CHUNK)
    return record.evaluation(history)


class _Record:
    """What is kept of a trajectory while the learner runs along it."""

    def __init__(self, learner: TDLearner, samples: int) -> None:
        self.learner = learner
        self.batches = {samples * k // BATCHES for k in range(BATCHES)}  # where they begin
        self.half = samples // 2
        self.certificate: Certificate | None = None
        if learner.features.size <= LARGEST:
            self.certificate = Certificate(learner.gamma, learner.features.size)
        self.recent: deque[Any] = deque(maxlen=RECENT)
        self.episodes = 0
        self._before = _total(learner)  # up to half of the run

    def cut(self, start: int, stop: int) -> list[int]:
        """``start`` and ``stop``, with the beginnings of batches and of the second half between."""
        between = (place for place in (*self.batches, self.half) if start < place < stop)
        return sorted({start, *between, stop})

    def take(
        self,
        first: int,
        states: Sequence[Any],
        rewards: Sequence[float],
        next_states: Sequence[Any],
        terminated: Sequence[bool],
    ) -> None:
        """Learn from transitions, of which ``first`` have come before."""
        if first == self.half:
            self._before = _total(self.learner)
        transitions = self.learner.look_up(states, rewards, next_states, terminated)
        self.learner.advance(*transitions)
        if self.certificate is not None:
            if first in self.batches:
                self.certificate.begin_batch()
            self.certificate.add(*transitions)
            if self.certificate.entries > ENTRIES:
                self.certificate = None
        self.recent.extend(states)
        self.episodes += sum(terminated)

    def evaluation(self, history: History) -> Evaluation:
        """The evaluation, with the mean of the iterates in the second half of the run."""
        (steps_before, before), (steps, after) = self._before, _total(self.learner)
        if steps == steps_before:
            raise ValueError("samples are too few: no step was taken in the second half of the run")
        theta = (after - before) / (steps - steps_before)
        if self.certificate is not None:
            self.certificate.solve()
        held, rows = list(self.recent), self.learner.features.rows
        pieces = (held[i : i + CHUNK] for i in range(0, len(held), CHUNK))
        return Evaluation(
            theta,
            self.learner,
            history,
            np.concatenate([rows(piece) @ theta for piece in pieces]),
            self.learner.samples,
            self.episodes,
            self.certificate,
        )


def _total(learner: TDLearner) -> tuple[int, Array]:
    """Number and sum of the iterates so far."""
    steps = learner.optimizer.steps
    return steps, steps * learner.average


def _features_for(env: Any, features: Any) -> Any:
    """The features, if they fit the environment's observations."""
    space, _ = spaces(env)
    count = getattr(space, "n", None)
    if features is None:
        if count is None:
            raise ValueError(
                f"observations are of {space}, which is not finite: give features, for instance "
                "mixfree.td.TileCoding"
            )
        return tabular(int(count))
    if not callable(features) and (count is None or len(features) != count):
        raise ValueError(
            f"features have {len(features)} rows, one per state, but observations are of {space}"
        )
    return features
