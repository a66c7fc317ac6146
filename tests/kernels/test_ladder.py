"""The compiled ladder against the reference, in every mode."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import mixfree as mf
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Squared, linear_gradient
from mixfree.linear.sparse import SparseLinear
from mixfree.steps.ladder_rule import WIDTH
from tests.helpers import assert_states_close

DIMENSION, SAMPLES = 6, 700  # over several epochs
DOMAINS = {"space": None, "ball": mf.Ball(0.8)}
MODES = {
    "as it is": {},
    "short blocks": {"block": 5},
    "longer steps": {"length": 3.0},
    "fixed scale": {"block": 8, "alpha": 0.3},
    "first given": {"block": 8, "first": 0.01},
}


def data():
    """Regression on two regimes that alternate every hundred samples."""
    rng = np.random.default_rng(11)
    rows = rng.standard_normal((SAMPLES, DIMENSION))
    weights = rng.standard_normal((2, DIMENSION))
    regime = np.arange(SAMPLES) // 100 % 2
    return rows, np.einsum("ij,ij->i", rows, weights[regime]) + 0.1 * rng.standard_normal(SAMPLES)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_step_by_step(mode, domain):
    (rows, targets), chosen = data(), {"domain": DOMAINS[domain], **MODES[mode]}
    reference, compiled = (mf.Ladder(np.zeros(DIMENSION), **chosen) for _ in range(2))
    for start in range(0, SAMPLES, 50):
        piece = slice(start, start + 50)
        for row, target in zip(rows[piece], targets[piece], strict=True):
            reference.tell(linear_gradient(Squared(), reference.x, row, target))
        advance_linear(compiled, Squared(), rows[piece], targets[piece])
        np.testing.assert_allclose(compiled.x, reference.x, rtol=1e-10, atol=1e-12)
    assert_states_close(compiled.state_dict(), reference.state_dict(), 1e-10)
    assert np.abs(reference.x).max() > 0.05
    assert mode != "as it is" or reference.state_dict()["step"]["kappa"] > 1.5


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_the_size_of_the_gradients_does_not_matter(scale):
    plain, scaled = (mf.Ladder(np.zeros(DIMENSION)) for _ in range(2))
    advance_linear(plain, Squared(), *data())
    advance_linear(scaled, Squared(), *data(), weights=np.full(SAMPLES, scale))
    np.testing.assert_allclose(scaled.average, plain.average, rtol=1e-9, atol=1e-12)


def test_more_coordinates_than_the_sketch_has_entries(monkeypatch):
    """Catches other coordinates in the sketch or the sample, over dense and over sparse rows."""
    for module in ("steps", "kernels"):
        monkeypatch.setattr(f"mixfree.{module}.ladder.SAMPLE", 1500)
    rng, size = np.random.default_rng(4), 2 * WIDTH + 77
    rows = rng.standard_normal((150, size)) * (rng.random((150, size)) < 0.05)
    targets = rows @ rng.standard_normal(size)
    reference, compiled, lazy = (mf.Ladder(np.zeros(size), block=2) for _ in range(3))
    for row, target in zip(rows, targets, strict=True):
        reference.tell(linear_gradient(Squared(), reference.x, row, target))
    advance_linear(compiled, Squared(), rows, targets)
    sparse = SparseLinear(lazy, Squared())
    sparse.advance(csr_array(rows), targets)
    for found in (compiled, sparse.settle()):
        assert_states_close(found.state_dict(), reference.state_dict(), 1e-9)
    assert reference.state_dict()["step"]["totals"][0] > 0.0
