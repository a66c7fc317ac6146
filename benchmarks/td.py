"""TD learning: transitions per second in arrays, and the time of one update."""

import math

import numpy as np

from benchmarks.core import cpu_seconds
from benchmarks.table import show
from mixfree.base.arithmetic import inner
from mixfree.td import TDLearner, rescaled

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


def bare_adagrad(rows, transitions):
    """Run AdaGrad as one loop for this case, to measure the cost of the NumPy calls alone."""
    theta, total, root = np.zeros(FEATURES), np.zeros(FEATURES), 0.0
    for s, r, s_next, terminated in transitions:
        row = rows[s]
        error = float(row.dot(theta)) - r
        if not terminated:
            error -= GAMMA * float(rows[s_next].dot(theta))
        g = row.dot(error)
        root = math.hypot(root, math.sqrt(inner(g, g)))
        total += theta
        theta = theta - (math.sqrt(2.0) * RADIUS / root) * g
        square = float(inner(theta, theta))
        if square > RADIUS**2:
            theta = theta * (RADIUS / math.sqrt(square))
    return total / len(transitions)


def bare_microseconds(features, path, count=20_000):
    transitions = list(zip(*(part[:count].tolist() for part in path), strict=True))
    rows = dict(enumerate(features))
    same = learner("adagrad", features)
    same.update_many(*(part[:count] for part in path))
    np.testing.assert_allclose(bare_adagrad(rows, transitions), same.average, rtol=1e-9)
    return 1e6 * cpu_seconds(lambda: bare_adagrad(rows, transitions)) / count


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
    bare = bare_microseconds(features, path)
    lines.append(["adagrad, NumPy calls alone", None, None, bare])
    show(
        f"TD learning, {FEATURES} features, one core",
        ["method", "arrays, states, M/s", "arrays, vectors, M/s", "update, µs"],
        lines,
    )
