"""The first look at a stream: the kind of each column and its encoding."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.extras import require
from mixfree.base.literal import literal
from mixfree.streams.columns import dates
from mixfree.streams.columns.column import Boolean, Category, Column, Number, Time
from mixfree.streams.columns.encoder import Encoder
from mixfree.streams.columns.kinds import LONGEST, Choices, Verdict, columns_of, judge, matching
from mixfree.streams.fit.plan import FitPlan
from mixfree.streams.read.formats import NOT_UTF8
from mixfree.streams.read.source import Piece, Source
from mixfree.streams.read.values import doubles, label_of, numbers_in, texts_in

__all__ = ["FIRST_ROWS", "FirstLook", "first_look", "rows_to_look_at"]

FIRST_ROWS = 10_000  # rows of the first look, but fewer of a wide stream
CELLS = 1 << 21  # most values of the first look
FEW_CLASSES = 5  # most different whole numbers that are taken for classes
PER_CLASS = 5  # least rows per such class, on average
MOST_CLASSES = 50  # most classes that a target may have unless they are given
MANY = 0.1  # largest share of incomplete rows that `missing="auto"` leaves out
TREND = 0.5  # share of the target that a trend must explain to be mentioned
ROWS_OF_A_TREND = 32  # least rows to look for a trend


@dataclass(frozen=True)
class FirstLook:
    """What the first rows show.

    Attributes
    ----------
    rows
        Number of rows.
    verdicts
        The kind and encoding of each column but the target.
    gaps
        Number of missing values per column.
    target
        The kind of the target.
    loss
        The loss asked for, or the one that suits the target.
    encoder
        Turns rows of the stream into features and targets.
    notes
        Remarks for the user.
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
        """Columns left out, with reasons."""
        return {name: each.why for name, each in self.verdicts.items() if each.column is None}

    def lines(self) -> Iterator[str]:
        """Yield a table of the columns, their kinds and encodings."""
        table = [("column", "type", "missing", "used as")]
        for name, verdict in self.verdicts.items():
            table.append(
                (literal(name), verdict.type, f"{self.gaps.get(name, 0):,}", _use(verdict))
            )
        classes = self.encoder.classes
        use = "the target" if classes is None else f"the target, {len(classes)} classes"
        own = self.encoder.target
        table.append((literal(own), self.target.type, f"{self.gaps.get(own, 0):,}", use))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        yield f"rows       first {self.rows:,}"
        for row in table:
            name, kind, missing, use = row
            yield f"  {name:{widths[0]}}  {kind:{widths[1]}}  {missing:>{widths[2]}}  {use}"
        policies = {
            "error": "refused",
            "auto": "rows without a target are left out, missing features are refused",
            "skip": "rows with missing values are left out",
            "mean": "filled in with the mean of earlier values",
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
        half = "; the last line has no newline and may be incomplete" if source.unfinished else ""
        raise ValueError(f"{source.files[0]}: there are no rows{half}")
    rows = sum(piece.batch.num_rows for piece in first)
    choices = Choices(
        plan.features,
        plan.exclude,
        plan.categories,
        plan.time,
        plan.dates,
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
    gaps, incomplete, means = _gaps(columns, table, encoder, values)
    encoder.begin_means(means)
    encoder.missing = _policy(plan.missing, gaps, incomplete, rows)
    notes += _gap_notes(encoder.missing, gaps, rows)
    notes += _column_notes(columns, verdicts, rows)
    if plan.time == "auto" and loss != "logistic":
        notes += _trend_notes(columns, table, target.column, values)
    gaps[plan.target] = int((~encoder.known(values)).sum())
    return FirstLook(rows, verdicts, gaps, target, loss, encoder, notes)


def rows_to_look_at(columns: int) -> int:
    """Return the number of rows of the first look at a table.

    Examples
    --------
    >>> rows_to_look_at(20), rows_to_look_at(20_000)
    (10000, 104)
    """
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
    chosen = matching(plan.features, every) if plan.features else every
    if plan.features:  # sorted as they were asked for
        order = {name: at for at, name in enumerate(plan.features)}
        chosen = sorted(chosen, key=lambda name: order.get(name, len(order)))
    return [name for name in chosen if name not in without]


def _table(first: Sequence[Piece]) -> dict[str, Any]:
    """Return the first values of each column."""
    pyarrow = require("pyarrow")
    batches = [piece.batch for piece in first]
    found = {}
    for place, name in enumerate(batches[0].schema.names):
        parts = [batch.column(place) for batch in batches]
        if len({part.type for part in parts}) > 1:  # files may store a column in different types
            parts = [texts_in(part) for part in parts]
        found[name] = pyarrow.concat_arrays(parts)
    return found


def _in_utf8(first: Sequence[Piece], judged: Any) -> Any:
    """Call ``judged``; raise ValueError with the name of a column that is not in UTF-8."""
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
    """Return the loss that suits the target, its classes, and remarks."""
    name, notes = plan.target, list[str]()
    column = target.column
    if isinstance(column, Time) or target.type == "date":
        raise ValueError(f"the target {name!r} is a {target.type}: give another column as `target`")
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
                    f"{name!r} has {len(different)} classes, {listed}; "
                    "`loss='squared'` predicts a number"
                )
            elif (
                len(different) <= min(MOST_CLASSES, rows / PER_CLASS)
                and rows > MOST_CLASSES
                and all(map(_whole, different))
            ):
                notes.append(
                    f"{name!r} has only {len(different)} whole numbers; `loss='logistic'` predicts "
                    "classes"
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
    """Return the classes given, or those in the first rows."""
    if plan.classes:
        classes = _sorted([str(each) for each in plan.classes], column)
        if len(classes) < len(plan.classes):  # such as 1 and 1.0
            listed = ", ".join(map(repr, plan.classes))
            raise ValueError(f"`classes` must be different numbers, not {listed}")
        return classes
    name = plan.target
    if len(different) < 2:
        found = f"only one class, {different[0]!r}," if different else "no value"
        raise ValueError(
            f"the target {name!r} has {found} in the first {FIRST_ROWS:,} rows; "
            "give all classes as `classes`"
        )
    if len(different) > MOST_CLASSES:
        examples = ", ".join(repr(text[:20]) for text in different[:3])
        raise ValueError(
            f"the target {name!r} has {len(different):,} classes in the first {rows:,} rows, such "
            f"as {examples}: for a number give `loss='squared'`; more than {MOST_CLASSES} classes "
            "must be given as `classes`"
        )
    longest = max(different, key=len)
    if len(longest) > LONGEST:
        raise ValueError(
            f"the target {name!r} has a class of {len(longest):,} characters, {longest[:20]!r}…, "
            f"more than {LONGEST}: give another column as `target`"
        )
    return list(different)


def _different(values: Any, column: Column | None) -> list[str]:
    """Return the different values of a target, sorted, as names of classes."""
    if isinstance(column, Number):
        numbers = np.unique(doubles(numbers_in(values, column.form)))
        return [name for name in map(label_of, numbers.tolist()) if name is not None]
    if isinstance(column, Boolean):
        values = Encoder.target_texts(values, column)
    return _sorted([text for text in values.unique().to_pylist() if text is not None], column)


def _sorted(texts: Sequence[str], column: Column | None) -> list[str]:
    """Sort texts alphabetically and numbers by value, the latter normalised as class names."""
    if not isinstance(column, Number):
        return sorted(texts)
    try:
        found = {label_of(float(text)): float(text) for text in texts}
    except ValueError:  # classes given by the user that are not numbers
        return sorted(texts)
    return sorted((name for name in found if name is not None), key=lambda name: found[name])


def _few_classes(different: Sequence[str], known: int) -> bool:
    """Whether numbers are classes: two values, or a few whole numbers, each often repeated."""
    if not 2 <= len(different) <= FEW_CLASSES or known < PER_CLASS * len(different):
        return False
    return len(different) == 2 or all(map(_whole, different))


def _whole(text: str) -> bool:
    return text.lstrip("-").isdigit()


def _gaps(
    columns: Sequence[Column], table: Mapping[str, Any], encoder: Encoder, values: Any
) -> tuple[dict[str, int], Array, Array]:
    """Return the missing values per column, the rows that lack one, and the means of features.

    Only rows with a target count among those that lack a value.
    """
    known: Array = encoder.known(values)
    gaps, incomplete, means = {}, np.zeros(len(values), bool), list[float]()
    for column in columns:
        features = np.zeros((len(values), len(column.features)))
        column.fill(table[column.name], features)
        missing = np.isnan(features[:, 0])
        with np.errstate(over="ignore", invalid="ignore"):
            found = features[~missing].mean(axis=0) if not missing.all() else features[0]
        means += np.nan_to_num(found, posinf=0.0, neginf=0.0).tolist()
        if missing.any():
            gaps[column.name] = int(missing.sum())
            incomplete |= missing & known
    return gaps, incomplete, np.array(means)


def _policy(asked: str, gaps: Mapping[str, int], incomplete: Array, rows: int) -> str:
    """Return the treatment of missing values: as asked, or chosen by the first rows."""
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


def _gap_notes(policy: str, gaps: Mapping[str, int], rows: int) -> list[str]:
    if not gaps or policy != "skip":
        return []
    worst = sorted(gaps, key=lambda name: -gaps[name])
    listed = ", ".join(f"{name!r} in {gaps[name]:,}" for name in worst[:5])
    more = f" and {len(worst) - 5} more columns" if len(worst) > 5 else ""
    return [
        f"missing in the first {rows:,} rows: {listed}{more}; such rows are left out; "
        "`missing='mean'` fills in the mean"
    ]


def _column_notes(
    columns: Sequence[Column], verdicts: Mapping[str, Verdict], rows: int
) -> list[str]:
    """Return remarks on how dates were read and texts were hashed."""
    notes = []
    for column in columns:
        verdict = verdicts[column.name]
        if isinstance(column, Time):
            note = f"{column.name!r} is a {verdict.type}, used as {_parts(column)}: the first "
            note += f"{rows:,} rows cover {verdict.why.removeprefix('covers ')}"
            notes.append(note)
        elif isinstance(column, Category) and column.hashed:
            notes.append(
                f"{column.name!r} has {verdict.why or 'given categories'}: "
                f"{len(column.categories)} have a feature each, the others are hashed into "
                f"{column.hashed} (`hash_columns`)"
            )
    return notes


def _trend_notes(
    columns: Sequence[Column], table: Mapping[str, Any], target: Column | None, values: Any
) -> list[str]:
    """Return notes on dates whose trend explains the target, while only their cycles are used."""
    if not isinstance(target, Number):
        return []
    notes, targets = [], doubles(numbers_in(values, target.form))
    for column in columns:
        if not isinstance(column, Time) or "days" in column.parts or dates.is_clock(column.form):
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
    return ", ".join("trend" if part == "days" else part for part in column.parts)


def _use(verdict: Verdict) -> str:
    """Describe how a column is used."""
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
