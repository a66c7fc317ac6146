"""The optimality gap: by how much a fit's loss exceeds that of the fit to all rows."""

from typing import NamedTuple

from scipy import special

from mixfree.linear.exact.folds import Mean, Solved

MANY = 1e9  # degrees of freedom that are as good as infinitely many
LEVEL = 0.98  # nominal level of the 95 % bound, since sorted streams have heavier tails


class Gap(NamedTuple):
    """The loss above that of the fit to all rows: an estimate and a 95 % upper bound."""

    estimate: float
    upper: float


NOTHING = Gap(0.0, 0.0)


def gap_of(solved: Solved) -> Gap:
    """Estimate the gap of a fit to a sample of the stream.

    It follows from the spread of the part of the kept rows' slopes that the sums do not explain.
    If the fit was cross-validated, because these rows hardly determine the weights, the gap is
    limited by the held-out losses above the fit (from below) and above the least loss (from above).
    """
    problem, fitted, held_out = solved
    assert fitted.known is not None
    unit = problem.units.scale**2 * problem.settings.family.weight
    mean, *others = fitted.known.excess_loss(fitted.objective, fitted.point, fitted.beta).tolist()
    found = Gap(max(mean, 0.0) * unit, _quantile(mean, *others) * unit)
    if held_out is None:
        return found
    least, most = map(_held_out_gap, (held_out.above_fit, held_out.above_least))
    between = zip(found, least, most, strict=True)
    return Gap(*(min(max(own, low), high) for own, low, high in between))


def _held_out_gap(above: Mean) -> Gap:
    """Return the gap from held-out losses: half of the excess is that of the fit itself."""
    estimate = max(0.5 * above.value, 0.0)
    return Gap(estimate, max(estimate, above.value + 2.0 * above.error))


def _quantile(mean: float, variance: float, third: float, freedom: float) -> float:
    """Return a bound from three cumulants by a shifted gamma law (Buckley and Eagleson 1988).

    The bound allows for estimated cumulants by the ratio of quantiles of F and χ².
    """
    # Where the sums explain all slopes, the rest is rounding, with less than a degree of freedom.
    if not (mean > 0.0 and variance > 0.0 and third > 0.0 and freedom >= 1.0):
        return max(float(mean), 0.0)
    shape = 4.0 * variance**3 / third**2
    unit = (variance / shape) ** 0.5
    bound = mean + unit * (special.gammaincinv(shape, LEVEL) - shape)
    half = mean**2 / variance
    freedom = min(freedom, MANY)
    longer = special.fdtri(2.0 * half, freedom, LEVEL) * half / special.gammaincinv(half, LEVEL)
    return float(bound * longer)
