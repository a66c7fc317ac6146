"""The report of a fit as plain values, for JSON."""

from typing import Any

import numpy as np

import mixfree
from mixfree.linear.exact.learner import ExactLearner
from mixfree.streams.correlation import Correlation, knows_intervals
from mixfree.streams.leakage import leakage_warnings
from mixfree.streams.metrics import exact_to_rounding, metrics
from mixfree.streams.report import remarks, warnings
from mixfree.streams.stream_fit import StreamFit
from mixfree.streams.weights import weights_of

__all__ = ["correlation_facts", "fit_facts", "model_facts"]


def fit_facts(fit: StreamFit) -> dict[str, Any]:
    """Return the content of the printed report."""
    encoder, course = fit.encoder, fit.timeline
    correlation = Correlation.of_fit(fit)
    return {
        "mixfree": mixfree.__version__,
        "target": encoder.target,
        "loss": fit.plan.loss,
        "method": fit.learner.method,
        "classes": encoder.classes,
        "complete": fit.complete,
        "rows": {
            "read": fit.read,
            "used": fit.used,
            "sampled": len(fit.reservoir.rows),
            "tested": course.tested,
            "seconds": fit.seconds,
            "left_out": [
                {"reason": reason, "rows": count} for reason, count in encoder.left_out.items()
            ],
        },
        "columns": {
            "used": [
                {"name": column.name, "kind": column.kind, "features": len(column.features)}
                for column in encoder.columns
            ],
            "left_out": [{"name": name, "reason": why} for name, why in fit.unused_columns.items()],
        },
        "metrics": metrics(fit),
        "exact": _exactness(fit),
        "correlation": None if correlation is None else correlation_facts(correlation),
        "notes": [*fit.notes, *remarks(fit)],
        "warnings": [*leakage_warnings(fit), *warnings(fit)],
    }


def model_facts(fit: StreamFit) -> dict[str, Any]:
    """Return the report with weights, timeline, settings and files."""
    bins = fit.timeline.bins
    return {
        **fit_facts(fit),
        "plan": ", ".join(f"{name}={value!r}" for name, value in fit.plan.given().items()),
        "files": [{"name": file.name, "rows": file.rows} for file in fit.read_record.files],
        "weights": [
            {
                "feature": each.feature,
                "class": each.label,
                "weight": each.weight,
                "std_error": each.std_error,
                "low": each.low,
                "high": each.high,
            }
            for each in weights_of(fit)
        ],
        "timeline": [
            {
                **{name: float(getattr(bins, name)[at]) for name in bins._fields[:-1]},
                "time": None if np.isnat(bins.times[at]) else str(bins.times[at]),
            }
            for at in range(len(bins.rows))
        ],
    }


def correlation_facts(found: Correlation | None) -> dict[str, Any]:
    """Return the correlation of a stream, with None for all values if unknown."""
    if found is None:
        names = ("scale", "resolved", "effective_sample_size", "variance_inflation", "along_path")
        return {**dict.fromkeys(names), "profile": []}
    return {
        "scale": found.scale,
        "resolved": not found.rising,
        "effective_sample_size": found.effective_sample_size,
        "variance_inflation": found.inflation,
        "along_path": found.along_path,
        "profile": [
            {"rows_per_block": int(length), "inflation": float(ratio), "std_error": float(error)}
            for length, ratio, error in zip(found.lengths, found.ratios, found.errors, strict=True)
        ],
    }


def _exactness(fit: StreamFit) -> dict[str, Any] | None:
    """Return optimality gap and half-life of an exact fit, None for a method with steps."""
    if not isinstance(fit.learner, ExactLearner):
        return None
    gap = fit.learner.gap if knows_intervals(fit.learner) else None
    return {
        "optimality_gap": None if gap is None else gap.estimate,
        "optimality_gap_below": None if gap is None else gap.upper,
        "half_life": fit.learner.half_life,
        "to_rounding": exact_to_rounding(fit),
    }
