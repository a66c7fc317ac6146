"""The correlation of the gradients, as seen in the levels of a ladder."""

from typing import NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array

MIN_BLOCKS = 16  # blocks that a level needs before its ratio is used
RISING = 1.25  # ratio between levels that counts as growth rather than noise
# Blocks of 5.5 scales have half the excess of infinite ones when correlation is e^(−k/scale):
# the root u = 2.75 of (2(u − 1 + e^−u) − (1 − e^−u)²)/(2u) = 1/2, and a block is two halves.
BLOCK_AT_HALF = 5.5
SUM_AT_HALF = 1.59  # the same for profiles of block sums: the root of (u − 1 + e^−u)/u = 1/2


class CorrelationScale(NamedTuple):
    """Samples over which gradients stay correlated; a lower bound if not ``resolved``.

    Examples
    --------
    >>> str(CorrelationScale(340.2, True)), str(CorrelationScale(2000.0, False))
    ('about 340 samples', 'more than 2,000 samples: not resolved yet')
    """

    samples: float
    resolved: bool

    def __str__(self) -> str:
        if self.resolved:
            return f"about {self.samples:,.0f} samples"
        return f"more than {self.samples:,.0f} samples: not resolved yet"


class Profile(NamedTuple):
    """Variance of block sums of gradients relative to independent gradients, by level.

    A ratio is the mean square of the difference between a block's halves, over that of independent
    gradients: 1 where there is no correlation, a plateau beyond its scale.
    """

    lengths: Array  # in steps
    ratios: Array
    blocks: Array  # number of complete ones

    def correlation_scale(self, at_half: float = BLOCK_AT_HALF) -> CorrelationScale:
        """The scale at which the ratios have risen half the way to their plateau.

        Not resolved while the highest levels still rise or have too few blocks.

        Parameters
        ----------
        at_half
            Length, in scales, of a block with half of the excess; ``SUM_AT_HALF`` for a profile
            of block sums instead of differences between halves.

        Examples
        --------
        >>> rising = Profile(2 ** np.arange(5, 9), np.array([1.0, 1.5, 3.0, 6.0]), np.full(4, 99))
        >>> rising.correlation_scale().resolved
        False
        """
        sure = self.blocks >= MIN_BLOCKS
        lengths, ratios, few = self.lengths[sure].astype(float), self.ratios[sure], ~sure
        if len(ratios) < 2:
            return CorrelationScale(1.0, False)
        plateau = float(ratios.max())
        # The mean of n squares of one normal variable has a relative error of √(2/n).
        limits = RISING * max(1.0, plateau) * (1.0 + 4.0 * np.sqrt(2.0 / self.blocks[few]))
        rises = ratios[-1] > RISING * ratios[:-1].max() or (self.ratios[few] > limits).any()
        if plateau <= RISING:
            return CorrelationScale(1.0, not rises)
        half = 1.0 + 0.5 * (plateau - 1.0)
        above = int(np.argmax(ratios >= half))
        # Level 0: single gradients, whose ratio is 1.
        short, low = (1.0, 1.0) if above == 0 else (lengths[above - 1], float(ratios[above - 1]))
        share = (half - low) / (float(ratios[above]) - low)
        length = short * (lengths[above] / short) ** share
        return CorrelationScale(max(1.0, float(length) / at_half), not rises)
