"""Dates as stored or written, and their features for a linear model.

Times are taken as written: time zones are ignored, and stored times with a zone are in UTC.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.extras import require
from mixfree.streams.read.values import doubles, is_text, numbers_in

__all__ = [
    "EPOCHS",
    "FORMATS",
    "PARTS",
    "feature_names",
    "features_of",
    "form_of",
    "forms_of",
    "is_clock",
    "is_form",
    "is_time",
    "parts_that_vary",
    "times_in",
    "too_long",
]

# Periodic parts of a date, with their period in days and number of harmonics.
PARTS = {"hour": (1, 2), "weekday": (7, 2), "season": (365, 1)}
TREND = 2 * 365  # days from which a trend can be told from the season
ENOUGH = 0.95  # least share of dates among the texts of a column of dates
SHORT = 0.95  # share of a period to be covered: the times of a day end before the next day
_DAY = np.timedelta64(1, "D")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = (  # an optional time of day and zone
    r"(?:(?:T|,? +)(?P<H>\d{1,2})(?::(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,](?P<f>\d+))?)?)?"
    r"(?: ?(?P<p>[AaPp])[Mm])?(?: ?(?:Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?))?)?"
)
# Formats of dates that are recognised by themselves, with a time of day or without.
FORMATS = ("%Y-%m-%d", "%Y-%m", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
_DIRECTIVES = {
    "%Y": r"(?P<y>\d{4})",
    "%y": r"(?P<y>\d{2})",
    "%m": r"(?P<m>\d{1,2})",
    "%b": r"(?P<m>[A-Za-z]{3,9})",
    "%B": r"(?P<m>[A-Za-z]{3,9})",
    "%d": r"(?P<d>\d{1,2})",
    "%H": r"(?P<H>\d{1,2})",
    "%I": r"(?P<H>\d{1,2})",
    "%M": r"(?P<M>\d{2})",
    "%S": r"(?P<S>\d{2})",
    "%f": r"(?P<f>\d+)",
    "%p": r"(?P<p>[AaPp])[Mm]",
    "%a": "[A-Za-z]+",
    "%A": "[A-Za-z]+",
    "%z": r"(?:Z|[+-]\d{2}:?\d{2})",
    "%Z": "[A-Z]{1,5}",
}
# Microseconds per unit of an epoch; the unit is the one that gives seconds from 1979 to 2096.
EPOCHS = {"seconds": 1e6, "milliseconds": 1e3, "microseconds": 1.0, "nanoseconds": 1e-3}
SECONDS = 3e8, 4e9
STORED = ("stored", "clock")  # dates and times of day with a type of their own


def is_time(arrow_type: Any) -> bool:
    """Whether values of a type are dates, with or without the time of day, or times of day."""
    types = require("pyarrow").types
    return bool(
        types.is_timestamp(arrow_type) or types.is_date(arrow_type) or types.is_time(arrow_type)
    )


def is_form(form: str) -> bool:
    """Whether a text is a unit since 1970, a type, or a format of strptime that can be read.

    Examples
    --------
    >>> is_form("%d %b %Y"), is_form("seconds"), is_form("%Q"), is_form("day first")
    (True, True, False, False)
    """
    used = re.findall("%.?", form)
    written = bool(used) and len(set(used)) == len(used) and set(used) <= _DIRECTIVES.keys()
    return written or form in EPOCHS or form in STORED


def is_clock(form: str) -> bool:
    """Whether a format has only a time of day."""
    return form == "clock" or ("%" in form and not re.search("%[YymdbB]", form))


def forms_of(texts: Any) -> list[str]:
    """Return the formats of :data:`FORMATS` in which almost all texts are dates.

    Examples
    --------
    >>> import pyarrow
    >>> forms_of(pyarrow.array(["31.12.2019 23:00", "1.1.2020 0:00"]))
    ['%d.%m.%Y']
    >>> forms_of(pyarrow.array(["1/9/2011", "1/10/2011"]))
    ['%d/%m/%Y', '%m/%d/%Y']
    >>> forms_of(pyarrow.array(["3.11.10", "16:10"]))
    []
    """
    compute, found = require("pyarrow.compute"), []
    trimmed = compute.utf8_trim_whitespace(texts)
    for form in FORMATS:  # matching takes less time than parsing
        matches = compute.match_substring_regex(trimmed, _pattern(form)).true_count
        if matches >= ENOUGH * len(texts) and _are_dates(texts, form):
            found.append(form)
    return found


def form_of(values: Any, name: str) -> str:
    """Return the format of a column that the user calls one of dates; ValueError if unknown.

    Numbers are seconds (or milliseconds, …) since 1970, or digits like 20191231.

    Examples
    --------
    >>> import pyarrow
    >>> form_of(pyarrow.array([1577836800, 1577840400]), "at")
    'seconds'
    """
    if is_time(values.type):
        return "clock" if require("pyarrow").types.is_time(values.type) else "stored"
    forms = forms_of(values) if is_text(values.type) else []
    if not forms:
        numbers = doubles(numbers_in(values))
        for unit, microseconds in EPOCHS.items():
            seconds = numbers * (microseconds / 1e6)
            if ((seconds >= SECONDS[0]) & (seconds <= SECONDS[1])).mean() >= ENOUGH:
                return unit
        forms = ["%Y%m%d"] if _are_dates(values, "%Y%m%d") else []
    if len(forms) == 1:
        return forms[0]
    raise ValueError(
        f"the format of the dates in column {name!r}, such as {values[0].as_py()!r}, is unknown: "
        f"give it, as in `dates={{{name!r}: '%d/%m/%Y'}}`"
    )


def _are_dates(values: Any, form: str) -> bool:
    return bool((~np.isnat(times_in(values, form))).mean() >= ENOUGH)


def times_in(values: Any, form: str) -> Array:
    """Return the values as NumPy times in microseconds, NaT where missing or not a date.

    Examples
    --------
    >>> import pyarrow
    >>> times_in(pyarrow.array(["2020/1/1 0:30", "2020/2/30", None]), "%Y/%m/%d")
    array(['2020-01-01T00:30:00.000000', 'NaT', 'NaT'], dtype='datetime64[us]')
    """
    pyarrow = require("pyarrow")
    if is_time(values.type):
        return _stored(values)
    if form in EPOCHS:
        numbers = doubles(numbers_in(values))
        lowest, highest = SECONDS[0] / 1e3, SECONDS[1]  # an early row may be from 1970
        seconds = numbers * (EPOCHS[form] / 1e6)
        fits = (lowest <= seconds) & (seconds <= highest)
        whole = np.floor(np.where(fits, numbers, 0.0) * EPOCHS[form]).astype(np.int64)
        return np.where(fits, whole.astype("M8[us]"), np.datetime64("NaT"))
    if not is_text(values.type):  # digits such as 20191231
        values = numbers_in(values).cast(pyarrow.int64(), safe=False).cast(pyarrow.string())
    texts = require("pyarrow.compute").utf8_trim_whitespace(values)
    return _written(texts, _pattern(form))


def _pattern(form: str) -> str:
    """Return the regular expression of a format; stored dates are ISO 8601 as text."""
    form = {"stored": "%Y-%m-%d", "clock": "%H:%M:%S"}.get(form, form)
    parts = re.findall("%.|[^%]+", form)
    written = "".join(_DIRECTIVES.get(part) or re.escape(part) for part in parts)
    return f"^{written}{'' if re.search('%[HI]', form) else _TIME}$"


def parts_that_vary(times: Array, form: str) -> list[str]:
    """Return the parts of a date that a model can learn from these times.

    A part must vary, and the times must cover its whole period: a day, a week, a year. Times that
    all lie on the first or all on the last day of a month stand for months, without weekdays. Times
    that cover two years also have a trend, ``"days"``.

    Examples
    --------
    >>> hours = np.datetime64("2020-01-01") + np.arange(100) * np.timedelta64(1, "h")
    >>> parts_that_vary(hours.astype("M8[us]"), "stored")
    ['hour']
    >>> months = np.arange("1949-01", "1961-01", dtype="M8[M]")
    >>> parts_that_vary(months.astype("M8[us]"), "%Y-%m")
    ['season', 'days']
    """
    known = times[~np.isnat(times)]
    without = ["weekday", "season"] if is_clock(form) else too_long(known)
    if _are_months(known):
        without.append("weekday")
    shares = {part: _share_passed(known, part) for part in PARTS if part not in without}
    least = {"season": 1 / 365}  # leap years move the same day of the year by less
    parts = [part for part, share in shares.items() if np.ptp(share) > least.get(part, 0.0)]
    trend = not is_clock(form) and _covered(known) >= SHORT * TREND
    return [*parts, "days"] if trend else parts


def _are_months(times: Array) -> bool:
    days = times.astype("M8[D]")
    ends = (days, days + 1)  # the day after the last one of a month is a first
    return any((each == each.astype("M8[M]")).all() for each in ends)


def too_long(times: Array) -> list[str]:
    """Return the parts of a date whose period the times do not cover.

    Examples
    --------
    >>> too_long(np.array(["2020-01-01", "2020-02-01"], "M8[us]"))
    ['season']
    """
    days = _covered(times)
    return [part for part, (length, _) in PARTS.items() if days < SHORT * length]


def _covered(times: Array) -> float:
    return float((times.max() - times.min()) / _DAY)


def feature_names(name: str, parts: Sequence[str]) -> list[str]:
    """Return the names of the features of a date.

    Examples
    --------
    >>> feature_names("day", ["season", "days"])
    ['day: season sin', 'day: season cos', 'day: days']
    """
    found = []
    for part in parts:
        if part == "days":
            found.append(f"{name}: days")
            continue
        for wave in range(1, PARTS[part][1] + 1):
            times = "" if wave == 1 else f" {wave}"
            found += [f"{name}: {part} sin{times}", f"{name}: {part} cos{times}"]
    return found


def features_of(times: Array, parts: Sequence[str], origin: float) -> Array:
    """Return one row per time: sines and cosines of its parts, or the days since ``origin``."""
    columns = []
    for part in parts:
        if part == "days":
            columns.append((times - np.datetime64(0, "us")) / _DAY - origin)
            continue
        share = _share_passed(times, part)
        for wave in range(1, PARTS[part][1] + 1):
            angle = 2.0 * np.pi * wave * share
            columns += [np.sin(angle), np.cos(angle)]
    return np.column_stack(columns)


def _share_passed(times: Array, part: str) -> Array:
    """Return the fraction of the day, the week (in whole days) or the year that has passed."""
    days = times.astype("M8[D]")
    if part == "hour":
        return np.asarray((times - days) / _DAY)
    if part == "weekday":
        monday = np.datetime64("1970-01-05")
        week = np.floor((days - monday) / _DAY)
        return np.asarray(np.mod(week, 7.0) / 7.0)
    year = days.astype("M8[Y]")
    first, following = year.astype("M8[us]"), (year + 1).astype("M8[us]")
    return np.asarray((times - first) / (following - first))


def _stored(values: Any) -> Array:
    """Return stored dates and times as NumPy times."""
    pyarrow = require("pyarrow")
    of_day = pyarrow.types.is_time(values.type)
    kind = pyarrow.time64("us") if of_day else pyarrow.timestamp("us")
    values = values.cast(kind, safe=False).cast(pyarrow.int64())
    missing = values.is_null().to_numpy(zero_copy_only=False)
    whole = values.fill_null(0).to_numpy(zero_copy_only=False).astype("M8[us]")
    return np.where(missing, np.datetime64("NaT"), whole)


def _written(texts: Any, pattern: str) -> Array:
    """Parse texts that match a regular expression, NaT for all others."""
    compute, int64 = require("pyarrow.compute"), require("pyarrow").int64()
    fields = compute.extract_regex(texts, pattern)
    has = {field.name for field in fields.type}

    def number(key: str, otherwise: int = 0) -> Array:
        if key not in has:
            return np.full(len(texts), otherwise)
        text = compute.struct_field(fields, key).fill_null("")
        text = compute.if_else(compute.equal(text, ""), str(otherwise), text)
        found: Array = text.cast(int64).to_numpy(zero_copy_only=False)
        return found

    by_name = "[A-Za-z]{3,9})" in pattern.split("?P<m>")[-1][:15]
    year, day = number("y", 1970), number("d", 1)
    month = _month(compute.struct_field(fields, "m")) if by_name else number("m", 1)
    hour, minute, second = number("H"), number("M"), number("S")
    known = fields.is_valid().to_numpy(zero_copy_only=False)
    if "p" in has:
        half = compute.utf8_lower(compute.struct_field(fields, "p").fill_null(""))
        half = np.asarray(half.to_numpy(zero_copy_only=False), dtype="U1")
        known &= (half == "") | ((hour >= 1) & (hour <= 12))
        hour = np.where(half == "", hour, hour % 12 + 12 * (half == "p"))
    if "y" in has:
        year = np.where(year < 69, year + 2000, np.where(year < 100, year + 1900, year))
    known &= (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    known &= (hour < 24) & (minute < 60) & (second <= 60)
    months = ((year - 1970) * 12 + month - 1).astype("M8[M]")
    days = months.astype("M8[D]") + (day - 1)
    known &= days.astype("M8[M]") == months
    micro = ((hour * 60 + minute) * 60 + second) * 1_000_000
    if "f" in has:
        text = compute.struct_field(fields, "f").fill_null("")
        padded = compute.utf8_slice_codeunits(compute.utf8_rpad(text, 6, "0"), 0, 6)
        micro = micro + padded.cast(int64).to_numpy(zero_copy_only=False)
    times = days.astype("M8[us]") + micro.astype("m8[us]")
    return np.where(known, times, np.datetime64("NaT"))


def _month(texts: Any) -> Array:
    """Return months from 1 by the first three letters of their English names, 0 for other words."""
    pyarrow, compute = require("pyarrow"), require("pyarrow.compute")
    first = compute.utf8_lower(compute.utf8_slice_codeunits(texts.fill_null(""), 0, 3))
    found = compute.index_in(first, pyarrow.array(MONTHS)).fill_null(-1)
    return np.asarray(found.to_numpy(zero_copy_only=False)).astype(np.int64) + 1
