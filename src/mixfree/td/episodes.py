"""Policies, and the transitions of a Gymnasium environment, episode after episode."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import shown
from mixfree.base.extras import require

Act = Callable[[Any, np.random.Generator], Any]


def policy_matrix(policy: Any, states: int, actions: int) -> Array:
    """Convert a policy to action probabilities, one row per state.

    Examples
    --------
    >>> policy_matrix("uniform", 1, 4)
    array([[0.25, 0.25, 0.25, 0.25]])
    >>> policy_matrix([1, 0], 2, 2)
    array([[0., 1.],
           [1., 0.]])
    """
    if isinstance(policy, str):
        _check_word(policy)
        return np.full((states, actions), 1.0 / actions)
    table = np.asarray(policy)
    if table.shape == (states,) and table.dtype.kind in "iu":
        if not ((table >= 0) & (table < actions)).all():
            raise ValueError(
                f"policy must have actions from 0 to {actions - 1}, not {shown(policy)}"
            )
        probabilities: Array = np.eye(actions)[table]
        return probabilities
    if table.shape != (states, actions):
        raise ValueError(
            f"policy must be 'uniform' or a table here: an action for each of the {states} states, "
            f"or a row of {actions} probabilities for each, not {shown(policy)}"
        )
    if not ((table >= 0.0).all() and np.allclose(table.sum(axis=1), 1.0, rtol=0, atol=1e-9)):
        raise ValueError(
            "policy must have rows of probabilities, which are not negative and sum to 1"
        )
    return table.astype(np.float64)


def as_function(policy: Any, observations: Any, actions: Any) -> Act:
    """Convert a policy to a function ``act(observation, generator)`` for Gymnasium spaces."""
    if callable(policy):
        try:
            inspect.signature(policy).bind(None, None)
        except TypeError as error:
            raise ValueError(
                "policy must take an observation and a random generator: "
                f"lambda observation, generator: … ({error})"
            ) from None
        except ValueError:  # of code that is not Python's
            pass
        given: Act = policy
        return given
    if isinstance(policy, str):
        _check_word(policy)
        if not hasattr(actions, "n"):
            raise ValueError(f"a uniform policy needs a finite number of actions, not {actions}")
        first, count = int(actions.start), int(actions.n)
        return lambda observation, generator: first + int(generator.integers(count))
    for space, name in ((observations, "observation"), (actions, "action")):
        if not hasattr(space, "n"):
            raise ValueError(f"a table as policy needs a finite {name} space, not {space}")
    sums = np.cumsum(policy_matrix(policy, int(observations.n), int(actions.n)), axis=1)
    sums /= sums[:, -1:]

    def act(observation: Any, generator: np.random.Generator) -> int:
        drawn = np.searchsorted(
            sums[observation - observations.start], generator.random(), side="right"
        )
        return int(actions.start) + int(drawn)

    return act


def _check_word(policy: str) -> None:
    if policy != "uniform":
        raise ValueError(f"policy must be 'uniform', a table or a function, not {shown(policy)}")


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
    """Run a policy endlessly and yield every transition, also of a vector environment.

    Its transitions come step by step, in the order of its environments. Automatic resets, in any of
    Gymnasium's three modes, are not transitions and are left out.

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
    state = _copied(env.reset(seed=seed)[0])
    while True:
        next_state, reward, terminated, truncated, _ = env.step(act(state, generator))
        next_state = _copied(next_state)
        yield Transition(state, float(reward), next_state, bool(terminated))
        state = _copied(env.reset()[0]) if terminated or truncated else next_state


def _vector_transitions(
    env: Any, act: Act, generator: np.random.Generator, seed: int
) -> Iterator[Transition]:
    if (found := env.metadata.get("autoreset_mode")) is None:
        raise ValueError(
            f"{env} has no metadata['autoreset_mode']: set it to one of "
            "gymnasium.vector.AutoresetMode"
        )
    mode = str(require("gymnasium.vector").AutoresetMode(found).value)
    states = list(_copied(env.reset(seed=seed)[0]))
    resetting = np.zeros(env.num_envs, dtype=bool)  # environments whose next step is a reset
    while True:
        actions = np.array([act(state, generator) for state in states])
        after, rewards, terminated, truncated, info = env.step(actions)
        ended = np.asarray(terminated) | np.asarray(truncated)
        after = list(_copied(after))
        last = after.copy()
        if mode == "SameStep":
            for i in np.flatnonzero(ended):
                last[i] = _copied(info["final_obs"][i])
        for i in np.flatnonzero(~resetting):
            yield Transition(states[i], float(rewards[i]), last[i], bool(terminated[i]))
        if mode == "Disabled" and ended.any():
            after = list(_copied(env.reset(options={"reset_mask": ended})[0]))
        resetting = ended & ~resetting if mode == "NextStep" else np.zeros_like(resetting)
        states = after


def _copied(observation: Any) -> Any:
    """Copy an observation, since the environment may change it in place."""
    return observation.copy() if isinstance(observation, np.ndarray) else observation
