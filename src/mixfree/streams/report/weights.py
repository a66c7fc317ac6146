"""The weights of a fit by feature, with confidence intervals."""

import csv
import io
import os
from typing import NamedTuple

import numpy as np

from mixfree.base.files import replacing
from mixfree.streams.fit.stream_fit import StreamFit
from mixfree.streams.report.correlation import knows_intervals

__all__ = ["HEADER", "Weight", "weights_of", "write_weights"]

HEADER = b"\nfeature,class,weight,std_error,low,high\n"  # the first line of a file, its mark


class Weight(NamedTuple):
    """A weight in the units of the data.

    ``label`` is the class it belongs to, None if there is only one output. The standard error and
    the ends of the 95 % interval are NaN if the method has none.
    """

    feature: str
    label: str | None
    weight: float
    std_error: float
    low: float
    high: float

    @property
    def may_be_zero(self) -> bool:
        """Whether the interval contains 0."""
        return self.low <= 0.0 <= self.high


def weights_of(fit: StreamFit) -> list[Weight]:
    """Return all weights per output, the intercept last."""
    learner = fit.model.learner
    weights = np.asarray(learner.weights)
    names = [*fit.model.features, "intercept"][: weights.shape[1]]
    labels: list[str | None] = [None]
    if len(weights) > 1:
        labels = list(fit.encoder.classes or ())
    errors, ends = np.full(weights.shape, np.nan), np.full((*weights.shape, 2), np.nan)
    if knows_intervals(learner):
        errors, ends = learner.bse, learner.conf_int()
    return [
        Weight(name, label, float(weights[i, k]), float(errors[i, k]), *map(float, ends[i, k]))
        for i, label in enumerate(labels)
        for k, name in enumerate(names)
    ]


def write_weights(fit: StreamFit, path: str | os.PathLike[str]) -> int:
    """Write all weights to a CSV file atomically; return their number."""
    found = weights_of(fit)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for each in found:
        numbers = ("" if value != value else repr(value) for value in each[2:])
        writer.writerow([each.feature, each.label or "", *numbers])
    with replacing(path) as file:
        file.write(HEADER.lstrip() + text.getvalue().encode())
    return len(found)
