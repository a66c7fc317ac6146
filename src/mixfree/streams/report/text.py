"""The report of a fit as lines of text, and its weights as a table and as a CSV file."""

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from mixfree.base.files import replacing
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.learner_for import LinearLearner
from mixfree.streams.fit.stream_fit import StreamFit
from mixfree.streams.report.facts import Facts

HEADER = b"\nfeature,class,weight,std_error,t,p,low,high\n"  # the first line of a file, its mark
NAMED = 20  # most columns that are listed by name


def lines(facts: Facts) -> Iterator[str]:
    """Yield the report line by line."""
    fit = facts.fit
    yield from _under("rows", _rows_read(fit))
    yield from _under("columns", _unused(facts.unused_columns))
    yield from _under("warning", facts.warnings)
    yield from _under("drift", [facts.drift] if facts.drift else [])
    yield from _under("fit", exactness(fit.model.learner))
    tables = (line for each in facts.quality.items() for line in _aligned(*each))
    yield from _under("quality", tables)
    if facts.correlation is not None:
        yield from _under("stream", [str(facts.correlation)])
    yield from _under("note", facts.notes)


def _under(head: str, found: Iterable[str]) -> Iterator[str]:
    """Yield lines, the first with a heading."""
    for line in found:
        yield f"{head:10} {line}"
        head = ""


def _rows_read(fit: StreamFit) -> Iterator[str]:
    """Yield the rows read and left out, and what the first rows did not show."""
    left_out = sum(fit.encoder.left_out.values())
    rate = fit.read / fit.seconds if fit.seconds > 0 else float("nan")
    speed = f"{rate:,.0f} rows per second"
    if not isinstance(fit.learner, ExactLearner):
        speed += ", including compilation if this was the first fit"
    yield f"{fit.read:,} read, {fit.used:,} used, {left_out:,} left out; {speed}"
    for reason, count in fit.encoder.left_out.most_common():
        yield f"{count:,} left out: {reason}"
    for count, first in fit.encoder.not_parsed.values():
        yield f"{count:,} treated as missing, the first: {first}"
    for column, count in fit.encoder.unknown.most_common():
        yield f"{count:,} with a text in {column!r} that the first rows lack"


def _unused(columns: Mapping[str, str]) -> Iterator[str]:
    """Yield the columns left out, grouped by reason."""
    by_reason: dict[str, list[str]] = {}
    for name, why in columns.items():
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        listed = ", ".join(map(repr, names[:NAMED]))
        more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
        yield f"left out: {listed}{more} ({why})"


def _aligned(caption: str, table: list[list[str]]) -> Iterator[str]:
    """Yield a table of metrics, one line per model."""
    yield caption
    _, *widths = (max(map(len, column)) for column in zip(*table, strict=True))
    for model, *values in table:
        cells = (f"{value:{width}}" for value, width in zip(values, widths, strict=True))
        yield "  ".join([*cells, model]).rstrip()


def exactness(learner: LinearLearner) -> Iterator[str]:
    """Yield what an exact fit minimises."""
    if not isinstance(learner, ExactLearner):
        return
    if (forgetting := learner.forgetting) is not None:
        if not forgetting.history:
            yield f"forgets old rows: a row counts half after {forgetting.half_life:,.0f} rows"
            return
        parts = sorted(forgetting.shares.items(), key=lambda part: -part[1])
        shares = (f"{life:,.0f} rows ({100 * share:.0f} %)" for life, share in parts if share > 0.0)
        row, best = forgetting.history[-1]
        yield f"forgets old rows, by a mixture of half-lives: {', '.join(shares)}"
        yield f"from row {row:,} on, the half-life that predicts best is {best:,.0f} rows"
        return
    gap, ridge = learner.gap, learner.ridge
    if ridge:
        yield (
            "classes can be separated, or nearly, so that no weights are best: all got a ridge "
            f"that the rows make probable, {ridge:.2g} (scikit-learn's default is 1); "
            "`l2` sets another"
        )
    if gap.upper == 0.0:
        added = " and this ridge" if ridge else ""
        yield f"minimises the loss of all rows{added}; their order does not matter"
    else:
        yield "minimises the loss of all rows approximately: they exceed the memory"
        yield (
            f"optimality gap: about {gap.estimate:.2g}, below {gap.upper:.2g} with 95 % "
            "confidence (mean loss above that of the best weights)"
        )


def weights(facts: Facts, top: int) -> Iterator[str]:
    """Yield a table of the weights with the largest effects, and tests of whole columns."""
    (outputs, columns), features = facts.fit.model.learner.weights.shape, facts.effects.shape[1]
    order = np.argsort(-np.abs(facts.effects).max(axis=0), kind="stable")[:top].tolist()
    places = [*order, *range(features, columns)]
    lines = [facts.summary.lines[i * columns + k] for i in range(outputs) for k in places]
    yield (
        f"weights    {len(order)} of {features:,} in the units of the data, those with the largest "
        "effects per standard deviation first"
    )
    yield from (f"  {line}".rstrip() for line in replace(facts.summary, lines=lines).text())


def write_weights(facts: Facts, path: str | os.PathLike[str]) -> int:
    """Write all weights to a CSV file atomically; return their number."""
    text = io.StringIO()
    lines = facts.summary.lines
    rows = [[*each[:2], *("" if n != n else repr(n) for n in each[2:])] for each in lines]
    csv.writer(text, lineterminator="\n").writerows(rows)
    with replacing(path) as file:
        file.write(HEADER.lstrip() + text.getvalue().encode())
    return len(rows)
