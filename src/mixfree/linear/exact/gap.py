"""By how much a fit's loss may exceed that of the fit to all rows."""

from typing import NamedTuple

from scipy import special

from mixfree.linear.exact.problem import Fitted

LEVEL = 0.98  # of the law behind the bound of 95 %: sorted streams have heavier tails


class Gap(NamedTuple):
    """By how much a fit's loss exceeds that of the fit to all rows: estimate and 95 % bound."""

    estimate: float
    upper: float


NOTHING = Gap(0.0, 0.0)


def gap_of(fitted: Fitted, unit: float) -> Gap:
    """The gap of a fit to a sample, times ``unit``.

    From the spread of what the sums do not explain of the kept rows' slopes.
    """
    assert fitted.known is not None
    mean, *others = fitted.known.error(fitted.objective, fitted.point, fitted.beta).tolist()
    return Gap(mean * unit, _quantile(mean, *others) * unit)


def _quantile(mean: float, variance: float, third: float, freedom: float) -> float:
    """A bound from three cumulants, by a shifted gamma law (Buckley and Eagleson 1988).

    That they are estimates makes it longer, as F is longer than χ².
    """
    if not (mean > 0.0 and variance > 0.0 and third > 0.0):
        return max(float(mean), 0.0)
    shape = 4.0 * variance**3 / third**2
    unit = (variance / shape) ** 0.5
    bound = mean + unit * (special.gammaincinv(shape, LEVEL) - shape)
    half = mean**2 / variance
    longer = special.fdtri(2.0 * half, freedom, LEVEL) * half / special.gammaincinv(half, LEVEL)
    return float(bound * longer)
