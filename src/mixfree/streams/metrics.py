"""Metrics of a fit: R², RMSE, accuracy and others."""

from collections.abc import Mapping

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.linear.exact.learner import ExactLearner
from mixfree.linear.learner_for import LinearLearner
from mixfree.linear.losses import REGRESSIONS
from mixfree.streams.stream_fit import StreamFit
from mixfree.streams.timeline import LARGEST, Judged, judged

__all__ = ["NAMES", "constant_losses", "exact_to_rounding", "metrics", "of_all_rows", "shown"]

ROUNDING = 1e-10  # bound on rounding errors, relative to the sizes of the terms added

# Printed names of the metrics, in order.
NAMES = {
    "r2": "R²",
    "rmse": "RMSE",
    "mae": "MAE",
    "log_loss": "log loss",
    "accuracy": "accuracy",
    "auc": "AUC",
    "loss": "loss",
}


def metrics(fit: StreamFit) -> dict[str, dict[str, float]]:
    """Return the metrics of the model and of the models it is compared with.

    ``"in_sample"`` is the model on a uniform sample of the rows, or on all of them where sums know
    the squared error, as :func:`of_all_rows` says; ``"test_then_train"`` is the model on rows
    predicted before they were learnt, ``"exact"`` the exact fit of all rows beside a method with
    steps, ``"constant"`` the best constant, and ``"sgd"`` plain SGD if asked for. Regressions have
    ``r2``, ``rmse`` and ``mae``; classifications have ``log_loss``, ``accuracy`` and, for two
    classes, ``auc``; ``loss`` is the mean of the minimised loss. Unknown metrics are NaN.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # squares of huge targets
        found = {"in_sample": _of_sample(fit, fit.learner)}
        if fit.timeline.tested:
            found["test_then_train"] = _of_timeline(fit)
        if fit.exact is not None:
            found["exact"] = _of_sample(fit, fit.exact)
        found["constant"] = _of_constant(fit)
        if fit.rival is not None:
            found["sgd"] = _of_sample(fit, fit.rival)
    return found


def shown(fit: StreamFit, of: Mapping[str, float]) -> dict[str, str]:
    """Format metrics for printing; the loss only if no other metric is equivalent to it.

    Examples
    --------
    >>> [f"{value:.4g}" for value in (0.93217, 21.5, 4084.0)]
    ['0.9322', '21.5', '4084']
    """
    names = [name for name in NAMES if name in of]
    if fit.plan.loss in ("squared", "logistic"):
        names.remove("loss")
    return {NAMES[name]: "unknown" if of[name] != of[name] else f"{of[name]:.4g}" for name in names}


def exact_to_rounding(fit: StreamFit) -> bool:
    """Whether a numeric target is predicted exactly, up to rounding.

    The uniform sample of the rows suffices: if a few other rows were not predicted exactly, the
    weights, and with them all predictions, would be inexact.
    """
    if fit.encoder.classes is not None or not fit.used:
        return False
    rows, targets, weights = fit.reservoir.rows, fit.reservoir.targets, fit.learner.weights
    found = judged(fit.row_loss, weights, rows, targets)
    slopes, rest = np.split(np.abs(weights[0]), [rows.shape[1]])
    sizes = np.abs(rows) @ slopes + rest.sum() + np.abs(targets)
    return bool(np.abs(found.actual - found.predicted).max() <= ROUNDING * sizes.mean())


def constant_losses(fit: StreamFit) -> Array:
    """Return the losses of the sampled rows for the best constant prediction."""
    targets = fit.reservoir.targets
    if fit.encoder.classes is not None:
        _, which, counts = np.unique(targets, return_inverse=True, return_counts=True)
        return -np.log(counts[which] / targets.size)
    constant = targets.mean() if fit.plan.loss == "squared" else np.median(targets)
    losses: Array = REGRESSIONS[str(fit.plan.loss)].value(np.full(targets.size, constant), targets)
    return losses


def of_all_rows(fit: StreamFit, learner: LinearLearner) -> tuple[float, float] | None:
    """Return the mean squared errors of a learner and of the mean, where sums know them exactly.

    None with other losses than the squared one, and where a sample holds all rows or more digits.
    """
    exact = fit.learner if isinstance(fit.learner, ExactLearner) else fit.exact
    if exact is None or fit.plan.loss != "squared" or len(fit.reservoir.rows) == fit.used:
        return None
    return exact.mean_squares(learner.weights)


def _of_sample(fit: StreamFit, learner: LinearLearner) -> dict[str, float]:
    rows, targets = fit.reservoir.rows, fit.reservoir.targets
    found = judged(fit.row_loss, learner.weights, rows, targets)
    loss = float(found.losses.mean())
    if fit.encoder.classes is None:
        error = found.actual - found.predicted
        absolute = float(np.abs(error).mean())
        if known := of_all_rows(fit, learner):
            return _regression(known[0], absolute, known[1], 0.5 * known[0])
        spread = float(((found.actual - found.actual.mean()) ** 2).mean())
        return _regression(float((error**2).mean()), absolute, spread, loss)
    return _classes(fit, loss, float(found.correct.mean()), _auc(found))


def _of_timeline(fit: StreamFit) -> dict[str, float]:
    course = fit.timeline
    tested = course.tested
    loss = course.total("loss") / tested
    if fit.encoder.classes is None:
        if np.abs(course.ranges).max() >= LARGEST:  # the timeline has clipped targets
            return _regression(*[float("nan")] * 4)
        mean, mean_square = (
            (course.total(name) - course.total(f"untested_{name}")) / tested
            for name in ("target", "target_squares")
        )
        spread = mean_square - mean**2
        if spread <= ROUNDING * course.total("target_squares") / tested:  # such as of one row
            spread = 0.0
        squares, absolute = (course.total(name) / tested for name in ("squares", "absolute"))
        return _regression(squares, absolute, spread, loss)
    counts = course.scores.astype(np.float64)
    return _classes(fit, loss, course.total("correct") / tested, _area(*counts))


def _of_constant(fit: StreamFit) -> dict[str, float]:
    targets = fit.reservoir.targets
    loss = float(constant_losses(fit).mean())
    if fit.encoder.classes is not None:
        most = np.unique(targets, return_counts=True)[1].max() / targets.size
        return _classes(fit, loss, float(most), 0.5)
    # The best constant is the mean for squared errors and the median for absolute errors.
    absolute = float(np.abs(targets - np.median(targets)).mean())
    spread = float(((targets - targets.mean()) ** 2).mean())
    if known := of_all_rows(fit, fit.learner):
        spread, loss = known[1], 0.5 * known[1]
    return _regression(spread, absolute, spread, loss)


def _regression(squares: float, absolute: float, spread: float, loss: float) -> dict[str, float]:
    explained = 1.0 - squares / spread if spread > 0.0 else float("nan")
    return {"r2": explained, "rmse": squares**0.5, "mae": absolute, "loss": loss}


def _classes(fit: StreamFit, loss: float, accuracy: float, auc: float) -> dict[str, float]:
    two = len(fit.encoder.classes or ()) == 2
    area = {"auc": auc} if two else {}
    return {"log_loss": loss, "accuracy": accuracy, **area, "loss": loss}


def _auc(found: Judged) -> float:
    if not len(found.scores):
        return float("nan")
    _, place = np.unique(found.scores, return_inverse=True)
    cells = int(place.max()) + 1
    first, second = (
        np.bincount(place[found.actual == label], minlength=cells).astype(np.float64)
        for label in (0.0, 1.0)
    )
    return _area(first, second)


def _area(first: Array, second: Array) -> float:
    """Return the area under the ROC curve from row counts by score; ties count half.

    Examples
    --------
    >>> _area(np.array([3.0, 1.0]), np.array([1.0, 3.0]))
    0.75
    """
    pairs = float(first.sum() * second.sum())
    below = np.cumsum(first) - first
    return float((second * (below + 0.5 * first)).sum()) / pairs if pairs else float("nan")
