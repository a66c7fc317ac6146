"""The multi-level Monte Carlo gradient of the paper, as a signed running sum."""

from dataclasses import dataclass, field, replace

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_one_of, check_whole
from mixfree.base.draws import LEVELS, Key, key, trailing_zeros
from mixfree.gradients.window import Window

MAX_LEVEL = 61  # 2^61 samples: the length of a window must be below MOST_COUNTED


@dataclass(frozen=True)
class MLMC(Window):
    r"""The distribution of the levels and the estimator of Eq. (6).

    .. math:: g_t = g_t^0 + C_J (g_t^J - g_t^{J-1}), \qquad
              g_t^j = \frac{1}{2^j} \sum_{i \le 2^j} \nabla f(w_t; z_t^{(i)})

    With :math:`P(J=j)\,C_j = 1` its mean is that of the largest level's (Lemma 3.1). Since
    :math:`2^J (g^J - g^{J-1})` is the sum over the second half of the samples minus the sum over
    the first half, each sample is added once, with its sign, when it arrives.

    Parameters
    ----------
    levels
        As in the paper's experiments: J in 1, …, ``levels`` with P(J=j) ∝ 2^-j. ``None``: J is
        geometric, and a level with 2^J > ``horizon`` uses one sample and no correction, as in
        Algorithm 1.
    weights
        ``"exact"``: C_j = 1/P(J=j). ``"paper"``: C_j = 2^j also under truncation, where it is
        1/(1 - 2^-K) times too large.
    horizon
        T of Algorithm 1, with ``levels=None``. With neither, the horizon is the number of
        samples seen so far.
    seed
        J_t is a pure function of the seed and t.
    max_steps
        Number of steps after which the run ends, as Algorithm 1 ends after T; later samples are
        not used. ``None``: no end.

    Examples
    --------
    >>> gradient = MLMC(levels=3)
    >>> gradient.probabilities * gradient.coefficients
    array([1., 1., 1.])
    >>> round(gradient.expected_samples, 3)
    3.429
    """

    levels: int | None = 5
    weights: str = "exact"
    horizon: int | None = None
    seed: int = 0
    max_steps: int | None = None
    key: Key = field(init=False, repr=False, compare=False)
    _share: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_one_of(self.weights, "weights", ("exact", "paper"))
        object.__setattr__(self, "key", key(self.seed, LEVELS))
        if self.levels is not None:
            check_whole(self.levels, "levels", most=MAX_LEVEL)
            if self.horizon is not None:
                raise ValueError(
                    f"horizon={self.horizon} is for levels=None, but levels is {self.levels}"
                )
        for name in ("horizon", "max_steps"):
            if (given := getattr(self, name)) is not None:
                check_whole(given, name, most=2**MAX_LEVEL)
        truncated_and_exact = self.levels is not None and self.weights == "exact"
        share = 1.0 - 0.5**self.levels if truncated_and_exact and self.levels else 1.0
        object.__setattr__(self, "_share", share)

    def at(self, samples: int) -> "MLMC":
        """The levels after ``samples`` samples, which differ only where the horizon grows."""
        if self.levels is None and self.horizon is None:
            return replace(self, horizon=max(1, samples))
        return self

    @property
    def about(self) -> str:
        """A short description of the levels and of the end of the run.

        Examples
        --------
        >>> MLMC(levels=None, horizon=1024, max_steps=1024).about
        'levels 1 to 10, ends after 1,024 steps'
        >>> MLMC(levels=5, weights="paper").about, MLMC(levels=None).about
        ("levels 1 to 5, the paper's weights", 'levels up to the samples seen')
        """
        endless = self.levels is None and self.horizon is None
        words = ["levels up to the samples seen" if endless else f"levels 1 to {len(self.support)}"]
        if self.levels is not None and self.weights == "paper":
            words.append("the paper's weights")
        if self.max_steps is not None:
            words.append(f"ends after {self.max_steps:,} steps")
        return ", ".join(words)

    @property
    def support(self) -> Array:
        """The levels j that carry a correction: 1, …, K or 1, …, ⌊log₂ T⌋."""
        if self.levels is not None:
            return np.arange(1, self.levels + 1)
        if self.horizon is not None:
            return np.arange(1, self.horizon.bit_length())
        raise ValueError("the distribution grows with the samples: ask for at(samples)")

    @property
    def probabilities(self) -> Array:
        """P(J = j) for each level of the support; with the remaining probability g = g^0."""
        whole = 0.5**self.support
        return whole if self.levels is None else whole / (1.0 - 0.5**self.levels)

    @property
    def coefficients(self) -> Array:
        """C_j, the factor of g^j - g^{j-1} in the estimator."""
        return 2.0**self.support if self.weights == "paper" else 1.0 / self.probabilities

    @property
    def expected_samples(self) -> float:
        """Expected number of samples per step: 1 + Σ P(J=j)(2^j - 1), which is O(log T)."""
        return float(1.0 + np.sum(self.probabilities * (2.0**self.support - 1.0)))

    def level(self, step: int, samples: int = 0) -> int:
        """J of the ``step``-th step (from 1) that opens after ``samples`` samples; 0: g^0 alone.

        The count of trailing zeros is geometric; modulo K it is truncated exactly.
        """
        zeros = trailing_zeros(self.key, step)
        if self.levels is not None:
            return 1 + zeros % self.levels
        horizon = samples if self.horizon is None else self.horizon
        return 1 + zeros if 1 + zeros < horizon.bit_length() else 0

    def length(self, steps: int, samples: int) -> int:
        """2^J samples; unreachably many once the run has ended."""
        if self.max_steps is not None and steps >= self.max_steps:
            return 1 << MAX_LEVEL
        return 1 << self.level(steps + 1, samples)

    def weight(self, position: int, length: int) -> float:
        """−1 on the first half and +1 on the second; g^0 is added to the first sample."""
        if 2 * position >= length or length == 1:
            return 1.0
        return -1.0 if position else 1.0 / self._share - 1.0

    def scale(self, length: int) -> float:
        """C_J/2^J, which is the same number at every level."""
        return self._share if length > 1 else 1.0
