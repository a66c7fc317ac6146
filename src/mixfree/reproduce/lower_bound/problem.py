"""The problem behind the lower bound Ω(√(τ/T)): coins that are seldom thrown.

Duchi et al. (2012) bound every method from below by streams that repeat each of their independent
samples, so that T samples hold only about T/s of them. Here a sample is a coin ξ = ±1 with
P(ξ = 1) = (1 + δ)/2; it is kept with probability 1 − 1/s and thrown anew with 1/s. The loss
f(w; ξ) = |w − 2ξ| on |w| ≤ 1 is 2 − ξw, so F(w) = 2 − δw, w* = 1, F(w) − F(w*) = δ(1 − w), and the
gradients have the length G = 1. With δ near √(s/T) no method can tell the sign of δ, hence the
bound; steps that are too long for the mixing time are worst at a larger δ.
"""

import math
from dataclasses import dataclass

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_positive, check_whole, shown
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Huber

__all__ = ["Coins"]


@dataclass(frozen=True)
class Coins:
    """Coins with the bias ``delta``, each kept for ``stay`` samples on average.

    Examples
    --------
    >>> Coins(delta=0.2, stay=100.0).mixing_time
    88
    >>> Coins(delta=0.2, stay=100.0).suboptimality(0.5)
    0.1
    """

    delta: float
    stay: float

    def __post_init__(self) -> None:
        if not 0.0 < self.delta < 1.0:
            raise ValueError(
                f"delta must be between 0 and 1, both excluded, not {shown(self.delta)}"
            )
        if check_positive(self.stay, "stay") < 1.0:
            raise ValueError(f"stay must be at least 1, not {shown(self.stay)}")

    @property
    def mixing_time(self) -> int:
        """Return the first t with (1 − 1/s)^t (1 + δ)/2 ≤ ¼."""
        if self.stay == 1.0:
            return 1
        return math.ceil(math.log(2.0 * (1.0 + self.delta)) / -math.log1p(-1.0 / self.stay))

    def stream(self, samples: int, seed: int) -> Array:
        """Draw a path of the chain from its stationary law, 0 for ξ = 1 and 1 for ξ = −1.

        Examples
        --------
        >>> path = Coins(delta=0.5, stay=10.0).stream(100_000, seed=0)
        >>> abs(float(np.mean(path)) - 0.25) < 0.03
        True
        """
        check_whole(samples, "samples")
        rng = np.random.default_rng([seed, 4])
        thrown = rng.random(samples) < 1.0 / self.stay
        thrown[0] = True
        coins = rng.random(int(np.count_nonzero(thrown))) >= 0.5 * (1.0 + self.delta)
        path: Array = coins.astype(np.int64)[np.cumsum(thrown) - 1]
        return path

    def feed(self, opt: object, stream: Array) -> None:
        """Feed an optimiser the gradients, −ξ, along a path."""
        # Huber's loss is |r| − ½ for every residual of at least 1.
        advance_linear(opt, Huber(1.0), np.ones((2, 1)), [2.0, -2.0], order=stream)  # type: ignore[arg-type]

    def suboptimality(self, w: float) -> float:
        """Return F(w) − F(w*)."""
        return self.delta * (1.0 - w)
