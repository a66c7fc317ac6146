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
from mixfree.streams import dates
from mixfree.streams.columns import Boolean, Category, Column, Number, Time
from mixfree.streams.numbers import MARKS, doubles, is_text, numbers_in, texts_in

__all__ = ["Choices", "Verdict", "columns_of", "judge", "matching"]

MOST_CATEGORIES = 64  # most texts per column with a feature of their own
HASHED = 16  # most features into which the other texts are hashed
PER_HASHED = 20  # rows per such feature: a new text shares the weight of those that were hashed
NEW = 0.001  # share of rows with a new text above which texts are hashed
ENOUGH = 1000  # least rows to estimate that share
LONGEST = 200  # most characters of a text with a feature of its own
MOSTLY = 0.95  # share of values that decides on the kind; the others count as missing
FEW = 16  # least rows to recognise row numbers or row names in a column
_ROW_NAMES = re.compile(
    r"column 1|unnamed: 0|index|instant|no\.?|nr\.?|id|row.?(?:id|names?|num|number)?",
    re.IGNORECASE,
)
# Names under which R and pandas write the numbers of rows, which may come in another order.
_WRITTEN = re.compile(r"column 1|unnamed: 0|row.?(?:id|names?|num|number)", re.IGNORECASE)
_CALENDAR = re.compile(r"(?:year|yr|month|mnth|day|hour|hr|minute|week)s?", re.IGNORECASE)


class Choices(NamedTuple):
    """The user's choices about columns; see :class:`mixfree.streams.plan.FitPlan`."""

    features: Sequence[str] = ()
    exclude: Sequence[str] = ()
    categories: Mapping[str, Sequence[str]] = {}
    time: str = "auto"
    day_first: bool | None = None
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
    if dates.is_time(kind):
        return _dated(known, name, choices, "clock" if types.is_time(kind) else "stored")
    if types.is_boolean(kind):
        return Verdict("true or false", Boolean(name))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        form = dates.form_of(known, name)
        return _dated(known, name, choices, form) if form else Verdict("number", Number(name))
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
    if not dates.may_be_named(name) and _all_numbers(known):
        return Verdict("number", Number(name))
    short = known.filter(compute.less_equal(compute.binary_length(known), LONGEST))
    if len(short) < MOSTLY * len(known):
        return _texts(known, name, choices)
    lower = compute.utf8_lower(compute.utf8_trim_whitespace(short))
    present = short.filter(compute.invert(compute.is_in(lower, pyarrow.array(MARKS))))
    digits = compute.match_substring_regex(present, r"\d|(?i:inf)").true_count
    if len(present) and digits >= MOSTLY * len(present):
        number = _number(present, name, choices.decimal_comma)
        form = dates.form_of(present, name, choices.day_first)
        if form is not None:
            return _dated(present, name, choices, form)
        if number is not None:
            return Verdict("number", number)
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
    what = {"clock": "time of day", "stored": "date"}.get(form, f"date ({form}{since})")
    if choices.time == "none":
        return Verdict(what, None, f"a {what}; `time='cyclic'` uses its hour, weekday and season")
    times = dates.times_in(values, form)
    known = times[~np.isnat(times)]
    if not known.size:  # stored values that are no dates
        return Verdict(what, None, f"a {what} without a valid value")
    parts: tuple[str, ...] = ("hour",) if form == "clock" else tuple(dates.PARTS)
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
    short = [] if choices.time != "auto" or form == "clock" else dates.too_long(known)
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
    many = few_again or len(counts) > MOST_CATEGORIES
    several_forms = many and dates.several_forms(known.slice(0, ENOUGH))
    if not choices.features and (few_again or several_forms):
        example = min(counts, key=len)[:40]
        why = f"almost every row has a different text, such as {example!r}"
        if several_forms:
            why = f"dates in several formats, such as {example!r}: use a single format"
        return Verdict("text", None, why)
    short = [text for text in counts if len(text) <= LONGEST]
    frequent = sorted(short, key=lambda text: (-counts[text], text))[:MOST_CATEGORIES]
    hashed = choices.hash_columns
    if hashed is None:
        # The share of texts that occur once estimates that of new texts (Good, 1953).
        once = sum(count == 1 for count in counts.values())
        new = len(known) >= ENOUGH and once > NEW * len(known)
        hashed = HASHED if new else 0
        if others := len(known) - sum(counts[text] for text in frequent):
            hashed = max(min(others // PER_HASHED, HASHED), 1)
    column = Category(name, tuple(sorted(frequent)), hashed)
    return Verdict("text", column, f"{len(counts):,} different texts")


def _numbers_rows(numbers: Array, sparsely: bool) -> bool:
    """Whether numbers are whole, all different and, unless ``sparsely``, half of their range."""
    with np.errstate(over="ignore", invalid="ignore"):
        different = len(np.unique(numbers)) == len(numbers) and not (numbers % 1.0).any()
        return different and (sparsely or bool(np.ptp(numbers) < 2 * len(numbers)))


def _why_row_names(values: Any, name: str, verdict: Verdict, starts: Sequence[int]) -> str:
    """Return why a column only identifies its rows, empty if it does not."""
    named = bool(_ROW_NAMES.fullmatch(name))
    if isinstance(verdict.column, Category) and named:
        different = len(values.unique())
        return "row names" if 2 < len(values) == different else ""
    if not isinstance(verdict.column, Number) or values.null_count:
        return ""
    if _CALENDAR.fullmatch(name) or dates.may_be_named(name):  # a trend
        return ""
    if len(values) < (3 if named else FEW):
        return ""
    with np.errstate(over="ignore", invalid="ignore"):
        beginning = np.diff(doubles(numbers_in(values.slice(0, FEW), verdict.column.form)))
    if (beginning == 1.0).mean() < 0.5 and not named:
        return ""  # saves time if there are many columns
    numbers = doubles(numbers_in(values, verdict.column.form))
    files = np.split(numbers, [start for start in starts if 0 < start < len(numbers)])
    if named and all(_numbers_rows(file, bool(_WRITTEN.fullmatch(name))) for file in files):
        return "row numbers"
    with np.errstate(over="ignore", invalid="ignore"):
        by_one = sum(int((np.diff(file) == 1.0).sum()) for file in files)
    different = sum(len(np.unique(file)) for file in files)
    enough = MOSTLY * (len(numbers) - len(files))
    return "row numbers" if by_one >= enough and different >= enough else ""
