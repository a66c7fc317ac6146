"""The first look at a stream: what its columns are, and what a fit will make of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.extras import require
from mixfree.base.literal import literal
from mixfree.streams import dates
from mixfree.streams.columns import Boolean, Category, Column, Number, Time
from mixfree.streams.encoder import Encoder
from mixfree.streams.formats import NOT_UTF8
from mixfree.streams.kinds import LONGEST, Choices, Verdict, columns_of, judge, matching
from mixfree.streams.numbers import doubles, label_of, numbers_in, texts_in
from mixfree.streams.plan import FitPlan
from mixfree.streams.source import Piece, Source

__all__ = ["FIRST_ROWS", "FirstLook", "first_look", "rows_to_look_at"]

FIRST_ROWS = 10_000  # rows looked at, but fewer of a wide stream
CELLS = 1 << 21  # values looked at
FEW_CLASSES = 5  # whole numbers that are taken for classes
PER_CLASS = 5  # rows that each of them must have on average
MOST_CLASSES = 50  # classes that a target may have without being told
TREND = 0.5  # share of the target that its course over time must explain to be named
ROWS_OF_A_TREND = 32  # rows below which chance may explain it
MANY = 0.1  # share of rows whose loss is not accepted without a word


@dataclass(frozen=True)
class FirstLook:
    """What the first rows say.

    Attributes
    ----------
    rows
        Rows looked at.
    verdicts
        What each column is and becomes, the target apart.
    gaps
        Values that are missing among these rows, by column.
    target
        What the target is.
    loss
        The loss that was asked for, or the one that suits the target.
    encoder
        Turns rows of the stream into features and targets.
    notes
        What a user should know, in sentences.
    """

    rows: int
    verdicts: Mapping[str, Verdict]
    gaps: Mapping[str, int]
    target: Verdict
    loss: str
    encoder: Encoder
    notes: Sequence[str]

    @property
    def left_out(self) -> dict[str, str]:
        """Columns that are not learnt from, each with the reason."""
        return {name: each.why for name, each in self.verdicts.items() if each.column is None}

    def lines(self) -> Iterator[str]:
        """Every column, what it is and what becomes of it."""
        table = [("column", "type", "missing", "becomes")]
        for name, verdict in self.verdicts.items():
            table.append(
                (literal(name), verdict.type, f"{self.gaps.get(name, 0):,}", _fate(verdict))
            )
        classes = self.encoder.classes
        becomes = "the target" if classes is None else f"the target, of {len(classes)} classes"
        own = self.encoder.target
        table.append((literal(own), self.target.type, f"{self.gaps.get(own, 0):,}", becomes))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        yield f"rows       {self.rows:,} looked at"
        for row in table:
            name, kind, missing, fate = row
            yield f"  {name:{widths[0]}}  {kind:{widths[1]}}  {missing:>{widths[2]}}  {fate}"
        policies = {
            "error": "refused",
            "auto": "a missing target leaves out the row, a missing feature is refused",
            "skip": "the row is left out",
            "mean": "the mean of earlier values is filled in",
        }
        yield f"features   {len(self.encoder.features):,}"
        yield f"missing    {policies[self.encoder.missing]}"
        for note in self.notes:
            yield f"note       {note}"


def first_look(source: Source, plan: FitPlan) -> FirstLook:
    """Look at the first rows of a source, and leave it open at its beginning for the fit."""
    source.require_columns([plan.target], "target column")
    names = _candidates(source, plan)
    source.open([*names, plan.target])
    first = source.look(rows_to_look_at(len(names) + 1))
    if not first:
        half = "; its last line has no end and may be half written" if source.unfinished else ""
        raise ValueError(f"{source.files[0]}: there are no rows{half}")
    rows = sum(piece.batch.num_rows for piece in first)
    choices = Choices(
        plan.features,
        plan.exclude,
        plan.categories,
        plan.time,
        plan.day_first,
        plan.hash_columns,
        source.decimal_comma,
    )
    table = _table(first)
    values = table.pop(plan.target)
    starts = np.cumsum([0, *(piece.batch.num_rows for piece in first)])
    begins = [int(at) for at, piece in zip(starts, first, strict=False) if piece.start == 0]
    verdicts = _in_utf8(first, lambda: columns_of(table, begins, choices))
    columns = [verdict.column for verdict in verdicts.values() if verdict.column is not None]
    if not columns:
        why = "; ".join(f"{name!r} is left out: {each.why}" for name, each in verdicts.items())
        raise ValueError(
            f"there is no column to learn from besides the target {plan.target!r}"
            + (f"; {why}" if why else "")
        )
    own = Choices((plan.target,), time="linear", decimal_comma=source.decimal_comma)
    target = _in_utf8(first, lambda: judge(values, plan.target, own))
    loss, classes, notes = _loss(values, target, plan, rows)
    encoder = Encoder(columns, target.column or Number(plan.target), classes, plan.missing)
    source.narrow(encoder.needs, encoder.numbers)
    gaps, incomplete = _gaps(columns, table, encoder, values)
    encoder.treat_missing(_policy(plan.missing, gaps, incomplete, rows))
    notes += _about_gaps(encoder.missing, gaps, rows)
    notes += _about_columns(columns, verdicts, rows)
    if plan.time == "auto" and loss != "logistic":
        notes += _about_trends(columns, table, target.column, values)
    gaps[plan.target] = int((~encoder.known(values)).sum())
    return FirstLook(rows, verdicts, gaps, target, loss, encoder, notes)


def rows_to_look_at(columns: int) -> int:
    """How many rows the first look takes of a table.

    Examples
    --------
    >>> rows_to_look_at(20), rows_to_look_at(20_000)
    (10000, 104)
    """
    return min(FIRST_ROWS, max(CELLS // columns, 100))


def _candidates(source: Source, plan: FitPlan) -> list[str]:
    """Names of the columns to look at, the target apart."""
    every = source.schema.names
    source.require_columns(list(plan.categories), "column")
    asked = [name for name in (*plan.features, *plan.exclude) if not matching([name], every)]
    source.require_columns(asked, "column")
    if plan.target in plan.features:
        raise ValueError(f"the target {plan.target!r} cannot be a feature")
    without = {plan.target, *matching(plan.exclude, every)}
    chosen = matching(plan.features, every) if plan.features else every
    if plan.features:  # in the order in which they were asked for
        order = {name: at for at, name in enumerate(plan.features)}
        chosen = sorted(chosen, key=lambda name: order.get(name, len(order)))
    return [name for name in chosen if name not in without]


def _table(first: Sequence[Piece]) -> dict[str, Any]:
    """All first values of each column."""
    pyarrow = require("pyarrow")
    batches = [piece.batch for piece in first]
    found = {}
    for place, name in enumerate(batches[0].schema.names):
        parts = [batch.column(place) for batch in batches]
        if len({part.type for part in parts}) > 1:  # files may differ in how they store a column
            parts = [texts_in(part) for part in parts]
        found[name] = pyarrow.concat_arrays(parts)
    return found


def _in_utf8(first: Sequence[Piece], judged: Any) -> Any:
    """What ``judged`` returns; ValueError with the column's name if a text is not in UTF-8."""
    pyarrow = require("pyarrow")
    try:
        return judged()
    except (UnicodeDecodeError, pyarrow.ArrowInvalid) as error:
        for piece in first:
            for name, values in zip(piece.batch.schema.names, piece.batch.columns, strict=True):
                try:
                    values.validate(full=True)
                except pyarrow.ArrowInvalid:
                    text = f"{piece.file}: column {name!r} is {NOT_UTF8}"
                    raise ValueError(text) from error
        raise


def _loss(
    values: Any, target: Verdict, plan: FitPlan, rows: int
) -> tuple[str, list[str] | None, list[str]]:
    """The loss that suits the target, its classes, and what to say about them."""
    name, notes = plan.target, list[str]()
    column = target.column
    if isinstance(column, Time):
        raise ValueError(f"the target {name!r} is a {target.type}: name another as `target`")
    different = _different(values, column)
    loss = plan.loss
    if loss is None:
        loss = "logistic"
        if isinstance(column, Number) and not plan.classes:
            few = _few_classes(different, len(values) - values.null_count)
            loss = "logistic" if few else "squared"
            if few:
                listed = ", ".join(map(str, different[:-1])) + f" and {different[-1]}"
                notes.append(
                    f"{name!r} has {len(different)} classes, {listed}; `loss='squared'` to regress"
                )
            elif (
                len(different) <= min(MOST_CLASSES, rows / PER_CLASS)
                and rows > MOST_CLASSES
                and all(map(_whole, different))
            ):
                notes.append(
                    f"{name!r} has only {len(different)} whole numbers; `loss='logistic'` takes "
                    "them for classes"
                )
    if loss != "logistic":
        if isinstance(column, Category):
            raise ValueError(
                f"the target {name!r} is text, such as {different[0][:40]!r}: "
                f"`loss='logistic'` predicts its classes"
            )
        return loss, None, notes
    return loss, _classes(different, column, plan, rows), notes


def _classes(
    different: Sequence[str], column: Column | None, plan: FitPlan, rows: int
) -> list[str]:
    """The classes that were given, or those of the first rows."""
    if plan.classes:
        return _sorted([str(each) for each in plan.classes], column)
    name = plan.target
    if len(different) < 2:
        found = f"only one class, {different[0]!r}," if different else "no value"
        raise ValueError(
            f"the target {name!r} has {found} in the first {FIRST_ROWS:,} rows; "
            "give all of its classes as `classes`"
        )
    if len(different) > MOST_CLASSES:
        examples = ", ".join(repr(text[:20]) for text in different[:3])
        raise ValueError(
            f"the target {name!r} has {len(different):,} classes in the first {rows:,} rows, such "
            f"as {examples}: it may be the wrong column, or a number for `loss='squared'`; "
            f"more than {MOST_CLASSES} must be given as `classes`"
        )
    longest = max(different, key=len)
    if len(longest) > LONGEST:
        raise ValueError(
            f"the target {name!r} has a class of {len(longest):,} letters, {longest[:20]!r}…: "
            f"name another column as `target`; a class may have {LONGEST} letters"
        )
    return list(different)


def _different(values: Any, column: Column | None) -> list[str]:
    """The different values of a target, sorted, as names of classes."""
    if isinstance(column, Number | Boolean):
        values = Encoder.target_texts(values, column)
    return _sorted([text for text in values.unique().to_pylist() if text is not None], column)


def _sorted(texts: Sequence[str], column: Column | None) -> list[str]:
    """Texts by their order, numbers by their size; a number as a class is called."""
    if not isinstance(column, Number):
        return sorted(texts)
    try:
        found = {label_of(float(text)): float(text) for text in texts}
    except ValueError:  # given classes that are no numbers, none of which will be found
        return sorted(texts)
    return sorted((name for name in found if name is not None), key=lambda name: found[name])


def _few_classes(different: Sequence[str], known: int) -> bool:
    """Whether numbers are classes: two values, or a few whole numbers, which come again."""
    if not 2 <= len(different) <= FEW_CLASSES or known < PER_CLASS * len(different):
        return False
    return len(different) == 2 or all(map(_whole, different))


def _whole(text: str) -> bool:
    return text.lstrip("-").isdigit()


def _gaps(
    columns: Sequence[Column], table: Mapping[str, Any], encoder: Encoder, values: Any
) -> tuple[dict[str, int], Array]:
    """Values that are missing by column, and which rows with a target have none missing."""
    known: Array = encoder.known(values)
    gaps, incomplete = {}, np.zeros(len(values), bool)
    for column in columns:
        features = np.zeros((len(values), len(column.features)))
        column.fill(table[column.name], features)
        missing = np.isnan(features[:, 0])
        if missing.any():
            gaps[column.name] = int(missing.sum())
            incomplete |= missing & known
    return gaps, incomplete


def _policy(asked: str, gaps: Mapping[str, int], incomplete: Array, rows: int) -> str:
    """What to do with missing values: as asked, or by what the first rows show."""
    if asked != "auto" or not gaps:
        return asked
    count = int(incomplete.sum())
    if count > MANY * rows:
        worst = sorted(gaps, key=lambda name: -gaps[name])[:5]
        listed = ", ".join(f"{name!r} in {gaps[name]:,}" for name in worst)
        raise ValueError(
            f"{count:,} of the first {rows:,} rows have a missing value ({listed}): "
            "`missing='skip'` leaves out such rows, `missing='mean'` fills in the mean, "
            f"`exclude={[worst[0]]!r}` leaves out the column"
        )
    return "skip"


def _about_gaps(policy: str, gaps: Mapping[str, int], rows: int) -> list[str]:
    if not gaps or policy != "skip":
        return []
    worst = sorted(gaps, key=lambda name: -gaps[name])
    listed = ", ".join(f"{name!r} in {gaps[name]:,}" for name in worst[:5])
    more = f" and {len(worst) - 5} more columns" if len(worst) > 5 else ""
    return [
        f"missing in the first {rows:,} rows: {listed}{more}; such rows are left out; "
        "`missing='mean'` fills in the mean"
    ]


def _about_columns(
    columns: Sequence[Column], verdicts: Mapping[str, Verdict], rows: int
) -> list[str]:
    """How dates were read, and which texts share columns."""
    notes = []
    for column in columns:
        verdict = verdicts[column.name]
        if isinstance(column, Time):
            said = f"{column.name!r} is a {verdict.type}, used as {_parts(column)}: the first "
            said += f"{rows:,} rows cover {verdict.why.removeprefix('covers ')}"
            if column.form in ("day first", "month first"):
                said += f"; `day_first={column.form != 'day first'}` reads it the other way"
            notes.append(said)
        elif isinstance(column, Category) and column.hashed:
            notes.append(
                f"{column.name!r} has {verdict.why or 'given categories'}: "
                f"{len(column.categories)} have a column each, the others share "
                f"{column.hashed} (`hash_columns`)"
            )
    return notes


def _about_trends(
    columns: Sequence[Column], table: Mapping[str, Any], target: Column | None, values: Any
) -> list[str]:
    """Name the dates with which the target grows or falls, of which only cycles are used."""
    if not isinstance(target, Number):
        return []
    notes, targets = [], doubles(numbers_in(values, target.form))
    for column in columns:
        if not isinstance(column, Time) or "days" in column.parts or column.form == "clock":
            continue
        times = dates.times_in(table[column.name], column.form)
        known = np.isfinite(targets) & ~np.isnat(times)
        if known.sum() < ROWS_OF_A_TREND:
            continue
        days = (times[known] - times[known][0]) / np.timedelta64(1, "D")
        with np.errstate(all="ignore"):
            share = np.corrcoef(days, targets[known])[0, 1] ** 2
        if share > TREND:
            notes.append(
                f"{column.name!r} as a number explains {100 * share:.0f} % of {target.name!r}; "
                f"`time='linear'` uses it so, instead of as {_parts(column)}"
            )
    return notes


def _parts(column: Time) -> str:
    return "days" if column.parts == ("days",) else ", ".join(column.parts)


def _fate(verdict: Verdict) -> str:
    """What becomes of a column, in words."""
    column = verdict.column
    if column is None:
        return f"left out: {verdict.why}"
    if isinstance(column, Time):
        return f"{_parts(column)}: {_features(column)}; {verdict.why}"
    if isinstance(column, Category):
        own = f"{len(column.categories)} categories"
        return f"{own} and {column.hashed} hashed" if column.hashed else f"{own}, one-hot"
    return _features(column)


def _features(column: Column) -> str:
    count = len(column.features)
    return f"{count} features" if count > 1 else "1 feature"
