"""The weights of a fit by feature, with confidence intervals."""

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import replace

from mixfree.base.files import replacing
from mixfree.base.literal import literal
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.summary import Line, Summary, lines_of, summary_of
from mixfree.streams.fit.stream_fit import StreamFit

__all__ = ["HEADER", "summary_of_fit", "weights_of", "write_weights"]

HEADER = b"\nfeature,class,weight,std_error,t,p,low,high\n"  # the first line of a file, its mark


def weights_of(fit: StreamFit) -> list[Line]:
    """Return all weights per output, the intercept last."""
    return lines_of(fit.model.learner, fit.model.features, fit.encoder.classes or ())


def summary_of_fit(fit: StreamFit, lines: Sequence[Line]) -> Summary:
    """Make the table of a fit with some of its weights, and a test of each column of the data."""
    model = fit.model
    shown = [line._replace(feature=literal(line.feature)) for line in lines]
    if not isinstance(model.learner, ExactLearner):
        return Summary({}, shown, {}, "", 0.95)
    columns = zip(fit.encoder.columns, model.design.ranges, strict=False)
    groups = {
        f"{literal(column.name)} as a whole": range(begin, end)
        for column, (begin, end) in columns
        if end - begin > 1
    }
    found = summary_of(model.learner, model.features, fit.encoder.classes or (), groups)
    return replace(found, lines=shown)


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
