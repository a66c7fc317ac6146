"""The compiled twin of :class:`mixfree.td.ActorCritic` on a finite MDP, with a tabular policy."""

import math
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.kernels.jit import apart, kernel


@apart
def softmax(logits, out):
    """Compute probabilities proportional to the exponentials of logits."""
    top, total = logits[0], 0.0
    for k in range(logits.size):
        top = max(top, logits[k])
    for k in range(logits.size):
        out[k] = math.exp(logits[k] - top)
        total += out[k]
    for k in range(logits.size):
        out[k] /= total


@apart
def pick(policy, draw):
    """Return the action of a uniform draw."""
    action, sum_ = 0, policy[0]
    while action < policy.size - 1 and draw >= sum_:
        action += 1
        sum_ += policy[action]
    return action


def steer(
    tables: Any,
    features: Array,
    draws: Array,
    lengths: Array,
    batch: int,
    alpha: float,
    beta: float,
    looks: Array,
) -> Array:
    """Return the policies at the evaluation times, along one trajectory.

    ``tables`` has, by state and action, sums of the probabilities of outcomes, their next states
    and their rewards. A window's transitions have the signs of MLMC, or a ``batch`` of equal
    weights if that is above 0. ``draws`` has two uniform numbers per transition, of the action and
    of the outcome; the first state is 0.
    """
    states, actions, _ = tables[0].shape
    actor, critic = np.zeros((2, states, actions)), np.zeros((2, features.shape[1]))
    policies, policy = np.zeros((looks.size, states, actions)), np.zeros(actions)
    arrays = (actor, critic, policy, policies)
    follow(tables, features, draws, lengths, batch, alpha, beta, looks, arrays)
    return policies


@kernel
def follow(tables, features, draws, lengths, batch, alpha, beta, looks, arrays):
    """Follow the trajectory; see :func:`steer`."""
    sums, afters, rewards = tables
    actor, critic, policy, policies = arrays
    theta, ascent, omega, descent = actor[0], actor[1], critic[0], critic[1]
    states, actions, outcomes = sums.shape
    eta, drift, root = 0.0, 0.0, 0.0
    state, steps, position, look = 0, 0, 0, 0
    for t in range(draws.shape[0]):
        length = lengths[steps]
        softmax(theta[state], policy)
        action = pick(policy, draws[t, 0])
        place = 0
        while place < outcomes - 1 and draws[t, 1] >= sums[state, action, place]:
            place += 1
        after, reward = afters[state, action, place], rewards[state, action, place]
        error = reward - eta
        if batch > 0:
            weight = 1.0 / batch
        elif length == 1 or 2 * position >= length:
            weight = 1.0
        else:
            weight = -1.0 if position else 0.0
        drift -= weight * error
        for k in range(omega.size):
            error += (features[after, k] - features[state, k]) * omega[k]
        for k in range(omega.size):
            descent[k] -= weight * error * features[state, k]
        for k in range(actions):
            ascent[state, k] += weight * error * ((1.0 if k == action else 0.0) - policy[k])
        state, position = after, position + 1
        if position == length:
            steps, position = steps + 1, 0
            rate = beta / math.sqrt(steps)
            eta -= rate * drift
            drift, square = 0.0, 0.0
            for k in range(omega.size):
                omega[k] -= rate * descent[k]
                descent[k] = 0.0
            for s in range(states):
                for k in range(actions):
                    square += ascent[s, k] * ascent[s, k]
            root = math.sqrt(root * root + square)
            for s in range(states):
                for k in range(actions):
                    if root > 0.0:
                        theta[s, k] += alpha / root * ascent[s, k]
                    ascent[s, k] = 0.0
        if t + 1 == looks[look]:
            for s in range(states):
                softmax(theta[s], policies[look, s])
            look += 1
