"""Evaluate a policy from one trajectory of an environment."""

from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.terminal import progress_bar
from mixfree.chains import AutocorrelationTime, autocorrelation_time
from mixfree.core.minimize import History, follow
from mixfree.outputs import Average
from mixfree.td.episodes import spaces, transitions
from mixfree.td.features import Rows, tabular
from mixfree.td.learner import TDLearner
from mixfree.td.lstd import LSTD, MAX_DENSE_FEATURES

CHUNK = 512  # transitions whose features are held in memory at a time
RECENT = 1 << 16  # states kept for the autocorrelation time
MIN_SAMPLES = 200  # fewest transitions, for batches of some length


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The values of a policy, estimated from one trajectory.

    Attributes
    ----------
    theta
        The estimate: the fixed point of the trajectory (``lstd``), or the mean of the iterates in
        the second half of the run.
    learner
        The learner, to continue with or to save.
    history
        θ̄ on a logarithmic grid of transition counts; with ``lstd``, counts below the number of
        features are left out.
    recent
        V(s_t) along the end of the trajectory.
    samples, episodes
        Numbers of observed transitions and of terminated episodes.
    certificate
        The fixed point of the trajectory with its error; None if there are too many features.
    """

    theta: Array
    learner: TDLearner
    history: History
    recent: Array
    samples: int
    episodes: int
    certificate: LSTD | None

    def __repr__(self) -> str:
        return (
            f"<Evaluation by {self.learner.method}: {self.theta.size} features, "
            f"{self.samples} transitions, {self.episodes} episodes>"
        )

    def values(self, states: Sequence[Any] | Array) -> Array:
        """Return V of each state."""
        values: Array = self.learner.feature_rows(states) @ self.theta
        return values

    def interval(self, states: Sequence[Any] | Array, level: float = 0.99) -> tuple[Array, Array]:
        """Return intervals around :meth:`values` that hold for V_θ* of all states simultaneously.

        The half-width has two parts. The first is the distance to the fixed point of the
        trajectory, which measures convergence (with ``lstd``, it is 0 without a ridge). The second
        is the sampling error of that fixed point, with the level divided among the states
        (Bonferroni). It assumes that each batch of the trajectory (there are 16 to 64) is much
        longer than the mixing time: see :attr:`remark`. The interval is unbounded for a state that
        fewer than five batches visited, whose value the transitions do not determine, or on whose
        value all batches agree exactly.
        """
        certificate, rows = self._certified(), self.learner.feature_rows(states)
        found = rows @ self.theta
        half = np.abs(found - rows @ certificate.theta) + certificate.errors(rows, level)
        return found - half, found + half

    def batches_met(self, states: Sequence[Any] | Array) -> Array:
        """Count the batches of the trajectory in which all of a state's features occur."""
        return self._certified().batches_met(self.learner.feature_rows(states))

    @property
    def remark(self) -> str:
        """A sentence on why the intervals are too narrow; empty if there is no known reason."""
        return self._certified().remark

    def _certified(self) -> LSTD:
        if self.certificate is None:
            raise ValueError(
                "an interval needs the products of all pairs of features, which are not kept for "
                f"{self.learner.features.size:,} features: use method='lstd' or fewer features"
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
    gamma: float = 0.9,
    samples: int = 200_000,
    *,
    radius: float | None = None,
    method: str | None = None,
    seed: int = 0,
    progress: bool = False,
    **options: Any,
) -> Evaluation:
    """Estimate the values of a policy from one trajectory by TD learning.

    Parameters
    ----------
    env
        A Gymnasium environment, or a vector environment in any of the autoreset modes.
    policy
        ``"uniform"``, an action or a row of action probabilities for each state, or a function
        ``policy(observation, generator)``.
    features
        As for :class:`TDLearner`; by default one per state.
    gamma, radius, method, **options
        As for :class:`TDLearner`.
    samples
        Number of transitions to observe.
    seed
        Seed of the environment, the policy and the learner.
    progress
        Whether to show a progress bar (extra ``cli``).

    Examples
    --------
    >>> import gymnasium
    >>> lake = gymnasium.make("FrozenLake-v1")
    >>> found = evaluate_policy(lake, "uniform", gamma=0.9, samples=2000)
    >>> found
    <Evaluation by lstd: 16 features, 2000 transitions, 259 episodes>
    """
    check_whole(samples, "samples", least=MIN_SAMPLES)
    if method not in (None, "lstd"):
        options.setdefault("output", "average")
    if options.get("lam") and hasattr(env, "num_envs"):
        raise ValueError(
            "lam must be 0 with a vector environment, whose transitions are of several "
            f"trajectories, not {options['lam']!r}"
        )
    learner = TDLearner(_features_for(env, features), gamma, radius, method, seed=seed, **options)
    engine, size = learner.engine, learner.features.size
    beside: LSTD | None = None  # for the intervals of an iterative method
    certificate: LSTD | None
    if isinstance(engine, LSTD):
        half, first = 0, size  # fewer transitions do not determine θ
    elif isinstance(engine.output, Average):
        half, first = samples // 2, 1
        beside = LSTD(size, learner.gamma) if size <= MAX_DENSE_FEATURES else None
    else:
        raise ValueError("output must be 'average', since the estimate is a mean of iterates")
    path, episodes, before = transitions(env, policy, seed), 0, (0, np.zeros(size))
    recent: deque[Any] = deque(maxlen=RECENT)
    bar = progress_bar("transitions", samples) if progress else nullcontext(lambda count: None)
    with bar as show:

        def advance(start: int, stop: int) -> None:
            nonlocal episodes, before
            if start < half < stop:
                advance(start, half)
                start = half
            if start == half > 0:
                before = learner.steps, learner.steps * learner.average
            states, rewards, after, terminated = zip(*islice(path, stop - start), strict=True)
            found = learner.look_up(states, rewards, after, terminated)
            learner.advance(*found)
            if beside is not None:
                beside.advance(*found)
            recent.extend(states)
            episodes += sum(terminated)
            show(stop)

        history = follow(learner, advance, samples, chunk=CHUNK, first=first)
    if isinstance(engine, LSTD):
        theta, certificate = engine.theta, engine.without_ridge()
    elif (steps := learner.steps - before[0]) > 0:
        # The mean of the iterates in the second half.
        theta, certificate = (learner.steps * learner.average - before[1]) / steps, beside
    else:
        raise ValueError("samples must be larger: no step was taken in the second half of the run")
    held, rows = list(recent), learner.feature_rows
    pieces = (held[i : i + CHUNK] for i in range(0, len(held), CHUNK))
    values = np.concatenate([rows(piece) @ theta for piece in pieces])
    return Evaluation(theta, learner, history, values, samples, episodes, certificate)


def _features_for(env: Any, features: Any) -> Any:
    """Check that the features fit the environment's observations, or make tabular ones."""
    space, _ = spaces(env)
    if callable(features):
        return features
    count = getattr(space, "n", None)
    if features is None:
        if count is None:
            raise ValueError(
                f"observations are of {space}, which is not Discrete: give features, such as "
                "mixfree.td.TileCoding"
            )
        features = tabular(int(count))
    elif np.shape(features)[0] != count:
        raise ValueError(
            f"features must have one row per state, but there are {np.shape(features)[0]}, and "
            f"observations are of {space}"
        )
    return Rows(features, int(getattr(space, "start", 0)))
