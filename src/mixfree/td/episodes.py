"""The transitions of a Gymnasium environment, episode after episode."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from mixfree.base.checks import shown
from mixfree.base.extras import require
from mixfree.td.policies import Act, as_function


class Transition(NamedTuple):
    """One step of an environment; ``terminated`` is False if the episode was cut off."""

    state: Any
    reward: float
    next_state: Any
    terminated: bool


@contextmanager
def make_env(name: str, **arguments: Any) -> Iterator[Any]:
    """Make an environment by name, and close it at the end of the block."""
    gymnasium = require("gymnasium")
    try:
        env = gymnasium.make(name, **arguments)
    except gymnasium.error.Error as error:
        raise ValueError(f"environment {name!r} cannot be made: {error}") from error
    try:
        yield env
    finally:
        env.close()


def spaces(env: Any) -> tuple[Any, Any]:
    """Return the spaces of one observation and one action, also of a vector environment."""
    if not hasattr(env, "observation_space"):
        raise ValueError(
            f"env must be a Gymnasium environment, such as gymnasium.make(…), not {shown(env)}"
        )
    return (
        getattr(env, "single_observation_space", env.observation_space),
        getattr(env, "single_action_space", env.action_space),
    )


def transitions(env: Any, policy: Any = "uniform", seed: int = 0) -> Iterator[Transition]:
    """Run a policy endlessly and yield every transition.

    The transitions of a vector environment come step by step, in the order of its environments.
    Automatic resets, in any of Gymnasium's three modes, are not transitions and are left out.

    Parameters
    ----------
    env
        A Gymnasium environment, or a vector environment.
    policy
        ``"uniform"``, a table (see :func:`policy_matrix`), or a function of the observation of
        one environment and a NumPy generator.
    seed
        Seed of the environment and of the policy.

    Examples
    --------
    >>> import gymnasium
    >>> steps = transitions(gymnasium.make("CliffWalking-v1"), policy=[0] * 48)
    >>> next(steps)
    Transition(state=36, reward=-1.0, next_state=24, terminated=False)
    """
    act = as_function(policy, *spaces(env))
    generator = np.random.default_rng(seed)
    if hasattr(env, "num_envs"):
        return _vector_transitions(env, act, generator, seed)
    return _single_transitions(env, act, generator, seed)


def _single_transitions(
    env: Any, act: Act, generator: np.random.Generator, seed: int
) -> Iterator[Transition]:
    state, _ = env.reset(seed=seed)
    state = _copied(state)
    while True:
        next_state, reward, terminated, truncated, _ = env.step(act(state, generator))
        next_state = _copied(next_state)
        yield Transition(state, float(reward), next_state, bool(terminated))
        if terminated or truncated:
            state, _ = env.reset()
            state = _copied(state)
        else:
            state = next_state


def _vector_transitions(
    env: Any, act: Act, generator: np.random.Generator, seed: int
) -> Iterator[Transition]:
    mode = _autoreset_mode(env)
    states, _ = env.reset(seed=seed)
    states = list(_copied(states))
    resetting = np.zeros(env.num_envs, dtype=bool)  # environments whose next step is a reset
    while True:
        actions = np.array([act(state, generator) for state in states])
        after, rewards, terminated, truncated, info = env.step(actions)
        ended = np.asarray(terminated) | np.asarray(truncated)
        after = list(_copied(after))
        last = list(after)
        if mode == "SameStep":
            for i in np.flatnonzero(ended):
                last[i] = _copied(info["final_obs"][i])
        for i in np.flatnonzero(~resetting):
            yield Transition(states[i], float(rewards[i]), last[i], bool(terminated[i]))
        if mode == "Disabled" and ended.any():
            fresh, _ = env.reset(options={"reset_mask": ended})
            after = list(_copied(fresh))
        resetting = ended & ~resetting if mode == "NextStep" else np.zeros_like(resetting)
        states = after


def _autoreset_mode(env: Any) -> str:
    mode = env.metadata.get("autoreset_mode")
    if mode is None:
        raise ValueError(
            f"{env} has no metadata['autoreset_mode']: set it to one of "
            "gymnasium.vector.AutoresetMode"
        )
    return str(require("gymnasium.vector").AutoresetMode(mode).value)


def _copied(observation: Any) -> Any:
    """Copy an observation, since the environment may change it in place."""
    return observation.copy() if isinstance(observation, np.ndarray) else observation
