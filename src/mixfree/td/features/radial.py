"""Radial features: normalised Gaussians on a grid."""

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_positive, check_whole
from mixfree.td.features.space import Bounds


@dataclass(frozen=True, eq=False)
class RadialBasis(Bounds):
    """exp(−‖x − c‖²/2w²) over a grid of centres c, divided by their sum: ‖φ‖ ≤ ‖φ‖₁ = 1.

    x is the observation in units of the box.

    Parameters
    ----------
    low, high
        Range of each coordinate.
    centers
        Centres along each coordinate, from ``low`` to ``high``.
    width
        w, in units of the distance between neighbouring centres.

    Examples
    --------
    >>> RadialBasis([0.0], [1.0], centers=3)(np.array([0.5])).round(3)
    array([0.274, 0.452, 0.274])
    """

    centers: int = 4
    width: float = 1.0
    grid: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.width, "width")
        line = np.linspace(0.0, 1.0, check_whole(self.centers, "centers", least=2))
        object.__setattr__(self, "grid", np.array(list(product(line, repeat=self.dimension))))

    @property
    def size(self) -> int:
        """centers^k."""
        return len(self.grid)

    def rows(self, observations: Any) -> Array:
        """Return φ of many observations, one row each."""
        away = (self.unit(observations)[:, None, :] - self.grid) * ((self.centers - 1) / self.width)
        exponents = -0.5 * np.einsum("ijk,ijk->ij", away, away)
        # Far from all centres every exponential underflows, but their ratios do not.
        grown: Array = np.exp(exponents - exponents.max(axis=1, keepdims=True))
        grown /= grown.sum(axis=1, keepdims=True)
        return grown
