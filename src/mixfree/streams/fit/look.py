"""The first look at a stream: the kind of each column."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from mixfree.base.extras import require
from mixfree.base.terminal import literal
from mixfree.linear.losses import Loss
from mixfree.streams.columns.category import Category
from mixfree.streams.columns.column import Column, Number
from mixfree.streams.columns.encoder import Encoder
from mixfree.streams.columns.kinds import Choices, Verdict, columns_of, matching, verdict_on
from mixfree.streams.columns.target import class_names
from mixfree.streams.columns.time import Time
from mixfree.streams.fit.plan import FitPlan
from mixfree.streams.read.source import Piece, Source
from mixfree.streams.read.values import decoded, doubles, is_text, label_of, numbers_in, texts_in

FIRST_ROWS = 10_000  # rows of the first look, but fewer of a wide stream
CELLS = 1 << 21  # most values of the first look
MAX_NUMBERED_CLASSES = 5  # most different whole numbers that are taken for classes
MIN_ROWS_PER_CLASS = 5  # least rows per such class, on average
MAX_CLASSES = 50  # most classes that a target may have unless they are given


@dataclass(frozen=True)
class FirstLook:
    """What the first rows show: verdicts on all columns, the loss, an encoder, and remarks.

    The loss is the one asked for, or the one that suits the target. The encoder has seen the rows.
    """

    rows: int
    verdicts: Mapping[str, Verdict]
    target: Verdict
    loss: str | Loss
    encoder: Encoder
    notes: Sequence[str]

    @property
    def left_out(self) -> dict[str, str]:
        """Columns that cannot be used, with reasons."""
        parts = {name for column in self.encoder.columns for name in column.sources}
        return {
            name: each.why
            for name, each in self.verdicts.items()
            if each.column is None and name not in parts
        }

    def lines(self) -> Iterator[str]:
        """Yield a table of the columns, their kinds and how they would be used."""
        design, encoder = self.encoder.design(), self.encoder
        uses = {name: ("", verdict.why) for name, verdict in self.verdicts.items()}
        for column, (begin, end) in zip(encoder.columns, design.ranges, strict=True):
            use = f"{end - begin} feature{'s' * (end - begin != 1)}"
            uses[column.name] = f"{encoder.gaps(column):,}", design.left_out.get(column.name, use)
        classes = "" if encoder.classes is None else f", {len(encoder.classes)} classes"
        table = [
            ("column", "type", "missing", "used as"),
            *((literal(name), each.type, *uses[name]) for name, each in self.verdicts.items()),
            (literal(encoder.target), self.target.type, "", f"the target{classes}"),
        ]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        yield f"rows       first {self.rows:,}; all rows decide on the use of columns in the end"
        for name, kind, missing, use in table:
            yield f"  {name:{widths[0]}}  {kind:{widths[1]}}  {missing:>{widths[2]}}  {use}"
        policies = {
            "error": "refused",
            "auto": "rows without a target are left out, gaps have the mean",
            "skip": "rows with missing values are left out",
        }
        yield f"features   {len(design.features):,}"
        yield f"missing    {policies[encoder.missing]}"
        for note in (*self.notes, *design.notes):
            yield f"note       {note}"


def first_look(source: Source, plan: FitPlan) -> FirstLook:
    """Look at the first rows of a source, and leave it open at its beginning for the fit."""
    source.require_columns([plan.target], "target column")
    names = _candidates(source, plan)
    source.open([*names, plan.target])
    first = source.look(rows_to_look_at(len(names) + 1))
    if not first:
        raise ValueError(f"{source.files[0]}: there are no rows")
    rows = sum(piece.batch.num_rows for piece in first)
    given = {name: getattr(plan, name) for name in Choices._fields[:-1]}
    choices = Choices(**given, decimal_comma=source.decimal_comma)
    table = _table(first)
    values = table.pop(plan.target)
    verdicts = columns_of(table, choices)
    columns = [verdict.column for verdict in verdicts.values() if verdict.column is not None]
    if not columns:
        why = "".join(f"; {name!r} is left out: {each.why}" for name, each in verdicts.items())
        raise ValueError(f"there is no column to learn from but the target {plan.target!r}{why}")
    of_target = Choices((plan.target,), time="linear", decimal_comma=source.decimal_comma)
    target = verdict_on(values, plan.target, of_target)
    loss, classes, notes = _loss(values, target, plan, rows)
    notes += [each.why for each in verdicts.values() if each.column and each.why]
    encoder = Encoder(columns, target.column or Number(plan.target), classes, plan.missing)
    for piece in first:
        encoder.see(piece._replace(batch=piece.batch.select(encoder.needs)))
    source.open(encoder.needs, encoder.numbers)
    return FirstLook(rows, verdicts, target, loss, encoder, notes)


def rows_to_look_at(columns: int) -> int:
    """Return the number of rows of the first look at a table."""
    return min(FIRST_ROWS, max(CELLS // columns, 100))


def _candidates(source: Source, plan: FitPlan) -> list[str]:
    """Return the names of the columns that may be features."""
    every = source.schema.names
    source.require_columns([*plan.categories, *plan.dates], "column")
    unknown = [name for name in (*plan.features, *plan.exclude) if not matching([name], every)]
    source.require_columns(unknown, "column")
    if plan.target in plan.features:
        raise ValueError(f"the target {plan.target!r} cannot be a feature")
    without = {plan.target, *matching(plan.exclude, every)}
    named = matching(plan.features, every) if plan.features else every
    return [name for name in named if name not in without]


def _table(first: Sequence[Piece]) -> dict[str, Any]:
    """Return the first values of each column."""
    found = {}
    for place, name in enumerate(first[0].batch.schema.names):
        parts = [decoded(piece.batch.column(place)) for piece in first]
        if len({part.type for part in parts}) > 1:  # files may store a column in different types
            if not any(is_text(part.type) for part in parts):  # beside numbers, flags are 1 and 0
                parts = [part.cast("int8") if part.type == "bool" else part for part in parts]
            parts = [texts_in(part).cast("large_string") for part in parts]
        found[name] = parts[0] if len(parts) == 1 else require("pyarrow").concat_arrays(parts)
    return found


def _loss(
    values: Any, target: Verdict, plan: FitPlan, rows: int
) -> tuple[str | Loss, list[str] | None, list[str]]:
    """Return the loss that suits the target, its classes, and remarks."""
    name, loss, notes = plan.target, plan.loss, list[str]()
    column = target.column or Category(name)
    if isinstance(column, Time) or target.type == "date":
        raise ValueError(f"the target {name!r} is a {target.type}: give another column as `target`")
    different = [*islice(_different(values, column), MAX_CLASSES + 1)]
    if loss is None and (type(column) is not Number or plan.classes):
        loss = "logistic"
    elif loss is None:
        known, count = len(values) - values.null_count, len(different)
        whole = all(text.lstrip("-").isdigit() for text in different)
        few = 2 <= count <= (MAX_NUMBERED_CLASSES if whole else 2)
        loss = "logistic" if few and known >= MIN_ROWS_PER_CLASS * count else "squared"
        if loss == "logistic":
            listed = ", ".join(different[:-1]) + f" and {different[-1]}"
            note = f"{name!r} has {count} classes, {listed}; `loss='squared'` predicts a number"
            notes.append(note)
        elif whole and rows > MAX_CLASSES and count <= min(MAX_CLASSES, rows / MIN_ROWS_PER_CLASS):
            note = f"{name!r} has only {count} whole numbers; `loss='logistic'` predicts classes"
            notes.append(note)
    if loss == "logistic":
        return loss, _classes(different, column, plan, rows), notes
    if isinstance(column, Category):
        how = "`loss='logistic'`" if isinstance(loss, str) else "StreamClassifier"
        what = f"the target {name!r} is text, such as {different[0][:40]!r}"
        raise ValueError(f"{what}: {how} predicts its classes")
    return loss, None, notes


def _classes(different: list[str], column: Column, plan: FitPlan, rows: int) -> list[str]:
    """Return the classes given, or those in the first rows."""
    if plan.classes:
        given = [str(each) for each in plan.classes]
        classes = [*_different(require("pyarrow").array(given), column)]
        if len(classes) < len(given):  # such as 1 and 1.0
            listed = ", ".join(map(repr, given))
            raise ValueError(f"`classes` must be different values as in the target, not {listed}")
        return classes
    name = plan.target
    if len(different) < 2:
        found = f"only one class, {different[0]!r}," if different else "no value"
        number = "" if different else "if it is a number give `loss='squared'`, else "
        raise ValueError(
            f"the target {name!r} has {found} in the first {FIRST_ROWS:,} rows; "
            f"{number}give all classes as `classes`"
        )
    if len(different) > MAX_CLASSES:
        examples = ", ".join(repr(text[:20]) for text in different[:3])
        raise ValueError(
            f"the target {name!r} has more than {MAX_CLASSES} classes in the first {rows:,} rows, "
            f"such as {examples}: for a number give `loss='squared'`, else all of them as `classes`"
        )
    return different


def _different(values: Any, column: Column) -> Iterator[str]:
    """Yield the different values of a target as names, sorted; numbers by their size."""
    if type(column) is Number:  # without PyArrow's conversion of lists, which imports pandas
        numbers = np.unique(doubles(numbers_in(values, column.form)))
        yield from (str(label_of(number)) for number in numbers[~np.isnan(numbers)].tolist())
    else:
        names = {*class_names(values.unique(), column)}
        yield from sorted(each for each in names if each is not None)
