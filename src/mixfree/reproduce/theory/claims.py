"""What the lemmas and Theorem 3.3 state, beside the measurements."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.reproduce.engine.report import Claim, Settings
from mixfree.reproduce.engine.rows import Row, gather, where
from mixfree.reproduce.engine.statistics import Interval, exponent, ratio
from mixfree.reproduce.paper.problem import Regression, mixing_time, problem_of
from mixfree.reproduce.theory.measures import Windows

MARGIN = 0.1  # relative deviation from an expected value that passes for none
# Measured and expected values, one per seed, by the place where they are measured.
Pairs = Mapping[str, tuple[Sequence[float] | Array, Sequence[float]]]


def values_of(rows: Iterable[Row], quantity: str) -> dict[float, dict[int, list[float]]]:
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
    falls = {f"p = {p:g}": in_size(rows, "suboptimality", p) for p in settings.p}
    in_time = in_mixing(rows, "suboptimality")
    return [
        bias_claim(rows, settings),
        equality_claim(
            "Eq. (7): E‖g^N − ∇F‖² is the closed form",
            _beside(rows, "square error", Windows.mean_square_error, settings),
        ),
        equality_claim(
            "Lemma 3.1: E‖g^MLMC‖² is the closed form",
            _beside(
                rows, "second moment", lambda w, n: w.second_moment(n.bit_length() - 1), settings
            ),
        ),
        equality_claim(
            "Lemma 3.1: T·E[2^J] samples are T steps of Algorithm 1",
            _beside(rows, "steps", lambda windows, size: 1.0, settings),
        ),
        _sharpness_claim(settings),
        Claim.below(
            "Theorem 3.3: the suboptimality falls at least like T^−½ at every p", falls, -0.5
        ),
        Claim.below("Theorem 3.3: the suboptimality grows at most like τ^½", in_time, 0.5),
    ]


def bias_claim(rows: list[Row], settings: Settings) -> Claim:
    """Claim that estimates with levels up to jmax have the mean of means of 2^jmax samples.

    Their deviation is relative to the distance of a state's gradient from ∇F.
    """
    exact = _beside(rows, "bias", Windows.offset, settings)
    largest = _beside(rows, "bias", lambda windows, size: windows.distance, settings)
    found = {
        place: (np.add(np.subtract(values, expected), largest[place][1]), largest[place][1])
        for place, (values, expected) in exact.items()
    }
    return equality_claim("Lemma 3.1: E g^MLMC = E g^jmax", found)


def _beside(
    rows: list[Row], quantity: str, exact: Callable[[Windows, int], float], settings: Settings
) -> Pairs:
    """Return the values of all seeds, and the exact ones, by p and size."""
    return {
        f"p = {p:g}, {size:,}": (
            values,
            [exact(Windows(problem_of(seed), p), size) for seed in settings.seed_numbers],
        )
        for p, at in values_of(rows, quantity).items()
        for size, values in at.items()
    }


def _sharpness_claim(settings: Settings) -> Claim:
    """Compare E‖g^N − ∇F‖² with G²τ/N for one row per state and N ≥ 100τ, exactly."""
    problem = Regression(np.ones((2, 1)), np.array([1.0, -1.0]), per_state=1)
    sharp = [
        round(size * Windows(problem, p).mean_square_error(size) / mixing_time(p), 9)
        for p in settings.p
        for size in (100 * mixing_time(p), 400 * mixing_time(p))
    ]
    return Claim(
        "Eq. (7) is sharp: where only the state matters, the error is 1 to 3 times G²τ/N",
        f"{min(sharp):.2f} to {max(sharp):.2f} for N ≥ 100τ",
        min(sharp) >= 1.0 and max(sharp) <= 3.0,
    )


def equality_claim(text: str, found: Pairs) -> Claim:
    """Claim that means over the seeds are the expected ones, at every place.

    It holds if the interval of each ratio is within ``MARGIN`` of 1, and fails if one is outside.
    """
    off = {
        f"{place}, {side}": away
        for place, pair in found.items()
        for side, away in ratio(*pair).off(1.0).items()
    }
    return Claim.below(f"{text}, within {100 * MARGIN:.0f} %", off, MARGIN)
