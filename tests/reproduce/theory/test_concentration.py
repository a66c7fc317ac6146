"""Lemmas A.1 to A.5 on the two-state chain whose gradients are ±1 by the state, where G is 1."""

import math
from itertools import pairwise, product

import numpy as np
import pytest

from mixfree.chains import two_state
from mixfree.reproduce.theory import bounds

DELTA, SIZE, WINDOWS = 0.05, 1 << 15, 200


def distance(p, time):
    """d(t) of Eq. (2), half of Σ|P^t − μ|."""
    P = np.linalg.matrix_power(two_state(p).P, time)
    return 0.5 * np.abs(P[0] - 0.5).sum()


def joint_distance(p, delay, states):
    """Total variation of states, ``delay`` steps apart, from independent ones: all sequences."""
    P = np.linalg.matrix_power(two_state(p).P, delay)
    paths = product((0, 1), repeat=states)
    off = [0.5 * np.prod([P[a, b] for a, b in pairwise(path)]) - 0.5**states for path in paths]
    return 0.5 * np.abs(off).sum()


@pytest.mark.parametrize("p", [0.07, 0.01])
@pytest.mark.parametrize("states", [2, 4, 8])
def test_lemma_a1_holds_and_would_not_for_states_half_as_far_apart(p, states):
    delay = 4 * two_state(p).mixing_time()
    allowed = bounds.coupling_bound(states, distance(p, delay))
    assert allowed < 1.0
    assert joint_distance(p, delay, states) <= allowed * (1 + 1e-12)
    assert joint_distance(p, delay // 2, states) > allowed
    if states == 2:
        assert joint_distance(p, delay, states) == pytest.approx(allowed)


def deviations(p, first=0, known=False):
    """|mean| of SIZE gradients from ``first`` on, along stationary chains or from the state 1."""
    rng = np.random.default_rng(9)
    changes = rng.random((WINDOWS, first + SIZE)) < p
    if not known:
        changes[:, 0] = rng.random(WINDOWS) < 0.5
    return np.abs(1.0 - 2.0 * (np.cumsum(changes, axis=1)[:, first:] & 1).mean(axis=1))


@pytest.mark.parametrize(
    ("lemma", "slower"), [*product(["A.2", "A.3", "A.4"], [1.0, 1e4]), ("A.5", 1.0)]
)
def test_means_deviate_rarely_by_more_than_the_bound(lemma, slower):
    """And often, on a chain that hardly mixes; that of Lemma A.5 is above 1 at this size."""
    p = 0.5 if lemma in ("A.2", "A.5") else 0.1
    # The least K with N·d(K) ≤ δ/2, so that at least half of δ is left.
    delay = math.ceil(math.log(DELTA / SIZE) / math.log(1.0 - 2.0 * p)) if p < 0.5 else 1
    allowed = {
        "A.2": lambda: bounds.independent_deviation(SIZE, 1.0, DELTA),
        "A.3": lambda: bounds.stationary_deviation(SIZE, 1.0, DELTA, delay, distance(p, delay)),
        "A.4": lambda: bounds.delayed_deviation(SIZE, 1.0, DELTA, delay, distance(p, delay)),
        "A.5": lambda: bounds.deviation(SIZE, 1.0, DELTA, 1, bounds.decorrelation_time(1, SIZE)),
    }[lemma]()
    assert allowed < 2.0  # the trivial bound
    known = lemma in ("A.4", "A.5")
    found = deviations(p / slower, delay if lemma == "A.4" else 0, known)
    assert (np.mean(found > allowed) <= DELTA) == (slower == 1.0)
