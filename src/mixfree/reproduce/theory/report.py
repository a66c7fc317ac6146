"""Tables and claims of :mod:`mixfree.reproduce.theory.experiment`, lemma by lemma."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from mixfree.reproduce.engine.report import Claim, Row, Table, every, gather
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import estimate, exponent_over_seeds
from mixfree.reproduce.paper.problem import mixing_time, problem_of
from mixfree.reproduce.theory import bounds
from mixfree.reproduce.theory.measures import DELTA, DIAMETER
from mixfree.reproduce.theory.windows import Windows

__all__ = [
    "bias_claim",
    "claims",
    "exact_bias",
    "gradient_bound",
    "largest_t",
    "tables",
    "values_of",
]

Found = dict[float, dict[int, list[float]]]  # values by p and size, one per seed


def values_of(rows: Iterable[Row], quantity: str) -> Found:
    """Values of one quantity, by p and by size."""
    return gather((row for row in rows if row["quantity"] == quantity), "p", "size", "value")


def gradient_bound(settings: Settings) -> float:
    """G over the problems of all seeds."""
    return max(problem_of(seed).largest_gradient for seed in range(settings.seeds))


def exact_bias(settings: Settings, p: float, size: int) -> float:
    """Exact bias of a window of ``size``, averaged over the seeds."""
    found = [Windows(problem_of(seed), p).bias(size) for seed in range(settings.seeds)]
    return float(np.mean(found))


def tables(rows: list[Row], settings: Settings) -> list[Table]:
    """Compare the measured exponents with those of the bounds."""

    def in_size(quantity: str, p: float, least: int = 1) -> tuple[str, int]:
        at_p = [r for r in rows if (r["quantity"], r["p"]) == (quantity, p) and r["size"] >= least]
        return exponent_over_seeds(at_p, "size", "value").short(), len({r["size"] for r in at_p})

    def in_mixing(quantity: str) -> str:
        found = [row for row in rows if row["quantity"] == quantity]
        longest = max(row["size"] for row in found)
        last = [{**r, "τ": mixing_time(r["p"])} for r in found if r["size"] == longest]
        return exponent_over_seeds(last, "τ", "value").short()

    far = {p: in_size("error", p, 4 * mixing_time(p)) for p in settings.p}
    lines: list[tuple[object, ...]] = [
        (f"error of a mean, in N, p = {p:g}", fitted, "-0.5")
        for p, (fitted, sizes) in far.items()
        if sizes > 2
    ]
    lines += [
        ("error of a mean, in τ", in_mixing("error"), "+0.5"),
        ("second moment, in τ", in_mixing("second moment"), "+1"),
        *(
            (f"suboptimality, in T, p = {p:g}", in_size("suboptimality", p)[0], "-0.5")
            for p in settings.p
        ),
        ("suboptimality, in τ", in_mixing("suboptimality"), "+0.5"),
    ]
    title = f"Exponents, horizon {settings.samples:,}, {settings.seeds} seeds, 95 %"
    return [Table(title, ["quantity", "measured", "bound"], lines)]


def claims(rows: list[Row], settings: Settings) -> list[Claim]:
    """Compare the measurement with the bound of each lemma."""
    bound, horizon = gradient_bound(settings), settings.samples
    costs = next(iter(values_of(rows, "cost").values()))
    beyond = values_of(rows, "beyond")
    excess = max(max(values) for at in beyond.values() for values in at.values())
    off = [_standard_errors(values, bounds.expected_cost(size)) for size, values in costs.items()]
    return [
        bias_claim(rows, settings),
        _within(
            "Lemma 3.1: second moment at most the bound",
            values_of(rows, "second moment"),
            lambda p, n: bounds.second_moment(bound, mixing_time(p), n),
        ),
        _within(
            "Lemma A.6: error of a mean of N at most the bound",
            values_of(rows, "error"),
            lambda p, n: bounds.mean_error(n, bound, mixing_time(p), horizon),
        ),
        _within(
            "Theorem 3.3: suboptimality at most the bound",
            values_of(rows, "suboptimality"),
            lambda p, n: bounds.convex_rate(bound, DIAMETER, mixing_time(p), n),
        ),
        Claim(
            f"Lemma A.5: at most {DELTA:.0%} of the means deviate by more than its bound",
            f"at most {excess:.1%}",
            excess <= DELTA,
        ),
        _none_deviates(
            "Lemma 3.1: samples per step are 1 + Σ 2^−j(2^j − 1) = O(log T)", off, settings
        ),
    ]


def bias_claim(rows: list[Row], settings: Settings) -> Claim:
    """The mean of estimates with levels up to jmax is that of means of 2^jmax samples."""
    off = [
        _standard_errors(
            [
                value - Windows(problem_of(seed), p).offset(size)
                for seed, value in enumerate(values)
            ],
            0.0,
        )
        for p, at in values_of(rows, "bias").items()
        for size, values in at.items()
    ]
    return _none_deviates("Lemma 3.1: E g^MLMC = E g^jmax", off, settings)


def _none_deviates(text: str, off: list[float], settings: Settings) -> Claim:
    """Whether chance explains the largest of several deviations; undecided for one seed."""
    return Claim(
        text,
        f"largest deviation {max(off):.1f} standard errors of {len(off)}",
        max(off) < largest_t(settings.seeds, len(off)) if settings.seeds > 1 else None,
    )


def largest_t(seeds: int, comparisons: int) -> float:
    """The t statistic that any of the comparisons exceeds by chance with probability 1 %.

    Examples
    --------
    >>> round(largest_t(5, 1), 2)
    4.6
    """
    from scipy.stats import t

    return float(t.ppf(1.0 - 0.005 / comparisons, max(1, seeds - 1)))


def _standard_errors(values: list[float], expected: float) -> float:
    """Distance of the mean from its expected value, in standard errors."""
    distance = abs(float(np.mean(values)) - expected)
    error = float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else np.inf
    return distance / error if distance > 1e-12 * abs(expected) else 0.0


def _within(text: str, found: Found, limit: Callable[[float, int], float]) -> Claim:
    """Whether all means are within their bounds, and the largest ratio of a mean to its bound."""
    measured = [
        (estimate(values), limit(p, size)) for p, at in found.items() for size, values in at.items()
    ]
    largest = max(each.mean / most for each, most in measured)
    holds = every(each.below(most) for each, most in measured)
    return Claim(text, f"largest ratio {largest:.1e}", holds)
