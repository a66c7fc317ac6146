"""The objective of a contest from the user's own gradient and loss of one sample."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.base.sample import UniformSample


class UserObjective:
    """Sums over kept samples of the user's ``grad(x, z)`` and ``loss(x, z)``.

    Parameters
    ----------
    grad, loss
        Functions of a point and a sample.
    add
        ``add(x, samples, out)`` adds the gradients of an array of samples to ``out``; None calls
        ``grad`` for each.
    """

    def __init__(
        self,
        grad: Callable[[Array, Any], npt.ArrayLike],
        loss: Callable[[Array, Any], Any],
        add: Callable[[Array, Array, Array], None] | None = None,
    ) -> None:
        self._grad, self._loss, self._add = grad, loss, add

    def total(self, x: Array, kept: UniformSample) -> Array:
        """Return the sum of the gradients of the kept samples."""
        out = np.zeros_like(x)
        if self._add is not None:
            self._add(x, kept.column(0), out)
            return out
        for sample in _samples(kept):
            out += self._grad(x, sample)
        return out

    def losses(self, x: Array, kept: UniformSample) -> Array:
        """Return the loss of each kept sample."""
        return np.array([float(self._loss(x, sample)) for sample in _samples(kept)])

    def slopes(self, x: Array, along: Array, kept: UniformSample) -> Array:
        """Return the inner product of each kept sample's gradient with a vector."""
        each = (np.asarray(self._grad(x, sample)) for sample in _samples(kept))
        return np.array([float(gradient @ along) for gradient in each])

    def coordinates(self, kept: UniformSample) -> "Plain":
        """Return the coordinates of the point itself."""
        return Plain()


class Plain:
    """A point as its own coordinates."""

    def of_point(self, x: Array) -> Array:
        """Return the point."""
        return x

    point = of_gradient = of_point


def _samples(kept: UniformSample) -> Any:
    return (kept.sample(slot) for slot in range(kept.filled))
