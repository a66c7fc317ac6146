"""Means with Student's t intervals, and exponents of power laws."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Estimate", "Ratio", "estimate", "exponent", "exponent_over_seeds", "paired_ratio"]

CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """A mean and the half-width of its 95 % interval.

    Examples
    --------
    >>> str(Estimate(1.5e-3, 2e-4))
    '1.50e-03 ± 2.0e-04'
    """

    mean: float
    half: float

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + self.half

    def below(self, limit: float) -> bool | None:
        """Whether it is below a limit; None when the interval does not decide.

        Examples
        --------
        >>> Estimate(1.0, 0.5).below(2.0), Estimate(1.0, 0.5).below(1.2)
        (True, None)
        """
        return True if self.high < limit else False if self.low > limit else None

    def short(self) -> str:
        """Format as an exponent: signed, with two decimals.

        Examples
        --------
        >>> Estimate(0.5, 0.1).short(), Estimate(math.nan, math.inf).short()
        ('+0.50 ± 0.10', 'not measured')
        """
        if math.isnan(self.mean):
            return "not measured"
        return f"{self.mean:+.2f}" + (f" ± {self.half:.2f}" if self.half < math.inf else "")

    def __str__(self) -> str:
        return f"{self.mean:.2e}" + (f" ± {self.half:.1e}" if self.half < math.inf else "")


def estimate(values: npt.ArrayLike) -> Estimate:
    """Mean of independent values; the interval of a single one is unbounded, no values give NaN.

    Examples
    --------
    >>> estimate([1.0, 2.0, 3.0])
    Estimate(mean=2.0, half=2.484...)
    """
    from scipy.stats import t

    values = np.asarray(values, dtype=float)
    mean = float(values.mean()) if values.size else math.nan
    if values.size < 2:
        return Estimate(mean, math.inf)
    error = float(values.std(ddof=1)) / values.size**0.5
    return Estimate(mean, float(t.ppf(0.5 + CONFIDENCE / 2.0, values.size - 1)) * error)


class Ratio(NamedTuple):
    """A geometric mean of ratios with the ends of its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def below_one(self) -> bool | None:
        """Whether the ratio is below one; None when the interval does not decide."""
        return True if self.high < 1.0 else False if self.low > 1.0 else None

    def __str__(self) -> str:
        ends = f" ({self.low:.2f} to {self.high:.2f})" if self.high < math.inf else ""
        return f"{self.mean:.2f}{ends}"


def paired_ratio(values: npt.ArrayLike, others: npt.ArrayLike) -> Ratio:
    """Geometric mean ratio of values to others measured on the same streams, one pair per seed.

    Examples
    --------
    >>> print(paired_ratio([1.0, 2.1, 2.9], [2.0, 4.0, 6.0]))
    0.50 (0.45 to 0.56)
    """
    found = estimate(np.log(values) - np.log(others))
    return Ratio(*(math.exp(end) for end in (found.mean, found.low, found.high)))


def exponent(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """The b of the power law y = a·x^b, by least squares on logarithmic axes.

    NaN where there are fewer than two different x.

    Examples
    --------
    >>> round(exponent([1.0, 10.0, 100.0], [3.0, 0.3, 0.03]), 12)
    -1.0
    """
    if np.unique(x).size < 2:
        return math.nan
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def exponent_over_seeds(rows: Iterable[Mapping[str, Any]], x: str, y: str) -> Estimate:
    """Exponent of the rows' ``y`` in their ``x``: one fit per seed, then the mean of the fits.

    Examples
    --------
    >>> rows = [{"seed": s, "x": x, "y": (s + 2.0) / x} for s in (0, 1) for x in (1.0, 9.0)]
    >>> exponent_over_seeds(rows, "x", "y").short()
    '-1.00 ± 0.00'
    """
    runs: dict[Any, tuple[list[float], list[float]]] = {}
    for row in rows:
        at, values = runs.setdefault(row["seed"], ([], []))
        at.append(row[x])
        values.append(row[y])
    return estimate([exponent(*run) for run in runs.values()])
