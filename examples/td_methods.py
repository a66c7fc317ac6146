"""How accurate are LSTD and the ladder where the exact values are known?"""

import gymnasium
import numpy as np
from curves import keep

from mixfree.td import RewardProcess, TDLearner, tabular

METHODS = ("lstd", "ladder")
GAMMAS = (0.9, 0.99)


def transitions(name, samples, seed):
    """Simulate the uniform policy; states, rewards, next states and terminations."""
    env = gymnasium.make(name)
    actions = np.random.default_rng(seed).integers(env.action_space.n, size=samples)
    found, (state, _) = [], env.reset(seed=seed)
    for action in actions.tolist():
        after, reward, terminated, truncated, _ = env.step(action)
        found.append((state, reward, after, terminated))
        state = env.reset()[0] if terminated or truncated else after
    return [np.array(column) for column in zip(*found, strict=True)]


def largest_error(process, path, method, seed):
    """Return the largest error over visited states, relative to the largest exact value."""
    learner = TDLearner(tabular(len(process.values)), process.gamma, method=method, seed=seed)
    learner.update_many(*path)
    truth, found = process.values[process.visited], learner.average[process.visited]
    return float(np.abs(found - truth).max() / np.abs(truth).max())


def main(samples=200_000, seeds=range(1000, 1020)):
    """Measure the median and range over the seeds by environment, discount and method."""
    found = {}
    for name in ("FrozenLake-v1", "CliffWalking-v1"):
        paths = {seed: transitions(name, samples, seed) for seed in seeds}
        for gamma in GAMMAS:
            process = RewardProcess.from_gymnasium(name, "uniform", gamma=gamma)
            cells = []
            for method in METHODS:
                errors = [largest_error(process, paths[seed], method, seed) for seed in seeds]
                low, middle, high = np.quantile(errors, (0.0, 0.5, 1.0))
                cells.append(f"{middle:.3f} ({low:.3f} to {high:.3f})")
            found[f"{name.removesuffix('-v1')}, γ = {gamma:g}"] = cells
            print(name, gamma, *cells)
    title = f"Largest error over the largest value after {samples:,} transitions: median and range"
    keep(__file__, title, found, METHODS, seeds)
    return found


if __name__ == "__main__":
    main()
