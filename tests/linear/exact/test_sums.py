"""Sums of rows against exact arithmetic, for any offset and size."""

import math
from fractions import Fraction

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from mixfree.linear.exact.sums import Sums, sums_of

COLUMNS = 3
WIDE = any(name in str(threadpool_info()) for name in ("SkylakeX", "Cooperlake", "SapphireRapids"))


def stream(rows, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, COLUMNS)) + offset
    return x, rng.normal(size=(rows, 2)), rng.uniform(0.5, 2.0, rows)


# Kernels for AVX-512 round 300 products to 1.25e-15; a random walk of 300 roundings has 1.9e-15.
@pytest.mark.parametrize("offset, tolerance", [(0.0, 2e-15 if WIDE else 1e-15), (1e8, 2e-14)])
def test_sums_against_exact_fractions_offsets_costing_no_digits(offset, tolerance):
    x, y, w = stream(300, offset=offset)
    total = sums_of(x, y, w)
    exact = [[Fraction(v) for v in row] for row in np.c_[x, y]]
    weight = [Fraction(v) for v in w]
    means = [sum(q * row[j] for q, row in zip(weight, exact, strict=True)) / sum(weight)
             for j in range(COLUMNS + 2)]  # fmt: skip

    def product(i, j):
        return sum(
            q * (row[i] - means[i]) * (row[j] - means[j])
            for q, row in zip(weight, exact, strict=True)
        )

    squares = [float(product(j, j)) for j in range(COLUMNS + 2)]
    for i in range(COLUMNS):
        for j in range(COLUMNS + 2):
            found = total.scatter[i, j] if j < COLUMNS else total.cross[i, j - COLUMNS]
            error = abs(found - float(product(i, j))) / math.sqrt(squares[i] * squares[j])
            assert error < tolerance, (i, j, error)
    np.testing.assert_allclose(total.mean, [float(m) for m in means], rtol=1e-15, atol=1e-15)


def test_constant_columns_have_no_spread_at_all():
    x = np.tile([0.1, 1e9 / 3.0, 0.0], (3007, 1))
    for before in (Sums.nothing(3, 2), None):
        found = sums_of(x, x[:, :2], before=before)
        assert not found.scatter.any() and not found.joined(found).scatter.any()


def test_a_first_row_far_from_the_others_costs_no_digits():
    """Catches sums about the first row alone: 1e9 deviations away, they would have no digit."""
    x, y, w = stream(300)
    x[0], w[0] = 1e9, 1e-30
    rest = sums_of(x[1:], y[1:], w[1:])
    np.testing.assert_allclose(sums_of(x, y, w).scatter, rest.scatter, rtol=1e-9, atol=1e-9)
