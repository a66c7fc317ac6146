"""The scalar part of the ladder in every library that calls it."""

import jax
import numpy as np
import pytest
import torch

from mixfree.steps.ladder_rule import LEVELS, climb, inflation


def test_the_scalar_rule_is_the_same_in_every_library():
    """Catches a function that works with NumPy's numbers only, or cannot be traced."""
    sums = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)

    def levels(xp, array, climb=climb):
        halves, totals = array(np.zeros((LEVELS, 3), np.float32)), array(np.zeros(LEVELS, "f4"))
        for number, carry in enumerate(sums, start=1):
            halves, totals = climb(xp, halves, totals, array(carry), number, array(_LEVELS))
        return np.asarray(totals), float(inflation(xp, totals, array(np.float32(40.0))))

    _LEVELS = np.arange(LEVELS, dtype=np.int32)
    totals, kappa = levels(np, np.asarray)
    for xp, array in ((torch, torch.as_tensor), (jax.numpy, jax.numpy.asarray)):
        found, factor = levels(xp, array)
        np.testing.assert_allclose(found, totals, rtol=1e-5)
        assert factor == pytest.approx(kappa, rel=1e-5)
