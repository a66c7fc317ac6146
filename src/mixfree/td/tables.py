"""Arguments of a reward process, from the arrays of an MDP or a Gymnasium environment."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.base.checks import shown
from mixfree.td.episodes import make_env
from mixfree.td.features.lookup import tabular
from mixfree.td.policies import policy_matrix


def mdp_process(
    P: npt.ArrayLike,
    R: npt.ArrayLike,
    policy: Any,
    gamma: float,
    features: npt.ArrayLike,
    terminal: npt.ArrayLike,
    start: npt.ArrayLike | None,
) -> dict[str, Any]:
    """Return the arguments of :class:`RewardProcess` for an MDP given as arrays."""
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
    continuing[:, ends] = 0.0
    continuing[ends] = 0.0
    return {
        "P": continuing,
        "r": (acts * expected).sum(axis=1),
        "gamma": gamma,
        "features": features,
        "start": start,
    }


def gymnasium_process(
    env: Any, policy: Any, gamma: float, features: npt.ArrayLike | None
) -> dict[str, Any]:
    """Return the arguments of :class:`RewardProcess` for an environment with a table ``P``."""
    if isinstance(env, str):
        with make_env(env) as opened:
            return gymnasium_process(opened, policy, gamma, features)
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
    return {
        "P": continuing,
        "r": rewards,
        "gamma": gamma,
        "features": tabular(states) if features is None else features,
        "start": start_distribution(env, states),
    }


def transition_table(env: Any) -> Mapping[int, Mapping[int, list[Any]]] | None:
    """Return the transition table that the environment publishes; None if there is none."""
    table = getattr(env.unwrapped, "P", None)
    return table if isinstance(table, Mapping) and table else None


def start_distribution(env: Any, states: int) -> Array:
    """Return the distribution of the first state that the environment publishes."""
    law = getattr(env.unwrapped, "initial_state_distrib", None)
    if law is None:
        raise ValueError(
            f"{env} does not publish the distribution of its first state: set "
            "env.unwrapped.initial_state_distrib"
        )
    return np.asarray(law, dtype=np.float64).reshape(states)
