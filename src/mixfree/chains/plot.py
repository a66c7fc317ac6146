"""A figure of the decay of d_mix(t) with its bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from mixfree.base import figures
from mixfree.chains import powers
from mixfree.chains.chain import MarkovChain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 48  # times at which the curves are drawn
MAX_PLAIN_TIME = 100  # longest time axis labelled with plain numbers instead of powers of ten
STYLES = [{"color": "#BBD5E8"}, *figures.styles_of("123").values()]


def plot_decay(
    chain: MarkovChain, eps: float = 0.25, interval: tuple[float, float] | None = None
) -> Figure:
    """Plot d_mix(t) against t up to a few mixing times, with lower and upper bounds.

    Parameters
    ----------
    interval
        An interval for the mixing time to shade, such as a confidence interval.

    Examples
    --------
    >>> from mixfree.chains import cycle
    >>> plot_decay(cycle(9)).axes[0].get_xlabel()
    't (steps)'
    """
    tau = chain.mixing_time(eps)
    times = sorted({round(time) for time in np.geomspace(1, max(4, 8 * tau), POINTS)})
    figure, axes = figures.new_figure()
    for index, (label, curve) in enumerate(_curves(chain, times).items()):
        # The lower bound often lies on the curve, so the curve is broad to show both.
        axes.plot(times, curve, label=label, linewidth=1.6 if index else 4, **STYLES[index])
    axes.axhline(eps, color="#777777", linewidth=0.8)
    axes.axvline(max(tau, 1), color="#777777", linewidth=0.8)
    axes.set_title(f"mixing time {tau:,}, at ε = {eps:g}", fontsize="medium")
    if interval is not None:
        low, high = interval
        axes.axvspan(low, min(high, times[-1]), color="#999999", alpha=0.2, label="interval")
    figures.log_log(axes, "t (steps)", "distance from stationarity")
    axes.set_ylim(eps / 25, 3)
    axes.set_xlim(1, times[-1])
    if times[-1] < MAX_PLAIN_TIME:
        figures.plain_ticks(axes.xaxis)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def _curves(chain: MarkovChain, times: list[int]) -> dict[str, list[float]]:
    """d(t), with its bounds by Levin and Peres' Theorems 12.5 and 12.4 or by contraction."""
    mu = chain.positive_stationary("the plot")
    held = [powers.power(chain.dense("the plot"), time).matrix for time in times]
    exact = {"$d_{mix}(t)$": [powers.distance_to(mu, power) for power in held]}
    contractions = [powers.contraction(power) for power in held]
    if not chain.is_reversible:
        lower = {"lower bound, $κ(P^t)/2$": [distance / 2 for distance in contractions]}
        return exact | lower | {"upper bound, $κ(P^t)$": contractions}
    gap = chain.spectral_gap
    return exact | {
        "lower bound, $|λ|^t/2$": [(1 - gap) ** time / 2 for time in times],
        "upper bound, $κ(P^t)$": contractions,
        r"upper bound, $e^{-γt}/μ_{min}$": [math.exp(-gap * time) / mu.min() for time in times],
    }
