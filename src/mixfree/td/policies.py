"""Policies: a table of action probabilities, or a function of the observation."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import shown

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
    if callable(policy):
        raise ValueError("policy must be a table of action probabilities here, not a function")
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
            f"policy must be 'uniform', an action for each of the {states} states, or a row of "
            f"{actions} probabilities for each, not of shape {table.shape}"
        )
    if not ((table >= 0.0).all() and np.allclose(table.sum(axis=1), 1.0, rtol=0, atol=1e-9)):
        raise ValueError(
            "policy must have rows of probabilities, which are not negative and sum to 1"
        )
    return table.astype(np.float64)


def as_function(policy: Any, observations: Any, actions: Any) -> Act:
    """Convert a policy to a function ``act(observation, generator)`` for Gymnasium spaces."""
    if callable(policy):
        _check_arguments(policy)
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


def _check_arguments(policy: Act) -> None:
    """Of a function that takes the observation alone, Python says only how many it was given."""
    try:
        signature = inspect.signature(policy)
    except (TypeError, ValueError):  # of code that is not Python's
        return
    try:
        signature.bind(None, None)
    except TypeError:
        raise ValueError(
            f"policy must take an observation and a random generator, not {signature}: "
            "lambda observation, generator: …"
        ) from None


def _check_word(policy: str) -> None:
    if policy != "uniform":
        raise ValueError(f"policy must be 'uniform', a table or a function, not {shown(policy)}")
