"""Evaluate a policy from one trajectory of an environment."""

import math
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any

import numpy as np

from mixfree.chains import AutocorrelationTime, autocorrelation_time
from mixfree.history import History, marks
from mixfree.numerics import Array, whole
from mixfree.outputs import Average
from mixfree.progress import progress_bar
from mixfree.td.episodes import spaces, transitions
from mixfree.td.features import tabular
from mixfree.td.learner import TDLearner

BATCHES = 10
CHUNK = 512  # transitions whose features are held at a time
RECENT = 1 << 16  # values kept for the autocorrelation


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found.

    Attributes
    ----------
    theta
        The estimate: mean of the iterates in the second half of the run.
    batches
        Means of the iterates in ten equal parts of that half, one row each.
    learner
        The learner, to go on with or to save.
    history
        θ̄ on a logarithmic grid of transition counts.
    recent
        V(s_t) along the end of the trajectory.
    samples, episodes
        Transitions seen and episodes that terminated among them.
    """

    theta: Array
    batches: Array
    learner: TDLearner
    history: History
    recent: Array
    samples: int
    episodes: int

    def values(self, states: Sequence[Any] | Array) -> Array:
        """V of each state."""
        return self.learner.features.rows(states) @ self.theta

    def interval(self, states: Sequence[Any] | Array, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends that hold for all these states together.

        Student's t on the ten batch means, with the level shared out among the states
        (Bonferroni). It assumes that a batch is longer than the memory of the iterates.
        """
        from scipy import stats

        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1, not {level!r}")
        found = self.learner.features.rows(states) @ self.batches.T
        quantile = stats.t.ppf(1.0 - (1.0 - level) / (2.0 * len(found)), found.shape[1] - 1)
        half = quantile * found.std(axis=1, ddof=1) / math.sqrt(found.shape[1])
        return found.mean(axis=1) - half, found.mean(axis=1) + half

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
    whole(samples, "samples", least=2 * BATCHES)
    learner = TDLearner(_features_for(env, features), gamma, radius, method, seed=seed, **options)
    if not isinstance(learner.optimizer.output, Average):
        raise ValueError("output must be 'average' here: the interval is made of averages")
    path = transitions(env, policy, seed)
    ends = [samples // 2 + samples * k // (2 * BATCHES) for k in range(BATCHES + 1)]
    ends[-1] = samples
    grid = set(takewhile(lambda mark: mark < samples, marks())) | {samples}
    history, sums = History(), []
    recent: deque[Any] = deque(maxlen=RECENT)
    episodes, done = 0, 0
    bar = progress_bar("transitions", samples) if progress else nullcontext(lambda count: None)
    with bar as show:
        for stop in sorted({*grid, *ends, *range(CHUNK, samples, CHUNK)}):
            piece = list(islice(path, stop - done))
            states, rewards, next_states, terminated = zip(*piece, strict=True)
            learner.update_many(states, rewards, next_states, terminated)
            recent.extend(states)
            episodes += sum(terminated)
            done = stop
            if stop in grid:
                history.record(learner.optimizer)
            if stop in ends:
                sums.append((learner.optimizer.steps, learner.average * learner.optimizer.steps))
            show(done)
    theta, batches = _batch_means(sums)
    return Evaluation(
        theta, batches, learner, history, _values(learner, theta, recent), done, episodes
    )


def _batch_means(sums: list[tuple[int, Array]]) -> tuple[Array, Array]:
    """Mean of the iterates between the first and the last, and between each and the next."""
    steps, totals = (np.array(column) for column in zip(*sums, strict=True))
    taken = np.diff(steps)
    if not taken.all():
        raise ValueError("samples are too few: a tenth of the second half of the run has no step")
    batches = np.diff(totals, axis=0) / taken[:, None]
    return (totals[-1] - totals[0]) / taken.sum(), batches


def _values(learner: TDLearner, theta: Array, states: Sequence[Any]) -> Array:
    held = list(states)
    pieces = (held[i : i + CHUNK] for i in range(0, len(held), CHUNK))
    return np.concatenate([learner.features.rows(piece) @ theta for piece in pieces])


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
