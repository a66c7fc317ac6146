"""Trajectories that several tests learn from."""

import numpy as np


def random_path(count=1100, states=5, seed=4):
    """Episodes that end, or are cut off and begin elsewhere: more than a block of sums."""
    rng = np.random.default_rng(seed)
    path = rng.integers(states, size=count + 1)
    after, cut = path[1:].copy(), rng.random(count) < 0.05
    after[cut] = (after[cut] + 1) % states  # not where the next one begins
    return path[:-1], rng.normal(size=count), after, rng.random(count) < 0.05
