"""The kind of each column of a stream, judged by the first rows.

The verdict depends neither on the format of the file nor on how it is divided into batches.
"""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.extras import require
from mixfree.streams.columns import dates
from mixfree.streams.columns.column import Boolean, Category, Column, Number, Time
from mixfree.streams.read.values import MARKS, doubles, is_text, numbers_in, texts_in

__all__ = ["Choices", "Verdict", "check_dates", "columns_of", "judge", "matching"]

MOST_CATEGORIES = 64  # most texts per column with a feature of their own
HASHED = 16  # most features into which the other texts are hashed
PER_HASHED = 20  # rows per such feature: a new text shares the weight of those that were hashed
LONGEST = 200  # most characters of a text with a feature of its own
MOSTLY = 0.95  # share of values that decides on the kind; the others count as missing
FEW = 16  # least rows to recognise row numbers or row names in a column
_ROW_NAMES = re.compile(
    r"column 1|unnamed: 0|index|instant|no\.?|nr\.?|id|row.?(?:id|names?|num|number)?",
    re.IGNORECASE,
)
_BEGINNING = r"^\s*(?:[-+.$€£¥\d]|(?i:inf))"  # of numbers and recognised dates
_CALENDAR = re.compile(r"(?:year|yr|month|mnth|day|hour|hr|minute|week|time)s?", re.IGNORECASE)


class Choices(NamedTuple):
    """The user's choices about columns; see :class:`mixfree.streams.fit.plan.FitPlan`."""

    features: Sequence[str] = ()
    exclude: Sequence[str] = ()
    categories: Mapping[str, Sequence[str]] = {}
    time: str = "auto"
    dates: Mapping[str, str] = {}
    hash_columns: int | None = None
    decimal_comma: bool = False


class Verdict(NamedTuple):
    """The kind of a column in words, its encoding or None, and a remark, such as why it is None."""

    type: str
    column: Column | None
    why: str = ""


def matching(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names that match a list of names and patterns, in their own order.

    Examples
    --------
    >>> matching(["pm*", "load"], ["load", "pm10", "pm2.5", "rain"])
    ['load', 'pm10', 'pm2.5']
    """
    exact = set(patterns)
    wild = [each for each in patterns if each not in names and any(c in each for c in "*?[")]
    return [n for n in names if n in exact or any(fnmatchcase(n, each) for each in wild)]


def check_dates(formats: Mapping[str, str]) -> None:
    """Raise ValueError for a format of dates that cannot be read.

    Examples
    --------
    >>> check_dates({"when": "dd/mm"})
    Traceback (most recent call last):
    ValueError: dates must be formats such as '%d/%m/%Y' or 'seconds' since 1970, not 'dd/mm'
    """
    for form in formats.values():
        if form and not dates.is_form(form):
            raise ValueError(
                f"dates must be formats such as '%d/%m/%Y' or 'seconds' since 1970, not {form!r}"
            )


def columns_of(
    table: Mapping[str, Any], starts: Sequence[int], choices: Choices
) -> dict[str, Verdict]:
    """Judge each column.

    Parameters
    ----------
    table
        The first values of each column.
    starts
        Indices of the rows at which a file begins, where row numbers may restart.
    choices
        The user's choices.
    """
    found = {name: judge(values, name, choices) for name, values in table.items()}
    if choices.features:
        return found
    numbered = {}
    for name, verdict in found.items():
        why = _why_row_names(table[name], name, verdict, starts)
        if why and name not in choices.categories:
            numbered[name] = verdict._replace(column=None, why=why)
    rest = {**found, **numbered}
    # If row numbers are the only column, they may be present as the time.
    return rest if any(verdict.column is not None for verdict in rest.values()) else found


def judge(values: Any, name: str, choices: Choices) -> Verdict:
    """Judge the kind of one column.

    Examples
    --------
    >>> import pyarrow
    >>> judge(pyarrow.array(["1.5", "2", "?", None]), "load", Choices())
    Verdict(type='number', column=Number(name='load', form='point'), why='')
    """
    types = require("pyarrow").types
    if name in choices.categories:
        given = tuple(map(str, choices.categories[name]))
        return Verdict("text", Category(name, given, choices.hash_columns or 0))
    requested = bool(choices.features)
    kind, known = values.type, values.drop_null()
    if not len(known):
        if requested:
            return Verdict("number", Number(name))
        return Verdict("nothing", None, f"empty in the first {len(values):,} rows")
    if dates.is_time(kind) or name in choices.dates:
        form = choices.dates.get(name) or dates.form_of(known, name)
        return _dated(known, name, choices, form)
    if types.is_boolean(kind):
        return Verdict("true or false", Boolean(name))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return Verdict("number", Number(name))
    if not is_text(kind):
        lists = types.is_nested(kind)  # structs have been flattened
        if requested:
            problem = "contains lists" if lists else f"has the type {kind}"
            raise ValueError(f"column {name!r} cannot be used: it {problem}")
        if lists:
            return Verdict("lists", None, "lists cannot be features")
        return Verdict(str(kind), None, f"of the type {kind}")
    return _of_texts(known, name, choices)


def _of_texts(known: Any, name: str, choices: Choices) -> Verdict:
    """Judge a column of texts without missing values."""
    pyarrow, compute = require("pyarrow"), require("pyarrow.compute")
    if _all_numbers(known):
        return Verdict("number", Number(name))
    short = known.filter(compute.less_equal(compute.binary_length(known), LONGEST))
    if len(short) < MOSTLY * len(known):
        return _texts(known, name, choices)
    lower = compute.utf8_lower(compute.utf8_trim_whitespace(short))
    present = short.filter(compute.invert(compute.is_in(lower, pyarrow.array(MARKS))))
    likely = compute.match_substring_regex(present, _BEGINNING).true_count
    if len(present) and likely >= MOSTLY * len(present):
        number = _number(present, name, choices.decimal_comma)
        if number is not None:
            return Verdict("number", number)
        forms = dates.forms_of(present)
        if len(forms) == 1:
            return _dated(present, name, choices, forms[0])
        if forms:
            why = "a date whose day and month cannot be told apart in the first rows: "
            given = {name: forms[0]}
            return Verdict("date", None, why + f"`dates={given!r}` reads the day first")
    if compute.all(compute.is_in(lower, pyarrow.array(["true", "false"]))).as_py():
        return Verdict("true or false", Boolean(name))
    return _texts(known, name, choices)


def _all_numbers(texts: Any) -> bool:
    """Whether all texts are numbers in the format of programming languages."""
    pyarrow = require("pyarrow")
    try:
        texts.cast(pyarrow.float64())
    except pyarrow.ArrowInvalid:
        return False
    return True


def _number(texts: Any, name: str, decimal_comma: bool) -> Number | None:
    """Return a column of numbers if almost all texts are numbers, else None."""
    count = len(texts)
    point = count - numbers_in(texts).null_count
    commas = require("pyarrow.compute").match_substring(texts, ",")
    if commas.true_count:
        comma = count - numbers_in(texts, "comma").null_count
        if comma >= MOSTLY * count and comma > point - decimal_comma:
            return Number(name, "comma")
    return Number(name) if point >= MOSTLY * count else None


def _dated(values: Any, name: str, choices: Choices, form: str) -> Verdict:
    """Judge a column of dates."""
    since = " since 1970" if form.endswith("seconds") else ""
    what = "date" if form == "stored" else f"date ({form}{since})"
    if dates.is_clock(form):
        what = "time of day"
    if choices.time == "none":
        return Verdict(what, None, f"a {what}; `time='cyclic'` uses its hour, weekday and season")
    times = dates.times_in(values, form)
    known = times[~np.isnat(times)]
    if not known.size:  # stored values that are no dates
        return Verdict(what, None, f"a {what} without a valid value")
    parts: tuple[str, ...] = ("hour",) if dates.is_clock(form) else tuple(dates.PARTS)
    if choices.time == "auto":
        parts = tuple(dates.parts_that_vary(known, form))
    if choices.time == "linear" or not (parts or not choices.features):
        parts = ("days",)
    if not parts:
        lacks = "too short for hour, weekday or season"
        if not dates.too_long(known):
            lacks = "without an hour, a weekday or a season that varies"
        return Verdict(
            what,
            None,
            f"a {what}: the first {len(values):,} rows cover {_span(known)}, {lacks}; "
            "`time='linear'` uses it as a number, `time='cyclic'` uses all",
        )
    first = float((known[0] - np.datetime64(0, "us")) // np.timedelta64(1, "D"))
    why = f"covers {_span(known)}"
    short = [] if choices.time != "auto" or dates.is_clock(form) else dates.too_long(known)
    if short:
        why += f", too short for {' and '.join(short)}"
    return Verdict(what, Time(name, form, parts, first), why)


def _span(times: Array) -> str:
    """Describe the time between the first and the last of some times.

    Examples
    --------
    >>> _span(np.array(["2020-01-01", "2020-03-01"], "M8[us]"))
    '60 days'
    """
    days = float((times.max() - times.min()) / np.timedelta64(1, "D"))
    for unit, length in (("days", 1.0), ("hours", 1 / 24), ("minutes", 1 / 1440)):
        if days >= 2 * length:
            return f"{days / length:,.0f} {unit}"
    return f"{days * 86400:,.3g} seconds"


def _texts(known: Any, name: str, choices: Choices) -> Verdict:
    """Judge a column of categories or names."""
    counts = {each["values"]: each["counts"] for each in texts_in(known).value_counts().to_pylist()}
    few_again = len(counts) > max(MOST_CATEGORIES, len(known) / 2)
    few_again |= len(known) >= FEW and len(counts) >= MOSTLY * len(known)
    if not choices.features and few_again:
        example = min(counts, key=len)[:40]
        return Verdict("text", None, f"almost every row has a different text, such as {example!r}")
    short = [text for text in counts if len(text) <= LONGEST]
    frequent = sorted(short, key=lambda text: (-counts[text], text))[:MOST_CATEGORIES]
    hashed = choices.hash_columns
    if hashed is None:
        others = len(known) - sum(counts[text] for text in frequent)
        hashed = max(min(others // PER_HASHED, HASHED), 1) if others else 0
    column = Category(name, tuple(sorted(frequent)), hashed)
    return Verdict("text", column, f"{len(counts):,} different texts")


def _why_row_names(values: Any, name: str, verdict: Verdict, starts: Sequence[int]) -> str:
    """Return why a column only identifies its rows, empty if it does not."""
    named = bool(_ROW_NAMES.fullmatch(name))
    if isinstance(verdict.column, Category) and named:
        different = len(values.unique())
        return "row names" if 2 < len(values) == different else ""
    if not isinstance(verdict.column, Number) or values.null_count:
        return ""
    if _CALENDAR.fullmatch(name):  # a trend
        return ""
    if len(values) < (3 if named else FEW):
        return ""
    with np.errstate(over="ignore", invalid="ignore"):
        beginning = np.diff(doubles(numbers_in(values.slice(0, FEW), verdict.column.form)))
    if (beginning == 1.0).mean() < 0.5 and not named:
        return ""  # saves time if there are many columns
    numbers = doubles(numbers_in(values, verdict.column.form))
    files = np.split(numbers, [start for start in starts if 0 < start < len(numbers)])
    with np.errstate(over="ignore", invalid="ignore"):
        by_one = sum(int((np.diff(file) == 1.0).sum()) for file in files)
    different = sum(len(np.unique(file)) for file in files)
    enough = MOSTLY * (len(numbers) - len(files))
    return "row numbers" if by_one >= enough and different >= enough else ""
