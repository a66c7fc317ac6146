"""The one statistic of every experiment: functions of means over the seeds, bootstrapped.

The theorems bound expectations, so errors, ratios and exponents are those of the mean. Their 95 %
intervals are quantiles over resampled seeds, and an interval decides each verdict.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array

RESAMPLES = 2000  # resamples per bootstrap
Rows = Iterable[Mapping[str, Any]]


class Interval(NamedTuple):
    """A value with the ends of its 95 % interval, infinite for a single seed."""

    value: float
    low: float
    high: float

    def below(self, limit: float) -> bool | None:
        """Whether the value is below a limit; None if the interval contains the limit."""
        return True if self.high < limit else False if self.low > limit else None

    def off(self, expected: float) -> dict[str, "Interval"]:
        """Return how far the value is above and below an expected one."""
        above = Interval(*(end - expected for end in self))
        return {"above": above, "below": -above}

    def text(self, form: str = ".1e") -> str:
        """Format the value and its ends."""
        if math.isnan(self.value):
            return "not measured"
        ends = f" ({self.low:{form}} to {self.high:{form}})" if self.high < math.inf else ""
        return f"{self.value:{form}}{ends}"

    def __neg__(self) -> "Interval":
        return Interval(-self.value, -self.high, -self.low)

    def __str__(self) -> str:
        return self.text()


def bootstrap(values: npt.ArrayLike, of: Callable[[Array], Array] = np.asarray) -> Interval:
    """Return a function of the means over the seeds, with its 95 % interval over resampled seeds.

    The seeds are the first axis of ``values``. ``of`` maps means, with one line per resample in
    place of the seeds, to one value per line.
    """
    values = np.asarray(values, dtype=float)
    seeds = len(values)
    if seeds < 2:
        value = float(of(values)[0]) if seeds else math.nan
        return Interval(value, -math.inf, math.inf)
    found = of(np.tensordot(_resamples(seeds), values, axes=1) / seeds)
    low, high = np.quantile(found[1:], [0.025, 0.975])
    return Interval(float(found[0]), float(low), float(high))


@cache
def _resamples(seeds: int) -> Array:
    """Return how often each seed is in the sample itself, then in each resample."""
    equal = np.full(seeds, 1.0 / seeds)
    drawn = np.random.default_rng(0).multinomial(seeds, equal, RESAMPLES)
    return np.vstack([np.ones(seeds), drawn])


def ratio(values: npt.ArrayLike, others: npt.ArrayLike) -> Interval:
    """Return the ratio of the mean of values to that of others, on the same seeds."""
    return bootstrap(np.transpose([values, others]), lambda means: means[:, 0] / means[:, 1])


def exponent(rows: Rows, x: str, y: str, less: Rows | None = None) -> Interval:
    """Fit the exponent of the mean of ``y`` over seeds in ``x``, as in the bounds of the theorems.

    A fit per seed would be about the typical error, which differs if a few runs have most of the
    error. With ``less``, the exponent of these rows is subtracted, paired by seed. NaN for fewer
    than two ``x``.
    """
    places, values = _by_seed(rows, x, y)
    others, subtracted = ([], values[:, :0]) if less is None else _by_seed(less, x, y)
    if len(places) < 2 or (less is not None and len(others) < 2):
        return Interval(math.nan, -math.inf, math.inf)
    weights = np.concatenate([fitted_slope(places), -fitted_slope(others)])
    return bootstrap(np.hstack([values, subtracted]), lambda means: np.log(means) @ weights)


def fitted_slope(places: npt.ArrayLike) -> Array:
    """Return weights of log y whose sum is the slope of its line in log x, by least squares."""
    away = np.log(places) - np.mean(np.log(places)) if np.size(places) else np.zeros(0)
    weights: Array = away / (away @ away) if away.any() else away
    return weights


def _by_seed(rows: Rows, x: str, y: str) -> tuple[list[float], Array]:
    """Return the places that all seeds have, and the values there, one line per seed."""
    runs: dict[Any, dict[float, float]] = {}
    for row in rows:
        runs.setdefault(row["seed"], {})[row[x]] = row[y]
    places = sorted(set.intersection(*map(set, runs.values()))) if runs else []
    values = np.array([[run[place] for place in places] for run in runs.values()])
    return places, values.reshape(len(runs), len(places))
