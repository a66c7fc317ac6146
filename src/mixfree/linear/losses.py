"""Losses of a linear model, and their derivatives with respect to the prediction."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, Protocol

import numpy as np
from scipy import special

from mixfree.base.arithmetic import MAX_VALUE, Array
from mixfree.base.checks import check_positive, check_whole, shown

QUANTILES = 33  # of the targets, from which the search for the best constant starts
MAX_LOG_MEAN = 300.0  # to which the logarithm of a mean is clipped


class Loss(Protocol):
    """A loss ℓ(prediction, target) of ``outputs`` predictions per sample, 1 except for softmax."""

    @property
    def outputs(self) -> int:
        """Predictions per sample."""

    def value(self, prediction: Any, target: Any) -> Any:
        """Return ℓ, elementwise over samples."""

    def derivative(self, prediction: Any, target: Any) -> Any:
        """Return ∂ℓ/∂prediction, elementwise over samples."""


class Family(Loss):
    """What an exact fit needs of a loss besides its value and derivative.

    A new family is one class with :meth:`parts` and, if they differ from those below, the targets
    that it allows and the best constant.
    """

    outputs: int = 1
    of_residuals = False  # whether only the difference of prediction and target counts
    largest = 1e3  # to which predictions at arrival are clipped

    @abstractmethod
    def parts(self, prediction: Any, target: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ∂ℓ/∂prediction and a = ∂²ℓ/∂prediction², elementwise over samples.

        With several outputs the Hessian is diag(a) − a aᵀ.
        """

    def value(self, prediction: Any, target: Any) -> Any:
        """Return ℓ."""
        return self.parts(prediction, target)[0]

    def derivative(self, prediction: Any, target: Any) -> Any:
        """Return ∂ℓ/∂prediction."""
        return self.parts(prediction, target)[1]

    def curvature(self, prediction: Any, target: Any) -> Any:
        """Return ∂²ℓ/∂prediction²."""
        return self.parts(prediction, target)[2]

    def at(self, z: Array, targets: Array) -> tuple[Array, Array, Array]:
        """Return values of rows, and derivatives and curvatures, rows × outputs as ``z``."""
        if self.outputs > 1:
            return self.parts(z, targets)
        value, slope, bend = self.parts(z[:, 0], targets)
        return value, slope[:, None], bend[:, None]

    def mean(self, prediction: Any) -> Any:
        """Return the mean of the target, which is the prediction unless there is a link."""
        return prediction

    def deviation(self, mean: Any) -> Any:
        """Return the standard deviation of a target with this mean, up to a factor."""
        return 1.0

    def check_targets(self, targets: Array) -> None:
        """Raise ValueError for targets that the loss does not allow; by default there are none."""

    def class_counts(self, targets: Array, weights: Array | None = None) -> Array | None:
        """Return the rows of each class, or the sum of their weights; None without classes."""
        return None

    def encoded(self, targets: Array) -> Array:
        """Return targets as numbers that slopes are linear in: rows × outputs."""
        return targets[:, None]

    def best_constant(self, targets: Array, weights: Array | None = None) -> Array:
        """Return the constant prediction of the least mean loss, one row per output.

        By default it is the minimum beside the best quantile, or the logarithm of the classes'
        frequencies, where an absent one counts as half a row.
        """
        if (counts := self.class_counts(targets, weights)) is not None:
            found = np.log(np.maximum(counts, 0.5))[:, None]
            return found if self.outputs > 1 else np.diff(found, axis=0)

        def mean_loss(constant: float) -> float:
            return float(np.average(self.value(constant, targets), weights=weights))

        guesses = np.quantile(targets, np.linspace(0.0, 1.0, QUANTILES))
        best = int(np.argmin([*map(mean_loss, guesses)]))
        ends = guesses[max(best - 1, 0)], guesses[min(best + 1, QUANTILES - 1)]
        from scipy.optimize import minimize_scalar  # late, since it takes long to import

        least = minimize_scalar(mean_loss, bounds=ends, options={"xatol": 0.0})
        return np.array([[least.x]])


@dataclass(frozen=True)
class Squared(Family):
    """½(prediction − target)².

    Examples
    --------
    >>> Squared().value(3.0, 1.0), Squared().derivative(3.0, 1.0)
    (2.0, 2.0)
    """

    def parts(self, prediction: Any, target: Any) -> tuple[Any, Any, Any]:
        """½r², r and 1."""
        residual = prediction - target
        return 0.5 * residual**2, residual, np.ones(np.shape(residual))

    def best_constant(self, targets: Array, weights: Array | None = None) -> Array:
        """Return the mean."""
        return np.array([[np.average(targets, weights=weights)]])


@dataclass(frozen=True)
class Logistic(Family):
    """log(1 + exp(−target · prediction)) for targets −1 and +1.

    Examples
    --------
    >>> float(Logistic().derivative(0.0, 1.0))
    -0.5
    """

    def parts(self, prediction: Any, target: Any) -> tuple[Any, Any, Any]:
        """log(1 + e^−m), −target/(1 + e^m) and the variance of the class, m = target · p."""
        margin = target * prediction
        decay = np.exp(-np.abs(margin))
        share = 1.0 / (1.0 + decay)
        slope = -target * np.where(margin > 0.0, decay, 1.0) * share
        return np.log1p(decay) - np.minimum(margin, 0.0), slope, decay * share * share

    def derivative(self, prediction: Any, target: Any) -> Any:
        """The same alone, in less time."""
        with np.errstate(over="ignore"):  # the slope is then 0
            return -target / (1.0 + np.exp(target * prediction))

    def check_targets(self, targets: Array) -> None:
        """Check that all targets are −1 or +1."""
        _check(targets, np.abs(targets) == 1.0, "the logistic loss must be -1 or +1")

    def class_counts(self, targets: Array, weights: Array | None = None) -> Array:
        """Return the rows of both classes, or the sum of their weights."""
        return np.bincount((targets > 0.0).astype(np.int64), weights, minlength=2)


@dataclass(frozen=True)
class Huber(Family):
    """Huber's loss: ½r² for ``|r|`` ≤ delta, linear beyond.

    Examples
    --------
    >>> float(Huber(1.0).value(3.0, 0.0)), float(Huber(1.0).derivative(-3.0, 0.0))
    (2.5, -1.0)
    """

    delta: float = 1.0
    of_residuals = True
    largest = MAX_VALUE

    def __post_init__(self) -> None:
        check_positive(self.delta, "delta")

    def parts(self, prediction: Any, target: Any) -> tuple[Any, Any, Any]:
        """½r² or ``δ(|r| − ½δ)``, r clipped to ±δ, and 1 or 0."""
        residual = prediction - target
        size = np.abs(residual)
        inside = np.minimum(size, self.delta)
        slope = np.clip(residual, -self.delta, self.delta)
        return inside * (size - 0.5 * inside), slope, np.where(size <= self.delta, 1.0, 0.0)


@dataclass(frozen=True)
class Robust(Family):
    r"""Barron's general robust loss, bounded for a negative shape (Barron 2019).

    .. math:: \rho(r) = \frac{|a-2|}{a}
              \Big[\Big(\frac{(r/c)^2}{|a-2|} + 1\Big)^{a/2} - 1\Big]

    with its limits at shape a = 2 (½(r/c)²), 0 (Cauchy) and −∞ (Welsch).

    Examples
    --------
    >>> round(float(Robust(shape=-2.0, scale=1.0).value(1e9, 0.0)), 6)
    2.0
    """

    shape: float = -2.0
    scale: float = 1.0
    of_residuals = True
    largest = MAX_VALUE

    def __post_init__(self) -> None:
        check_positive(self.scale, "scale")
        if not self.shape <= 2.0:
            raise ValueError(f"shape must be at most 2, not {shown(self.shape)}")

    def parts(self, prediction: Any, target: Any) -> tuple[Any, Any, Any]:
        """ρ(r), ρ′(r) and ρ″(r), which is negative for large residuals if the shape is below 1."""
        ratio, shape = (prediction - target) / self.scale, self.shape
        square = ratio**2
        if shape == 2.0:
            value, fall, turn = 0.5 * square, 0.0 * square, 0.0 * square
        elif shape == -math.inf:
            value, fall, turn = -np.expm1(-0.5 * square), square, square
        else:
            fall = (2.0 - shape) * np.log1p(square / (2.0 - shape))
            turn, power = square / (1.0 + square / (2.0 - shape)), shape / (2.0 - shape)
            value = np.expm1(0.5 * power * fall) / power if power else 0.5 * fall
        slope = np.exp(-0.5 * fall) / self.scale  # ρ′(r) over r/c
        return value, ratio * slope, (1.0 - turn) * slope / self.scale


@dataclass(frozen=True)
class Softmax(Family):
    """Cross-entropy of ``classes`` predictions; the target is the class number.

    Examples
    --------
    >>> Softmax(2).derivative(np.zeros(2), 1)
    array([ 0.5, -0.5])
    """

    classes: int

    def __post_init__(self) -> None:
        check_whole(self.classes, "classes", least=2)

    @property
    def outputs(self) -> int:  # type: ignore[override]
        """One prediction per class."""
        return self.classes

    def parts(self, prediction: Any, target: Any) -> tuple[Any, Any, Any]:
        """log Σ exp(p) − p[target], probabilities minus the target's indicator, probabilities."""
        given = np.asarray(target, dtype=np.intp)[..., None]
        share = prediction - prediction.max(axis=-1, keepdims=True)
        value = -np.take_along_axis(share, given, axis=-1)
        np.exp(share, out=share)
        total = share.sum(axis=-1, keepdims=True)
        share /= total
        slope = share.copy()
        np.put_along_axis(slope, given, np.take_along_axis(slope, given, axis=-1) - 1.0, axis=-1)
        return (value + np.log(total))[..., 0], slope, share

    def value(self, prediction: Any, target: Any) -> Any:
        """The same alone, accurate to the last digit also where it is nearly 0."""
        given = np.asarray(target, dtype=np.intp)[..., None]
        actual = np.take_along_axis(prediction, given, axis=-1)
        return special.logsumexp(prediction - actual, axis=-1)

    def check_targets(self, targets: Array) -> None:
        """Check that all targets are whole numbers from 0 to the number of classes − 1."""
        right = (targets >= 0) & (targets < self.classes) & (targets == np.floor(targets))
        _check(targets, right, f"softmax must be whole numbers from 0 to {self.classes - 1}")

    def encoded(self, targets: Array) -> Array:
        """Return indicators of the classes."""
        return np.asarray(targets[:, None] == np.arange(self.classes), dtype=np.float64)

    def class_counts(self, targets: Array, weights: Array | None = None) -> Array:
        """Return the rows of each class, or the sum of their weights."""
        return np.bincount(targets.astype(np.int64), weights, minlength=self.classes)


@dataclass(frozen=True)
class Poisson(Family):
    """Half the deviance of counts y ≥ 0: e^p − y·p + y·log y − y, where e^p is the mean.

    Examples
    --------
    >>> float(Poisson().value(0.0, 1.0)), float(Poisson().derivative(0.0, 3.0))
    (0.0, -2.0)
    """

    largest = 30.0  # e^30 does not dominate the sums of a stream

    def parts(self, prediction: Any, target: Any) -> tuple[Any, Any, Any]:
        """e^p − y·p + y·log y − y, which is 0 at p = log y; e^p − y; e^p."""
        mean = self.mean(prediction)
        value = mean - target * (prediction + 1.0) + special.xlogy(target, target)
        return value, mean - target, mean

    def mean(self, prediction: Any) -> Any:
        """Return e^p, which cannot overflow."""
        return np.exp(np.minimum(prediction, MAX_LOG_MEAN))

    def deviation(self, mean: Any) -> Any:
        """Return the square root of the mean."""
        return np.sqrt(mean)

    def check_targets(self, targets: Array) -> None:
        """Check that no target is negative."""
        _check(targets, targets >= 0.0, "the Poisson loss must not be negative")

    def best_constant(self, targets: Array, weights: Array | None = None) -> Array:
        """Return the logarithm of the mean, where no counts at all count as half a one."""
        each = np.ones(len(targets)) if weights is None else weights
        return np.log([[max(float(each @ targets), 0.5) / max(float(each.sum()), 1e-300)]])


REGRESSIONS: Mapping[str, Loss] = {
    "squared": Squared(),
    "huber": Huber(),
    "robust": Robust(),
    "poisson": Poisson(),
}


def _check(targets: Array, right: Array, which: str) -> None:
    """Raise ValueError for the first target that is not right."""
    if not right.all():
        raise ValueError(f"targets of {which}, not {targets[~right][0]}")


def mean_of(loss: Loss, prediction: Any) -> Any:
    """Return the mean of the target: the prediction itself, unless the loss has a link."""
    return loss.mean(prediction) if isinstance(loss, Family) else prediction


def predictions(x: Array, rows: Array, outputs: int = 1) -> Array:
    """Return the predictions of a linear model with weights ``x`` for one row or many.

    ``x`` has one block of weights per output; a block longer than the rows ends with the
    intercept.
    """
    blocks = x.reshape(outputs, -1)
    width = rows.shape[-1]
    found = rows @ blocks[:, :width].T
    if blocks.shape[1] > width:
        found = found + blocks[:, width]
    return found[..., 0] if outputs == 1 else found


def row_predictions(weights: Array, rows: Array) -> Array:
    """Return predictions whose bits do not depend on the other rows of the call.

    A product of matrices would not guarantee that. ``weights`` has one row per output.
    """
    width, rows = rows.shape[1], np.ascontiguousarray(rows)
    columns = [np.einsum("ij,j->i", rows, each[:width]) for each in weights]
    if weights.shape[1] > width:
        columns = [column + each[-1] for column, each in zip(columns, weights, strict=True)]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def linear_gradient(
    loss: Loss, x: Array, row: Array, target: Any, l2: float = 0.0, weight: float = 1.0
) -> Array:
    """Return the gradient at ``x`` of weight · loss + ½·l2·‖x‖² for one sample.

    This is the reference of the compiled kernels.
    """
    slope = weight * np.atleast_1d(loss.derivative(predictions(x, row, loss.outputs), target))
    intercept = x.size // loss.outputs - row.size
    gradient = np.outer(slope, np.append(row, np.ones(intercept, row.dtype))).ravel()
    return gradient + l2 * x if l2 else gradient


def has_kernel(loss: Loss) -> bool:
    """Whether the loss has compiled code; a loss without it works, but more slowly."""
    return type(loss) in (Squared, Logistic, Huber, Robust, Softmax)


def compiled_loss(loss: Any) -> tuple[float, ...]:
    """Return the compiled form of a loss that has one: the same name, and its settings."""
    from mixfree.kernels import linear

    settings = () if isinstance(loss, Softmax) else map(float, astuple(loss))
    compiled: tuple[float, ...] = getattr(linear, f"{type(loss).__name__}Loss")(*settings)
    return compiled
