"""Metrics of a fit: R², RMSE, accuracy and others."""

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.linear.exact_learner import ExactLearner
from mixfree.streams.fit.stream_fit import StreamFit
from mixfree.streams.fit.timeline import COLUMNS, Timeline, best_constant, compare

CONSTANT = "constant_"  # prefix of the sums of a timeline that are about the constant
ROUNDING = 1e-10  # bound on rounding errors, relative to the sizes of the terms added


def metrics(fit: StreamFit) -> dict[str, dict[str, float]]:
    """Return the metrics of the model and of the models it is compared with.

    ``"in_sample"`` is the model on a uniform sample of the rows, or on all of them where sums know
    the squared error, and ``"constant"`` the constant of the least loss on the same rows.
    ``"test_then_train"`` is the model on rows predicted before they were learnt, and
    ``"test_then_train_constant"``, on the same rows, the best constant of those before. ``"loss"``
    is the mean of the minimised loss. Unknown metrics are NaN.
    """
    loss, (_, learner, rows, targets) = fit.row_loss, fit.model
    with np.errstate(over="ignore", invalid="ignore"):  # squares of huge targets
        sample = Timeline.start(loss.outputs, len(fit.encoder.classes or ()))
        sample.renew(1, learner.weights, best_constant(loss, targets), rows.shape[1])
        sample.add(loss, rows, targets, np.zeros(0, "M8[us]"))
        courses = {"in_sample": (sample, ""), "constant": (sample, CONSTANT)}
        if fit.timeline.tested:
            courses["test_then_train"] = (fit.timeline, "")
            courses["test_then_train_constant"] = (fit.timeline, CONSTANT)
        found = {name: _measures(fit, *course) for name, course in courses.items()}
        if "auc" in found["in_sample"]:  # not by a histogram
            outcomes = compare(loss, learner.weights, rows, targets)
            values, place = np.unique(outcomes.scores, return_inverse=True)
            counts = np.zeros((2, len(values)))
            np.add.at(counts, (outcomes.actual.astype(int), place), 1.0)
            found["in_sample"]["auc"] = _area(*counts)
        if known := of_all_rows(fit):
            for name, squares in zip(("in_sample", "constant"), known, strict=True):
                found[name] |= {"r2": 1.0 - squares / known[1], "rmse": squares**0.5}
                found[name]["loss"] = 0.5 * squares
    return found


def of_all_rows(fit: StreamFit) -> tuple[float, float] | None:
    """Return the mean squared errors of the model and of the mean, where sums know them exactly.

    None with other losses than the squared one, and where a sample holds all rows or more digits.
    """
    if isinstance(fit.model.learner, ExactLearner) and len(fit.model.rows) < fit.used:
        return fit.model.learner.mean_squares(fit.model.learner.weights)
    return None


def _measures(fit: StreamFit, course: Timeline, prefix: str = "") -> dict[str, float]:
    """Return the metrics of predicted rows, of the model or of the constant."""
    of = {name: course.total(name) / course.total("weight") for name in COLUMNS}
    loss, squares, correct = (of[prefix + name] for name in ("loss", "squares", "correct"))
    if fit.encoder.classes is None:
        spread = of["tested_target_squares"] - of["tested_target"] ** 2
        varies = spread > ROUNDING * of["tested_target_squares"]  # not of one row
        explained = round(1.0 - squares / spread, 12) + 0.0 if varies else float("nan")
        errors = {"rmse": squares**0.5, "mae": of[f"{prefix}absolute"]}
        return {"r2": explained, **errors, "loss": loss}
    area = {}
    if len(fit.encoder.classes) == 2:
        scores = course.scores.sum(axis=1, keepdims=True) if prefix else course.scores
        area = {"auc": _area(*scores)}
    return {"log_loss": loss, "accuracy": correct, **area, "loss": loss}


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
