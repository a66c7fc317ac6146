"""By how much a fit's loss may exceed that of the fit to all rows."""

from typing import NamedTuple

from scipy import special

from mixfree.linear.exact.folds import Mean, Solved

LEVEL = 0.98  # of the law behind the bound of 95 %: sorted streams have heavier tails


class Gap(NamedTuple):
    """By how much a fit's loss exceeds that of the fit to all rows: estimate and 95 % bound."""

    estimate: float
    upper: float


NOTHING = Gap(0.0, 0.0)


def gap_of(solved: Solved) -> Gap:
    """The gap of a fit to a sample of the stream.

    From the spread of what the sums do not explain of the kept rows' slopes. Where these rows
    hardly determine the weights, their slopes may say too little or too much; then the gap is at
    least what rows left out say about the fit, and at most what they say about the kept rows alone.
    """
    problem, fitted, unseen = solved
    assert fitted.known is not None
    unit = problem.units.scale**2 * problem.settings.family.weight
    mean, *others = fitted.known.error(fitted.objective, fitted.point, fitted.beta).tolist()
    found = Gap(mean * unit, _quantile(mean, *others) * unit)
    if unseen is None:
        return found
    least, most = map(_of_rows, (unseen.above_fit, unseen.above_least))
    between = zip(found, least, most, strict=True)
    return Gap(*(min(max(own, low), high) for own, low, high in between))


def _of_rows(above: Mean) -> Gap:
    """Half of the loss above that of a fit which had seen the rows is that fit's own."""
    estimate = max(0.5 * above.value, 0.0)
    return Gap(estimate, max(estimate, above.value + 2.0 * above.error))


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
