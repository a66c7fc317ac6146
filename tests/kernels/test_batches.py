"""The twin of MLMC gradients with batches."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.gradients import MLMC
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Squared, linear_gradient
from mixfree.steps import InverseSqrt


@pytest.mark.parametrize("law", [MLMC(3, batch=3, seed=1), MLMC(None, horizon=5, batch=3, seed=1)])
def test_batches_in_the_kernel(law):
    """Catches a window of 2^J samples, and a sum that is not divided by the batch."""
    rng = np.random.default_rng(0)
    rows, targets = rng.standard_normal((400, 4)), rng.standard_normal(400)
    one, other = (mf.Optimizer(np.zeros(4), law, InverseSqrt(0.3)) for _ in range(2))
    for row, target in zip(rows, targets, strict=True):
        one.tell(linear_gradient(Squared(), one.x, row, target))
    assert other.has_twin
    advance_linear(other, Squared(), rows, targets)
    assert (one.steps, one.pending) == (other.steps, other.pending)
    np.testing.assert_allclose(other.x, one.x, rtol=1e-9)
    np.testing.assert_allclose(other.average, one.average, rtol=1e-9)
