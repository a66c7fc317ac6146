"""Means with Student's t intervals, and exponents of power laws."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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

    def __str__(self) -> str:
        return f"{self.mean:.2e}" + (f" ± {self.half:.1e}" if self.half < math.inf else "")


def estimate(values: npt.ArrayLike) -> Estimate:
    """Mean of independent values; one value alone has an interval without ends.

    Examples
    --------
    >>> estimate([1.0, 2.0, 3.0])
    Estimate(mean=2.0, half=2.484...)
    """
    from scipy.stats import t

    values = np.asarray(values, dtype=float)
    mean = float(values.mean())
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
        """Whether the ratio is below one; None when the interval contains one."""
        return None if self.low <= 1.0 <= self.high else self.mean < 1.0

    def __str__(self) -> str:
        return f"{self.mean:.2f} ({self.low:.2f} to {self.high:.2f})"


def paired_ratio(values: npt.ArrayLike, others: npt.ArrayLike) -> Ratio:
    """Ratio of values to others measured on the same streams, one pair a seed.

    Examples
    --------
    >>> print(paired_ratio([1.0, 2.1, 2.9], [2.0, 4.0, 6.0]))
    0.50 (0.45 to 0.56)
    """
    found = estimate(np.log(values) - np.log(others))
    return Ratio(*(math.exp(end) for end in (found.mean, found.low, found.high)))


def exponent(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """The b of the power law y = a·x^b nearest to the points on logarithmic axes.

    Examples
    --------
    >>> round(exponent([1.0, 10.0, 100.0], [3.0, 0.3, 0.03]), 12)
    -1.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
