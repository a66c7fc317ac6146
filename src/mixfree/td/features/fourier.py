"""The Fourier cosine basis (Konidaris et al. 2011)."""

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.td.features.space import Bounds


@dataclass(frozen=True, eq=False)
class FourierBasis(Bounds):
    """cos(π c·x) for every c in {0, …, order}^k, divided by the square root of their number.

    x is the observation in units of the box. The cosines continue outside the box.

    Examples
    --------
    >>> FourierBasis([0.0], [2.0], order=3)(np.array([1.0])).round(3)
    array([ 0.5,  0. , -0.5, -0. ])
    """

    order: int = 3
    frequencies: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        steps = range(check_whole(self.order, "order") + 1)
        object.__setattr__(
            self, "frequencies", np.array(list(product(steps, repeat=self.dimension)), dtype=float)
        )

    @property
    def size(self) -> int:
        """(order + 1)^k."""
        return len(self.frequencies)

    def rows(self, observations: Any) -> Array:
        """Return φ of many observations, one row each."""
        waves: Array = np.cos(np.pi * self.unit(observations) @ self.frequencies.T)
        waves /= np.sqrt(self.size)
        return waves
