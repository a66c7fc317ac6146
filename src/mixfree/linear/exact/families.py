"""Losses as the one-pass fit needs them: derivatives, and functions of old predictions.

A family is a loss divided by ``weight``, so that its curvature at residual 0 is about 1; arrays of
predictions are (rows, outputs). ``expand`` returns ``functions`` functions per output of a row's
target and of its prediction when it arrived, in the targets' unit; the first ``levels`` of them
shift with the targets. Their products with the rows are summed over the whole stream. They are
control variates: the loss's slope at later weights is close to a combination of these functions and
of the later predictions. (The curvature at arrival as another function, alone or times the
prediction, gave no measurable gain.)
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.linear.losses import Huber, Logistic, Loss, Robust, Softmax

FARTHEST = 1e3  # log-odds to which old predictions are clipped
WIDEST = 2.0**250  # scale of the robust loss above which it is a quadratic, in the targets' unit


class At(NamedTuple):
    """A loss at given predictions: value per row, slope per row and output."""

    value: Array
    slope: Array


@dataclass(frozen=True)
class LogisticFamily:
    """log(1 + e^−yz) for targets y of −1 and +1."""

    outputs = 1
    functions = 3
    weight = 1.0
    levels = 0

    def check_targets(self, targets: Array) -> None:
        """Check that all targets are −1 or +1."""
        if not (np.abs(targets) == 1.0).all():
            wrong = targets[np.abs(targets) != 1.0][0]
            raise ValueError(f"targets of the logistic loss must be -1 or +1, not {wrong}")

    def in_units(self, size: float) -> Self:
        """Return self: log-odds have no unit."""
        return self

    def expand(self, before: Array, targets: Array) -> Array:
        """Return the target, and the probability and log-odds at arrival."""
        found = np.empty((self.functions, len(targets)))
        found[0] = targets
        z = np.clip(before[:, 0], -FARTHEST, FARTHEST, out=found[2])
        found[1] = _tanh_of_half(z, _decay(z))
        return found

    def at(self, predictions: Array, targets: Array) -> At:
        """Return −log of the target's probability, and probability minus indicator."""
        z = predictions[:, 0]
        decay = _decay(z)
        slope = _tanh_of_half(z, decay)
        slope -= targets
        slope *= 0.5
        value = np.log1p(decay)
        value -= np.minimum(targets * z, 0.0)
        return At(value, slope[:, None])

    def curvature(self, predictions: Array, targets: Array, bound: bool) -> Array:
        """Return the variance of the class, or the bound of Jaakkola and Jordan."""
        z = predictions[:, 0]
        half = _tanh_of_half(z, _decay(z))
        if not bound:
            return 0.25 * (1.0 - half * half)
        return np.where(np.abs(z) > 1e-4, half / np.where(z == 0.0, 1.0, 2.0 * z), 0.25)


@dataclass(frozen=True)
class SoftmaxFamily:
    """Cross-entropy of K predictions; the target is the class number."""

    outputs: int
    functions = 3
    weight = 1.0
    levels = 0

    def check_targets(self, targets: Array) -> None:
        """Check that all targets are whole numbers from 0 to K − 1."""
        right = (targets >= 0) & (targets < self.outputs) & (targets == np.floor(targets))
        if not right.all():
            raise ValueError(
                f"targets of softmax must be whole numbers from 0 to {self.outputs - 1}, "
                f"not {targets[~right][0]}"
            )

    def in_units(self, size: float) -> Self:
        """Return self: log-odds have no unit."""
        return self

    def expand(self, before: Array, targets: Array) -> Array:
        """Return indicators of the target, and the probabilities and log-odds at arrival."""
        z = before - before.mean(axis=1, keepdims=True)
        np.clip(z, -FARTHEST, FARTHEST, out=z)
        return np.concatenate([self._indicators(targets), probabilities(z), z], axis=1).T

    def at(self, predictions: Array, targets: Array) -> At:
        """Return −log of the target's probability, and probabilities minus indicators."""
        p = probabilities(predictions)
        top = predictions.max(axis=1)
        chosen = predictions[np.arange(len(p)), targets.astype(np.intp)]
        lower = np.exp(predictions - top[:, None]).sum(axis=1)
        return At(top - chosen + np.log(lower), p - self._indicators(targets))

    def curvature(self, predictions: Array, targets: Array, bound: bool) -> Array:
        """Return the mean of the Hessian's nonzero eigenvalues, or Böhning's bound of them."""
        if bound:
            return np.full(len(predictions), 0.5)
        p = probabilities(predictions)
        spread: Array = (1.0 - np.einsum("ij,ij->i", p, p)) / (self.outputs - 1)
        return spread

    def _indicators(self, targets: Array) -> Array:
        found: Array = (targets[:, None] == np.arange(self.outputs)).astype(np.float64)
        return found


@dataclass(frozen=True)
class ResidualFamily:
    """A loss of prediction − target that is quadratic at 0: Huber's and Barron's."""

    loss: Huber | Robust
    outputs = 1
    functions = 3
    levels = 2

    @property
    def weight(self) -> float:
        """1 for Huber's loss, 1/c² for the robust one."""
        return 1.0 if isinstance(self.loss, Huber) else 1.0 / self.loss.scale / self.loss.scale

    @property
    def width(self) -> float:
        """The residual beyond which the loss is no longer close to a quadratic."""
        return self.loss.delta if isinstance(self.loss, Huber) else self.loss.scale

    def check_targets(self, targets: Array) -> None:
        """Accept any number."""

    def in_units(self, size: float) -> Self:
        """Return the family with its width in the new unit."""
        width = max(self.width / size, np.finfo(np.float64).tiny)
        if isinstance(self.loss, Huber):
            return replace(self, loss=Huber(width))
        return replace(self, loss=replace(self.loss, scale=min(width, WIDEST)))

    def expand(self, before: Array, targets: Array) -> Array:
        """Return the target, and the prediction and the loss's slope at arrival."""
        z = before[:, 0]
        return np.stack([targets, z, self._slope(z - targets)])

    def at(self, predictions: Array, targets: Array) -> At:
        """Return value and slope, divided by the curvature at 0."""
        residual = predictions[:, 0] - targets
        value = self.loss.value(residual, 0.0)
        if isinstance(self.loss, Robust):
            value = value * self.loss.scale**2
        return At(value, self._slope(residual)[:, None])

    def curvature(self, predictions: Array, targets: Array, bound: bool) -> Array:
        """Return the second derivative, or that of a quadratic bound: slope over residual."""
        residual = predictions[:, 0] - targets
        return self._bound(residual) if bound else self._own(residual)

    def _slope(self, residual: Array) -> Array:
        return residual * self._bound(residual)

    def _bound(self, residual: Array) -> Array:
        if isinstance(self.loss, Huber):
            return self.width / np.maximum(np.abs(residual), self.width)
        square, shape = (residual / self.width) ** 2, self.loss.shape
        if shape == -math.inf:
            return np.exp(-0.5 * square)
        if shape == 2.0:
            return np.ones_like(square)
        return np.exp((0.5 * shape - 1.0) * np.log1p(square / (2.0 - shape)))

    def _own(self, residual: Array) -> Array:
        if isinstance(self.loss, Huber):
            return (np.abs(residual) <= self.width).astype(np.float64)
        square, shape = (residual / self.width) ** 2, self.loss.shape
        if shape == -math.inf:
            return self._bound(residual) * (1.0 - square)
        if shape == 2.0:
            return np.ones_like(square)
        share = square / (2.0 - shape)
        return self._bound(residual) * (1.0 - (2.0 - shape) * (share / (1.0 + share)))


Family = LogisticFamily | SoftmaxFamily | ResidualFamily


def family_of(loss: Loss) -> Family:
    """Return the family of a loss of :mod:`mixfree.linear.losses`.

    Examples
    --------
    >>> family_of(Softmax(3)).outputs
    3
    """
    match loss:
        case Logistic():
            return LogisticFamily()
        case Softmax():
            return SoftmaxFamily(loss.classes)
        case Huber() | Robust():
            return ResidualFamily(loss)
    raise TypeError(f"there is no one-pass fit of the loss {loss!r}")


def _decay(z: Array) -> Array:
    """Return e^−|z|, which does not overflow."""
    found: Array = np.abs(z)
    np.negative(found, out=found)
    return np.exp(found, out=found)


def _tanh_of_half(z: Array, decay: Array) -> Array:
    """Return tanh(z/2) from e^−|z|, twice as fast as ``np.tanh``."""
    found: Array = (1.0 - decay) / (1.0 + decay)
    return np.copysign(found, z, out=found)


def probabilities(predictions: Array) -> Array:
    """Return the softmax of each row.

    Examples
    --------
    >>> probabilities(np.array([[0.0, 1000.0]]))
    array([[0., 1.]])
    """
    p: Array = np.exp(predictions - predictions.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p
