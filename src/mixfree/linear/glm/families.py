"""Losses as the one-pass fit needs them: value, slope, curvature, and functions of old predictions.

A family is a loss divided by ``weight``, so that its curvature at residual 0 is about 1; arrays of
predictions are (rows, outputs). ``expand`` returns ``functions`` functions per output of a row's
target and of its prediction when it arrived, in the targets' unit; the first ``levels`` of them
shift with the targets. Their products with the rows are summed over the whole stream. They are
control variates: the loss's slope at later weights is close to a combination of these functions and
of the later predictions. (The curvature at arrival as another function, alone or times the
prediction, gave no measurable gain.)
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mixfree.base.arithmetic import MAX_VALUE, MIN_VALUE, Array
from mixfree.linear.losses import Huber, Logistic, Loss, Robust, Softmax

MAX_LOG_ODDS = 1e3  # to which old predictions are clipped


class Family(ABC):
    """A loss of ``outputs`` predictions per row. A new family implements the abstract methods."""

    outputs: int = 1
    functions = 3
    weight = 1.0
    levels = 0

    @abstractmethod
    def at(self, z: Array, targets: Array) -> tuple[Array, Array]:
        """Return the value of each row and its slopes, rows × outputs."""

    @abstractmethod
    def curvature(self, z: Array, targets: Array) -> tuple[Array, Array]:
        """Return a and p, rows × outputs: the Hessian of a row's loss is diag(a) − p pᵀ."""

    @abstractmethod
    def expand(self, before: Array, targets: Array) -> Array:
        """Return functions of targets and predictions at arrival: one row per function."""

    def check_targets(self, targets: Array) -> None:  # noqa: B027
        """Raise ValueError for targets that the loss does not allow; all numbers by default."""

    def in_units(self, size: float) -> Self:
        """Return the family for targets in another unit; log-odds have none."""
        return self

    def margins(self, moves: Array, targets: Array) -> Array | None:
        """Return changes of the log-odds of the target's class against others; None if no classes.

        ``moves`` are changes of predictions.
        """
        return None


@dataclass(frozen=True)
class LogisticFamily(Family):
    """log(1 + e^−yz) for targets y of −1 and +1."""

    def check_targets(self, targets: Array) -> None:
        """Check that all targets are −1 or +1."""
        if not (np.abs(targets) == 1.0).all():
            wrong = targets[np.abs(targets) != 1.0][0]
            raise ValueError(f"targets of the logistic loss must be -1 or +1, not {wrong}")

    def expand(self, before: Array, targets: Array) -> Array:
        """Return the target, and the probability and log-odds at arrival."""
        found = np.empty((self.functions, len(targets)))
        found[0] = targets
        z = np.clip(before[:, 0], -MAX_LOG_ODDS, MAX_LOG_ODDS, out=found[2])
        found[1] = _tanh_of_half(z, _decay(z))
        return found

    def at(self, z: Array, targets: Array) -> tuple[Array, Array]:
        """Return −log of the target's probability, and probability minus indicator."""
        z = z[:, 0]
        decay = _decay(z)
        slope = _tanh_of_half(z, decay)
        slope -= targets
        slope *= 0.5
        value = np.log1p(decay)
        value -= np.minimum(targets * z, 0.0)
        return value, slope[:, None]

    def curvature(self, z: Array, targets: Array) -> tuple[Array, Array]:
        """Return the variance of the class."""
        decay = _decay(z)
        return decay / (1.0 + decay) ** 2, np.zeros_like(z)

    def margins(self, moves: Array, targets: Array) -> Array:
        """Return the change of the log-odds of the target's class."""
        return moves * targets[:, None]


@dataclass(frozen=True)
class SoftmaxFamily(Family):
    """Cross-entropy of K predictions; the target is the class number."""

    outputs: int = 2

    def check_targets(self, targets: Array) -> None:
        """Check that all targets are whole numbers from 0 to K − 1."""
        right = (targets >= 0) & (targets < self.outputs) & (targets == np.floor(targets))
        if not right.all():
            raise ValueError(
                f"targets of softmax must be whole numbers from 0 to {self.outputs - 1}, "
                f"not {targets[~right][0]}"
            )

    def expand(self, before: Array, targets: Array) -> Array:
        """Return indicators of the target, and the probabilities and log-odds at arrival."""
        z = before - before.mean(axis=1, keepdims=True)
        np.clip(z, -MAX_LOG_ODDS, MAX_LOG_ODDS, out=z)
        indicators = (targets[:, None] == np.arange(self.outputs)).astype(np.float64)
        return np.concatenate([indicators, probabilities(z), z], axis=1).T

    def at(self, z: Array, targets: Array) -> tuple[Array, Array]:
        """Return −log of the target's probability, and probabilities minus indicators."""
        own = np.arange(len(z)), targets.astype(np.intp)
        slope = z - z.max(axis=1, keepdims=True)
        value = -slope[own]
        np.exp(slope, out=slope)
        total = slope.sum(axis=1)
        value += np.log(total)
        slope /= total[:, None]
        slope[own] -= 1.0
        return value, slope

    def curvature(self, z: Array, targets: Array) -> tuple[Array, Array]:
        """Return the probabilities, twice: the Hessian is diag(p) − p pᵀ."""
        p = probabilities(z)
        return p, p

    def margins(self, moves: Array, targets: Array) -> Array:
        """Return the changes of the log-odds of the target's class against each class."""
        return moves[np.arange(len(moves)), targets.astype(np.intp)][:, None] - moves


@dataclass(frozen=True)
class ResidualFamily(Family):
    """A loss of prediction − target that is quadratic at 0: Huber's and Barron's."""

    loss: Huber | Robust
    levels = 2

    @property
    def weight(self) -> float:  # type: ignore[override]
        """1 for Huber's loss, 1/c² for the robust one."""
        return 1.0 if isinstance(self.loss, Huber) else 1.0 / self.loss.scale / self.loss.scale

    @property
    def width(self) -> float:
        """The residual beyond which the loss is no longer close to a quadratic."""
        return self.loss.delta if isinstance(self.loss, Huber) else self.loss.scale

    def in_units(self, size: float) -> Self:
        """Return the family with its width in the new unit."""
        width = min(max(self.width / size, MIN_VALUE), MAX_VALUE)
        if isinstance(self.loss, Huber):
            return replace(self, loss=Huber(width))
        return replace(self, loss=replace(self.loss, scale=width))

    def expand(self, before: Array, targets: Array) -> Array:
        """Return the target, and the prediction and the loss's slope at arrival."""
        z = before[:, 0]
        return np.stack([targets, z, self._slope(z - targets)])

    def at(self, z: Array, targets: Array) -> tuple[Array, Array]:
        """Return value and slope, divided by the curvature at 0."""
        residual = z[:, 0] - targets
        value = self.loss.value(residual, 0.0)
        if isinstance(self.loss, Robust):
            value = value * self.loss.scale**2
        return value, self._slope(residual)[:, None]

    def curvature(self, z: Array, targets: Array) -> tuple[Array, Array]:
        """Return the second derivative, which is negative for large residuals of a robust loss."""
        residual = z - targets[:, None]
        if isinstance(self.loss, Huber):
            return (np.abs(residual) <= self.width).astype(np.float64), np.zeros_like(z)
        square, shape = (residual / self.width) ** 2, self.loss.shape
        factor = 1.0 - square
        if math.isfinite(shape) and shape < 2.0:
            share = square / (2.0 - shape)
            factor = 1.0 - (2.0 - shape) * (share / (1.0 + share))
        elif shape == 2.0:
            factor = np.ones_like(square)
        return self._factor(residual) * factor, np.zeros_like(z)

    def _slope(self, residual: Array) -> Array:
        return residual * self._factor(residual)

    def _factor(self, residual: Array) -> Array:
        """Return slope over residual."""
        if isinstance(self.loss, Huber):
            return self.width / np.maximum(np.abs(residual), self.width)
        square, shape = (residual / self.width) ** 2, self.loss.shape
        if shape == -math.inf:
            return np.exp(-0.5 * square)
        if shape == 2.0:
            return np.ones_like(square)
        return np.exp((0.5 * shape - 1.0) * np.log1p(square / (2.0 - shape)))


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
