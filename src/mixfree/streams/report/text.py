"""The report of a fit as lines of text, and its weights as a table and as a CSV file."""

import csv
import io
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from mixfree.base.files import replacing
from mixfree.base.terminal import literal
from mixfree.linear.exact.forgetting import Forgetting
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.summary import Summary, summary_of
from mixfree.streams.fit.stream_fit import StreamFit
from mixfree.streams.report.facts import Facts

__all__ = ["HEADER", "lines", "weights", "write_weights"]

HEADER = b"\nfeature,class,weight,std_error,t,p,low,high\n"  # the first line of a file, its mark
NAMED = 20  # most columns that are listed by name


def lines(facts: Facts) -> Iterator[str]:
    """Yield the report line by line."""
    fit = facts.fit
    yield from _under("rows", _rows_read(fit))
    yield from _under("columns", _unused(facts.unused_columns))
    yield from _under("warning", facts.warnings)
    yield from _under("drift", [facts.drift] if facts.drift else [])
    if isinstance(fit.model.learner, ExactLearner):
        yield from _under("fit", _exactness(fit.model.learner))
    yield from _under(
        "quality", (line for each in facts.quality.items() for line in _aligned(*each))
    )
    if facts.correlation is not None:
        yield from _under("stream", facts.correlation.lines())
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
    exact = isinstance(fit.learner, ExactLearner)
    compiled = "" if exact else ", including compilation if this was the first fit"
    yield f"{fit.read:,} read, {fit.used:,} used, {left_out:,} left out"
    yield f"{rate:,.0f} rows per second{compiled}"
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


def _exactness(learner: ExactLearner) -> Iterator[str]:
    """Yield what an exact fit minimises."""
    if learner.forgetting is not None:
        yield from _half_lives(learner.forgetting)
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


def _half_lives(forgetting: Forgetting) -> Iterator[str]:
    """Yield the half-lives of the weights, and which predicted best when."""
    changes, best = forgetting.history, forgetting.half_life
    if not changes:
        yield f"forgets old rows: a row counts half after {best:,.0f} rows"
        return
    parts = sorted(forgetting.shares.items(), key=lambda part: -part[1])
    mixed = (f"{share:.0%} {_rows(life)}" for life, share in parts if share >= 0.005)
    yield f"forgets old rows: the half-life that predicts best is {_rows(best)}"
    yield f"the weights are a mixture of half-lives: {', '.join(mixed)}"
    if len(changes) > 1:
        row, life = changes[-1]
        yield f"the best one changed {len(changes) - 1:,} times, last at row {row:,}: {_rows(life)}"


def _rows(half_life: float) -> str:
    return "never" if half_life == math.inf else f"{half_life:,.0f} rows"


def weights(facts: Facts, top: int) -> Iterator[str]:
    """Yield a table of the weights with the largest effects, and tests of whole columns."""
    fit, model = facts.fit, facts.fit.model
    (outputs, columns), features = model.learner.weights.shape, len(model.features)
    order = np.argsort(-np.abs(facts.effects).max(axis=0), kind="stable")[:top]
    places = [*order.tolist(), *range(features, columns)]
    every = (facts.weights[i * columns + k] for i in range(outputs) for k in places)
    lines = [line._replace(feature=literal(line.feature)) for line in every]
    found = Summary({}, lines, {}, "", 0.95)
    if isinstance(model.learner, ExactLearner):
        groups = {
            f"{literal(column.name)} as a whole": places
            for column, places in facts.used_columns
            if len(places) > 1
        }
        found = summary_of(model.learner, model.features, fit.encoder.classes or (), groups)
        found = replace(found, lines=lines)
    yield (
        f"weights    the {len(order)} of {features:,} with the largest effects per standard "
        "deviation, in the units of the data"
    )
    yield from (f"  {line}".rstrip() for line in found.table())
    if facts.only_rounding:
        yield "           the intervals show rounding errors only: the model fits every row"
        return
    yield from (f"  {name:16}  {literal(value)}" for name, value in found.facts.items())
    yield from (f"  {note}" for note in found.notes if note)


def write_weights(facts: Facts, path: str | os.PathLike[str]) -> int:
    """Write all weights to a CSV file atomically; return their number."""
    text = io.StringIO()
    rows = ([*each[:2], *("" if n != n else repr(n) for n in each[2:])] for each in facts.weights)
    csv.writer(text, lineterminator="\n").writerows(rows)
    with replacing(path) as file:
        file.write(HEADER.lstrip() + text.getvalue().encode())
    return len(facts.weights)
