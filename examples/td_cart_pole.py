"""CartPole with tile coding, compared with a long Monte Carlo estimate of the same policy."""

import gymnasium
import numpy as np

from mixfree.td import TileCoding, evaluate_policy

GAMMA = 0.95
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


def main(samples=100_000, episodes=2000, method="lstd"):
    """Compare the value of the start by TD with that by Monte Carlo and its interval."""
    env = gymnasium.make("CartPole-v1")
    tiles = TileCoding(LOW, HIGH, tiles=(1, 2, 4, 4), tilings=8)
    found = evaluate_policy(env, policy, tiles, gamma=GAMMA, samples=samples, method=method)
    learned = float(found.values(start_states()).mean())
    mean, half = monte_carlo(episodes)
    print(f"TD by {method}, {samples:,} transitions, {tiles.size} features: {learned:.3f}")
    print(f"Monte Carlo, {episodes:,} episodes: {mean:.3f} ± {half:.3f}")
    print(f"autocorrelation time of the values: {found.autocorrelation.value:.1f}")
    return learned, mean, half


if __name__ == "__main__":
    main()
