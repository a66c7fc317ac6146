"""TD learning: transitions a second of the compiled kernel, and the time of one update."""

import numpy as np

from benchmarks.core import cpu_seconds
from benchmarks.table import show
from mixfree.td import TDLearner, rescaled

STATES, FEATURES, GAMMA, RADIUS = 64, 16, 0.9, 5.0
NAMES = ("mag", "adagrad", "sgd-mlmc", "ladder", "projected-td")


def trajectory(samples):
    rng = np.random.default_rng(0)
    path = rng.integers(STATES, size=samples + 1)
    rewards = rng.standard_normal(STATES)[path[:-1]]
    features = rescaled(rng.standard_normal((STATES, FEATURES)))
    return features, (path[:-1], rewards, path[1:], np.zeros(samples, dtype=bool))


def learner(name, features, **options):
    if name == "projected-td":
        options["horizon"] = 10_000
    return TDLearner(features, GAMMA, RADIUS, name, **options)


def kernel_rate(name, features, path):
    def work():
        learner(name, features).update_many(*path)

    return len(path[0]) / cpu_seconds(work)


def vector_rate(name, features, path):
    """The same, with the feature vectors of every transition looked up beforehand."""
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
        ["method", "kernel, states, M/s", "kernel, vectors, M/s", "update, µs"],
        lines,
    )
