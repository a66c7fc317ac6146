"""Table 1 where its rates separate: the worst bias of seldom thrown coins, for each mixing time.

Duchi et al. (2012) bound every method from below by streams that repeat each of their independent
samples, so that T samples hold only about T/s of them. Here a sample is a coin ξ = ±1 with
P(ξ = 1) = (1 + δ)/2; it is kept with probability 1 − 1/s and thrown anew with 1/s. The loss
f(w; ξ) = |w − 2ξ| on |w| ≤ 1 is 2 − ξw, so F(w) = 2 − δw, w* = 1, F(w) − F(w*) = δ(1 − w), and the
gradients have the length G = 1. With δ near √(s/T) no method can tell the sign of δ, hence the
bound Ω(√(τ/T)); steps that are too long for the mixing time are worst at a larger δ.

The rates of Table 1 hold for every problem, so the error to compare is the largest over δ. Theory:
SGD's steps of 1/√t add up to s/√T while a coin lies, and the error is of that order, τ/√T; with
1/√(τt), known from τ, and with MAG's steps it is √(τ/T), as for the bound.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.figures import label_ends, log_log, new_figure, styles_of
from mixfree.base.terminal import Table
from mixfree.core.methods import find_method
from mixfree.domains import Ball
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Huber
from mixfree.reproduce.engine.report import Claim, Report, Settings
from mixfree.reproduce.engine.rows import DOTS, Figure, Row, where
from mixfree.reproduce.engine.statistics import Interval, bootstrap, fitted_slope
from mixfree.reproduce.paper.problem import horizon_for

FULL = Settings(samples=1_000_000, seeds=20, first_seed=6000)
QUICK = Settings(samples=4_000, seeds=2)
STAYS = (2, 8, 32, 128)
LENGTHS = (1 / 16, 1 / 4, 1)  # of the samples, at the third stay
BIASES = tuple(2.0**-k for k in range(1, 12))
# Stated exponents in τ; MAG with five levels has none. AdaGrad is SGD here, as all gradients have
# the length 1.
METHODS = {"sgd": 1.0, "mag": None, "algorithm-1": 0.5, "emd": 0.5, "sgd-dd": 0.5}
NEAR = 0.25  # half the distance between the exponents of √τ and τ, and of √τ and no growth


@dataclass(frozen=True)
class Coins:
    """Coins with the bias ``delta``, each kept for ``stay`` samples on average."""

    delta: float
    stay: float

    @property
    def mixing_time(self) -> int:
        """Return the first t with (1 − 1/s)^t (1 + δ)/2 ≤ ¼."""
        if self.stay == 1.0:
            return 1
        return math.ceil(math.log(2.0 * (1.0 + self.delta)) / -math.log1p(-1.0 / self.stay))

    def stream(self, samples: int, seed: int) -> Array:
        """Draw a stationary path of the chain, 0 for ξ = 1 and 1 for ξ = −1."""
        rng = np.random.default_rng([seed, 4])
        thrown = rng.random(samples) < 1.0 / self.stay
        thrown[0] = True
        coins = rng.random(int(np.count_nonzero(thrown))) >= 0.5 * (1.0 + self.delta)
        path: Array = coins.astype(np.int64)[np.cumsum(thrown) - 1]
        return path

    def feed(self, opt: Any, stream: Array) -> None:
        """Feed an optimiser the gradients, −ξ, along a path."""
        # Huber's loss is |r| − ½ for every residual of at least 1.
        advance_linear(opt, Huber(1.0), np.ones((2, 1)), [2.0, -2.0], order=stream)

    def suboptimality(self, w: float) -> float:
        """Return F(w) − F(w*)."""
        return self.delta * (1.0 - w)


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per stay, length and seed."""
    cases = [(stay, 1.0) for stay in STAYS] + [(STAYS[2], share) for share in LENGTHS[:-1]]
    return [
        {"stay": stay, "samples": max(32, round(settings.samples * share)), "seed": seed}
        for stay, share in cases
        for seed in settings.seed_numbers
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """Return one row per bias and method."""
    rows = []
    for delta in BIASES:
        coins = Coins(delta, cell["stay"])
        stream = coins.stream(cell["samples"], cell["seed"])
        for name in METHODS:
            method: Any = find_method(name)
            options: dict[str, Any] = {"alpha": 1.0}
            if method.needs_mixing_time():
                options["mixing_time"] = coins.mixing_time
            if name == "algorithm-1":
                options = {"horizon": horizon_for(cell["samples"])}
            opt = method([0.0], domain=Ball(1.0), seed=cell["seed"], **options)
            coins.feed(opt, stream)
            error = coins.suboptimality(float(opt.average[0]))
            rows.append({**cell, "delta": delta, "method": name, "suboptimality": error})
    return rows


def report(rows: list[Row], settings: Settings) -> Report:
    """Report the worst errors, and their exponents in the mixing time and in the samples."""
    full = max(row["samples"] for row in rows)
    lengths = sorted({row["samples"] for row in rows})
    times = [Coins(1.0 / 16.0, stay).mixing_time for stay in STAYS]
    by_stay = {name: _errors(rows, name, "stay", samples=full) for name in METHODS}
    by_length = {name: _errors(rows, name, "samples", stay=STAYS[2]) for name in METHODS}
    in_time = {name: _exponent(times, found) for name, found in by_stay.items()}
    in_samples = {name: _exponent(lengths, found) for name, found in by_length.items()}
    worst = {name: found.mean(axis=0).max(axis=-1) for name, found in by_stay.items()}
    errors = Table(
        f"Largest mean suboptimality over the bias, {full:,} samples, {settings.seeds} seeds",
        ["method", *(f"stay {stay}, τ = {time}" for stay, time in zip(STAYS, times, strict=True))],
        [(name, *(f"{error:.2e}" for error in found)) for name, found in worst.items()],
    )
    exponents = Table(
        "Exponents of the largest mean suboptimality, 95 %",
        ["method", "in τ", "stated", f"in T, stay {STAYS[2]}"],
        [
            (name, in_time[name].text("+.2f"), "" if stated is None else f"{stated:+g}",
             in_samples[name].text("+.2f"))
            for name, stated in METHODS.items()
        ],
    )  # fmt: skip
    less = bootstrap(
        np.stack([by_stay["algorithm-1"], by_stay["sgd"]], axis=1),
        lambda means: np.log(means.max(axis=-1)) @ fitted_slope(times) @ [1.0, -1.0],
    )
    text = "SGD grows faster with τ than Algorithm 1, which does not know it either"
    both = f"{in_time['sgd'].text('+.2f')}; {in_time['algorithm-1'].text('+.2f')}"
    claims = [*_claims(in_time), Claim.below(text, less, 0.0, measured=both)]
    return Report([errors, exponents], {"lower-bound": _draw(times, worst, full)}, claims)


def _errors(rows: list[Row], method: str, along: str, **fixed: float) -> Array:
    """Return the errors of a method by seed, place and bias."""
    found: dict[tuple[Any, Any, Any], float] = {
        (row["seed"], row[along], row["delta"]): row["suboptimality"]
        for row in where(rows, method=method, **fixed)
    }
    seeds, places, biases = (sorted(set(each)) for each in zip(*found, strict=True))
    return np.array([[[found[s, at, b] for b in biases] for at in places] for s in seeds])


def _exponent(at: list[int], errors: Array) -> Interval:
    """Fit the exponent of the largest mean error over the biases."""
    return bootstrap(errors, lambda means: np.log(means.max(axis=-1)) @ fitted_slope(at))


def _claims(in_time: dict[str, Interval]) -> list[Claim]:
    """Claim that each exponent is nearer to the stated one than to the others."""
    claims = []
    for name, stated in METHODS.items():
        if stated is not None:
            found, others = in_time[name], "0 or 1" if stated < 1.0 else "0.5"
            text = f"{name}: the error grows with an exponent nearer to {stated:g} than to {others}"
            measured = found.text("+.2f")
            claims.append(Claim.below(text, found.off(stated), NEAR, measured=measured))
    return claims


def _draw(times: list[int], worst: dict[str, Array], samples: int) -> Figure:
    figure, axes = new_figure(width=7.0)
    styles = styles_of(worst)
    for name, errors in worst.items():
        axes.plot(times, errors, label=name, **DOTS, **styles[name])
    bound = np.sqrt(np.array(times) / samples)
    axes.plot(times, bound, color="#8A8A8A", lw=0.8, label="√(τ/T)")
    log_log(axes, "mixing time τ", "largest mean suboptimality over the bias")
    title = f"Coins that are seldom thrown, {samples:,} samples"
    axes.set_title(title, loc="left", fontsize="medium")
    label_ends(axes)
    return figure
