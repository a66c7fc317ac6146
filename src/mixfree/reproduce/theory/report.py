"""Tables and claims of :mod:`mixfree.reproduce.theory.experiment`, lemma by lemma."""

from collections.abc import Callable, Iterable

import numpy as np

from mixfree.reproduce.engine.report import Claim, Row, Table, every, gather, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import (
    Estimate,
    estimate,
    exponent_over_seeds,
    largest_t,
    standard_errors,
)
from mixfree.reproduce.paper.problem import Regression, mixing_time, problem_of
from mixfree.reproduce.theory import bounds
from mixfree.reproduce.theory.concentration import DELTA, LEMMAS, coupling_ratios
from mixfree.reproduce.theory.measures import DIAMETER
from mixfree.reproduce.theory.windows import Windows

__all__ = [
    "bias_claim",
    "claims",
    "exact_bias",
    "gradient_bound",
    "tables",
    "values_of",
]

TRIVIAL = "trivial here: no bound is below that of ‖∇f‖ ≤ G"

Found = dict[float, dict[int, list[float]]]  # values by p and size, one per seed


def values_of(rows: Iterable[Row], quantity: str) -> Found:
    """Return the values of one quantity, by p and by size."""
    return gather(where(rows, quantity=quantity), "p", "size", "value")


def gradient_bound(settings: Settings) -> float:
    """Return G over the problems of all seeds."""
    return max(problem_of(seed).largest_gradient for seed in settings.seed_numbers)


def exact_bias(settings: Settings, p: float, size: int) -> float:
    """Return the exact bias of a window of ``size``, averaged over the seeds."""
    found = [Windows(problem_of(seed), p).bias(size) for seed in settings.seed_numbers]
    return float(np.mean(found))


def tables(rows: list[Row], settings: Settings) -> list[Table]:
    """Compare the measured exponents with those of the bounds."""

    def in_size(quantity: str, p: float, least: int = 1) -> tuple[str, int]:
        at_p = [r for r in where(rows, quantity=quantity, p=p) if r["size"] >= least]
        return exponent_over_seeds(at_p, "size", "value").short(), len({r["size"] for r in at_p})

    far = {p: in_size("error", p, 4 * mixing_time(p)) for p in settings.p}
    lines: list[tuple[object, ...]] = [
        (f"error of a mean, in N, p = {p:g}", fitted, "-0.5")
        for p, (fitted, sizes) in far.items()
        if sizes > 2
    ]
    lines += [
        ("error of a mean, in τ", _in_mixing(rows, "error").short(), "+0.5"),
        ("second moment, in τ", _in_mixing(rows, "second moment").short(), "+1"),
        *(
            (f"suboptimality, in T, p = {p:g}", in_size("suboptimality", p)[0], "-0.5")
            for p in settings.p
        ),
        ("suboptimality, in τ", _in_mixing(rows, "suboptimality").short(), "+0.5"),
    ]
    title = f"Exponents, horizon {settings.samples:,}, {settings.seeds} seeds, 95 %"
    return [Table(title, ["quantity", "measured", "bound"], lines)]


def _in_mixing(rows: list[Row], quantity: str) -> Estimate:
    """Fit the exponent in the mixing time at the longest size."""
    found = where(rows, quantity=quantity)
    longest = max(row["size"] for row in found)
    last = [{**r, "τ": mixing_time(r["p"])} for r in found if r["size"] == longest]
    return exponent_over_seeds(last, "τ", "value")


def claims(rows: list[Row], settings: Settings) -> list[Claim]:
    """Return a claim per statement, first equalities and orders, then bounds with constants."""
    costs = next(iter(values_of(rows, "cost").values()))
    off = [standard_errors(values, bounds.expected_cost(size)) for size, values in costs.items()]
    return [
        bias_claim(rows, settings),
        _none_deviates(
            "Lemma 3.1: samples per step are 1 + Σ 2^−j(2^j − 1) = O(log T)", off, settings
        ),
        *_exact_claims(rows, settings),
        _coupling_claim(settings),
        *(_deviation_claim(rows, lemma) for lemma in LEMMAS),
        *_order_claims(rows, settings),
        *_constant_claims(rows, settings),
    ]


def _exact_claims(rows: list[Row], settings: Settings) -> list[Claim]:
    """Compare measurements with closed forms on a chain with two states."""

    def off(quantity: str, exact: Callable[[Windows, int], float]) -> list[float]:
        return [
            standard_errors(
                [
                    value / exact(Windows(problem_of(seed), p), size)
                    for seed, value in zip(settings.seed_numbers, values, strict=True)
                ],
                1.0,
            )
            for p, at in values_of(rows, quantity).items()
            for size, values in at.items()
        ]

    steps = [
        standard_errors(values, 1.0)
        for at in values_of(rows, "steps").values()
        for values in at.values()
    ]
    moments = off("second moment", lambda found, n: found.second_moment(n.bit_length() - 1))
    texts = {
        "Eq. (7): E‖g^N − ∇F‖² is the closed form": off("square error", Windows.mean_square_error),
        "Lemma 3.1: E‖g^MLMC‖² is the closed form": moments,
        "Algorithm 1: T·E[2^J] samples are T steps": steps,
    }
    return [_none_deviates(text, found, settings) for text, found in texts.items()]


def _coupling_claim(settings: Settings) -> Claim:
    """Compare both sides of Lemma A.1, exactly."""
    found = [each for p in settings.p for each in coupling_ratios(p, mixing_time(p))]
    text = "Lemma A.1: n states K steps apart are within (n − 1)d(K) of independent ones"
    if not found:
        return Claim(text, TRIVIAL, None)
    measured = f"{min(found):.2f} to {max(found):.2f} of it, exactly"
    return Claim(text, measured, max(found) <= 1.0 + 1e-9)


def _deviation_claim(rows: list[Row], lemma: str) -> Claim:
    """Claim that means of ±1 along the chain rarely deviate by more than the bound of a lemma."""
    beyond, share = values_of(rows, f"beyond {lemma}"), values_of(rows, f"share {lemma}")
    text = f"Lemma {lemma}: at most {DELTA:.0%} of the means deviate by more than its bound"
    often = [float(np.mean(values)) for at in beyond.values() for values in at.values()]
    if not often:
        return Claim(text, TRIVIAL, None)
    largest = max(max(values) for at in share.values() for values in at.values())
    measured = f"at most {max(often):.1%}, and by {largest:.2f} of it, at {len(often)} sizes"
    return Claim(text, measured, max(often) <= DELTA)


def _order_claims(rows: list[Row], settings: Settings) -> list[Claim]:
    """Return claims about exponents, and the regret of every run."""
    falls = {
        p: exponent_over_seeds(where(rows, quantity="suboptimality", p=p), "size", "value")
        for p in settings.p
    }
    slowest = max(falls.values(), key=lambda each: each.mean)
    grows = _in_mixing(rows, "suboptimality")
    largest, smallest = _sharp_constants(settings)
    regret = max(
        (max(values) for at in values_of(rows, "regret").values() for values in at.values()),
        default=np.nan,
    )
    return [
        Claim(
            "Eq. (7) is sharp: where only the state matters, the error is 1 to 3 times G²τ/N",
            f"{smallest:.2f} to {largest:.2f} for N ≥ 100τ",
            bool(smallest >= 0.95 and largest <= 3.0),
        ),
        Claim(
            "Lemma 3.2: the regret of every run is within D√(2 Σ‖g‖²)",
            f"largest ratio {regret:.2f}",
            bool(regret <= 1.0),
        ),
        Claim(
            "Theorem 3.3: the suboptimality falls at least like T^−½ at every p",
            f"slowest {slowest.short()}",
            every(each.below(-0.5) for each in falls.values()),
        ),
        Claim(
            "Theorem 3.3: the suboptimality grows at most like τ^½",
            grows.short(),
            grows.below(0.5) if not np.isnan(grows.mean) else None,
        ),
    ]


def _sharp_constants(settings: Settings) -> tuple[float, float]:
    """Return the largest and smallest N·E‖g^N − ∇F‖²/(G²τ) for one row per state and N ≥ 100τ."""
    rows, targets = np.ones((2, 1)), np.array([1.0, -1.0])
    problem = Regression(rows, targets, per_state=1)
    found = [
        size * Windows(problem, p).mean_square_error(size) / mixing_time(p)
        for p in settings.p
        for size in (100 * mixing_time(p), 400 * mixing_time(p))
    ]
    return max(found), min(found)


def _constant_claims(rows: list[Row], settings: Settings) -> list[Claim]:
    """Claim the bounds with their constants, noting those no sharper than ‖∇f‖ ≤ G."""
    bound, horizon = gradient_bound(settings), settings.samples
    beyond = values_of(rows, "beyond")
    delays = {p: bounds.decorrelation_time(mixing_time(p), horizon) for p in settings.p}
    allowed = {
        (p, size): bounds.deviation(size, bound, DELTA, mixing_time(p), delays[p])
        for p, at in beyond.items()
        for size in at
    }
    excess = [max(beyond[p][size]) for (p, size), most in allowed.items() if most < 2.0 * bound]
    return [
        _within(
            "Lemma 3.1: second moment at most the bound",
            values_of(rows, "second moment"),
            lambda p, n: bounds.second_moment(bound, mixing_time(p), n),
            lambda n: bounds.second_moment(bound, n, n),  # as for a chain that never mixes
        ),
        _within(
            "Lemma A.6: error of a mean of N at most the bound",
            values_of(rows, "error"),
            lambda p, n: bounds.mean_error(n, bound, mixing_time(p), horizon),
            lambda n: 2.0 * bound,
        ),
        _within(
            "Theorem 3.3: suboptimality at most the bound",
            values_of(rows, "suboptimality"),
            lambda p, n: bounds.convex_rate(bound, DIAMETER, mixing_time(p), n),
            lambda n: bound * DIAMETER,
        ),
        Claim(
            f"Lemma A.5: at most {DELTA:.0%} of the means deviate by more than its bound",
            f"at most {max(excess):.1%}" if excess else TRIVIAL,
            max(excess) <= DELTA if excess else None,
        ),
    ]


def bias_claim(rows: list[Row], settings: Settings) -> Claim:
    """Claim that estimates with levels up to jmax have the mean of means of 2^jmax samples."""
    off = [
        standard_errors(
            [
                value - Windows(problem_of(seed), p).offset(size)
                for seed, value in zip(settings.seed_numbers, values, strict=True)
            ],
            0.0,
        )
        for p, at in values_of(rows, "bias").items()
        for size, values in at.items()
    ]
    return _none_deviates("Lemma 3.1: E g^MLMC = E g^jmax", off, settings)


def _none_deviates(text: str, off: list[float], settings: Settings) -> Claim:
    """Whether chance explains the largest of several deviations; None for one seed."""
    return Claim(
        text,
        f"largest deviation {max(off):.1f} standard errors of {len(off)}",
        max(off) < largest_t(settings.seeds, len(off)) if settings.seeds > 1 else None,
    )


def _within(
    text: str,
    found: Found,
    limit: Callable[[float, int], float],
    trivial: Callable[[int], float],
) -> Claim:
    """Claim that all means are within their bounds, where these are below the trivial one."""
    measured = [
        (estimate(values), limit(p, size))
        for p, at in found.items()
        for size, values in at.items()
        if limit(p, size) < trivial(size)
    ]
    if not measured:
        return Claim(text, TRIVIAL, None)
    largest = max(each.mean / most for each, most in measured)
    holds = every(each.below(most) for each, most in measured)
    return Claim(text, f"largest ratio {largest:.1e} at {len(measured)} sizes", holds)
