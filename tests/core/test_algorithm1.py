"""Algorithm 1 against the paper's own lines."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.base.draws import LEVELS, key, trailing_zeros
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Squared
from tests.helpers import assert_states_close


def as_written(rows, targets, horizon, alpha, radius, seed):
    """Algorithm 1, line by line; J is geometric by the count of trailing zeros of a hash."""
    w = np.zeros(rows.shape[1])
    iterates, squares, used = [], 0.0, 0

    def mean(count):
        return np.mean([(x @ w - y) * x for x, y in window[:count]], axis=0)

    for t in range(1, horizon + 1):
        level = 1 + trailing_zeros(key(seed, LEVELS), t)
        corrected = 2**level <= horizon
        samples = 2**level if corrected else 1
        window = list(zip(rows[used : used + samples], targets[used : used + samples], strict=True))
        g = mean(1)
        if corrected:
            g = g + 2**level * (mean(2**level) - mean(2 ** (level - 1)))
        used += samples
        iterates.append(w)
        squares += g @ g
        w = w - alpha / np.sqrt(squares) * g
        w = w / max(1.0, np.linalg.norm(w) / radius)
    return np.mean(iterates, axis=0), w, used


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((4000, 4))
    return rows, rows @ [0.5, -0.4, 0.3, 0.0] + 0.1 * rng.standard_normal(4000)


@pytest.mark.parametrize("horizon", [1, 2, 5, 8, 100, 200])
def test_it_is_the_papers(problem, horizon):
    """Catches five levels, a horizon in samples, α = 1, a run that goes on after T steps, a last
    iterate for the average, and 2^J < T for 2^J ≤ T (horizons 2 and 8)."""
    rows, targets = problem
    average, last, used = as_written(rows, targets, horizon, 3.0 * 2**0.5, 3.0, seed=6)
    opt = mf.Algorithm1(np.zeros(4), horizon=horizon, domain=mf.Ball(3.0), seed=6)
    for count, (x, y) in enumerate(zip(rows, targets, strict=True), start=1):
        opt.tell((x @ opt.x - y) * x)
        assert (opt.steps == horizon) == (count >= used)
    np.testing.assert_allclose(opt.x, last, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(opt.average, average, rtol=1e-9, atol=1e-12)
    assert (opt.steps, opt.samples, opt.pending) == (horizon, 4000, 4000 - used)


def test_the_compiled_run_ends_too_and_is_saved(problem):
    rows, targets = problem
    pair = [mf.Algorithm1(np.zeros(4), horizon=60, domain=mf.Ball(1.0)) for _ in range(2)]
    for x, y in zip(rows, targets, strict=True):
        pair[0].tell((x @ pair[0].x - y) * x)
    for piece in (slice(0, 77), slice(77, 4000)):
        advance_linear(pair[1], Squared(), rows[piece], targets[piece])
    assert pair[1].steps == 60
    assert_states_close(pair[1].state_dict(), pair[0].state_dict(), 1e-11)
    # Catches a window without end whose length is more than a state may count.
    again = mf.Algorithm1(np.zeros(4), horizon=60, domain=mf.Ball(1.0))
    again.load_state_dict(pair[0].state_dict())
    again.tell(np.ones(4))
    assert (again.steps, again.samples) == (60, 4001)
