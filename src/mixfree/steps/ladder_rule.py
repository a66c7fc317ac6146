"""The scalar part of the ladder, written once for NumPy, PyTorch and JAX.

``xp`` is ``numpy``, ``torch`` or ``jax.numpy``. No function branches on a value, so that all can be
traced and stay on the device; numbers may be Python's or arrays without dimensions.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

FIRST = 1e-6  # first distance, as a fraction of 1 + |x0|
FIRST_OF_WEIGHTS = 0.1  # the same, as a fraction of the root mean square of x0
GROWTH = 1.25  # largest factor of rbar from one step to the next
MARGIN = 5.0  # factor of the lower bound until the first arrival, and 1 after it
MOVED = 5.0  # factor of the movement of the mean point while the number of steps doubled
KEPT = 0.25  # smallest fraction of rbar that remains after an arrival
FIRST_EPOCH = 128  # steps before the mean point is first compared
BLOCK = 16  # steps whose normalised gradients are summed before they enter the levels
LEVELS = 28  # levels of the sketch, enough for 16 · 2^28 steps
WIDTH = 1024  # most coordinates in the sketch


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


def first_distance(xp: Any, largest: Any, rms: Any) -> Any:
    """First r̄ and λ, from the largest entry of x0 and its root mean square.

    Weights that are not 0 at the start have a scale, of which a tenth is a small distance.

    Examples
    --------
    >>> import numpy as np
    >>> float(first_distance(np, 0.0, 0.0)), float(first_distance(np, 1.0, 0.5))
    (1e-06, 0.05)
    """
    return _larger(xp, FIRST * (1.0 + largest), FIRST_OF_WEIGHTS * rms)


def newest_share(step: Any) -> Any:
    """Share of the newest point in the mean: the points have weights that grow as t³.

    Examples
    --------
    >>> newest_share(1), newest_share(5)
    (1.0, 0.5)
    """
    return 4.0 / (step + 3.0)


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

    At the end of an epoch ``moved`` is the largest entry of mean − before, otherwise 0. If the mean
    point has moved, but by less than r̄/5, the steps are longer than the way that is left: the run
    restarts from the mean (the caller moves the origin there and clears the weighted sum) with r̄
    at five times the movement, but not below a quarter. From then on r̄ is the bound without the
    margin, since gradients that agree now are more often a regime of the stream than a distance.

    Parameters
    ----------
    size
        ‖Σ λ_i g_i‖₁ without coordinates that do not move.

    Examples
    --------
    >>> import numpy as np
    >>> arrived, scale = update_scale(np, Scale(rbar=0.1, lam=0.1, numerator=1.0), 2.0, 0.0)
    >>> bool(arrived), float(scale.rbar)
    (False, 0.125)
    """
    some = size > 0.0
    bound = scale.margin * scale.numerator / xp.where(some, size, 1.0)
    rbar, most = _larger(xp, scale.rbar, xp.where(some, bound, 0.0)), GROWTH * scale.rbar
    rbar = xp.where(rbar < most, rbar, most)
    reach = MOVED * moved
    arrived = (reach > 0.0) & (reach < rbar)
    rbar = xp.where(arrived, _larger(xp, reach, KEPT * rbar), rbar)
    numerator = xp.where(arrived, 0.0, scale.numerator)
    margin = xp.where(arrived, 1.0, scale.margin)
    return arrived, Scale(rbar, _larger(xp, scale.lam, rbar), numerator, margin)


def climb(
    xp: Any, halves: Any, totals: Any, carry: Any, blocks: Any, levels: Any
) -> tuple[Any, Any]:
    """Pass the sum of the ``blocks``-th block up the levels; return halves and totals.

    Level j pairs consecutive sums of 2^j blocks: the first waits in ``halves[j]``; the second adds
    ‖second − first‖² to ``totals[j]``, and their sum goes to the next level (a binary counter).

    Parameters
    ----------
    halves, totals
        One row, and one number, per level.
    levels
        ``arange(LEVELS)``, on the device of the others.
    """
    sums = xp.cumsum(xp.concatenate([carry[None], halves[:-1]]), 0)
    below = blocks & ((1 << levels) - 1)  # 0 if all levels below are complete
    second = (blocks >> levels) & 1 == 0
    squares = ((sums - halves) ** 2).sum(1)
    totals = totals + xp.where((below == 0) & second, squares, 0.0 * squares)
    return xp.where(((below == 0) & ~second)[:, None], sums, halves), totals


def inflation(xp: Any, totals: Any, total: Any) -> Any:
    """κ = 1 + Σ_j max(0, V_j/V_0 − 1), where every V_j is about V_0 on independent data.

    Examples
    --------
    >>> import numpy as np
    >>> float(inflation(np, np.array([3.0, 0.5]), 2.0))
    1.5
    """
    ratios = totals / xp.where(total > 0.0, total, 1.0)
    return 1.0 + xp.where(ratios > 1.0, ratios - 1.0, 0.0 * ratios).sum()


@lru_cache
def stride_of(entries: int) -> int:
    """Distance of the coordinates in the sketch: 1 up to ``WIDTH`` of them, otherwise a prime.

    Every coordinate of u has the same scale, so that κ can be estimated from some of them. A prime
    distance visits all columns of a layer, unless their number is a multiple of it.

    Examples
    --------
    >>> stride_of(1024), stride_of(1025), stride_of(784 * 512)
    (1, 2, 397)
    """
    found = -(-entries // WIDTH)
    while any(found % k == 0 for k in range(2, math.isqrt(found) + 1)):
        found += 1
    return max(1, found)


def width_of(entries: int) -> int:
    """Number of coordinates in the sketch."""
    return len(range(0, entries, stride_of(entries)))


def _larger(xp: Any, a: Any, b: Any) -> Any:
    """The larger of two numbers; torch.maximum takes no Python numbers."""
    return xp.where(a > b, a, b)
