"""The optimality gap from cumulants and from held-out losses."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from mixfree.linear.exact.folds import Mean
from mixfree.linear.exact.gap import _held_out_gap, _quantile, gap_of


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


def test_half_of_the_held_out_excess_is_the_fits_own():
    assert _held_out_gap(Mean(2.0, 0.5)) == (1.0, 3.0)
    assert _held_out_gap(Mean(-1.0, 0.1)) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("above_fit", "above_least", "wanted"),
    [(None, None, (36.0, 36.0)), (80.0, 100.0, (40.0, 80.0)), (2.0, 4.0, (2.0, 4.0))],
)
def test_held_out_losses_limit_the_gap_on_either_side(above_fit, above_least, wanted):
    """Catches a gap in other units than the loss, and limits that have changed places."""
    known = SimpleNamespace(excess_loss=lambda *fit: np.array([3.0, 0.0, 0.0, 0.0]))
    fitted = SimpleNamespace(known=known, objective=None, point=None, beta=None)
    problem = SimpleNamespace(
        units=SimpleNamespace(scale=2.0), settings=SimpleNamespace(family=SimpleNamespace(weight=3))
    )
    held_out = None
    if above_fit is not None:
        held_out = SimpleNamespace(
            above_fit=Mean(above_fit, 0.0), above_least=Mean(above_least, 0.0)
        )
    assert gap_of((problem, fitted, held_out)) == wanted


def test_a_gap_is_not_negative():
    known = SimpleNamespace(excess_loss=lambda *fit: np.array([-1e-9, 1.0, 1.0, 9.0]))
    fitted = SimpleNamespace(known=known, objective=None, point=None, beta=None)
    problem = SimpleNamespace(
        units=SimpleNamespace(scale=1.0), settings=SimpleNamespace(family=SimpleNamespace(weight=1))
    )
    assert gap_of((problem, fitted, None)) == (0.0, 0.0)
