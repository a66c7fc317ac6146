"""Dates in the formats that files have, and their features for a linear model.

Times are taken as written: time zones are ignored, and stored times with a zone are in UTC.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.extras import require
from mixfree.streams.numbers import doubles, is_text, numbers_in

__all__ = [
    "DIGITS",
    "EPOCHS",
    "MONTHS",
    "PARTS",
    "SECONDS",
    "feature_names",
    "features_of",
    "form_of",
    "is_time",
    "may_be_named",
    "parts_that_vary",
    "pattern_of",
    "several_forms",
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
_CLOCK = (
    r"(?P<H>\d{1,2})(?:[:.](?P<M>\d{2})(?:[:.](?P<S>\d{2})(?:[.,](?P<f>\d+))?)?)?"
    r"(?: ?(?P<p>[AaPp])\.?[Mm]\.?)?"
)
_TIME = r"(?:(?:[T:]|,? +)" + _CLOCK + r")?(?: ?(?:Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?))?$"
_WEEKDAY = r"^(?:[A-Za-z]{2,9}[.,]* +)?"
_YEAR = r"(?P<y>\d{4}|\d{2})"
_WRITTEN = {
    "year first": r"^(?P<y>\d{4})[-/.](?P<m>\d{1,2})(?:[-/.](?P<d>\d{1,2}))?" + _TIME,
    "month first": _WEEKDAY + r"(?P<m>\d{1,2})[-/.](?P<d>\d{1,2})[-/.]" + _YEAR + _TIME,
    "day first": _WEEKDAY + r"(?P<d>\d{1,2})[-/.](?P<m>\d{1,2})[-/.]" + _YEAR + _TIME,
    "day, month by name": _WEEKDAY
    + r"(?P<d>\d{1,2})(?:st|nd|rd|th)?[-/. ]+(?P<m>[A-Za-z]{3,9})[-/., ]+"
    + _YEAR
    + _TIME,
    "month by name, day": _WEEKDAY
    + r"(?P<m>[A-Za-z]{3,9})[-/. ]+(?P<d>\d{1,2})(?:st|nd|rd|th)?[-/, ]+(?P<y>\d{4})"
    + _TIME,
    "clock": r"^(?P<H>\d{1,2})[:.](?P<M>\d{2})(?:[:.](?P<S>\d{2})(?:[.,](?P<f>\d+))?)?"
    r"(?: ?(?P<p>[AaPp])\.?[Mm]\.?)?$",
}
DIGITS = r"^(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})(?:(?P<H>\d{2})(?P<M>\d{2})(?P<S>\d{2})?)?$"
# Microseconds per unit of an epoch; the unit is the one that gives seconds from 1979 to 2096.
EPOCHS = {"seconds": 1e6, "milliseconds": 1e3, "microseconds": 1.0, "nanoseconds": 1e-3}
SECONDS = 3e8, 4e9
FORMS = (*_WRITTEN, *EPOCHS, "digits", "stored")  # possible formats of a column of dates
_NAMED = re.compile(
    r"time|date|datum|fecha|epoch|unix|(?:^|_)(?:ts|dt|at|on|day|when)(?:$|_)", re.IGNORECASE
)


def is_time(arrow_type: Any) -> bool:
    """Whether values of a type are dates, with or without the time of day, or times of day."""
    types = require("pyarrow").types
    return bool(
        types.is_timestamp(arrow_type) or types.is_date(arrow_type) or types.is_time(arrow_type)
    )


def may_be_named(name: str) -> bool:
    """Whether the name of a column suggests dates, so that its numbers may be dates.

    Examples
    --------
    >>> may_be_named("event_time"), may_be_named("load")
    (True, False)
    """
    return bool(_NAMED.search(name))


def form_of(values: Any, name: str, day_first: bool | None = None) -> str | None:
    """Return the format of the dates in a column, None if its values are not dates.

    Texts are dates if almost all of them are. Numbers are dates only if the name of the column
    suggests so: seconds (or milliseconds, …) since 1970, or digits like 20191231.

    Parameters
    ----------
    values
        The first values of the column that are not missing, in order.
    name
        Name of the column.
    day_first
        Whether 1/2/2019 is in February; None: by the values. If both readings are dates, the
        reading in which fewer rows go back in time wins, then the one that covers less time.

    Examples
    --------
    >>> import pyarrow
    >>> form_of(pyarrow.array(["31.12.2019 23:00", "1.1.2020 0:00"]), "when")
    'day first'
    >>> form_of(pyarrow.array(["1/9/11", "1/10/11"]), "when")
    'month first'
    >>> form_of(pyarrow.array([1577836800, 1577840400]), "timestamp")
    'seconds'
    >>> form_of(pyarrow.array(["red", "green"]), "date") is None
    True
    """
    if is_time(values.type):
        return "clock" if require("pyarrow").types.is_time(values.type) else "stored"
    if not is_text(values.type) and not may_be_named(name):
        return None
    numbers = doubles(numbers_in(values))
    if np.isfinite(numbers).mean() >= ENOUGH:
        return _form_of_numbers(numbers[np.isfinite(numbers)]) if may_be_named(name) else None
    if not is_text(values.type):
        return None
    found = {form: times_in(values, form) for form in _WRITTEN if _share(values, form) >= ENOUGH}
    fits = {form: float((~np.isnat(times)).mean()) for form, times in found.items()}
    if day_first is not None:
        fits.pop("month first" if day_first else "day first", None)
    elif fits.get("day first", 0.0) == fits.get("month first", 1.0) >= ENOUGH:
        back = {form: _disorder(found[form]) for form in ("day first", "month first")}
        dotted = "." in values[0].as_py()
        both_ways = back["day first"] == back["month first"]
        day_first = dotted if both_ways else back["day first"] < back["month first"]
        del fits["month first" if day_first else "day first"]
    best = max(fits, key=lambda form: fits[form], default=None)
    return best if best is not None and fits[best] >= ENOUGH else None


def _share(values: Any, form: str) -> float:
    """Return the share of texts that look like a format, which takes less time than to parse."""
    compute = require("pyarrow.compute")
    texts = compute.utf8_trim_whitespace(values)
    return float(compute.match_substring_regex(texts, _WRITTEN[form]).true_count / len(values))


def several_forms(texts: Any) -> bool:
    """Whether almost all texts are dates, but in several formats.

    Examples
    --------
    >>> import pyarrow
    >>> several_forms(pyarrow.array(["2020-01-01", "1/2/2020"]))
    True
    """
    found = np.zeros(len(texts), bool)
    for form in _WRITTEN:
        found |= ~np.isnat(times_in(texts, form))
    return bool(found.mean() >= ENOUGH)


def times_in(values: Any, form: str) -> Array:
    """Return the values as NumPy times in microseconds, NaT where missing or not a date.

    Examples
    --------
    >>> import pyarrow
    >>> times_in(pyarrow.array(["2020/1/1 0:30", "2020/2/30", None]), "year first")
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
    if form == "digits":
        whole = numbers_in(values).cast(pyarrow.int64(), safe=False)
        return _written(whole.cast(pyarrow.string()), DIGITS)
    if not is_text(values.type):
        return np.full(len(values), np.datetime64("NaT"), "M8[us]")
    texts = require("pyarrow.compute").utf8_trim_whitespace(values)
    return _written(texts, pattern_of(form))


def pattern_of(form: str) -> str:
    """Return the regular expression of a format; stored dates as text have the year first."""
    return _WRITTEN.get(form, _WRITTEN["year first"])


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
    >>> parts_that_vary(months.astype("M8[us]"), "year first")
    ['season', 'days']
    """
    known = times[~np.isnat(times)]
    without = ["weekday", "season"] if form == "clock" else too_long(known)
    if _are_months(known):
        without.append("weekday")
    shares = {part: _share_passed(known, part) for part in PARTS if part not in without}
    least = {"season": 1 / 365}  # leap years move the same day of the year by less
    parts = [part for part, share in shares.items() if np.ptp(share) > least.get(part, 0.0)]
    trend = form != "clock" and _covered(known) >= SHORT * TREND
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


def _disorder(times: Array) -> tuple[int, float]:
    """Return how often a time precedes the one before it, and the days that the times cover."""
    known = times[~np.isnat(times)]
    return int((known[1:] < known[:-1]).sum()), _covered(known)


def _form_of_numbers(numbers: Array) -> str | None:
    for unit, microseconds in EPOCHS.items():
        seconds = numbers * (microseconds / 1e6)
        if ((seconds >= SECONDS[0]) & (seconds <= SECONDS[1])).all():
            return unit
    if (np.abs(numbers) >= 1e15).any() or (numbers != np.floor(numbers)).any():
        return None
    days = times_in(require("pyarrow").array(numbers), "digits")
    return None if np.isnat(days).any() else "digits"


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
