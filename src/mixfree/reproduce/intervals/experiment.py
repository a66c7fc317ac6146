"""Coverage of 95 % intervals from batch means and two standard kinds, on AR(1) streams."""

from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.linear.exact.learner import ExactLearner
from mixfree.linear.losses import Logistic, Squared
from mixfree.reproduce.engine.report import Row
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.intervals.report import (
    HAC,
    INDEPENDENT,
    OURS,
    OURS_WITH_FEW,
    intervals_report,
)
from mixfree.reproduce.intervals.streams import MODELS, best_weights, loss_of, stream

__all__ = ["FULL", "QUICK", "cells", "measure", "report", "sandwich_errors"]

# Seeds below 1,000 were used to develop the intervals.
FULL = Settings(samples=20_000, seeds=300, first_seed=1000)
QUICK = FULL.changed(seeds=5, first_seed=0)

RHOS = (0.0, 0.5, 0.9, 0.98)
SHORTER = 10  # factor by which the short streams are shorter
TOGETHER = 10  # seeds per cell
KEPT = 2048  # rows of the memory that holds only a part of the long streams
NORMAL = 1.959963984540054  # 97.5 % quantile

report = intervals_report


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per model, ρ, length and ten seeds."""
    first, end = settings.first_seed, settings.first_seed + settings.seeds
    return [
        {
            "model": model,
            "rho": rho,
            "rows": rows,
            "seeds": list(range(seed, min(seed + TOGETHER, end))),
        }
        for model in MODELS
        for rho in RHOS
        for rows in (settings.samples // SHORTER, settings.samples)
        for seed in range(first, end, TOGETHER)
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """Return one row per stream and kind of interval: the share of weights covered."""
    return [
        {
            "model": cell["model"],
            "rho": cell["rho"],
            "rows": cell["rows"],
            "seed": seed,
            "method": method,
            "covered": float(np.mean(np.abs(found - truth) <= half)),
            "half": float(np.mean(half)),
            "warned": warned,
        }
        for seed in cell["seeds"]
        for truth in [np.array(best_weights(cell["model"]))]
        for method, found, half, warned in _intervals(
            cell["model"], *stream(cell["model"], cell["rows"], cell["rho"], seed)
        )
    ]


def _intervals(model: str, x: Array, y: Array) -> list[tuple[str, Array, Array, bool]]:
    """Return kinds of intervals: name, weights, half-widths, and whether a remark warns of them."""
    loss = loss_of(model)

    def fit(**options: Any) -> tuple[Array, Array, bool]:
        learner = ExactLearner(loss, x.shape[1], l2=None, **options)
        learner.advance(x, y)
        weights = learner.weights[0]
        return weights, learner.conf_int()[0, :, 1] - weights, bool(learner.remark)

    ours = fit()
    usual = int(4.0 * (len(y) / 100.0) ** (2.0 / 9.0))
    found = [
        (OURS, *ours),
        (HAC, ours[0], NORMAL * sandwich_errors(loss, ours[0], x, y, usual), False),
        (INDEPENDENT, ours[0], NORMAL * sandwich_errors(loss, ours[0], x, y), False),
    ]
    if isinstance(loss, Logistic) and len(y) > 2 * KEPT:
        found.append((OURS_WITH_FEW, *fit(memory=KEPT)))
    return found


def sandwich_errors(
    loss: Squared | Logistic, weights: Array, x: Array, y: Array, lags: int = 0
) -> Array:
    """Compute standard errors with Bartlett's kernel: White's without lags, else Newey and West's.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(10_000, 1)), rng.normal(size=10_000)
    >>> sandwich_errors(Squared(), np.zeros(2), x, y).round(3)
    array([0.01, 0.01])
    """
    z = np.column_stack([x, np.ones(len(x))])
    line = z @ weights
    bend = np.ones(len(y)) if isinstance(loss, Squared) else 0.25 / np.cosh(0.5 * line) ** 2
    score = loss.derivative(line, y)[:, None] * z
    middle = score.T @ score
    for lag in range(1, lags + 1):
        product = score[lag:].T @ score[:-lag]
        middle += (1.0 - lag / (lags + 1.0)) * (product + product.T)
    inverse = np.linalg.inv((z * bend[:, None]).T @ z)
    return np.sqrt(np.diag(inverse @ middle @ inverse))
