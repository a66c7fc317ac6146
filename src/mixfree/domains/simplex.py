"""The probability simplex."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_positive
from mixfree.domains.mirror import Entropic, Mirror


@dataclass(frozen=True)
class Simplex:
    """{x ≥ 0 : Σx = total}.

    Examples
    --------
    >>> Simplex().project(np.array([1.0, 0.5, -1.0]))
    array([0.75, 0.25, 0.  ])
    """

    total: float = 1.0
    mirror: ClassVar[Mirror] = Entropic()

    def __post_init__(self) -> None:
        check_positive(self.total, "total")

    @property
    def diameter(self) -> float:
        """Distance between two corners."""
        return math.sqrt(2.0) * self.total

    def project(self, x: Array) -> Array:
        """Subtract the one threshold that makes the positive part sum to the total."""
        if x.min() >= 0.0 and abs(float(x.sum()) - self.total) <= 1e-15 * self.total:
            return x
        x = x - x.max()  # a shift does not change the projection, but avoids loss of digits
        descending = np.sort(x)[::-1]
        thresholds = (np.cumsum(descending) - self.total) / np.arange(1, x.size + 1)
        kept = int(np.count_nonzero(descending > thresholds))
        projected: Array = np.maximum(x - thresholds[kept - 1], 0.0)
        return projected

    def bind(self, size: int) -> "Simplex":
        """Any dimension is allowed."""
        return self
