"""Intervals by resampling the seeds, for errors with heavy tails."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.reproduce.engine.statistics import CONFIDENCE, Interval, Ratio

__all__ = ["bootstrap", "median_ratio", "ratio_of_means"]

RESAMPLES = 2000


def bootstrap(statistic: Callable[[Array], Array], seeds: int) -> Interval:
    """Return a statistic with its 95 % interval over resampled seeds.

    Parameters
    ----------
    statistic
        Values for index arrays of shape (…, seeds), one per row of the last axis.
    seeds
        Number of seeds; the interval of a single one is unbounded.

    Examples
    --------
    >>> values = np.array([1.0, 2.0, 3.0])
    >>> bootstrap(lambda of: values[of].mean(axis=-1), 3)
    Interval(value=2.0, low=1.0, high=3.0)
    """
    value = float(statistic(np.arange(seeds)))
    if seeds < 2:
        return Interval(value, -np.inf, np.inf)
    drawn = statistic(np.random.default_rng(0).integers(seeds, size=(RESAMPLES, seeds)))
    low, high = np.quantile(drawn, [0.5 - CONFIDENCE / 2.0, 0.5 + CONFIDENCE / 2.0])
    return Interval(value, float(low), float(high))


def ratio_of_means(values: npt.ArrayLike, others: npt.ArrayLike) -> Ratio:
    """Return the mean of the values over that of the others, with paired resampling of the seeds.

    Examples
    --------
    >>> print(ratio_of_means([1.0, 2.1, 2.9], [2.0, 4.0, 6.0]))
    0.50 (0.48 to 0.53)
    """
    above, below = np.asarray(values, dtype=float), np.asarray(others, dtype=float)
    found = bootstrap(lambda of: above[of].mean(axis=-1) / below[of].mean(axis=-1), len(above))
    return Ratio(*found)


def median_ratio(values: npt.ArrayLike, others: npt.ArrayLike) -> Ratio:
    """Return the median of the ratios on the same streams, with resampled seeds.

    Examples
    --------
    >>> print(median_ratio([1.0, 2.1, 2.9], [2.0, 4.0, 6.0]))
    0.50 (0.48 to 0.53)
    """
    ratios = np.asarray(values, dtype=float) / np.asarray(others, dtype=float)
    return Ratio(*bootstrap(lambda of: np.median(ratios[of], axis=-1), len(ratios)))
