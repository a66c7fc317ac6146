"""Metrics of a fit: R², RMSE, accuracy and others."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.linear.exact_learner import ExactLearner
from mixfree.streams.fit.stream_fit import StreamFit
from mixfree.streams.fit.timeline import Outcomes, best_constant, compare, compare_constant

__all__ = ["NAMES", "Quality", "exact_to_rounding", "metrics", "of_all_rows", "quality"]

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


class Quality(NamedTuple):
    """Printed metrics on the same rows: their names, and per model its name and the values."""

    rows: str
    names: list[str]
    table: list[list[str]]


def metrics(fit: StreamFit) -> dict[str, dict[str, float]]:
    """Return the metrics of the model and of the models it is compared with.

    ``"in_sample"`` is the model on a uniform sample of the rows, or on all of them where sums know
    the squared error, as :func:`of_all_rows` says, and ``"constant"`` the constant of the least
    loss on the same rows. ``"test_then_train"`` is the model on rows predicted before they were
    learnt, and ``"test_then_train_constant"``, on the same rows, the best constant of those before.
    Regressions have ``r2``, ``rmse`` and ``mae``; classifications have ``log_loss``, ``accuracy``
    and, for two classes, ``auc``; ``loss`` is the mean of the minimised loss. Unknown metrics are
    NaN.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # squares of huge targets
        found = {"in_sample": _of_sample(fit, fit.model.learner.weights)}
        found["constant"] = _of_sample(fit, None)
        if fit.timeline.tested:
            found["test_then_train"] = _of_timeline(fit, "")
            found["test_then_train_constant"] = _of_timeline(fit, "constant_")
    return found


def quality(fit: StreamFit, found: Mapping[str, Mapping[str, float]]) -> Iterator[Quality]:
    """Yield tables of :func:`metrics`; the loss only if no other metric is equivalent to it."""
    kept, tested = len(fit.model.rows), fit.timeline.tested
    rows = f"a uniform sample of {kept:,} rows, which depends on their order"
    if kept == fit.used:
        rows = "all rows"
    elif of_all_rows(fit, fit.model.learner.weights):
        rows = f"all rows (MAE: {rows})"
    if isinstance(fit.model.learner, ExactLearner) and fit.model.learner.forgetting is not None:
        rows += ", by the final weights"
    names = [name for name in NAMES if name in found["in_sample"]]
    if fit.plan.loss in ("squared", "logistic"):
        names.remove("loss")
    models = {"in_sample": "the model", "constant": "the best constant prediction"}
    tables = [(f"in-sample: {rows}", models)]
    if tested > 1:
        constant = {"test_then_train_constant": "the best constant of the rows before"}
        caption = f"test-then-train: {tested:,} rows, each predicted before it was learnt"
        tables.append((caption, {"test_then_train": "the model"} | constant))
    for caption, models in tables:
        table = [
            [model, *(_number(found[what][name]) for name in names)]
            for what, model in models.items()
        ]
        yield Quality(caption, [NAMES[name] for name in names], table)


def _number(value: float) -> str:
    return "unknown" if value != value else f"{value:.4g}"


def exact_to_rounding(fit: StreamFit) -> bool:
    """Whether a numeric target is predicted exactly, up to rounding.

    The uniform sample of the rows suffices: if a few other rows were not predicted exactly, the
    weights, and with them all predictions, would be inexact.
    """
    if fit.encoder.classes is not None or not fit.used:
        return False
    rows, targets, weights = fit.model.rows, fit.model.targets, fit.model.learner.weights
    found = compare(fit.row_loss, weights, rows, targets)
    slopes, rest = np.split(np.abs(weights[0]), [rows.shape[1]])
    sizes = np.abs(rows) @ slopes + rest.sum() + np.abs(targets)
    return bool(np.abs(found.actual - found.predicted).max() <= ROUNDING * sizes.mean())


def of_all_rows(fit: StreamFit, weights: Array) -> tuple[float, float] | None:
    """Return the mean squared errors of weights and of the mean, where sums know them exactly.

    None with other losses than the squared one, and where a sample holds all rows or more digits.
    """
    if isinstance(fit.model.learner, ExactLearner) and len(fit.model.rows) < fit.used:
        return fit.model.learner.mean_squares(weights)
    return None


def _of_sample(fit: StreamFit, weights: Array | None) -> dict[str, float]:
    """Return metrics of weights, or of the best constant if None."""
    rows, targets, loss = fit.model.rows, fit.model.targets, fit.row_loss
    if weights is None:
        found = compare_constant(loss, best_constant(loss, targets), targets)
    else:
        found = compare(loss, weights, rows, targets)
    mean = float(found.losses.mean())
    if fit.encoder.classes is not None:
        return _classes(fit, mean, float(found.correct.mean()), _by_score(found))
    error = found.actual - found.predicted
    absolute = float(np.abs(error).mean())
    if known := of_all_rows(fit, fit.model.learner.weights if weights is None else weights):
        squares = known[1] if weights is None else known[0]
        return _regression(squares, absolute, known[1], 0.5 * squares)
    spread = float(((targets - targets.mean()) ** 2).mean())
    return _regression(float((error**2).mean()), absolute, spread, mean)


def _of_timeline(fit: StreamFit, prefix: str) -> dict[str, float]:
    """Return test-then-train metrics of the model, or of the constant as ``prefix`` says."""
    course = fit.timeline
    weight = course.weight
    of = {
        name: course.total(f"{prefix}{name}") / weight
        for name in ("loss", "squares", "absolute", "correct")
    }
    if fit.encoder.classes is None:
        mean = course.total("tested_target") / weight
        mean_square = course.total("tested_target_squares") / weight
        spread = mean_square - mean**2
        if spread <= ROUNDING * mean_square:  # such as of one row
            spread = 0.0
        return _regression(of["squares"], of["absolute"], spread, of["loss"])
    scores = course.scores.sum(axis=1, keepdims=True) if prefix else course.scores
    return _classes(fit, of["loss"], of["correct"], scores)


def _regression(squares: float, absolute: float, spread: float, loss: float) -> dict[str, float]:
    explained = 1.0 - squares / spread if spread > 0.0 else float("nan")
    return {"r2": explained, "rmse": squares**0.5, "mae": absolute, "loss": loss}


def _classes(fit: StreamFit, loss: float, accuracy: float, scores: Any) -> dict[str, float]:
    area = {"auc": _area(*scores)} if len(fit.encoder.classes or ()) == 2 else {}
    return {"log_loss": loss, "accuracy": accuracy, **area, "loss": loss}


def _by_score(found: Outcomes) -> list[Array]:
    """Return the numbers of rows of both classes by score."""
    values, place = np.unique(found.scores, return_inverse=True)
    classes = (place[found.actual == label] for label in (0.0, 1.0) if len(values))
    return [np.bincount(each, minlength=len(values)) for each in classes]


def _area(first: Array, second: Array) -> float:
    """Return the area under the ROC curve from row counts by score; ties count half.

    Examples
    --------
    >>> _area(np.array([3, 1]), np.array([1, 3]))
    0.75
    """
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    pairs = float(first.sum() * second.sum())
    below = np.cumsum(first) - first
    return float((second * (below + 0.5 * first)).sum()) / pairs if pairs else float("nan")
