"""Means with intervals, exponents of power laws, and deviations from expected values.

Intervals are Student's where values are nearly normal, and bootstrapped over the seeds where errors
have heavy tails.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "Estimate",
    "Interval",
    "Ratio",
    "bootstrap_mean",
    "difference_of_exponents",
    "estimate",
    "exponent",
    "exponent_of_mean",
    "exponent_over_seeds",
    "largest_t",
    "paired_ratio",
    "spread",
    "standard_errors",
]

CONFIDENCE = 0.95
RESAMPLES = 2000  # resamples per bootstrap

Array = npt.NDArray[Any]


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
        """Whether the value is below a limit; None if the interval contains the limit.

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

    def percent(self) -> str:
        """Format a share in per cent.

        Examples
        --------
        >>> Estimate(0.95, 0.02).percent()
        '95.0 ± 2.0'
        """
        ends = f" ± {100.0 * self.half:.1f}" if self.half < math.inf else ""
        return f"{100.0 * self.mean:.1f}{ends}"

    def __str__(self) -> str:
        return f"{self.mean:.2e}" + (f" ± {self.half:.1e}" if self.half < math.inf else "")


def estimate(values: npt.ArrayLike) -> Estimate:
    """Estimate the mean of independent values; unbounded for one value, NaN for none.

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


class Interval(NamedTuple):
    """A value with the ends of its 95 % interval, which need not be symmetric.

    Examples
    --------
    >>> str(Interval(1.5e-3, 1e-3, 4e-3)), Interval(0.5, 0.4, 0.8).short()
    ('1.5e-03 (1.0e-03 to 4.0e-03)', '+0.50 (+0.40 to +0.80)')
    """

    value: float
    low: float
    high: float

    def below(self, limit: float) -> bool | None:
        """Whether the value is below a limit; None if the interval contains the limit."""
        return True if self.high < limit else False if self.low > limit else None

    def short(self) -> str:
        """Format as an exponent."""
        if math.isnan(self.value):
            return "not measured"
        return f"{self.value:+.2f}" + self._ends("+.2f")

    def ends(self) -> str:
        """Format the ends alone, for a table with the value in another column.

        Examples
        --------
        >>> Interval(1.5e-3, 1e-3, 4e-3).ends()
        '1.00e-03 to 4.00e-03'
        """
        return f"{self.low:.2e} to {self.high:.2e}" if self.high < math.inf else "not measured"

    def _ends(self, form: str) -> str:
        return f" ({self.low:{form}} to {self.high:{form}})" if self.high < math.inf else ""

    def __str__(self) -> str:
        return f"{self.value:.1e}" + self._ends(".1e")


class Ratio(Interval):
    """A ratio with the ends of its 95 % interval."""

    def __str__(self) -> str:
        return f"{self.value:.2f}" + self._ends(".2f")


def paired_ratio(values: npt.ArrayLike, others: npt.ArrayLike) -> Ratio:
    """Estimate the geometric mean ratio of values to others on the same streams, paired by seed.

    Examples
    --------
    >>> print(paired_ratio([1.0, 2.1, 2.9], [2.0, 4.0, 6.0]))
    0.50 (0.45 to 0.56)
    """
    found = estimate(np.log(values) - np.log(others))
    return Ratio(*(math.exp(end) for end in (found.mean, found.low, found.high)))


def exponent(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Fit the b of the power law y = a·x^b by least squares on logarithmic axes.

    NaN for fewer than two different x.

    Examples
    --------
    >>> round(exponent([1.0, 10.0, 100.0], [3.0, 0.3, 0.03]), 12)
    -1.0
    """
    if np.unique(x).size < 2:
        return math.nan
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def exponent_over_seeds(rows: Iterable[Mapping[str, Any]], x: str, y: str) -> Estimate:
    """Fit the exponent of ``y`` in ``x`` per seed, and return the mean of the fits.

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


def bootstrap_mean(values: npt.ArrayLike) -> Interval:
    """Return the mean of independent values with its 95 % bootstrap interval.

    Examples
    --------
    >>> print(bootstrap_mean([1.0, 1.0, 2.0, 12.0]))
    4.0e+00 (1.0e+00 to 9.2e+00)
    """
    return _interval(_resampled_means(np.asarray(values, dtype=float)))


def spread(values: npt.ArrayLike) -> str:
    """Format the median with the 10 % and 90 % quantiles.

    Examples
    --------
    >>> spread([1.0, 2.0, 3.0, 4.0, 5.0])
    '3.0e+00 (1.4e+00 to 4.6e+00)'
    """
    low, middle, high = np.quantile(np.asarray(values, dtype=float), [0.1, 0.5, 0.9]).tolist()
    return str(Interval(middle, low, high))


def exponent_of_mean(rows: Iterable[Mapping[str, Any]], x: str, y: str) -> Interval:
    """Fit the exponent of the mean of ``y`` over seeds in ``x``, with its bootstrap interval.

    Bounds on an expected error are about this exponent. A fit per seed is about the typical error,
    which differs if a few runs have most of the error.

    Examples
    --------
    >>> rows = [{"seed": s, "x": x, "y": (s + 2.0) / x} for s in (0, 1) for x in (1.0, 9.0)]
    >>> exponent_of_mean(rows, "x", "y").short()
    '-1.00 (-1.00 to -1.00)'
    """
    return _interval(_resampled_exponents(rows, x, y))


def _resampled_exponents(rows: Iterable[Mapping[str, Any]], x: str, y: str) -> Array:
    """Return the exponent of the mean, followed by that of every resample of the seeds.

    All calls use the same resamples, so that differences are paired by seed.
    """
    runs: dict[Any, dict[float, float]] = {}
    for row in rows:
        runs.setdefault(row["seed"], {})[row[x]] = row[y]
    places = sorted(set.intersection(*map(set, runs.values()))) if runs else []
    if len(places) < 2:
        return np.array([math.nan])
    means = _resampled_means(np.array([[run[place] for place in places] for run in runs.values()]))
    away = np.log(places) - np.mean(np.log(places))
    slopes: Array = np.log(means) @ (away / (away @ away))
    return slopes


def _resampled_means(values: Array) -> Array:
    """Return the mean over the seeds, the first axis, followed by that of every resample."""
    seeds = len(values)
    if seeds < 2:
        return values
    draws = np.random.default_rng(0).multinomial(seeds, np.full(seeds, 1.0 / seeds), RESAMPLES)
    means: Array = np.vstack([np.ones(seeds), draws]) @ values / seeds
    return means


def _interval(draws: Array) -> Interval:
    """Return the first value with the quantiles of the others, unbounded if there are none."""
    if draws.size < 2:
        return Interval(float(draws[0]) if draws.size else math.nan, -math.inf, math.inf)
    low, high = np.quantile(draws[1:], [0.5 - CONFIDENCE / 2.0, 0.5 + CONFIDENCE / 2.0])
    return Interval(float(draws[0]), float(low), float(high))


def difference_of_exponents(
    rows: Iterable[Mapping[str, Any]], others: Iterable[Mapping[str, Any]], x: str, y: str
) -> Interval:
    """Return the exponent of the mean of the rows minus that of the others, paired by seed.

    Examples
    --------
    >>> rows = [{"seed": s, "x": x, "y": (s + 2.0) / x} for s in (0, 1) for x in (1.0, 9.0)]
    >>> difference_of_exponents(rows, rows, "x", "y").value
    0.0
    """
    return _interval(_resampled_exponents(rows, x, y) - _resampled_exponents(others, x, y))


def largest_t(seeds: int, comparisons: int) -> float:
    """Return the t statistic that any of the comparisons exceeds by chance with probability 1 %.

    Examples
    --------
    >>> round(largest_t(5, 1), 2)
    4.6
    """
    from scipy.stats import t

    return float(t.ppf(1.0 - 0.005 / comparisons, max(1, seeds - 1)))


def standard_errors(values: list[float], expected: float) -> float:
    """Return the distance of the mean from its expected value in standard errors.

    Examples
    --------
    >>> standard_errors([1.0, 3.0], 1.0)
    1.0
    """
    distance = abs(float(np.mean(values)) - expected)
    error = float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else np.inf
    if distance <= 1e-12 * abs(expected):
        return 0.0
    return distance / error if error > 0.0 else np.inf
