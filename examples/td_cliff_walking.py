"""A policy on CliffWalking that follows the edge of the cliff, with one random step in ten."""

import gymnasium
import numpy as np

from mixfree.td import RewardProcess, evaluate_policy

UP, RIGHT, DOWN = 0, 1, 2


def careful_policy(mistakes=0.1):
    """Up from the start, right along the row above the cliff, down to the goal."""
    actions = np.full(48, RIGHT)
    actions[36] = UP
    actions[11::12] = DOWN
    policy = np.full((48, 4), mistakes / 4.0)
    policy[np.arange(48), actions] += 1.0 - mistakes
    return policy


def main(samples=200_000):
    env = gymnasium.make("CliffWalking-v1")
    policy = careful_policy()
    found = evaluate_policy(env, policy, gamma=0.9, samples=samples)
    exact = RewardProcess.from_gymnasium(env, policy, gamma=0.9)
    low, high = found.interval(exact.visited)
    truth = exact.values[exact.visited]
    within = (low <= truth) & (truth <= high)
    shown = [36, 24, 30, 35]
    least, most = found.interval(shown)
    for state, value, bottom, top in zip(shown, found.values(shown), least, most, strict=True):
        print(
            f"state {state}: {value:8.3f} in [{bottom:8.3f}, {top:8.3f}], "
            f"exact {exact.values[state]:8.3f}"
        )
    print(f"{within.sum()} of {within.size} within their intervals")
    return bool(within.all())


if __name__ == "__main__":
    main()
