"""The kind of each column of a stream, decided by the first rows.

The verdict depends neither on the format of the file nor on how it is divided into batches.
"""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from mixfree.base.extras import require
from mixfree.streams.columns import dates
from mixfree.streams.columns.category import MAX_TEXTS, Category
from mixfree.streams.columns.column import Boolean, Column, Number
from mixfree.streams.columns.time import Time
from mixfree.streams.read.values import doubles, is_mark, is_text, numbers_in

MAX_RAW = 2000  # most raw features of all columns of texts together
MIN_TEXTS = 16  # of a column of texts, however many there are
MIN_SHARE = 0.99  # share of values that decides on the kind; the others count as missing
_BEGINNING = r"^\s*(?:[-+.$€£¥\d]|(?i:inf)|[A-Za-z]{3,9} \d)"  # of numbers and recognised dates
_PARTS = {  # of a date in columns: their names and ranges
    "years?|yr": (1001, 2999),
    "months?|mnth|mon": (1, 12),
    "days?|dom": (0, 31),
    "hours?|hr": (0, 24),
}


class Choices(NamedTuple):
    """The user's choices about columns; see :class:`mixfree.streams.fit.plan.FitPlan`."""

    features: Sequence[str] = ()
    categories: Sequence[str] = ()
    time: str = "auto"
    dates: Mapping[str, str] = {}
    hash_columns: int = 0
    decimal_comma: bool = False


class Verdict(NamedTuple):
    """The kind of a column in words, its encoding or None, and a remark, such as why it is None."""

    type: str
    column: Column | None
    why: str = ""


def matching(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names that match a list of names and patterns, in their own order."""
    exact = set(patterns)
    wild = [each for each in patterns if each not in names and any(c in each for c in "*?[")]
    return [n for n in names if n in exact or any(fnmatchcase(n, each) for each in wild)]


def columns_of(table: Mapping[str, Any], choices: Choices) -> dict[str, Verdict]:
    """Decide on each column by its first values; columns with parts of a date become one."""
    if len(table) == 1:  # row numbers, which may be present as the time
        choices = choices._replace(features=tuple(table))
    found = {name: verdict_on(values, name, choices) for name, values in table.items()}
    parts = _parts(table, found, choices) if choices.time != "none" else ()
    if parts:
        name = "date" if "date" not in table else ", ".join(parts)
        time = Time(name, time=choices.time, parts=parts)
        for name in parts:
            found[name] = Verdict("number", None, f"part of the date {time.name!r}")
        found[time.name] = Verdict(time.described, time)
    texts = [each.column for each in found.values() if isinstance(each.column, Category)]
    for column in texts:
        column.most = max(min(MAX_TEXTS, MAX_RAW // len(texts)), MIN_TEXTS)
    return found


def _parts(
    table: Mapping[str, Any], found: Mapping[str, Verdict], choices: Choices
) -> tuple[str, ...]:
    """Return the columns with year, month, day and perhaps hour, if there are such."""
    numbers = [name for name, each in found.items() if type(each.column) is Number]
    names = []
    for pattern, (low, high) in _PARTS.items():
        like = [name for name in numbers if re.fullmatch(pattern, name, re.IGNORECASE)]
        if len(like) != 1 or like[0] in choices.features:
            break
        values = doubles(numbers_in(table[like[0]].drop_null()))
        if not len(values) or values.min() < low or values.max() > high:
            break
        names += like
    return tuple(names) if len(names) >= 3 else ()


def verdict_on(values: Any, name: str, choices: Choices) -> Verdict:
    """Decide on the kind of one column.

    Examples
    --------
    >>> import pyarrow
    >>> verdict_on(pyarrow.array(["1.5", "2", "?", None]), "load", Choices()).column
    Number(name='load', forced=False, form='point')
    >>> verdict_on(pyarrow.array(["1.5", "2", "off"]), "load", Choices()).why
    "'load' is used as text: 1 of its first 3 values are no numbers, such as 'off'"
    """
    types = require("pyarrow").types
    forced = bool(choices.features)
    if name in choices.categories:
        return Verdict("text", Category(name, True, hashed=choices.hash_columns))
    kind, known = values.type, values.drop_null() if values.null_count else values
    if dates.is_time(kind) or (name in choices.dates and len(known)):
        form = choices.dates.get(name) or dates.form_of(known, name)
        return _dated(name, choices, form)
    if types.is_boolean(kind):
        return Verdict("true or false", Boolean(name, forced))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return Verdict("number", Number(name, forced))
    if not len(known) and (is_text(kind) or types.is_null(kind)):
        return Verdict("nothing yet", Column(name, forced))
    if not is_text(kind):
        lists = types.is_nested(kind)  # structs have been flattened
        why = "lists cannot be features" if lists else f"of the type {kind}"
        if forced:
            raise ValueError(f"column {name!r} cannot be used: {why}")
        return Verdict("lists" if lists else str(kind), None, why)
    return _of_texts(known, name, choices)


def decided(column: Column, values: Any) -> Column:
    """Decide on the kind of a column by its first values that are not missing."""
    choices = Choices((column.name,) if column.forced else ())
    verdict = verdict_on(values, column.name, choices)
    return verdict.column or Category(column.name, column.forced, most=0)


def _of_texts(known: Any, name: str, choices: Choices) -> Verdict:
    """Decide on the kind of a column of texts without missing values."""
    pyarrow, compute = require("pyarrow"), require("pyarrow.compute")
    forced = bool(choices.features)
    present = known.filter(compute.invert(is_mark(known)))
    likely = compute.match_substring_regex(present, _BEGINNING).true_count
    if len(present) and likely >= MIN_SHARE * len(present):
        form = _number(present, choices.decimal_comma)
        if form:
            return Verdict("number", Number(name, forced, form))
        forms = dates.forms_of(present)
        if len(forms) == 1:
            return _dated(name, choices, forms[0])
        if forms:
            why = "a date whose day and month cannot be told apart in the first rows: "
            given = {name: forms[0]}
            return Verdict("date", None, why + f"`dates={given!r}` reads the day first")
    lower = compute.utf8_lower(compute.utf8_trim_whitespace(present))
    if len(present) and compute.all(compute.is_in(lower, pyarrow.array(["true", "false"]))).as_py():
        return Verdict("true or false", Boolean(name, forced))
    return Verdict("text", Category(name, forced, hashed=choices.hash_columns), _odd(present, name))


def _odd(texts: Any, name: str) -> str:
    """Return a remark if most texts are numbers, though too few to use them as such."""
    odd = texts.filter(numbers_in(texts).is_null())
    if not 0 < 2 * len(odd) < len(texts):
        return ""
    what = f"{len(odd):,} of its first {len(texts):,} values are no numbers"
    return f"{name!r} is used as text: {what}, such as {odd[0].as_py()[:40]!r}"


def _number(texts: Any, decimal_comma: bool) -> str:
    """Return the form of numbers if almost all texts are numbers, else nothing."""
    count = len(texts)
    point, comma = (count - numbers_in(texts, form).null_count for form in ("point", "comma"))
    if comma >= MIN_SHARE * count and comma > point - decimal_comma:
        with_comma = require("pyarrow.compute").match_substring(texts, ",")
        return "comma" if with_comma.true_count else "point"
    return "point" if point >= MIN_SHARE * count else ""


def _dated(name: str, choices: Choices, form: str) -> Verdict:
    """Return the verdict on a column of dates."""
    time = "auto" if choices.time == "none" else choices.time
    column = Time(name, bool(choices.features), form, time)
    if choices.time == "none":
        what = column.described
        return Verdict(what, None, f"a {what}; `time='cyclic'` uses its hour, weekday and season")
    return Verdict(column.described, column)
