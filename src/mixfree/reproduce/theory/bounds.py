"""The paper's bounds as plain functions, with its constants where it gives them.

G bounds the norm of every sample's gradient (Assumption 2.1), D is the diameter of the domain
(Assumption 2.2), M bounds |F| (Assumption 2.3), and F is L-smooth (Assumption 2.4). K is the
paper's τ⌈2 log₂ T⌉, after which the chain is within T⁻² of its stationary distribution. The
logarithms inside the square roots are natural, as they come from exponentials.
"""

import math

from mixfree.base.checks import check_positive, check_whole
from mixfree.gradients import MLMC


def distance_bound(time: int, mixing_time: int) -> float:
    """Bound the distance from stationarity after ``time`` steps: d(ℓτ) ≤ 2^−ℓ (Eq. 4).

    Examples
    --------
    >>> distance_bound(30, 10)
    0.125
    """
    return 0.5 ** (check_whole(time, "time", least=0) // check_whole(mixing_time, "mixing_time"))


def decorrelation_time(mixing_time: int, horizon: int) -> int:
    """Return K = τ⌈2 log₂ T⌉ (Lemma A.6).

    Examples
    --------
    >>> decorrelation_time(10, 1024)
    200
    """
    return check_whole(mixing_time, "mixing_time") * math.ceil(
        2 * math.log2(check_whole(horizon, "horizon"))
    )


def coupling_bound(parts: int, distance: float) -> float:
    """Bound the distance of n states, K steps apart, from n independent states.

    (n − 1)d(K) in total variation, which is the least probability that a coupling of the two
    differs (Lemma A.1); never more than 1.

    Examples
    --------
    >>> coupling_bound(5, 0.125)
    0.5
    """
    return min(1.0, (check_whole(parts, "parts") - 1) * distance)


def independent_deviation(samples: int, bound: float, delta: float) -> float:
    """Bound the deviation of a mean of n independent vectors, at probability 1 − δ (Lemma A.2).

    6M(1 + √log(1/δ))/√n, and never more than 2M.

    Examples
    --------
    >>> independent_deviation(10_000, 1.0, 0.05) < 0.17
    True
    """
    return bound * min(2.0, 6.0 / math.sqrt(samples) * (1.0 + math.sqrt(math.log(1.0 / delta))))


def stationary_deviation(
    samples: int, bound: float, delta: float, delay: int, distance: float
) -> float:
    """Bound the deviation of a mean of N gradients along a stationary chain (Lemma A.3).

    6G(1 + √log(K/δ′))/√n + 2GK/N with n = ⌊N/K⌋ and δ′ = δ − K(n − 1)d(K), with probability
    1 − δ. ``distance`` is d(K) of the ``delay`` K. Where the lemma does not apply, the trivial
    bound 2G is returned.

    Examples
    --------
    >>> stationary_deviation(10**6, 1.0, 0.05, delay=100, distance=1e-12) < 0.3
    True
    """
    parts = samples // delay
    return _by_parts(samples, bound, delta - delay * (parts - 1) * distance, delay)


def delayed_deviation(
    samples: int, bound: float, delta: float, delay: int, distance: float
) -> float:
    """Bound the deviation of a mean of M gradients from K steps after a known state (Lemma A.4).

    As Lemma A.3, with δ′ = δ − (K(n − 1) + 1)d(K).

    Examples
    --------
    >>> delayed_deviation(10**6, 1.0, 0.05, delay=100, distance=1e-12) < 0.3
    True
    """
    parts = samples // delay
    return _by_parts(samples, bound, delta - (delay * (parts - 1) + 1) * distance, delay)


def _by_parts(samples: int, bound: float, left: float, delay: int) -> float:
    """Compute the bound that Lemmas A.3 and A.4 share; ``left`` is their δ′."""
    if not 0 < delay <= samples or left <= 0.0:
        return 2.0 * bound
    root = 6.0 / math.sqrt(samples // delay) * (1.0 + math.sqrt(math.log(delay / left)))
    return bound * min(2.0, root + 2.0 * delay / samples)


def deviation(samples: int, bound: float, delta: float, mixing_time: int, delay: int) -> float:
    """Bound the deviation of a mean of N gradients along the chain (Lemma A.5).

    12G√(K/N)(1 + √log(K/δ̃)) + 6GK/N with δ̃ = δ − N d(K), at probability 1 − δ, for any delay
    K ≤ N/2; d(K) is taken from Eq. 4. Where the lemma does not apply, the bound is 2G.

    Examples
    --------
    >>> deviation(10**9, 1.0, 0.05, mixing_time=10, delay=600) < 0.1
    True
    >>> deviation(100, 1.0, 0.05, mixing_time=10, delay=600)
    2.0
    """
    left = delta - samples * distance_bound(delay, mixing_time)
    if not 0 < 2 * delay <= samples or left <= 0.0:
        return 2.0 * bound
    ratio = delay / samples
    root = 12.0 * math.sqrt(ratio) * (1.0 + math.sqrt(math.log(delay / left)))
    return bound * min(2.0, root + 6.0 * ratio)


def mean_error(samples: int, bound: float, mixing_time: int, horizon: int) -> float:
    """Bound E‖g^N − ∇F‖ for N ≤ T (Lemma A.6).

    12G√(K/N)(1 + √log(KN)) + 6GK/N + 4G/N where N ≥ 2K > 0, and never more than 2G.

    Examples
    --------
    >>> mean_error(64, 1.0, 10, 10**6)
    2.0
    """
    delay = decorrelation_time(mixing_time, horizon)
    if not 0 < 2 * delay <= samples:
        return 2.0 * bound
    ratio = delay / samples
    root = 12.0 * math.sqrt(ratio) * (1.0 + math.sqrt(math.log(delay * samples)))
    return bound * min(2.0, root + 6.0 * ratio + 4.0 / samples)


def mean_square_error(samples: int, bound: float, mixing_time: int, horizon: int) -> float:
    """Bound E‖g^N − ∇F‖² for N ≤ T (Lemma A.6).

    576G²K(1 + log(KN))/N + 72G²K²/N² + 8G²/N where N ≥ 2K > 0, and never more than 4G².

    Examples
    --------
    >>> mean_square_error(64, 1.0, 10, 10**6)
    4.0
    """
    delay = decorrelation_time(mixing_time, horizon)
    if not 0 < 2 * delay <= samples:
        return 4.0 * bound**2
    ratio = delay / samples
    first = 576.0 * ratio * (1.0 + math.log(delay * samples))
    return bound**2 * min(4.0, first + 72.0 * ratio**2 + 8.0 / samples)


def second_moment(bound: float, mixing_time: int, horizon: int) -> float:
    """Bound E‖g^MLMC‖² (Lemma 3.1), with the constants of Lemma A.6.

    2G² + 2 Σ_j 2^j · 2(e_j + e_{j−1}), where e_j bounds the mean square error of 2^j samples.

    Examples
    --------
    >>> second_moment(1.0, 1, 2**24) < second_moment(1.0, 100, 2**24)
    True
    """
    errors = [
        mean_square_error(1 << j, bound, mixing_time, horizon) for j in range(horizon.bit_length())
    ]
    steps = zip(errors[1:], errors[:-1], strict=True)
    levels = sum(2.0**j * 2.0 * (here + before) for j, (here, before) in enumerate(steps, 1))
    return 2.0 * bound**2 + 2.0 * levels


def expected_cost(horizon: int) -> float:
    """Return the expected samples per step of Algorithm 1: 1 + Σ_j 2^−j(2^j − 1) (Lemma 3.1).

    Examples
    --------
    >>> expected_cost(1024)
    10.0009765625
    """
    return MLMC(levels=None, horizon=horizon).expected_samples


def regret(diameter: float, squares: float) -> float:
    """Bound AdaGrad-Norm's regret with α = D/√2: D√(2 Σ‖g‖²) (Lemma 3.2).

    Examples
    --------
    >>> regret(2.0, 8.0)
    8.0
    """
    return check_positive(diameter, "diameter") * math.sqrt(2.0 * squares)


def convex_rate(bound: float, diameter: float, mixing_time: int, horizon: int) -> float:
    """Bound E[F(w̄_T) − F(w*)] of Algorithm 1 with α = D/√2 (Theorem 3.3).

    The two terms of its proof with the constants above: regret over T, and D times the error of
    a mean of 2^⌊log₂ T⌋ ≥ T/2 samples. Of order GD√(τ/T) up to logarithms.

    Examples
    --------
    >>> convex_rate(1.0, 1.0, 10, 10**6) > convex_rate(1.0, 1.0, 10, 10**8)
    True
    """
    return regret(diameter, _squares(bound, mixing_time, horizon)) / horizon + diameter * _bias(
        bound, mixing_time, horizon
    )


def nonconvex_rate(
    bound: float, values: float, smoothness: float, mixing_time: int, horizon: int
) -> float:
    """Bound E[(1/T) Σ‖∇F(w_t)‖²] of Algorithm 1 with α = 1 (Theorem 4.3).

    Eq. (11) in expectation, with the constants above: (2M + L)√(T·E‖g‖²)/T, where |F| ≤ M and F
    is L-smooth, and G times the error of a mean of 2^⌊log₂ T⌋ samples. Its root bounds
    E‖∇F(w̃)‖ at a random iterate (Corollary 4.4).

    Examples
    --------
    >>> nonconvex_rate(1.0, 2.0, 1.0, 10, 10**6) > nonconvex_rate(1.0, 2.0, 1.0, 10, 10**8)
    True
    """
    root = math.sqrt(_squares(bound, mixing_time, horizon))
    bias = bound * _bias(bound, mixing_time, horizon)
    return (2.0 * values + smoothness) * root / horizon + bias


def td_rate(
    largest_reward: float, radius: float, gamma: float, mixing_time: int, horizon: int
) -> float:
    """Bound E‖V_θ* − V_θ̄‖²_M of MAG with steps √2·R/√Σ‖g‖² (Theorem 5.2).

    That of Theorem 3.3 on a ball of diameter D = 2R with G = r_max + 2R, divided by 1 − γ.

    Examples
    --------
    >>> td_rate(1.0, 2.0, 0.9, 10, 10**6) > td_rate(1.0, 2.0, 0.5, 10, 10**6)
    True
    """
    bound, diameter = largest_reward + 2.0 * radius, 2.0 * radius
    return convex_rate(bound, diameter, mixing_time, horizon) / (1.0 - gamma)


def _squares(bound: float, mixing_time: int, horizon: int) -> float:
    """Bound E Σ‖g_t‖² over T steps."""
    return horizon * second_moment(bound, mixing_time, horizon)


def _bias(bound: float, mixing_time: int, horizon: int) -> float:
    """Bound the error of a mean of 2^⌊log₂ T⌋ ≥ T/2 samples, the largest level's (Eq. 10)."""
    return mean_error(1 << (horizon.bit_length() - 1), bound, mixing_time, horizon)
