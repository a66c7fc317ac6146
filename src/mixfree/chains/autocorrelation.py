"""The autocorrelation time of a series of numbers: how many samples count as one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import fft

from mixfree.base.checks import check_positive

# The window is the first M of at least WINDOW correlation times up to M: wide enough for an
# exponential decay to have died out, narrow enough to keep the noise of far lags out (Sokal 1996).
WINDOW = 5.0
# Below this many autocorrelation times in the series, the estimate is mostly noise.
ENOUGH = 50


@dataclass(frozen=True)
class ShortSeries:
    """Why an autocorrelation time should not be leaned on: a warning to read, not an error."""

    samples: int
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class AutocorrelationTime:
    """Integrated autocorrelation time of a series; ``float()`` of it is the value.

    Attributes
    ----------
    value
        1 + 2 Σ ρ(t): the mean of n samples varies like the mean of n/value independent ones.
        It may be NaN, when the series does not vary.
    standard_error
        Statistical error of ``value``.
    window
        How many lags were summed.
    samples
        Length of the series.
    warning
        None, or what makes the value unreliable.
    """

    value: float
    standard_error: float
    window: int
    samples: int
    warning: ShortSeries | None = None

    def __float__(self) -> float:
        return self.value

    @property
    def effective_samples(self) -> float:
        """Number of independent samples that the series is worth."""
        return self.samples / self.value


def autocorrelation(series: Any) -> np.ndarray:
    """Autocorrelation of a series at lags 0, 1, 2, …, by fast Fourier transform.

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
    # A constant leaves nothing but the rounding of its mean.
    if products[0] <= len(centred) * (4 * np.finfo(float).eps) ** 2:
        return np.full(len(centred), np.nan)
    return products / products[0]


def autocorrelation_time(series: Any, window: float = WINDOW) -> AutocorrelationTime:
    """Integrated autocorrelation time of a real series, for instance of gradient norms.

    τ = 1 + 2 Σ_{t≤M} ρ(t), with M the first lag of at least ``window`` · (1 + 2 Σ_{t≤M} |ρ(t)|).
    A short series is answered too, with a ``warning`` that says how far to trust it.

    Parameters
    ----------
    series
        One number a sample, in time order.
    window
        How many autocorrelation times the window holds.

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
        message = f"all {samples} samples are the same: no correlation can be measured"
        return AutocorrelationTime(math.nan, math.nan, 0, samples, ShortSeries(samples, message))
    # In modulus, so that a series that swings from side to side does not close the window at once.
    scales = 2 * np.cumsum(np.abs(correlation)) - 1
    closed = np.arange(samples) >= window * scales
    times = 2 * np.cumsum(correlation) - 1
    if not closed.any():
        # As with a trend: the largest sum is the least misleading. It is the mean of two
        # neighbours, so that a series which swings from side to side cancels.
        times = (times[:-1] + times[1:]) / 2
    lag = int(np.argmax(closed if closed.any() else times))
    # A sum that alternates may come out below nothing by chance.
    value = max(float(times[lag]), 1 / samples)
    error = max(value, 1.0) * math.sqrt(2 * (2 * lag + 1) / samples)
    return AutocorrelationTime(
        value, error, lag, samples, _warning(samples, scales[lag] if closed.any() else samples)
    )


def _warning(samples: int, scale: float) -> ShortSeries | None:
    if samples >= ENOUGH * scale:
        return None
    return ShortSeries(
        samples,
        f"{samples} samples hold about {samples / scale:.0f} correlation times; {ENOUGH} are "
        "needed for an answer to trust, and a slower correlation than the one found may be hidden",
    )


def _series(series: Any) -> np.ndarray:
    try:
        if np.iscomplexobj(series):
            raise TypeError
        values = np.asarray(series, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("series must hold real numbers, one a sample") from None
    if values.ndim != 1:
        raise ValueError(
            f"series has shape {values.shape}; one number a sample is needed, such as a norm"
        )
    if len(values) < 2:
        raise ValueError(f"series has {len(values)} samples; at least 2 are needed")
    if not np.isfinite(values).all():
        place = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"series[{place}] = {values[place]} is not a finite number")
    return values
