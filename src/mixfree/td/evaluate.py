"""Evaluate a policy from one trajectory of an environment."""

from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.progress import progress_bar
from mixfree.chains import AutocorrelationTime, autocorrelation_time
from mixfree.core.history import History, marks
from mixfree.outputs import Average
from mixfree.td.certificate import BATCHES, ENTRIES, LARGEST, Certificate
from mixfree.td.episodes import spaces, transitions
from mixfree.td.features import tabular
from mixfree.td.learner import TDLearner

CHUNK = 512  # transitions whose features are held at a time
RECENT = 1 << 16  # states kept for the autocorrelation


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found.

    Attributes
    ----------
    theta
        The estimate: mean of the iterates in the second half of the run.
    learner
        The learner, to go on with or to save.
    history
        θ̄ on a logarithmic grid of transition counts.
    recent
        V(s_t) along the end of the trajectory.
    samples, episodes
        Transitions seen and episodes that terminated among them.
    certificate
        What the trajectory says of the fixed point; None for too many features.
    """

    theta: Array
    learner: TDLearner
    history: History
    recent: Array
    samples: int
    episodes: int
    certificate: Certificate | None

    def values(self, states: Sequence[Any] | Array) -> Array:
        """V of each state."""
        return self.learner.features.rows(states) @ self.theta

    def interval(self, states: Sequence[Any] | Array, level: float = 0.99) -> tuple[Array, Array]:
        """Ends of intervals around :meth:`values` that hold V_θ* of all these states together.

        Their half-width is the distance to the trajectory's own fixed point, which is how far
        the learner has still to go, plus that one's sampling error, with the level shared out
        among the states (Bonferroni). It assumes that the trajectory's twenty batches are much
        longer than its mixing time. A state that was met in fewer than five of them has an
        interval without ends, and so has one in whose value they do not differ at all.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1, not {level!r}")
        certificate, rows = self._certified(), self.learner.features.rows(states)
        found = rows @ self.theta
        half = np.abs(found - rows @ certificate.theta) + certificate.errors(rows, level)
        return found - half, found + half

    def batches_met(self, states: Sequence[Any] | Array) -> Array:
        """In how many of the trajectory's twenty batches each state's features all occur."""
        return self._certified().batches_met(self.learner.features.rows(states))

    def _certified(self) -> Certificate:
        if self.certificate is None:
            raise ValueError(
                "an interval needs the products of all pairs of features, and those of "
                f"{self.learner.features.size} features are too many to hold"
            )
        return self.certificate

    @property
    def autocorrelation(self) -> AutocorrelationTime:
        """How many transitions count as one independent one, by the values along the path."""
        return autocorrelation_time(self.recent)


def evaluate_policy(
    env: Any,
    policy: Any = "uniform",
    features: Any = None,
    gamma: float = 0.99,
    samples: int = 100_000,
    *,
    radius: float | None = None,
    method: str = "mag",
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
        As for :class:`TDLearner`; one a state unless given.
    gamma, radius, method, **options
        As for :class:`TDLearner`.
    samples
        Transitions to see.
    seed
        Of the environment, the policy and the learner.
    progress
        Show a progress bar (extra ``cli``).

    Examples
    --------
    >>> import gymnasium
    >>> lake = gymnasium.make("FrozenLake-v1")
    >>> found = evaluate_policy(lake, "uniform", gamma=0.9, samples=2000)
    >>> found.samples, found.learner.features.size
    (2000, 16)
    """
    check_whole(samples, "samples", least=10 * BATCHES)
    options.setdefault("output", "average")
    learner = TDLearner(_features_for(env, features), gamma, radius, method, seed=seed, **options)
    if not isinstance(learner.optimizer.output, Average):
        raise ValueError("output must be 'average' here: the estimate is made of averages")
    path = transitions(env, policy, seed)
    grid = {*takewhile(lambda mark: mark < samples, marks()), samples}
    batches = {samples * k // BATCHES for k in range(BATCHES)}
    half, done = samples // 2, 0
    record, before = _Record(learner), _total(learner)
    bar = progress_bar("transitions", samples) if progress else nullcontext(lambda count: None)
    with bar as show:
        for stop in sorted({*grid, *batches, half, *range(0, samples, CHUNK)} - {0}):
            if done in batches:
                record.begin_batch()
            record.take(*zip(*islice(path, stop - done), strict=True))
            done = stop
            if done in grid:
                record.history.record(learner.optimizer)
            if done == half:
                before = _total(learner)
            show(done)
    return record.evaluation(_mean_between(before, _total(learner)))


class _Record:
    """What is kept of a trajectory while the learner goes along it."""

    def __init__(self, learner: TDLearner) -> None:
        self.learner = learner
        self.history = History()
        self.certificate: Certificate | None = None
        if learner.features.size <= LARGEST:
            self.certificate = Certificate(learner.gamma, learner.features.size)
        self.recent: deque[Any] = deque(maxlen=RECENT)
        self.episodes = 0

    def begin_batch(self) -> None:
        """What comes now belongs to another batch of the certificate."""
        if self.certificate is not None:
            self.certificate.begin_batch()

    def take(
        self,
        states: Sequence[Any],
        rewards: Sequence[float],
        next_states: Sequence[Any],
        terminated: Sequence[bool],
    ) -> None:
        """Learn from transitions and keep what is wanted of them."""
        looked_up = self.learner.looked_up(states, rewards, next_states, terminated)
        self.learner.advance(*looked_up)
        if self.certificate is not None:
            self.certificate.add(*looked_up)
            if self.certificate.entries > ENTRIES:
                self.certificate = None
        self.recent.extend(states)
        self.episodes += sum(terminated)

    def evaluation(self, theta: Array) -> Evaluation:
        """All of it, with the estimate."""
        if self.certificate is not None:
            self.certificate.solve()
        held, rows = list(self.recent), self.learner.features.rows
        pieces = (held[i : i + CHUNK] for i in range(0, len(held), CHUNK))
        return Evaluation(
            theta,
            self.learner,
            self.history,
            np.concatenate([rows(piece) @ theta for piece in pieces]),
            self.learner.samples,
            self.episodes,
            self.certificate,
        )


def _total(learner: TDLearner) -> tuple[int, Array]:
    """Number and sum of the iterates so far."""
    steps = learner.optimizer.steps
    return steps, steps * learner.average


def _mean_between(first: tuple[int, Array], last: tuple[int, Array]) -> Array:
    if last[0] == first[0]:
        raise ValueError("samples are too few: no step was taken in the second half of the run")
    return (last[1] - first[1]) / (last[0] - first[0])


def _features_for(env: Any, features: Any) -> Any:
    """The features, if they fit the environment's observations."""
    space, _ = spaces(env)
    count = getattr(space, "n", None)
    if features is None:
        if count is None:
            raise ValueError(
                f"observations are of {space}, not of a finite number: give features, for "
                "instance mixfree.td.TileCoding"
            )
        return tabular(int(count))
    if not callable(features) and (count is None or len(features) != count):
        raise ValueError(
            f"features have {len(features)} rows, one a state, but observations are of {space}"
        )
    return features
