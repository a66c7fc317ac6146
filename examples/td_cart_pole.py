"""Does TD with tile coding agree with Monte Carlo on the value of CartPole's start?"""

import gymnasium
import numpy as np
from curves import keep

from mixfree.td import TileCoding, evaluate_policy

GAMMA = 0.95
RUNS = (("lstd", 100_000), ("ladder", 100_000))
LOW, HIGH = [-2.4, -2.5, -0.21, -2.5], [2.4, 2.5, 0.21, 2.5]


def policy(observation, generator):
    """Push left or right with probability ½ each."""
    return int(generator.integers(2))


def monte_carlo(episodes, steps=200, seed=1):
    """Return the mean discounted return from the start and the half-width of its 95 % interval."""
    env, generator = gymnasium.make("CartPole-v1"), np.random.default_rng(seed)
    returns = []
    for episode in range(episodes):
        state, _ = env.reset(seed=seed + episode)
        total, discount = 0.0, 1.0
        for _ in range(steps):  # beyond 200 steps the discount is below 4e-5
            state, reward, terminated, _, _ = env.step(policy(state, generator))
            total += discount * reward
            discount *= GAMMA
            if terminated:
                break
        returns.append(total)
    return float(np.mean(returns)), 1.96 * float(np.std(returns)) / np.sqrt(episodes)


def start_states(count=2000, seed=5):
    """Draw start states as the environment does: uniformly in a small cube."""
    return np.random.default_rng(seed).uniform(-0.05, 0.05, size=(count, 4))


def learned(method, samples, seed=0):
    """Return the mean value of the start states by TD learning."""
    env = gymnasium.make("CartPole-v1")
    tiles = TileCoding(LOW, HIGH, tiles=(1, 2, 4, 4), tilings=8)
    found = evaluate_policy(
        env, policy, tiles, gamma=GAMMA, samples=samples, method=method, seed=seed
    )
    return float(found.values(start_states()).mean())


def main(runs=RUNS, episodes=2000, seeds=range(1000, 1005)):
    """Compare the value of the start by TD with that by Monte Carlo and its interval."""
    mean, half = monte_carlo(episodes)
    found = {f"Monte Carlo, {episodes:,} episodes": [f"{mean:.3f} ± {half:.3f}", ""]}
    for method, samples in runs:
        values = [learned(method, samples, seed) for seed in seeds]
        range_of = f"{min(values):.3f} to {max(values):.3f}"
        found[f"{method}, {samples:,} transitions"] = [f"{np.mean(values):.3f}", range_of]
    for name, cells in found.items():
        print(f"{name:30} {cells[0]}  {cells[1]}")
    keep(__file__, "Value of CartPole's start", found, ["mean", "range over seeds"], seeds)
    return found


if __name__ == "__main__":
    main()
