"""Distance over gradients: a step's scale from how far the run has come, instead of a number."""

from dataclasses import dataclass

import numpy as np

from mixfree.numerics import Array, State, norm, one_of, positive

RELATIVE = 1e-4  # the first distance, as a share of 1 + |x0|


@dataclass(frozen=True)
class Distance:
    r"""The scale :math:`\bar r_t = \max(r_\epsilon, \max_{i \le t} |p_i - x_0|)`.

    Here p is the point itself (DoG, Ivgi et al. 2023) or the average of the points with weights
    proportional to their number, which noise drives about much less. The scale has the units of
    the point, so a step r̄/√Σg² times g needs no knowledge of the gradients' size.

    Parameters
    ----------
    first
        r_ε; a small share of 1 + |x0| unless given. It hardly matters: the scale grows
        exponentially while all gradients agree.
    of
        ``"average"`` or ``"iterate"``.

    Examples
    --------
    >>> distance = Distance(first=0.5)
    >>> state = distance.start(np.zeros(2), per_coordinate=True)
    >>> distance.update(state, np.array([3.0, 0.0]), weight=1.0)
    >>> state["reach"]
    array([3. , 0.5])
    """

    first: float | None = None
    of: str = "average"

    def __post_init__(self) -> None:
        if self.first is not None:
            positive(self.first, "first")
        one_of(self.of, "of", ("average", "iterate"))

    def start(self, x0: Array, per_coordinate: bool) -> State:
        """No distance but the first; one a coordinate, or one for all."""
        sizes = np.abs(x0, dtype=np.float64) if per_coordinate else np.array([norm(x0)])
        reach = RELATIVE * (1.0 + sizes)
        if self.first is not None:
            reach[:] = self.first
        origin = x0.astype(np.float64)
        return {"reach": reach, "origin": origin, "mean": origin.copy(), "weight": 0.0}

    def update(self, state: State, x: Array, weight: float) -> None:
        """Take a point into the average with ``weight``, and into the greatest distance."""
        state["weight"] += weight
        mean, reach = state["mean"], state["reach"]
        mean += (weight / state["weight"]) * (x - mean)
        gone = np.abs((mean if self.of == "average" else x) - state["origin"])
        np.maximum(reach, gone if reach.size > 1 else norm(gone), out=reach)
