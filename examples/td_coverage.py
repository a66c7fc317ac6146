"""How often do the intervals of LSTD contain all exact values, on CliffWalking?"""

import gymnasium
import numpy as np
from curves import keep

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


POLICIES = {"uniform": "uniform", "along the cliff, one step in ten random": careful_policy()}


def covered(policy, samples, seed):
    """Whether all exact values are within their simultaneous 99 % intervals."""
    env = gymnasium.make("CliffWalking-v1")
    exact = RewardProcess.from_gymnasium(env, policy, gamma=0.9)
    found = evaluate_policy(env, policy, gamma=0.9, samples=samples, seed=seed)
    low, high = found.interval(exact.visited)
    truth = exact.values[exact.visited]
    return bool(((low <= truth) & (truth <= high)).all())


def main(samples=50_000, seeds=range(1000, 1060)):
    """Count the trajectories whose intervals contain all values, by policy."""
    found = {}
    for name, policy in POLICIES.items():
        within = sum(covered(policy, samples, seed) for seed in seeds)
        found[name] = [f"{within} of {len(seeds)}"]
        print(f"{name}: {within} of {len(seeds)} trajectories")
    title = (
        f"CliffWalking, {samples:,} transitions: trajectories with all values in their intervals"
    )
    keep(__file__, title, found, ["99 % intervals"], seeds)
    return found


if __name__ == "__main__":
    main()
