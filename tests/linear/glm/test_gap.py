"""The optimality gap from cumulants and from held-out losses."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from mixfree.linear.glm import gap
from mixfree.linear.glm.gap import _quantile, gap_of


@pytest.mark.parametrize(
    "shape, unit, freedom", [(1.5, 2.0, 7.0), (0.5, 3.0, 40.0), (4, 0.1, 1e12)]
)
def test_the_bound_of_a_gamma_law_is_exact(shape, unit, freedom):
    """Its cumulants give its own quantile, and with estimated ones that of Fisher's law."""
    cumulants = shape * unit, shape * unit**2, 2 * shape * unit**3
    wanted = shape * unit * stats.f.ppf(0.98, 2 * shape, freedom)
    assert _quantile(*cumulants, freedom) == pytest.approx(wanted, rel=1e-6)


def test_a_shifted_law_has_a_shifted_bound():
    shifted, plain = (_quantile(mean, 4.5, 13.5, np.inf) for mean in (8.0, 3.0))
    assert shifted - plain == pytest.approx(5.0)


def test_rounding_is_not_taken_for_a_law():
    """Less than one degree of freedom, or a mean below 0, is the rounding of a gap of nothing."""
    assert _quantile(3.0, 4.5, 13.5, 0.9) == 3.0
    assert _quantile(-1e-20, 1e-40, 1e-60, 5.0) == 0.0


def fit_of(*cumulants, unit=1.0, degree=0, ridge=0.0):
    controls = SimpleNamespace(excess_loss=lambda point: np.array(cumulants))
    rows = SimpleNamespace(unit=unit, loss=SimpleNamespace(degree=degree))
    return SimpleNamespace(controls=controls, rows=rows, ridge=ridge)


def test_a_gap_is_in_the_units_of_the_loss():
    problem = fit_of(3.0, 0.0, 0.0, 0.0, unit=2.0, degree=3)
    assert gap_of(problem, None) == (24.0, 24.0)


def test_a_gap_is_not_negative():
    assert gap_of(fit_of(-1e-9, 1.0, 1.0, 9.0), None) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("lost", "wanted"), [([1.0, 3.0], (1.0, 2.0 + 2.0**0.5)), ([-1.0, -1.0], (0.0, 0.0))]
)
def test_half_of_the_held_out_excess_is_the_fits_own(lost, wanted, monkeypatch):
    """The standard error of the mean of 1 and 3 is √(¼ + ¼), and the bound has two of them."""
    monkeypatch.setattr(gap, "_held_out", lambda *fit: (np.array(lost), np.full(2, 0.5)))
    assert gap_of(fit_of(ridge=1.0), None) == pytest.approx(wanted)
