"""Finite Markov reward processes, whose TD fixed point can be computed exactly."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole, shown
from mixfree.chains import MarkovChain
from mixfree.td.episodes import make_env, policy_matrix
from mixfree.td.features import feature_matrix, tabular
from mixfree.td.learner import check_gamma

_ROUNDING = 1e-9  # tolerance of sums of probabilities


class Trajectory(NamedTuple):
    """Transitions in order, as parallel arrays."""

    states: Array
    rewards: Array
    next_states: Array
    terminated: Array


class RewardProcess:
    """A finite chain with rewards, a discount and features: the quantities of Section 5, exactly.

    Parameters
    ----------
    P
        Transition probabilities. If a row sums to less than 1, the rest is the probability that
        the episode ends there; the next episode begins from ``start``.
    r
        Expected reward for leaving each state, or, if episodes never end, a matrix R(s, s').
    gamma
        Discount in [0, 1).
    features
        One row φ(s) per state, of norm at most 1.
    start
        Distribution of the first state of an episode; required if episodes end. States that
        cannot be reached from it have weight zero.

    Examples
    --------
    >>> process = RewardProcess([[0.5, 0.5], [0.5, 0.5]], [0.0, 1.0], 0.5, np.eye(2))
    >>> process.values, process.theta_star
    (array([0.5, 1.5]), array([0.5, 1.5]))
    """

    def __init__(
        self,
        P: npt.ArrayLike,
        r: npt.ArrayLike,
        gamma: float,
        features: npt.ArrayLike,
        *,
        start: npt.ArrayLike | None = None,
    ) -> None:
        self.P = _continuing(P)
        n = len(self.P)
        self.gamma = check_gamma(gamma)
        self.features = feature_matrix(features, n)
        ending = 1.0 - self.P.sum(axis=1)
        self.ending = np.where(np.abs(ending) <= _ROUNDING, 0.0, ending)
        self.start = None if start is None else np.array(start, dtype=np.float64)
        if self.start is not None and not _is_law(self.start, n):
            raise ValueError(f"start must be {n} probabilities that sum to 1, not {shown(start)}")
        if self.start is None and self.ending.any():
            state = int(np.argmax(self.ending))
            raise ValueError(
                f"row {state} of P sums to {self.P[state].sum():.6g}, so episodes end there: "
                "give start, the distribution of the first state"
            )
        self.rewards = _rewards(r, n, bool(self.ending.any()))
        self.r = self.rewards if self.rewards.ndim == 1 else (self.P * self.rewards).sum(axis=1)

    def __repr__(self) -> str:
        states, features = self.features.shape
        return f"RewardProcess({states} states, {features} features, gamma={self.gamma})"

    @classmethod
    def from_gymnasium(
        cls,
        env: Any,
        policy: Any = "uniform",
        gamma: float = 0.99,
        features: npt.ArrayLike | None = None,
    ) -> "RewardProcess":
        """Make the process of a policy in an environment that publishes its transitions.

        A time limit is ignored: it changes how often states are visited, not their values. With
        tabular features, the default, the fixed point is the same.

        Parameters
        ----------
        env
            The environment or its name, for instance ``"FrozenLake-v1"``.
        policy
            ``"uniform"``, an action for each state, or a row of action probabilities for each.
        gamma, features
            As above.

        Examples
        --------
        >>> lake = RewardProcess.from_gymnasium("FrozenLake-v1", "uniform", gamma=0.9)
        >>> float(lake.values[14].round(4))
        0.3915
        """
        if isinstance(env, str):
            with make_env(env) as opened:
                return cls.from_gymnasium(opened, policy, gamma, features)
        table = transition_table(env)
        if table is None:
            raise ValueError(
                f"{env} does not publish its transitions: set env.unwrapped.P, a table of states, "
                "actions and (probability, next state, reward, terminated)"
            )
        states, actions = len(table), len(table[0])
        acts = policy_matrix(policy, states, actions)
        continuing, rewards = np.zeros((states, states)), np.zeros(states)
        entered_at_end = np.zeros(states, dtype=bool)
        for state, choices in table.items():
            for action, outcomes in choices.items():
                for probability, after, reward, terminated in outcomes:
                    weight = acts[state, action] * probability
                    rewards[state] += weight * reward
                    if not terminated:
                        continuing[state, after] += weight
                    elif after != state:
                        entered_at_end[after] = True
        for state in map(int, np.flatnonzero(entered_at_end)):
            stays = all(o[1] == state for outcomes in table[state].values() for o in outcomes)
            if stays and rewards[state] != 0.0:
                raise ValueError(f"terminal state {state} has an outgoing reward: {rewards[state]}")
        first = getattr(env.unwrapped, "initial_state_distrib", None)
        if first is None:
            raise ValueError(
                f"{env} does not publish the distribution of its first state: set "
                "env.unwrapped.initial_state_distrib"
            )
        start = np.asarray(first, dtype=np.float64).reshape(states)
        features = tabular(states) if features is None else features
        return cls(continuing, rewards, gamma, features, start=start)

    @classmethod
    def from_mdp(
        cls,
        P: npt.ArrayLike,
        R: npt.ArrayLike,
        policy: Any,
        gamma: float,
        features: npt.ArrayLike,
        *,
        terminal: npt.ArrayLike = (),
        start: npt.ArrayLike | None = None,
    ) -> "RewardProcess":
        """Make the process of a policy in an MDP.

        Parameters
        ----------
        P, R
            Transition probabilities ``P[s, a, s']``, and rewards ``R[s, a]`` or ``R[s, a, s']``.
        policy
            ``"uniform"``, an action for each state, or a row of action probabilities for each.
        terminal
            States that end the episode when entered; their outgoing rewards must be zero.
        gamma, features, start
            As above.
        """
        steps, rewards = np.asarray(P, dtype=np.float64), np.asarray(R, dtype=np.float64)
        if steps.ndim != 3 or steps.shape[0] != steps.shape[2]:
            raise ValueError(f"P must have shape (states, actions, states), not {steps.shape}")
        n, actions, _ = steps.shape
        if rewards.shape not in ((n, actions), (n, actions, n)):
            raise ValueError(
                f"R must have shape {(n, actions)} or {(n, actions, n)}, not {rewards.shape}"
            )
        ends = np.asarray(terminal if np.size(terminal) else np.zeros(0, np.int64))
        if ends.dtype.kind not in "iu" or not ((ends >= 0) & (ends < n)).all():
            raise ValueError(f"terminal must hold states from 0 to {n - 1}, not {shown(terminal)}")
        for state in ends:
            if rewards[state].any():
                raise ValueError(f"terminal state {state} has an outgoing reward: {rewards[state]}")
        acts = policy_matrix(policy, n, actions)
        expected = rewards if rewards.ndim == 2 else (steps * rewards).sum(axis=2)
        continuing = np.einsum("sa,sat->st", acts, steps)
        continuing[:, ends] = continuing[ends] = 0.0
        return cls(continuing, (acts * expected).sum(axis=1), gamma, features, start=start)

    @cached_property
    def visited(self) -> Array:
        """Numbers of the states that can be visited."""
        if self.start is None:
            return np.arange(len(self.P))
        reached = self.start > 0.0
        while (more := reached | (self.P[reached] > 0.0).any(axis=0)).sum() > reached.sum():
            reached = more
        return np.flatnonzero(reached)

    @cached_property
    def chain(self) -> MarkovChain:
        """The chain of the visited states, including restarts."""
        P = self.P if self.start is None else self.P + np.outer(self.ending, self.start)
        seen = self.visited
        return MarkovChain(P[np.ix_(seen, seen)], states=seen.tolist())

    @cached_property
    def stationary(self) -> Array:
        """μ, the diagonal of M; zero for states that are never visited."""
        found = np.zeros(len(self.P))
        found[self.visited] = self.chain.stationary
        return found

    @cached_property
    def values(self) -> Array:
        """V^π, the solution of the Bellman equation."""
        return np.linalg.solve(np.eye(len(self.P)) - self.gamma * self.P, self.r)

    @cached_property
    def theta_star(self) -> Array:
        """The TD fixed point, ḡ(θ*) = 0; that of least norm if features are dependent.

        It is computed in the coordinates of M^½Φ, in which the equation is well conditioned even
        if some states are rare.
        """
        seen, root = self.visited, np.sqrt(self.stationary[self.visited])[:, None]
        left, singular, right = np.linalg.svd(root * self.features[seen], full_matrices=False)
        kept = singular > singular[0] * max(self.features.shape) * np.finfo(float).eps
        left, singular, right = left[:, kept], singular[kept], right[kept]
        weighted = root * self.P[np.ix_(seen, seen)] / root[:, 0]
        system = np.eye(kept.sum()) - self.gamma * left.T @ weighted @ left
        rotated = np.linalg.solve(system, left.T @ (root[:, 0] * self.r[seen]))
        theta: Array = right.T @ (rotated / singular)
        return theta

    @cached_property
    def omega(self) -> float:
        """ω, the least eigenvalue of ΦᵀMΦ."""
        gram = self.features.T @ (self.stationary[:, None] * self.features)
        return max(0.0, float(np.linalg.eigvalsh(gram)[0]))

    def semi_gradient(
        self, theta: Array, state: int, reward: float, next_state: int, terminated: bool = False
    ) -> Array:
        """Return g(θ; z) = (r + γφ(s')ᵀθ − φ(s)ᵀθ) φ(s), Eq. (14); no γφ(s')ᵀθ if terminated."""
        row = self.features[state]
        ahead = 0.0 if terminated else self.gamma * self.features[next_state] @ theta
        update: Array = (reward + ahead - row @ theta) * row
        return update

    def mean_semi_gradient(self, theta: Array) -> Array:
        """Return ḡ(θ), the mean semi-gradient under the stationary distribution.

        It leads to θ*: (θ* − θ)ᵀḡ(θ) ≥ (1 − γ)‖V_θ* − V_θ‖²_M (Lemma 5.1).
        """
        values = self.features @ theta
        errors = self.r + self.gamma * self.P @ values - values
        drift: Array = self.features.T @ (self.stationary * errors)
        return drift

    def error(self, theta: Array) -> float:
        """Return ‖V_θ* − V_θ‖²_M, which Theorem 5.2 bounds."""
        return float(self.stationary @ (self.features @ (self.theta_star - theta)) ** 2)

    def value_error(self, theta: Array) -> float:
        """Return ‖V^π − V_θ‖²_M, Eq. (12), positive at θ* if the features cannot represent V^π."""
        return float(self.stationary @ (self.values - self.features @ theta) ** 2)

    def simulate(self, samples: int, seed: int | np.random.Generator = 0) -> Trajectory:
        """Draw a trajectory of ``samples`` transitions, starting from the stationary distribution.

        Examples
        --------
        >>> process = RewardProcess([[0.0, 0.5], [0.0, 0.0]], [1.0, 1.0], 0.9, np.eye(2),
        ...                         start=[1.0, 0.0])
        >>> path = process.simulate(6, seed=0)
        >>> path.states, path.terminated.astype(int)
        (array([0, 1, 0, 0, 0, 1]), array([0, 1, 1, 1, 0, 1]))
        """
        return next(self.pieces([samples], seed))

    def pieces(
        self, lengths: Iterable[int], seed: int | np.random.Generator = 0
    ) -> Iterator[Trajectory]:
        """Draw one trajectory in consecutive pieces, with one piece in memory at a time.

        Examples
        --------
        >>> process = RewardProcess([[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0], 0.9, np.eye(2))
        >>> [piece.states for piece in process.pieces([3, 2], seed=1)]
        [array([1, 0, 1]), array([0, 1])]
        """
        generator = np.random.default_rng(seed)
        end = len(self.visited)  # an extra state between two episodes
        place = int(generator.choice(end, p=self.chain.stationary))
        for length in lengths:
            path = self._path(check_whole(length, "samples"), place, generator)
            here = np.flatnonzero(path[:-1] != end)[:length]
            before, after = path[here], path[here + 1]
            place = int(after[-1])
            terminated, states = after == end, self.visited[before]
            next_states = self.visited[np.where(terminated, before, after)]
            each = self.rewards.ndim == 1
            rewards = self.r[states] if each else self.rewards[states, next_states]
            yield Trajectory(states, rewards, next_states, terminated)

    @cached_property
    def _walk(self) -> MarkovChain:
        """The chain of the visited states and, as last state, the end of an episode."""
        seen, n = self.visited, len(self.visited)
        P = np.zeros((n + 1, n + 1))
        P[:n, :n] = self.P[np.ix_(seen, seen)]
        P[:n, n] = self.ending[seen]
        P[n, :n] = self.chain.stationary if self.start is None else self.start[seen]
        return MarkovChain(P)

    def _path(self, samples: int, place: int, generator: np.random.Generator) -> Array:
        """Walk from ``place`` until at least ``samples`` transitions have been drawn."""
        end, pieces, lacking = len(self.visited), [np.array([place])], samples + 1
        while lacking > 0:
            piece = self._walk.simulate(lacking + 1, start=int(pieces[-1][-1]), seed=generator)[1:]
            pieces.append(piece)
            lacking -= int(np.count_nonzero(piece != end))
        return np.concatenate(pieces)


def _continuing(P: npt.ArrayLike) -> Array:
    matrix = np.array(P, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ValueError(f"P must be a square matrix, not shape {matrix.shape}")
    sums = matrix.sum(axis=1)
    wrong = ~((matrix >= 0.0).all(axis=1) & (sums <= 1.0 + _ROUNDING))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            "rows of P must be probabilities that sum to at most 1, but row "
            f"{row} is {matrix[row]}, with sum {sums[row]:.6g}"
        )
    return matrix


def _is_law(start: Array, n: int) -> bool:
    return start.shape == (n,) and bool((start >= 0.0).all()) and abs(start.sum() - 1) <= _ROUNDING


def _rewards(r: npt.ArrayLike, n: int, episodes_end: bool) -> Array:
    rewards = np.array(r, dtype=np.float64)
    allowed = ((n,),) if episodes_end else ((n,), (n, n))
    if rewards.shape not in allowed:
        raise ValueError(
            f"r must have shape {' or '.join(map(str, allowed))}, not {rewards.shape}"
            + (": a matrix needs episodes that never end" if episodes_end else "")
        )
    for where in np.argwhere(~np.isfinite(rewards)).tolist():
        raise ValueError(f"r must be finite, but r{where} is {rewards[tuple(where)]}")
    return rewards


def transition_table(env: Any) -> Mapping[int, Mapping[int, list[Any]]] | None:
    """Return the transition table that the environment publishes; None if there is none."""
    table = getattr(env.unwrapped, "P", None)
    return table if isinstance(table, Mapping) and table else None
