"""The scalar part of the ladder, written once for NumPy, PyTorch and JAX.

``xp`` is ``jax.numpy`` for arrays without dimensions, and :class:`Numbers` for Python's numbers. No
function with it branches on a value, so that JAX can trace it.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

FIRST = 1e-6  # first distance, as a fraction of 1 + |x0|
FIRST_OF_WEIGHTS = 0.1  # the same, as a fraction of the root mean square of x0, its own scale
GROWTH = 1.25  # largest factor of rbar from one step to the next
MARGIN = 5.0  # factor of the lower bound until the first arrival, and 1 after it
MOVED = 5.0  # factor of the movement of the mean point while the number of steps doubled
KEPT = 0.25  # smallest fraction of rbar that remains after an arrival
FIRST_EPOCH = 128  # steps before the mean point is first compared
BLOCK = 16  # steps whose normalised gradients are summed before they enter the levels
LEVELS = 28  # levels of the sketch, enough for 16 · 2^28 steps
WIDTH = 1024  # most coordinates in the sketch
SAMPLE = 1 << 17  # most coordinates from which the distance is estimated


class Numbers:
    """The functions of ``xp`` for Python's numbers, which NumPy's take long for."""

    maximum, minimum = max, min
    where = staticmethod(lambda condition, a, b: a if condition else b)


class Scale(NamedTuple):
    r"""The distance and what it is estimated from.

    For a convex function, gradients g_i at x_i with any weights λ_i, and any point o,

    .. math:: \|o - x^*\|_\infty \ge \frac{\sum_i \lambda_i\, g_i \cdot (o - x_i)}
                                          {\|\sum_i \lambda_i g_i\|_1},

    the bound of D-adaptation (Defazio and Mishchenko 2023), with λ the largest r̄ so far. What does
    not move in spite of gradients, by a rate of 0 or at the edge of a domain, is left out of the
    denominator, so that it does not hold up the rest.
    """

    rbar: Any  # the distance, which is the largest step of any coordinate
    lam: Any  # weight of the next gradient: the largest rbar so far
    numerator: Any  # Σ λ_i g_i·(o − x_i) since the last arrival
    margin: Any = MARGIN


def first_scale(xp: Any, alpha: Any, first: Any, largest: Any, rms: Any) -> Scale:
    """First r̄ and λ: as given, or from the largest entry of x0 and its root mean square."""
    if alpha is not None:
        return Scale(alpha, 1.0, 0.0)
    if first is None:
        first = xp.maximum(FIRST * (1.0 + largest), FIRST_OF_WEIGHTS * rms)
    return Scale(first, first, 0.0)


def newest_share(step: Any, power: int = 3) -> Any:
    """Share of the t-th point in a mean: (k + 1)/(t + k), where k is the power.

    The points then have weights t(t + 1)…(t + k − 1), which grow as t^k: the polynomial averages of
    Shamir and Zhang (2013). The mean of the ladder has k = 3.
    """
    return (power + 1.0) / (step + power)


def ends_epoch(step: Any) -> Any:
    """Whether the number of steps has doubled since the mean point was last compared.

    Examples
    --------
    >>> [step for step in range(1, 1000) if ends_epoch(step)]
    [128, 256, 512]
    """
    return (step >= FIRST_EPOCH) & (step & (step - 1) == 0)


def update_scale(xp: Any, scale: Scale, size: Any, moved: Any) -> tuple[Any, Scale]:
    """Raise r̄ to the lower bound, and lower it on arrival; return whether the run has arrived.

    r̄ grows by at most a quarter per step: the first few gradients of any smooth function agree,
    whatever its distance, and at first all coordinates move by r̄ at once.

    At the end of an epoch ``moved`` is that of :func:`movement`, otherwise 0. Between 0
    and r̄/5, the steps are longer than the way that is left: the run restarts from the mean (the
    caller moves the origin there and clears the weighted sum) with r̄ at five times the movement,
    but not below a quarter. From then on r̄ is the bound without the margin: gradients that agree
    now are more often a regime of the stream than a distance. ``size`` is that of :func:`pull`.
    """
    bound = scale.margin * scale.numerator / (size + (size == 0.0))
    rbar = xp.minimum(xp.maximum(scale.rbar, xp.where(size > 0.0, bound, 0.0)), GROWTH * scale.rbar)
    reach = MOVED * moved
    arrived = (reach > 0.0) & (reach < rbar)
    rbar = xp.where(arrived, xp.maximum(reach, KEPT * rbar), rbar)
    numerator = xp.where(arrived, 0.0, scale.numerator)
    margin = xp.where(arrived, 1.0, scale.margin)
    return arrived, Scale(rbar, xp.maximum(scale.lam, rbar), numerator, margin)


def movement(mean: Any, before: Any, x: Any) -> Any:
    """Largest entry of mean − before; 0 if x is nearer than the mean to where that leads next."""
    way = mean - before  # slow along a weak direction, where x is ahead; at the goal x is around
    return abs(way).max() * ((way**2).sum() <= ((x - mean - way) ** 2).sum()) if len(way) else 0.0


def pull(xp: Any, sums: Any, origin: Any, g: Any, x: Any, weight: Any) -> tuple[Any, Any]:
    """Add λ g to its sum; return the sum, its norm ‖Σ λ g‖₁ over what moves and λ g·(o − x)."""
    free = (x != origin) | (sums == 0.0)
    g = weight * g
    return sums + g, xp.stack([free * abs(sums + g), g * (origin - x)]).sum(1)


def climb(halves: Any, totals: Any, carry: Any, blocks: int) -> None:
    """Pass the sum ``carry`` of the ``blocks``-th block up the levels, in place.

    Level j pairs consecutive sums of 2^j blocks: the first waits in ``halves[j]``; the second adds
    ‖second − first‖² to ``totals[j]``, and their sum goes to the next level (a binary counter).
    """
    level = 0
    while level < LEVELS and blocks >> level & 1 == 0:
        totals[level] += ((carry - halves[level]) ** 2).sum()
        carry = carry + halves[level]
        level += 1
    if level < LEVELS:
        halves[level] = carry


def inflation(totals: Any, total: Any) -> Any:
    """κ = 1 + Σ_j max(0, V_j/V_0 − 1), where every V_j is about V_0 on independent data."""
    return 1.0 + (totals / (total + (total == 0.0)) - 1.0).clip(0.0).sum()


@lru_cache
def stride_of(entries: int, most: int = WIDTH) -> int:
    """Distance of the coordinates in a sample: 1 up to ``most`` of them, otherwise a prime.

    κ and the distance are ratios of sums over coordinates, so that some of them suffice. A prime
    distance visits all columns of a layer, unless their number is a multiple of it.

    Examples
    --------
    >>> stride_of(1024), stride_of(1025), stride_of(784 * 512)
    (1, 2, 397)
    """
    found = -(-entries // most)
    while any(found % k == 0 for k in range(2, math.isqrt(found) + 1)):
        found += 1
    return max(1, found)


def width_of(entries: int, most: int = WIDTH) -> int:
    """Number of coordinates in a sample."""
    return len(range(0, entries, stride_of(entries, most)))
