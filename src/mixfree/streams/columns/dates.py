"""Dates as stored or written.

Times are taken as written: time zones are ignored, and stored times with a zone are in UTC.
"""

import re
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.extras import require
from mixfree.streams.read.values import doubles, is_text, numbers_in

MIN_SHARE = 0.95  # least share of dates among the texts of a column of dates
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = (  # an optional time of day and zone
    r"(?:(?:T|,? +)(?P<H>\d{1,2})(?::(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,](?P<f>\d+))?)?)?"
    r"(?: ?(?P<p>[AaPp])[Mm])?(?: ?(?:Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?))?)?"
)
# Formats of dates that are recognised by themselves, with a time of day or without.
FORMATS = (
    *("%Y-%m-%d", "%Y-%m", "%Y/%m/%d", "%d.%m.%Y"),
    *("%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y"),
    *("%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%b %d %Y"),
)
_DIRECTIVES = {
    "%Y": r"(?P<y>\d{4})",
    "%y": r"(?P<y>\d{2})",
    "%m": r"(?P<m>\d{1,2})",
    "%b": r"(?P<b>[A-Za-z]{3,9})",
    "%B": r"(?P<b>[A-Za-z]{3,9})",
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
NAT = np.iinfo(np.int64).min  # NumPy's "not a time"
STORED = ("stored", "clock")  # dates and times of day with a type of their own


def is_time(arrow_type: Any) -> bool:
    """Whether values of a type are dates, with or without the time of day, or times of day."""
    types = require("pyarrow").types
    return any(is_one(arrow_type) for is_one in (types.is_timestamp, types.is_date, types.is_time))


def check_form(form: str) -> None:
    """Raise ValueError unless a text is a unit since 1970, a type, or a format of strptime."""
    used = re.findall("%.?", form)
    written = used and len(set(used)) == len(used) and set(used) <= _DIRECTIVES.keys()
    if not (written or form in EPOCHS or form in STORED):
        raise ValueError(f"dates must be like '%d/%m/%Y' or 'seconds' since 1970, not {form!r}")


def is_clock(form: str) -> bool:
    """Whether a format has only a time of day."""
    return form == "clock" or ("%" in form and not re.search("%[YymdbB]", form))


def forms_of(texts: Any) -> list[str]:
    """Return the formats of :data:`FORMATS` in which almost all texts are dates."""
    compute, found = require("pyarrow.compute"), []
    trimmed = compute.utf8_trim_whitespace(texts)
    for form in FORMATS:  # matching takes less time than parsing
        matches = compute.match_substring_regex(trimmed, _pattern(form)).true_count
        if matches >= MIN_SHARE * len(texts) and _are_dates(texts, form):
            found.append(form)
    return found


def form_of(values: Any, name: str) -> str:
    """Return the format of a column that the user calls one of dates; ValueError if unknown.

    Numbers are seconds (or milliseconds, …) since 1970, or digits like 20191231.
    """
    if is_time(values.type):
        return "clock" if require("pyarrow").types.is_time(values.type) else "stored"
    forms = forms_of(values) if is_text(values.type) else []
    if not forms:
        numbers = doubles(numbers_in(values))
        for unit, microseconds in EPOCHS.items():
            seconds = numbers * (microseconds / 1e6)
            if ((seconds >= SECONDS[0]) & (seconds <= SECONDS[1])).mean() >= MIN_SHARE:
                return unit
        forms = ["%Y%m%d"] if _are_dates(values, "%Y%m%d") else []
    if len(forms) == 1:
        return forms[0]
    raise ValueError(
        f"the format of the dates in column {name!r}, such as {values[0].as_py()!r}, is unknown: "
        f"give it, as in `dates={{{name!r}: '%d/%m/%Y'}}`"
    )


def _are_dates(values: Any, form: str) -> bool:
    return bool((~np.isnat(times_in(values, form))).mean() >= MIN_SHARE)


def times_in(values: Any, form: str) -> Array:
    """Return the values as NumPy times in microseconds, NaT where missing or not a date."""
    pyarrow = require("pyarrow")
    if is_time(values.type):
        return _stored(values)
    if form in EPOCHS:
        micro = doubles(numbers_in(values)) * EPOCHS[form]
        fits = (micro >= SECONDS[0] * 1e3) & (micro <= SECONDS[1] * 1e6)  # or some days after 1970
        return np.where(fits, micro, NAT).astype(np.int64).view("M8[us]")
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


def _stored(values: Any) -> Array:
    """Return stored dates and times as NumPy times."""
    pyarrow = require("pyarrow")
    of_day = pyarrow.types.is_time(values.type)
    kind = pyarrow.time64("us") if of_day else pyarrow.timestamp("us")
    whole = values.cast(kind, safe=False).cast(pyarrow.int64()).fill_null(NAT)
    return np.asarray(whole.to_numpy(zero_copy_only=False)).view("M8[us]")


def _written(texts: Any, pattern: str) -> Array:
    """Parse texts that match a regular expression, NaT for all others."""
    pyarrow, compute = require("pyarrow"), require("pyarrow.compute")
    fields = compute.extract_regex(texts, pattern)
    has = {field.name for field in fields.type}

    def text(key: str) -> Any:
        return compute.struct_field(fields, key).fill_null("")

    def number(key: str, otherwise: int = 0) -> Array:
        if key not in has:
            return np.full(len(texts), otherwise)
        digits = compute.if_else(compute.equal(text(key), ""), str(otherwise), text(key))
        return np.asarray(digits.cast(pyarrow.int64()).to_numpy(zero_copy_only=False))

    year, month, day = number("y", 1970), number("m", 1), number("d", 1)
    hour, minute, second = number("H"), number("M"), number("S")
    known = fields.is_valid().to_numpy(zero_copy_only=False)
    if "b" in has:
        names = compute.utf8_lower(compute.utf8_slice_codeunits(text("b"), 0, 3))
        place = compute.index_in(names, pyarrow.array(MONTHS)).fill_null(-1)
        month = np.asarray(place.to_numpy(zero_copy_only=False)).astype(np.int64) + 1
    if "p" in has:
        half = np.asarray(compute.utf8_lower(text("p")).to_numpy(zero_copy_only=False), "U1")
        known &= (half == "") | ((hour >= 1) & (hour <= 12))
        hour = np.where(half == "", hour, hour % 12 + 12 * (half == "p"))
    if "y" in has:
        year = np.where(year < 69, year + 2000, np.where(year < 100, year + 1900, year))
    known &= (hour < 24) & (minute < 60) & (second <= 60)
    micro = ((hour * 60 + minute) * 60 + second) * 1_000_000
    if "f" in has:
        digits = compute.utf8_slice_codeunits(compute.utf8_rpad(text("f"), 6, "0"), 0, 6)
        micro = micro + digits.cast(pyarrow.int64()).to_numpy(zero_copy_only=False)
    return times_of(year, month, day, micro, known)


def times_of(year: Array, month: Array, day: Array, micro: Array, known: Array) -> Array:
    """Return the times of days and microseconds of the day, NaT unless known and in a calendar."""
    known = known & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    months = ((year - 1970) * 12 + month - 1).astype("M8[M]")
    days = months.astype("M8[D]") + (day - 1)
    known &= days.astype("M8[M]") == months
    return np.where(known, days.astype("M8[us]") + micro.astype("m8[us]"), np.datetime64("NaT"))
