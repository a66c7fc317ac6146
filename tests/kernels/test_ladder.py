"""The compiled ladder against the reference, in every mode."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Squared, linear_gradient
from tests.helpers import assert_states_close

DIMENSION, SAMPLES = 6, 700  # beyond the blocks in which rates are renewed at every step
DOMAINS = {"space": None, "ball": mf.Ball(0.8)}
MODES = {
    "as it is": {},
    "short blocks": {"block": 5},
    "no levels": {"block": 8, "max_levels": 0},
    "two levels": {"block": 8, "max_levels": 2},
    "longer steps": {"length": 3.0},
    "fixed scale": {"block": 8, "alpha": 0.3},
    "first given": {"block": 8, "distance": mf.Distance(first=0.01)},
}


def data():
    """Regression on two regimes that alternate every hundred samples."""
    rng = np.random.default_rng(11)
    rows = rng.standard_normal((SAMPLES, DIMENSION))
    weights = rng.standard_normal((2, DIMENSION))
    regime = np.arange(SAMPLES) // 100 % 2
    return rows, np.einsum("ij,ij->i", rows, weights[regime]) + 0.1 * rng.standard_normal(SAMPLES)


@pytest.mark.parametrize("per_coordinate", [True, False])
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_step_by_step(mode, domain, per_coordinate):
    rows, targets = data()
    reference, compiled = (
        mf.Ladder(
            np.zeros(DIMENSION),
            domain=DOMAINS[domain],
            per_coordinate=per_coordinate,
            **MODES[mode],
        )
        for _ in range(2)
    )
    for start in range(0, SAMPLES, 50):
        piece = slice(start, start + 50)
        for row, target in zip(rows[piece], targets[piece], strict=True):
            reference.tell(linear_gradient(Squared(), reference.x, row, target))
        advance_linear(compiled, Squared(), rows[piece], targets[piece])
        np.testing.assert_allclose(compiled.x, reference.x, rtol=1e-10, atol=1e-12)
    assert_states_close(compiled.state_dict(), reference.state_dict(), 1e-10)
    assert np.abs(reference.x).max() > 0.05
    if mode == "no levels":
        assert len(reference.state_dict()["step"]["levels"]) == 0
