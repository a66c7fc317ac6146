"""Encoding of single rows with low latency: the fast twin of the encoder.

PyArrow takes a hundred times as long for a batch of one row. Here Python parses texts in the usual
formats; the columns themselves encode all other texts, whose features are cached.
"""

import re
from collections.abc import Callable, Collection, Sequence
from datetime import date
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from mixfree.base.extras import require
from mixfree.streams import dates
from mixfree.streams.columns import Category, Column, Number, Time
from mixfree.streams.encoder import Encoder
from mixfree.streams.pipe import Value, text_of

__all__ = ["RowEncoder"]

CACHED = 1 << 14  # most texts per column whose features are cached
# Numbers that cannot overflow and that PyArrow and Python round in the same way.
_PLAIN = re.compile(r"-?\d{1,200}(?:\.\d{0,200})?(?:[eE][+-]?\d{1,2})?", re.ASCII).fullmatch
_WITH_COMMA = re.compile(r"-?\d{1,200},\d{1,200}", re.ASCII).fullmatch
_DAY = 86_400_000_000  # microseconds
_EPOCH = date(1970, 1, 1).toordinal()
_MONTHS = {name: place for place, name in enumerate(dates.MONTHS, start=1)}
_MONDAY = 4  # days from 1970-01-01 to the first Monday

_Read: TypeAlias = Callable[[Value], Sequence[float]]
_ReadRun: TypeAlias = Callable[[Sequence[Value]], Sequence[float]]
_Moment: TypeAlias = Callable[[str], int | None]


class RowEncoder:
    """Encode the values of one row as features, NaN where missing.

    Parameters
    ----------
    encoder
        Encoder of batches with bitwise identical features; it counts unknown categories.
    marks
        Texts that denote a missing value.

    Examples
    --------
    >>> both = Encoder([Number("u"), Category("sky", ("sun", "rain"))], Number("y"))
    >>> RowEncoder(both)(["2.5", "rain"])
    [2.5, 0.0, 1.0]
    """

    def __init__(self, encoder: Encoder, marks: Collection[str] = ()) -> None:
        self._runs: list[tuple[slice, _ReadRun]] = []
        start = 0
        for plain, run in groupby(encoder.columns, lambda column: column == Number(column.name)):
            readers = [_reader(column, encoder, frozenset(marks)) for column in run]
            each = slice(start, start := start + len(readers))
            self._runs.append((each, _plain_numbers(readers) if plain else _one_by_one(readers)))

    def __call__(self, values: Sequence[Value]) -> list[float]:
        """Return the features of a row, given its values in the order of the encoder's columns."""
        row: list[float] = []
        for place, read in self._runs:
            row += read(values[place])
        return row


def _one_by_one(readers: Sequence[_Read]) -> _ReadRun:
    def read(values: Sequence[Value]) -> list[float]:
        row: list[float] = []
        for each, value in zip(readers, values, strict=True):
            row += each(value)
        return row

    return read


def _plain_numbers(otherwise: Sequence[_Read]) -> _ReadRun:
    """Read columns of numbers, most of which are JSON numbers or in the usual format."""

    def read(values: Sequence[Value]) -> Sequence[float]:
        return [
            value
            if isinstance(value, float)
            else float(value)
            if value is not None and _PLAIN(value)
            else each(value)[0]
            for value, each in zip(values, otherwise, strict=True)
        ]

    return read


def _reader(column: Column, encoder: Encoder, marks: Collection[str]) -> _Read:
    pyarrow = require("pyarrow")

    @lru_cache(CACHED)
    def looked_up(value: Value) -> tuple[tuple[float, ...], str | None]:
        """Return the features as the column encodes them, and the counter to increase."""
        known = None if value in marks else text_of(value)
        out = np.zeros((1, len(column.features)))
        counted = column.fill(pyarrow.array([known], pyarrow.string()), out)
        return tuple(out[0].tolist()), next(iter(counted), None)

    def read(value: Value) -> Sequence[float]:
        features, counted = looked_up(value)
        if counted is not None:
            getattr(encoder, counted)[column.name] += 1
        return features

    if isinstance(column, Category) or column.kind == "boolean":
        return read
    if isinstance(column, Time):
        return _dated(column, read)
    assert isinstance(column, Number), "there is no other kind of column"
    return _with_comma(read) if column.form == "comma" else read


def _with_comma(otherwise: _Read) -> _Read:
    def read(value: Value) -> Sequence[float]:
        if not isinstance(value, str) or not _WITH_COMMA(value):
            return otherwise(value)
        return (float(value.replace(",", ".")),)

    return read


def _dated(column: Time, otherwise: _Read) -> _Read:
    moment = _moment(column.form)
    parts = [_part(part, column.origin) for part in column.parts]

    def read(value: Value) -> Sequence[float]:
        text = text_of(value)
        at = None if text is None else moment(text)
        if at is None:
            return otherwise(text)
        found: list[float] = []
        for part in parts:
            found += part(at)
        return found

    return read


def _part(part: str, origin: float) -> Callable[[int], Sequence[float]]:
    """Return a function that computes the features of a part of a date; it caches waves."""
    if part == "days":
        return lambda at: (at / _DAY - origin,)
    period, count = dates.PARTS[part]
    factors = [2.0 * np.pi * wave for wave in range(1, count + 1)]

    @lru_cache(CACHED)
    def of_share(share: float) -> tuple[float, ...]:
        # NumPy, as for batches: the sines of other libraries may differ in the last bit.
        angles = np.array([factor * share for factor in factors])
        sines, cosines = np.sin(angles).tolist(), np.cos(angles).tolist()
        return tuple(each for pair in zip(sines, cosines, strict=True) for each in pair)

    if part == "hour":
        return lambda at: of_share(at % _DAY / _DAY)
    if part == "weekday":
        return lambda at: of_share((at // _DAY - _MONDAY) % period / period)
    return lambda at: of_share(_share_of_year(at))


def _share_of_year(at: int) -> float:
    first, days = _year(date.fromordinal(at // _DAY + _EPOCH).year)
    return (at - first) / days


@lru_cache
def _year(year: int) -> tuple[int, int]:
    """Return the beginning and the length of a year in microseconds."""
    first, last = (each.toordinal() - _EPOCH for each in (date(year, 1, 1), date(year, 12, 31)))
    return first * _DAY, (last + 1 - first) * _DAY


def _moment(form: str) -> _Moment:
    """Return a parser to microseconds since 1970, or to None if the column must parse the text."""
    if form in dates.EPOCHS:
        unit = dates.EPOCHS[form]
        lowest, highest = dates.SECONDS[0] / 1e3, dates.SECONDS[1]

        def of_epoch(text: str) -> int | None:
            number = float(text) if _PLAIN(text) else float("nan")
            if not lowest <= number * (unit / 1e6) <= highest:
                return None
            return int(np.floor(number * unit))

        return of_epoch
    pattern = dates.DIGITS if form == "digits" else dates.pattern_of(form)
    regex = re.compile(pattern, re.ASCII)
    match, places = regex.match, regex.groupindex
    # Groups that the pattern lacks are read from after the last group, where None is appended.
    of_date, of_clock = (
        itemgetter(*(places.get(name, regex.groups + 1) - 1 for name in names))
        for names in ("ymd", "HMSfp")
    )

    def of_text(text: str) -> int | None:
        found = match(text.strip())
        if found is None:
            return None
        groups = (*found.groups(), None)
        day, clock = _day(*of_date(groups)), _clock(*of_clock(groups))
        return None if day is None or clock is None else day * _DAY + clock

    return of_text


@lru_cache(CACHED)
def _day(year: str | None, month: str | None, day: str | None) -> int | None:
    """Return days since 1970, None for an invalid day."""
    number = int(year or 1970)
    if year is not None:
        number += 2000 if number < 69 else 1900 if number < 100 else 0
    try:
        which = int(month or 1)
    except ValueError:
        which = _MONTHS.get(str(month)[:3].lower(), 0)
    try:
        return date(number, which, int(day or 1)).toordinal() - _EPOCH
    except ValueError:
        return None


@lru_cache(CACHED)
def _clock(
    hour: str | None, minute: str | None, second: str | None, rest: str | None, half: str | None
) -> int | None:
    """Return microseconds since midnight, None for an invalid time."""
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if half:
        if not 1 <= hours <= 12:
            return None
        hours = hours % 12 + 12 * (half.lower() == "p")
    if hours > 23 or minutes > 59 or seconds > 60:
        return None
    micro = int((rest or "").ljust(6, "0")[:6])
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micro
