"""Random streams, so that no method can be tuned to the streams it is judged on.

A seed draws the loss, the dimension, the condition and the scale of the features, their own
correlation, the noise, the distance of the solution, the chain, its mixing time and the length.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.chains import MarkovChain, cycle, two_state
from mixfree.linear.losses import Huber, Logistic, Loss, Squared
from mixfree.reproduce.ladder.problem import Problem, excess_under, on_chain

__all__ = ["Draw", "draw"]

FAMILIES = ("two states", "ring", "cliques", "autoregressive")
LOSSES: dict[str, Loss] = {"squared": Squared(), "logistic": Logistic(), "huber": Huber(1.0)}
STREAMS = 4  # streams per case, so that the best step does not overfit one of them
JUDGED = 20_000  # independent rows that represent the law of an autoregressive stream


@dataclass(frozen=True)
class Draw:
    """A random case, drawn before any data are generated.

    Attributes
    ----------
    seed
        The seed of all draws.
    family, loss
        The process of the samples, and the loss.
    samples, dimension
        Length of the stream and columns of its rows.
    mixing
        The number of samples over which the stream forgets its state.
    condition
        Largest variance of the features over the smallest, along axes that are those of the
        coordinates or, when ``rotated``, random ones.
    scale, distance, noise
        Size of the features, of the solution in those units, and of the noise.
    """

    seed: int
    family: str
    loss: str
    samples: int
    dimension: int
    mixing: float
    condition: float
    rotated: bool
    scale: float
    distance: float
    noise: float

    def __str__(self) -> str:
        axes = "rotated" if self.rotated else "along the axes"
        return (
            f"{self.family}, {self.loss}, {self.samples:,} samples, d = {self.dimension}, "
            f"mixing {self.mixing:,.0f}, condition {self.condition:,.0f} {axes}, "
            f"features {self.scale:.2g}, distance {self.distance:.2g}, noise {self.noise:.2g}"
        )

    def problem(self) -> Problem:
        """Generate the data, and the suboptimality of a point under their law or a sample of it.

        Its orders are those of the streams 0, 1, 2 and 3.
        """
        rng = np.random.default_rng([self.seed, 1])
        roots = self._roots(rng)
        truth = rng.standard_normal(self.dimension)
        truth *= self.distance / np.linalg.norm(truth)
        if self.family == "autoregressive":
            return self._autoregressive(rng, roots, truth)
        return self._on_chain(rng, roots, truth)

    def _roots(self, rng: np.random.Generator) -> Array:
        """Return a root of the features' covariance."""
        sizes = np.logspace(0.0, -0.5 * math.log10(self.condition), self.dimension)
        if not self.rotated:
            return np.diag(rng.permutation(sizes))
        turn, _ = np.linalg.qr(rng.standard_normal((self.dimension, self.dimension)))
        return turn * sizes

    def _targets(self, rng: np.random.Generator, margins: Array, noise: Array) -> Array:
        """Return targets of standardised margins: classes, or numbers with noise."""
        if self.loss == "logistic":
            # One label in ten is random, so that the classes are not separable.
            odds = np.exp(-np.clip(margins / max(self.noise, 0.1), -30.0, 30.0))
            return np.where(rng.random(margins.shape) < 0.05 + 0.9 / (1.0 + odds), 1.0, -1.0)
        if self.loss == "huber":
            noise = noise * 30.0 ** (rng.random(noise.shape) < 0.05)  # outliers
        return margins + self.noise * noise

    def _on_chain(self, rng: np.random.Generator, roots: Array, truth: Array) -> Problem:
        """Generate data with rows and a truth per state, around a common truth."""
        chain = _chain(self.family, self.mixing)
        per_state = 2000 // len(chain)
        apart = rng.standard_normal((len(chain), self.dimension)) / math.sqrt(self.dimension)
        spread = 10.0 ** rng.uniform(-1.0, 0.5)
        rows = rng.standard_normal((len(chain), per_state, self.dimension)) @ roots.T
        margins = np.einsum("snd,sd->sn", rows, truth + spread * apart)
        targets = self._targets(rng, margins, rng.standard_normal(margins.shape))
        return on_chain(
            chain, rows * self.scale, targets, LOSSES[self.loss], math.ceil(self.mixing)
        )

    def _autoregressive(self, rng: np.random.Generator, roots: Array, truth: Array) -> Problem:
        """Generate AR(1) features, half of the time also AR(1) noise; each row occurs once."""
        from scipy.signal import lfilter

        kept = math.exp(-1.0 / self.mixing)
        correlated_noise = rng.random() < 0.5
        drawn = rng.standard_normal((STREAMS * self.samples, self.dimension + 1))
        fresh, start = math.sqrt(1.0 - kept**2), rng.standard_normal(self.dimension + 1)
        path = lfilter([1.0], [1.0, -kept], fresh * drawn, axis=0, zi=kept * start[None])[0]
        rows = path[:, :-1] @ roots.T
        noise = path[:, -1] if correlated_noise else drawn[:, -1]
        targets = self._targets(rng, rows @ truth, noise)
        other = self.scale * rng.standard_normal((JUDGED, self.dimension)) @ roots.T
        labels = self._targets(rng, other @ truth / self.scale, rng.standard_normal(JUDGED))
        loss = LOSSES[self.loss]
        excess = excess_under(np.full(JUDGED, 1.0 / JUDGED), other, labels, loss)

        def order(stream: int, samples: int) -> Array:
            return stream * self.samples + np.arange(samples)

        rows = np.ascontiguousarray(self.scale * rows)
        return Problem(rows, targets, loss, order, excess, math.ceil(self.mixing))


def draw(seed: int, longest: int = 200_000) -> Draw:
    """Draw the case of a seed; its stream has at least a twentieth of ``longest`` samples.

    Examples
    --------
    >>> case = draw(3)
    >>> case.family, case.loss, case.samples, case.dimension
    ('two states', 'huber', 12925, 23)
    """
    rng = np.random.default_rng([seed, 0])

    def between(least: float, most: float) -> float:
        return float(math.exp(rng.uniform(math.log(least), math.log(most))))

    samples = int(between(longest / 20, longest))
    settings: dict[str, Any] = {
        "family": str(rng.choice(FAMILIES)),
        "loss": str(rng.choice(list(LOSSES), p=[0.5, 0.25, 0.25])),
        "dimension": int(between(3, 100)),
        "mixing": between(1.0, samples / 20),
        "condition": between(1.0, 1e4),
        "rotated": bool(rng.random() < 0.5),
        "scale": between(0.01, 100.0),
        "distance": between(0.1, 100.0),
        "noise": between(0.01, 3.0),
    }
    return Draw(seed=seed, samples=samples, **settings)


def _chain(family: str, mixing: float) -> MarkovChain:
    """Return a chain of this kind that forgets its state in about ``mixing`` steps."""
    if family == "two states":
        return two_state(min(0.5, 0.5 / mixing))
    if family == "ring":
        # The lazy walk on ten nodes has a spectral gap of (1 − cos(2π/10))/2.
        slow = min(1.0, 2.0 / (mixing * (1.0 - math.cos(2.0 * math.pi / 10))))
        walk = np.asarray(cycle(10).P)
        lazy = 0.5 * (np.eye(10) + walk)
        return MarkovChain((1.0 - slow) * np.eye(10) + slow * lazy)
    # Three cliques of four nodes, left for one of the others with a small probability.
    within, leave = np.kron(np.eye(3), np.full((4, 4), 0.25)), min(2.0 / 3.0, 2.0 / (3.0 * mixing))
    others = np.kron(np.ones((3, 3)) - np.eye(3), np.full((4, 4), 0.125))
    return MarkovChain((1.0 - leave) * within + leave * others)
