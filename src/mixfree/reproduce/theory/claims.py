"""Every lemma and Theorem 3.3 as a claim about measurements: equalities, orders, constants."""

from collections.abc import Callable, Iterable

import numpy as np

from mixfree.reproduce.engine.report import Claim, Row, gather, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import Interval, bootstrap, exponent
from mixfree.reproduce.paper.problem import Regression, mixing_time, problem_of
from mixfree.reproduce.theory import bounds
from mixfree.reproduce.theory.concentration import DELTA, LEMMAS, coupling_ratios
from mixfree.reproduce.theory.equality import equality_claim
from mixfree.reproduce.theory.measures import DIAMETER
from mixfree.reproduce.theory.windows import Windows

__all__ = ["TRIVIAL", "claims", "in_mixing", "in_size", "values_of"]

TRIVIAL = "trivial here: no bound is below that of ‖∇f‖ ≤ G"

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
    """Return a claim per statement, first equalities and orders, then bounds with constants."""
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
        coupling_claim(settings),
        *(deviation_claim(rows, lemma) for lemma in LEMMAS),
        _sharpness_claim(settings),
        Claim.below(
            "Theorem 3.3: the suboptimality falls at least like T^−½ at every p", falls, -0.5
        ),
        Claim.below(
            "Theorem 3.3: the suboptimality grows at most like τ^½",
            in_mixing(rows, "suboptimality"),
            0.5,
        ),
        *_constant_claims(rows, settings),
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


def coupling_claim(settings: Settings) -> Claim:
    """Compare both sides of Lemma A.1, exactly."""
    found = [each for p in settings.p for each in coupling_ratios(p, mixing_time(p))]
    text = "Lemma A.1: n states K steps apart are within (n − 1)d(K) of independent ones"
    if not found:
        return Claim(text, TRIVIAL, None)
    measured = f"{min(found):.2f} to {max(found):.2f} of it, exactly"
    return Claim(text, measured, max(found) <= 1.0 + 1e-9)


def deviation_claim(rows: list[Row], lemma: str) -> Claim:
    """Claim that means of ±1 along the chain rarely deviate by more than the bound of a lemma."""
    shares = values_of(rows, f"share {lemma}")
    text = f"Lemma {lemma}: at most {DELTA:.0%} of the means deviate by more than its bound"
    often = _several(values_of(rows, f"beyond {lemma}"))
    largest = max((max(v) for at in shares.values() for v in at.values()), default=0.0)
    most = max((each.value for each in often.values()), default=0.0)
    measured = f"at most {most:.1%}, and by {largest:.2f} of it, at {len(often)} sizes"
    return Claim.below(text, often, DELTA, measured=measured, empty=TRIVIAL)


def _several(found: Found) -> dict[str, Interval]:
    """Return the means of all seeds, by p and size in words."""
    return {f"p = {p:g}, N = {n:,}": bootstrap(v) for p, at in found.items() for n, v in at.items()}


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


def _constant_claims(rows: list[Row], settings: Settings) -> list[Claim]:
    """Claim the bounds with their constants, noting those no sharper than ‖∇f‖ ≤ G."""
    G = max(problem_of(seed).largest_gradient for seed in settings.seed_numbers)
    T = settings.samples
    excess = {
        (p, n): values
        for p, at in values_of(rows, "beyond").items()
        for n, values in at.items()
        if bounds.deviation(
            n, G, DELTA, mixing_time(p), bounds.decorrelation_time(mixing_time(p), T)
        )
        < 2.0 * G
    }
    often = {f"p = {p:g}, N = {n:,}": bootstrap(values) for (p, n), values in excess.items()}
    deviate = f"Lemma A.5: at most {DELTA:.0%} of the means deviate by more than its bound"
    return [
        within(
            "Lemma 3.1: second moment at most the bound",
            values_of(rows, "second moment"),
            lambda p, n: bounds.second_moment(G, mixing_time(p), n),
            lambda n: bounds.second_moment(G, n, n),  # as for a chain that never mixes
        ),
        within(
            "Lemma A.6: error of a mean of N at most the bound",
            values_of(rows, "error"),
            lambda p, n: bounds.mean_error(n, G, mixing_time(p), T),
            lambda n: 2.0 * G,
        ),
        within(
            "Theorem 3.3: suboptimality at most the bound",
            values_of(rows, "suboptimality"),
            lambda p, n: bounds.convex_rate(G, DIAMETER, mixing_time(p), n),
            lambda n: G * DIAMETER,
        ),
        Claim.below(deviate, often, DELTA, ".1%", empty=TRIVIAL),
    ]


def within(
    text: str,
    found: Found,
    limit: Callable[[float, int], float],
    trivial: Callable[[int], float],
) -> Claim:
    """Claim that all means are within their bounds, where these are below the trivial one."""
    shares = {
        (p, size): bootstrap(np.divide(values, limit(p, size)))
        for p, at in found.items()
        for size, values in at.items()
        if limit(p, size) < trivial(size)
    }
    largest = max((each.value for each in shares.values()), default=0.0)
    measured = f"largest ratio {largest:.1e} at {len(shares)} sizes"
    return Claim.below(text, shares, 1.0, measured=measured, empty=TRIVIAL)
