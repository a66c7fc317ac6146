"""TD learning: transitions per second in arrays, the time of one update, and the cost of LSTD."""

import numpy as np

from benchmarks.core import cpu_seconds
from benchmarks.table import show
from mixfree.td import TDLearner, TileCoding, rescaled

STATES, FEATURES, GAMMA, RADIUS = 64, 16, 0.9, 5.0
NAMES = ("lstd", "mag", "adagrad", "sgd-mlmc", "ladder", "projected-td")


def trajectory(samples):
    rng = np.random.default_rng(0)
    path = rng.integers(STATES, size=samples + 1)
    rewards = rng.standard_normal(STATES)[path[:-1]]
    features = rescaled(rng.standard_normal((STATES, FEATURES)))
    return features, (path[:-1], rewards, path[1:], np.zeros(samples, dtype=bool))


def learner(name, features, **options):
    if name == "projected-td":
        options["horizon"] = 10_000
    return TDLearner(features, GAMMA, None if name == "lstd" else RADIUS, name, **options)


def kernel_rate(name, features, path):
    def work():
        found = learner(name, features)
        found.update_many(*path)
        _ = found.average

    return len(path[0]) / cpu_seconds(work)


def vector_rate(name, features, path):
    """Measure the rate with the feature vectors of every transition looked up beforehand."""
    states, rewards, next_states, _ = path
    rows = np.concatenate([features[states], features[next_states]])
    here, count = np.arange(len(states)), len(states)

    def work():
        learner(name, lambda s: s, size=FEATURES).advance(rows, here, here + count, rewards)

    return len(states) / cpu_seconds(work)


def update_microseconds(name, features, path, count=20_000):
    transitions = list(zip(*(part[:count].tolist() for part in path), strict=True))
    found = learner(name, features)

    def work():
        for transition in transitions:
            found.update(*transition)

    return 1e6 * cpu_seconds(work) / count


def lstd_cost(features, states, **options):
    """Return µs per transition in arrays, seconds per solution, and megabytes of the state."""
    count = len(states) - 1
    rewards, ended = np.cos(np.arange(count)), np.zeros(count, dtype=bool)
    found = TDLearner(features, GAMMA, method="lstd", **options)

    def learn(last):
        found.update_many(states[:last], rewards[:last], states[1 : last + 1], ended[:last])

    def solve():
        learn(1)
        return found.theta

    learn(100)
    spent = cpu_seconds(lambda: learn(count), 1)
    return [spent / count * 1e6, cpu_seconds(solve, 2), size_of(found.state_dict()) / 1e6]


def size_of(state):
    """Return the bytes of all arrays in a state."""
    if isinstance(state, np.ndarray):
        return state.nbytes
    parts = state.values() if isinstance(state, dict) else state
    return sum(map(size_of, parts)) if isinstance(state, dict | list | tuple) else 0


def dense_costs():
    """Features are independent normal variables, of 2,000 states in random order."""
    rng, lines = np.random.default_rng(0), []
    for size in (16, 100, 300, 1000):
        features = rescaled(rng.standard_normal((2_000, size)))
        states = rng.integers(2_000, size=20_001)
        plain = lstd_cost(features, states)
        lines.append([f"{size:,}", *plain, lstd_cost(features, states, lam=0.5)[0]])
    return lines


def sparse_costs():
    """Features are eight tilings of a square, in which a point walks at random."""
    rng, lines = np.random.default_rng(0), []
    steps = rng.normal(scale=0.02, size=(50_001, 2))
    walk = 1.0 - np.abs(np.cumsum(steps, axis=0) % 2.0 - 1.0)
    for side in (15, 34):
        tiles = TileCoding([0.0, 0.0], [1.0, 1.0], tiles=side, tilings=8)
        lines.append([f"{tiles.size:,}", *lstd_cost(tiles, walk)])
    return lines


def main():
    features, path = trajectory(1_000_000)
    part = tuple(each[:200_000] for each in path)
    lines = [
        [
            name,
            kernel_rate(name, features, path) / 1e6,
            vector_rate(name, features, part) / 1e6,
            update_microseconds(name, features, path),
        ]
        for name in NAMES
    ]
    show(
        f"TD learning, {FEATURES} features, one core",
        ["method", "arrays, states, M/s", "arrays, vectors, M/s", "update, µs"],
        lines,
    )
    head = ["features", "per transition, µs", "one solution, s", "state, MB"]
    show("LSTD, dense features", [*head, "per transition with λ = 0.5, µs"], dense_costs())
    show("LSTD, sparse features", head, sparse_costs())
