"""Lemma 3.1, Eq. (7) and Theorem 3.3 as claims about measurements: equalities and orders."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from mixfree.reproduce.engine.report import Claim, Row, gather, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import Interval, exponent
from mixfree.reproduce.paper.problem import Regression, mixing_time, problem_of
from mixfree.reproduce.theory.measures import Windows

__all__ = ["claims", "equality_claim", "in_mixing", "in_size", "values_of"]

ROUNDING = 1e-12  # largest relative deviation that is none
CHANCE = 0.01  # probability that chance alone refutes any of the equalities

Found = dict[float, dict[int, list[float]]]  # values by p and size, one per seed


def values_of(rows: Iterable[Row], quantity: str) -> Found:
    """Return the values of one quantity, by p and by size."""
    return gather(where(rows, quantity=quantity), "p", "size", "value")


def in_size(rows: list[Row], quantity: str, p: float, least: int = 1) -> Interval:
    """Fit the exponent in the size, over at least three sizes."""
    at_p = [row for row in where(rows, quantity=quantity, p=p) if row["size"] >= least]
    return exponent(at_p if len({row["size"] for row in at_p}) > 2 else [], "size", "value")


def in_mixing(rows: list[Row], quantity: str) -> Interval:
    """Fit the exponent in the mixing time at the longest size."""
    found = where(rows, quantity=quantity)
    longest = max(row["size"] for row in found)
    last = [{**r, "τ": mixing_time(r["p"])} for r in found if r["size"] == longest]
    return exponent(last, "τ", "value")


def claims(rows: list[Row], settings: Settings) -> list[Claim]:
    """Return a claim per statement, first equalities, then orders."""
    steps = [(v, 1.0) for at in values_of(rows, "steps").values() for v in at.values()]
    falls = {f"p = {p:g}": in_size(rows, "suboptimality", p) for p in settings.p}
    return [
        bias_claim(rows, settings),
        _closed_form(
            "Eq. (7): E‖g^N − ∇F‖² is the closed form",
            values_of(rows, "square error"),
            Windows.mean_square_error,
            settings,
        ),
        _closed_form(
            "Lemma 3.1: E‖g^MLMC‖² is the closed form",
            values_of(rows, "second moment"),
            lambda found, n: found.second_moment(n.bit_length() - 1),
            settings,
        ),
        equality_claim("Lemma 3.1: T·E[2^J] samples are T steps of Algorithm 1", steps),
        _sharpness_claim(settings),
        Claim.below(
            "Theorem 3.3: the suboptimality falls at least like T^−½ at every p", falls, -0.5
        ),
        Claim.below(
            "Theorem 3.3: the suboptimality grows at most like τ^½",
            in_mixing(rows, "suboptimality"),
            0.5,
        ),
    ]


def bias_claim(rows: list[Row], settings: Settings) -> Claim:
    """Claim that estimates with levels up to jmax have the mean of means of 2^jmax samples."""
    found = _beside(values_of(rows, "bias"), Windows.offset, settings)
    off = [(np.subtract(values, exact).tolist(), 0.0) for values, exact in found]
    return equality_claim("Lemma 3.1: E g^MLMC = E g^jmax", off)


def _closed_form(
    text: str, found: Found, exact: Callable[[Windows, int], float], settings: Settings
) -> Claim:
    """Compare measurements with the closed form on a chain with two states."""
    ratios = [np.divide(*pair).tolist() for pair in _beside(found, exact, settings)]
    return equality_claim(text, [(values, 1.0) for values in ratios])


def _beside(
    found: Found, exact: Callable[[Windows, int], float], settings: Settings
) -> list[tuple[list[float], list[float]]]:
    """Return the values of all seeds, and the exact ones, at each p and size."""
    return [
        (values, [exact(Windows(problem_of(seed), p), size) for seed in settings.seed_numbers])
        for p, at in found.items()
        for size, values in at.items()
    ]


def _sharpness_claim(settings: Settings) -> Claim:
    """Compare E‖g^N − ∇F‖² with G²τ/N for one row per state and N ≥ 100τ, exactly."""
    problem = Regression(np.ones((2, 1)), np.array([1.0, -1.0]), per_state=1)
    sharp = [
        size * Windows(problem, p).mean_square_error(size) / mixing_time(p)
        for p in settings.p
        for size in (100 * mixing_time(p), 400 * mixing_time(p))
    ]
    return Claim(
        "Eq. (7) is sharp: where only the state matters, the error is 1 to 3 times G²τ/N",
        f"{min(sharp):.2f} to {max(sharp):.2f} for N ≥ 100τ",
        min(sharp) >= 0.95 and max(sharp) <= 3.0,
    )


def equality_claim(text: str, found: Sequence[tuple[Sequence[float], float]]) -> Claim:
    """Claim that the mean of the seeds is the expected value, for each of several.

    It holds if Student's intervals, jointly of 99 %, contain the expected values, fails if one does
    not, and is not decided by a single seed.
    """
    from scipy.stats import t

    seeds = len(found[0][0])
    allowed = float(t.ppf(1.0 - 0.5 * CHANCE / len(found), max(1, seeds - 1)))
    off = max(_standard_errors(values, expected) for values, expected in found)
    measured = f"largest deviation {off:.1f} standard errors of {len(found)}, {allowed:.1f} allowed"
    if len(found) == 1:
        mean, expected = np.mean(found[0][0]), found[0][1]
        measured = f"{mean:.2f}, {off:.1f} standard errors from {expected:g}, {allowed:.1f} allowed"
    return Claim(text, measured, off < allowed if seeds > 1 else None)


def _standard_errors(values: Sequence[float], expected: float) -> float:
    """Return the distance of the mean from its expected value in standard errors."""
    distance = abs(float(np.mean(values)) - expected)
    if distance <= ROUNDING * abs(expected):
        return 0.0
    error = float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else np.inf
    return distance / error if error > 0.0 else np.inf
