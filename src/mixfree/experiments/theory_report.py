"""What the measurements of :mod:`mixfree.experiments.theory` say, lemma by lemma."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from mixfree import theory
from mixfree.experiments.problem import mixing_time, problem_of
from mixfree.experiments.report import Claim, Row, Table, gather
from mixfree.experiments.settings import Settings
from mixfree.experiments.statistics import Estimate, estimate, exponent
from mixfree.experiments.theory import DELTA, DIAMETER, largest_gradient
from mixfree.experiments.windows import Windows

Found = dict[float, dict[int, list[float]]]  # values by p and size, one a seed


def of(rows: Iterable[Row], quantity: str) -> Found:
    """Values of one quantity by p and by size."""
    return gather((row for row in rows if row["quantity"] == quantity), "p", "size", "value")


def gradient_bound(settings: Settings) -> float:
    """G over all seeds' problems."""
    return max(largest_gradient(problem_of(seed)) for seed in range(settings.seeds))


def exact_bias(settings: Settings, p: float, size: int) -> float:
    """Exact bias of a window of ``size``, in the mean over the seeds."""
    found = [Windows(problem_of(seed), p).bias(size) for seed in range(settings.seeds)]
    return float(np.mean(found))


def tables(rows: list[Row], settings: Settings) -> list[Table]:
    """Exponents that the theory states beside those measured."""
    error, moment, gap = (of(rows, name) for name in ("error", "second moment", "suboptimality"))
    longest = max(next(iter(error.values())))
    far = {p: {n: v for n, v in at.items() if n >= 4 * mixing_time(p)} for p, at in error.items()}
    lines: list[tuple[object, ...]] = [
        (f"error of a mean, in N, p = {p:g}", _exponent(_in_size(at)), "-0.5")
        for p, at in far.items()
        if len(at) > 2
    ]
    lines += [
        ("error of a mean, in τ", _exponent(_in_mixing(error, longest)), "+0.5"),
        ("second moment, in τ", _exponent(_in_mixing(moment, settings.samples)), "+1"),
        *(
            (f"suboptimality, in T, p = {p:g}", _exponent(_in_size(at)), "-0.5")
            for p, at in gap.items()
        ),
        ("suboptimality, in τ", _exponent(_in_mixing(gap, max(gap[settings.p[0]]))), "+0.5"),
    ]
    title = f"Exponents, horizon {settings.samples:,}, {settings.seeds} seeds, 95 %"
    return [Table(title, ["quantity", "measured", "bound"], lines)]


def claims(rows: list[Row], settings: Settings) -> list[Claim]:
    """Each lemma, and whether the measurement is within it."""
    bound, horizon = gradient_bound(settings), settings.samples
    error, moment, gap = (of(rows, name) for name in ("error", "second moment", "suboptimality"))
    cost, beyond = of(rows, "cost"), of(rows, "beyond")
    costs = next(iter(cost.values()))
    checks = [
        (
            "Lemma 3.1: second moment at most the bound",
            _largest(moment, lambda p, n: theory.second_moment(bound, mixing_time(p), n)),
        ),
        (
            "Lemma A.6: error of a mean of N at most the bound",
            _largest(error, lambda p, n: theory.mean_error(n, bound, mixing_time(p), horizon)),
        ),
        (
            "Theorem 3.3: suboptimality at most the bound",
            _largest(gap, lambda p, n: theory.convex_rate(bound, DIAMETER, mixing_time(p), n)),
        ),
    ]
    excess = max(max(values) for at in beyond.values() for values in at.values())
    off = [_errors_off(values, theory.expected_cost(size)) for size, values in costs.items()]
    return [
        _bias_claim(rows, settings),
        *(Claim(text, f"largest ratio {ratio:.1e}", ratio <= 1.0) for text, ratio in checks),
        Claim(
            f"Lemma A.5: at most {DELTA:.0%} of the means deviate more than its bound",
            f"at most {excess:.1%}",
            excess <= DELTA,
        ),
        Claim(
            "Lemma 3.1: samples a step are 1 + Σ 2^−j(2^j − 1) = O(log T)",
            f"largest deviation {max(off):.1f} standard errors of {len(off)}",
            max(off) < largest_chance(settings.seeds, len(off)),
        ),
    ]


def _bias_claim(rows: list[Row], settings: Settings) -> Claim:
    """The mean of estimates with levels up to jmax is that of means of 2^jmax samples."""
    off = [
        _errors_off(
            [value - Windows(problem_of(seed), p).bias(size) for seed, value in enumerate(values)],
            0.0,
        )
        for p, at in of(rows, "bias").items()
        for size, values in at.items()
    ]
    return Claim(
        "Lemma 3.1: E g^MLMC = E g^jmax",
        f"largest deviation {max(off):.1f} standard errors of {len(off)}",
        max(off) < largest_chance(settings.seeds, len(off)),
    )


def largest_chance(seeds: int, comparisons: int) -> float:
    """The t statistic that chance alone exceeds in one of all comparisons in 1 % of cases.

    Examples
    --------
    >>> round(largest_chance(5, 1), 2)
    4.6
    """
    from scipy.stats import t

    return float(t.ppf(1.0 - 0.005 / comparisons, max(1, seeds - 1)))


def _errors_off(values: list[float], expected: float) -> float:
    """Distance of the mean from what is expected, in standard errors."""
    distance = abs(float(np.mean(values)) - expected)
    error = float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else np.inf
    return distance / error if distance > 1e-12 * abs(expected) else 0.0


def _largest(found: Found, limit: Callable[[float, int], float]) -> float:
    """Largest ratio of a mean to its bound."""
    return max(
        float(np.mean(values)) / limit(p, size)
        for p, at in found.items()
        for size, values in at.items()
    )


def _in_size(at: dict[int, list[float]]) -> Estimate:
    """Exponent in the size, over the seeds."""
    sizes = sorted(at)
    return estimate([exponent(sizes, run) for run in zip(*(at[n] for n in sizes), strict=True)])


def _in_mixing(found: Found, size: int) -> Estimate:
    """Exponent in the mixing time at one size, over the seeds."""
    taus = [mixing_time(p) for p in found]
    runs = zip(*(at[size] for at in found.values()), strict=True)
    return estimate([exponent(taus, run) for run in runs])


def _exponent(found: Estimate) -> str:
    return f"{found.mean:+.2f} ± {found.half:.2f}"
