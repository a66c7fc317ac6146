"""The integrated autocorrelation time of a series: samples per effectively independent one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import fft

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_positive

# The window is the first M of at least WINDOW correlation times up to M: wide enough for an
# exponential decay to vanish, narrow enough to exclude the noise of large lags (Sokal 1996).
WINDOW = 5.0
MIN_TIMES = 50  # autocorrelation times in a series below which the estimate is mostly noise


@dataclass(frozen=True)
class AutocorrelationTime:
    """Integrated autocorrelation time of a series; ``float()`` of it is the value.

    Attributes
    ----------
    value
        1 + 2 Σ ρ(t): the mean of n samples varies like the mean of n/value independent ones.
        NaN when the series is constant.
    standard_error
        Standard error of ``value``.
    window
        Number of lags summed.
    samples
        Length of the series.
    warning
        None, or why the value is unreliable.
    """

    value: float
    standard_error: float
    window: int
    samples: int
    warning: str | None = None

    def __float__(self) -> float:
        return self.value

    @property
    def effective_samples(self) -> float:
        """Effective sample size: samples divided by the autocorrelation time."""
        return self.samples / self.value


def autocorrelation(series: Any) -> Array:
    """Compute the autocorrelation of a series at lags 0, 1, 2, …, by fast Fourier transform.

    Examples
    --------
    >>> autocorrelation([1.0, -1.0, 1.0, -1.0])
    array([ 1.  , -0.75,  0.5 , -0.25])
    """
    values = _series(series)
    # Scaled first, so that neither squares nor sums can overflow.
    largest = np.abs(values).max()
    centred = values / largest if largest > 0 else values
    centred = centred - centred.mean()
    size = fft.next_fast_len(2 * len(centred), real=True)
    spectrum = fft.rfft(centred, size)
    products = fft.irfft(spectrum * spectrum.conj(), size)[: len(centred)]
    # A constant series leaves only the rounding error of its mean.
    if products[0] <= len(centred) * (4 * np.finfo(float).eps) ** 2:
        return np.full(len(centred), np.nan)
    correlation: Array = products / products[0]
    return correlation


def autocorrelation_time(series: Any, window: float = WINDOW) -> AutocorrelationTime:
    """Estimate the integrated autocorrelation time of a real series, such as gradient norms.

    τ = 1 + 2 Σ_{t≤M} ρ(t), with M the first lag of at least ``window · (1 + 2 Σ_{t≤M} |ρ(t)|)``.
    For a short series the result has a ``warning``.

    Parameters
    ----------
    series
        One number per sample, in time order.
    window
        Length of the window in autocorrelation times.

    Examples
    --------
    >>> from mixfree.chains import two_state
    >>> path = two_state(0.05).simulate(200_000, seed=0)  # τ = (1 + 0.9)/(1 − 0.9) = 19
    >>> time = autocorrelation_time(path)
    >>> abs(time.value - 19) < 3 * time.standard_error
    True
    """
    check_positive(window, "window")
    correlation = autocorrelation(series)
    samples = len(correlation)
    if np.isnan(correlation[0]):
        message = f"all {samples} samples are the same: no correlation can be estimated"
        return AutocorrelationTime(math.nan, math.nan, 0, samples, message)
    # In modulus, so that an alternating series does not close the window at once.
    scales = 2 * np.cumsum(np.abs(correlation)) - 1
    closed = np.arange(samples) >= window * scales
    times = 2 * np.cumsum(correlation) - 1
    if not closed.any():
        # As with a trend: the largest sum is the least misleading. Neighbouring sums are
        # averaged, so that an alternating series cancels.
        times = (times[:-1] + times[1:]) / 2
    lag = int(np.argmax(closed if closed.any() else times))
    # The sum of an alternating series may be negative by chance.
    value = max(float(times[lag]), 1 / samples)
    error = max(value, 1.0) * math.sqrt(2 * (2 * lag + 1) / samples)
    seen = samples / float(scales[lag]) if closed.any() else 1.0
    warning = None
    if seen < MIN_TIMES:
        warning = (
            f"{samples} samples are about {seen:.0f} correlation times; {MIN_TIMES} are needed "
            "for a reliable estimate, and slower correlations may be hidden"
        )
    return AutocorrelationTime(value, error, lag, samples, warning)


def _series(series: Any) -> Array:
    try:
        if np.iscomplexobj(series):
            raise TypeError
        values = np.asarray(series, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("series must contain real numbers, one per sample") from None
    if values.ndim != 1:
        raise ValueError(
            f"series has shape {values.shape}; one number per sample is needed, such as a norm"
        )
    if len(values) < 2:
        raise ValueError(f"series has {len(values)} samples; at least 2 are needed")
    if not np.isfinite(values).all():
        place = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"series[{place}] = {values[place]} is not a finite number")
    return values
