"""The reward processes of the TD experiment, by name."""

import numpy as np

from mixfree.chains import two_state, winning_streak
from mixfree.td import RewardProcess, tabular

__all__ = ["FAMILIES", "STREAKS", "boyan", "process_of", "reversed_streak", "sticky"]

GAMMA = 0.9
FAMILIES = ("reversed streak", "sticky", "Boyan")
STREAKS = (4, 8, 16, 32, 64)
STICKY_THETA = np.array([0.8, -0.6])


def reversed_streak(states: int) -> RewardProcess:
    """Return the appendix's chain of mixing time n − 1: reward 1 in its first state, tabular.

    Examples
    --------
    >>> reversed_streak(16).chain.mixing_time()
    15
    """
    chain = winning_streak(states).reversal()
    return RewardProcess(chain.P, np.eye(states)[0], GAMMA, tabular(states))


def sticky(p: float) -> RewardProcess:
    """Return the two-state chain with correlated features, whose θ* is the same for every p.

    Examples
    --------
    >>> sticky(0.5).theta_star.round(12), sticky(1e-4).theta_star.round(12)
    (array([ 0.8, -0.6]), array([ 0.8, -0.6]))
    """
    P = two_state(p).P
    features = np.array([[0.9, 0.3], [0.1, 0.3]])
    rewards = (np.eye(2) - GAMMA * P) @ features @ STICKY_THETA
    return RewardProcess(P, rewards, GAMMA, features)


def boyan() -> RewardProcess:
    """Return Boyan's chain (1999): from state 12 down to 0 by one or two, where the episode ends.

    The four features interpolate between the states 12, 8, 4 and 0. Rows stand for the states
    12, 11, …, 1.

    Examples
    --------
    >>> boyan().features[:2]
    array([[1.  , 0.  , 0.  , 0.  ],
           [0.75, 0.25, 0.  , 0.  ]])
    """
    states = 12
    P = 0.5 * (np.eye(states, k=1) + np.eye(states, k=2))
    P[-2, -1] = 0.5
    rewards = np.full(states, -3.0)
    rewards[-1] = -2.0
    places = np.arange(states, 0, -1)
    features = np.maximum(0.0, 1.0 - np.abs(places[:, None] - [12, 8, 4, 0]) / 4.0)
    return RewardProcess(P, rewards, GAMMA, features, start=np.eye(states)[0])


def process_of(family: str, parameter: float) -> RewardProcess:
    """Return the process of a family with a parameter."""
    if family == "reversed streak":
        return reversed_streak(int(parameter))
    return sticky(parameter) if family == "sticky" else boyan()
