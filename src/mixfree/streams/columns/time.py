"""Columns of dates: their cycles, their calendar and their trend."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.streams.columns import dates
from mixfree.streams.columns.column import GAP, MIN_ROWS, Column, Counts, Feature, Use
from mixfree.streams.read.values import doubles, numbers_in

__all__ = ["CALENDARS", "TIMES", "Time", "span_of"]

TIMES = ("auto", "cyclic", "calendar", "linear", "none")  # encodings of dates
# How the hours of a day and the days of a week are used: as smooth cycles, as categories, or as
# categories with other hours at weekends.
CALENDARS = ("cycles", "calendar", "weekends")
# Periodic parts of a date, with their period in days and number of harmonics.
PARTS = {"hour": (1, 2), "weekday": (7, 2), "season": (365, 1)}
TREND = 2 * 365  # days from which a trend can be told from the season
WHOLE = 0.95  # share of a period to be covered: the times of a day end before the next day
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SATURDAY = 5
ROWS_PER_FEATURE = 10  # least rows per feature of a calendar
DAY = 86_400_000_000  # microseconds
MONDAY = 4 * DAY  # 5 January 1970
ORIGIN = 10_957 * DAY  # 1 January 2000, the day 0 of a trend
EVERY_DAY = (1 << 7) - 1  # bits
EVERY_YEAR = 2.0 / 365.0  # leap years move the same day of the year by less


def _waves(part: str) -> list[str]:
    """Return the raw features of a periodic part."""
    found = []
    for wave in range(1, PARTS[part][1] + 1):
        times = "" if wave == 1 else f" {wave}"
        found += [f"{part} sin{times}", f"{part} cos{times}"]
    return found


CELLS = [f"{hour:02} h{end}" for hour in range(24) for end in ("", " weekend")]


class _Seen(NamedTuple):
    """What times have shown.

    The first and the last one in microseconds since 1970, the least and greatest share passed of
    the day and of the year, the weekdays as bits, and whether all times are on the first, or all on
    the last day of a month.
    """

    low: int = 2**63 - 1
    high: int = -(2**63)
    daily: tuple[float, float] = (1.0, 0.0)
    yearly: tuple[float, float] = (1.0, 0.0)
    weekdays: int = 0
    begins: bool = True
    ends: bool = True

    @property
    def hourly(self) -> bool:
        """Whether the time of day varies."""
        return self.daily[1] > self.daily[0]

    @property
    def seasonal(self) -> bool:
        """Whether the time of year varies."""
        return self.yearly[1] - self.yearly[0] > EVERY_YEAR

    @property
    def weekly(self) -> bool:
        """Whether weekdays vary; dates that stand for months have none."""
        return self.weekdays.bit_count() > 1 and not (self.begins or self.ends)

    def joined(self, other: "_Seen") -> "_Seen":
        """Return what both have shown."""
        return _Seen(
            min(self.low, other.low),
            max(self.high, other.high),
            (min(self.daily[0], other.daily[0]), max(self.daily[1], other.daily[1])),
            (min(self.yearly[0], other.yearly[0]), max(self.yearly[1], other.yearly[1])),
            self.weekdays | other.weekdays,
            self.begins and other.begins,
            self.ends and other.ends,
        )


class Time(Column):
    """A date, whose raw features are sines and cosines, hours and weekdays, and days.

    Parameters
    ----------
    form
        How it is written: see :func:`mixfree.streams.columns.dates.times_in`.
    time
        One of ``TIMES``.
    calendar
        Whether to sum hours and weekdays, so that a calendar can be used instead of cycles.
    parts
        Columns with the year, the month, the day and perhaps the hour, instead of one column.

    Attributes
    ----------
    span
        What all times have shown.
    """

    kind = "time"
    settings = ("name", "forced", "form", "time", "calendar", "parts")

    def __init__(
        self,
        name: str,
        forced: bool = False,
        form: str = "stored",
        time: str = "auto",
        calendar: bool = False,
        parts: Sequence[str] = (),
    ) -> None:
        super().__init__(name, forced)
        self.form, self.time, self.calendar, self.parts = form, time, calendar, tuple(parts)
        self.span = _Seen()
        if time != "cyclic" and not self.is_clock:
            self.add("days")
        for part in PARTS if time != "linear" else ():
            # Waves of the week are sums of indicators of weekdays.
            if part == "hour" or not (self.is_clock or (part == "weekday" and calendar)):
                for key in _waves(part):
                    self.add(key)

    def is_valid(self) -> bool:
        """Whether settings and state are possible."""
        span, form = self.span, isinstance(self.form, str) and dates.is_form(self.form)
        shares = [*span.daily, *span.yearly]
        return (
            super().is_valid()
            and form
            and self.time in TIMES
            and type(self.calendar) is bool
            and all(isinstance(part, str) for part in self.parts)
            and type(span.low) is type(span.high) is type(span.weekdays) is int
            and len(shares) == 4
            and all(type(share) is float for share in shares)
        )

    def plain(self) -> dict[str, Any]:
        """Return settings and state as plain values."""
        return super().plain() | {"span": tuple(self.span)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Rebuild a column from :meth:`plain`; raise ValueError if it is invalid."""
        column = super().from_plain(plain)
        column.span = _Seen(*plain["span"])
        if not column.is_valid():
            raise ValueError(f"a column is invalid: {column!r}")
        return column

    @property
    def smooth(self) -> list[str]:
        """Raw features that are not indicators."""
        waves = [key for part in PARTS for key in _waves(part)]
        return [key for key in ("days", *waves) if key in self.keys]

    @property
    def is_clock(self) -> bool:
        """Whether there is only a time of day."""
        return dates.is_clock(self.form) and not self.parts

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns of the file that it is read from."""
        return self.parts or (self.name,)

    @property
    def expected(self) -> str:
        """The values expected, in words."""
        return "a time of day" if self.is_clock else f"a date ({self.form})"

    def values(self, batch: Any) -> Any:
        """Return the values of a batch, or of each part."""
        return [batch.column(name) for name in self.parts] if self.parts else super().values(batch)

    def parse(self, values: Any, grow: bool) -> Array:
        """Return NumPy times, NaT where missing."""
        return _joined(values) if self.parts else dates.times_in(values, self.form)

    @staticmethod
    def missing(entries: Array) -> Array:
        """Return which times are missing."""
        return np.asarray(np.isnat(entries))

    @property
    def settled(self) -> bool:
        """Whether further rows have nothing to show."""
        return False

    def first_rows(self, entries: Array, gap: Array | None) -> dict[str, int]:
        """Return the first row of each raw feature that has no place yet."""
        found = super().first_rows(entries, gap)
        names = [*CELLS[:: 1 + self.is_clock], *([] if self.is_clock else WEEKDAYS)]
        if self.calendar and not self.keys.keys() >= set(names):
            rows = np.flatnonzero(~np.isnat(entries))
            for cells, codes in self._cells(entries[rows].astype(np.int64)):
                for code, first in zip(*np.unique(codes, return_index=True), strict=True):
                    if self.place(cells[code]) < 0:
                        found[cells[code]] = int(rows[first])
        return found

    def _cells(self, moments: Array) -> list[tuple[Sequence[str], Array]]:
        """Return names of indicators, and the index of each time among them."""
        hours, weekdays = _calendar(moments)
        if self.is_clock:
            return [(CELLS, 2 * hours)]
        return [(CELLS, 2 * hours + (weekdays >= SATURDAY)), (WEEKDAYS, weekdays)]

    def learn(self, entries: Array) -> None:
        """Take note of the span of the times."""
        known = entries[~np.isnat(entries)]
        if not len(known):
            return
        moments = known.astype(np.int64)
        seen = _Seen(int(moments.min()), int(moments.max()))
        # Once something varies, it need not be looked for.
        if not self.span.hourly:
            day = moments % DAY
            seen = seen._replace(daily=(float(day.min() / DAY), float(day.max() / DAY)))
        if not (self.span.seasonal or self.is_clock):
            share = _of_year(known)
            seen = seen._replace(yearly=(float(share.min()), float(share.max())))
        if self.span.begins or self.span.ends:
            begins, ends = _month_ends(known)
            seen = seen._replace(begins=begins, ends=ends)
        if not (self.span.weekdays == EVERY_DAY or self.is_clock):
            for weekday in np.flatnonzero(np.bincount(_calendar(moments)[1])).tolist():
                seen = seen._replace(weekdays=seen.weekdays | 1 << weekday)
        self.span = self.span.joined(seen)

    def merge(self, other: Self) -> None:
        """Join the spans of both."""
        self.span = self.span.joined(other.span)

    def write(self, entries: Array, gap: Array | None, out: Array) -> None:
        """Write the raw features."""
        rows = slice(None) if gap is None else np.flatnonzero(~gap)
        times = entries[rows]
        moments = times.astype(np.int64)
        if "days" in self.keys:
            out[rows, self.place("days")] = (moments - ORIGIN) / DAY
        weekdays = _calendar(moments)[1]
        for part in ("hour", "season"):
            if f"{part} sin" in self.keys:
                share = (moments % DAY) / DAY if part == "hour" else _of_year(times)
                self._write_waves(part, 2.0 * np.pi * share, slice(None), out, rows)
        if "weekday sin" in self.keys:
            self._write_waves("weekday", 2.0 * np.pi * np.arange(7.0) / 7.0, weekdays, out, rows)
        if self.calendar:
            at = np.arange(len(out))[rows]
            for cells, codes in self._cells(moments):
                self._write_cells(cells, codes, out, at)

    def _write_waves(self, part: str, angle: Array, which: Any, out: Array, rows: Any) -> None:
        sin, cos = np.sin(angle), np.cos(angle)
        for wave, (odd, even) in enumerate([(sin, cos), (2.0 * sin * cos, cos * cos - sin * sin)]):
            if wave < PARTS[part][1]:
                names = _waves(part)[2 * wave : 2 * wave + 2]
                for name, values in zip(names, (odd, even), strict=True):
                    out[rows, self.place(name)] = values[which]

    def _write_cells(self, names: Sequence[str], codes: Array, out: Array, rows: Array) -> None:
        at = np.array([self.place(name) for name in names])[codes]
        out[rows[at >= 0], at[at >= 0]] = 1.0

    @property
    def days(self) -> float:
        """Days between the first and the last time."""
        return max(self.span.high - self.span.low, 0) / DAY

    def usable(self) -> list[str]:
        """Return the parts that vary, and whose period is covered.

        Times that all lie on the first or all on the last day of a month stand for months, without
        weekdays. Times that cover two years also have a trend, ``"days"``.
        """
        if self.time == "linear":
            return ["days"]
        if self.is_clock:
            return ["hour"] * (self.time == "cyclic" or self.span.hourly)
        if self.time == "cyclic":
            return [*PARTS]
        long = {part: self.days >= WHOLE * length for part, (length, _) in PARTS.items()}
        span = self.span
        varies = {"hour": span.hourly, "weekday": span.weekly, "season": span.seasonal}
        found = [part for part in PARTS if long[part] and varies[part]]
        return found + ["days"] * (self.days >= WHOLE * TREND)

    def calendars(self, rows: int) -> list[str]:
        """Return the ways in which hours and weekdays can be used, the simplest first."""
        usable = self.usable()
        if not self.calendar or not {"hour", "weekday"} & set(usable):
            return ["cycles"]
        if self.time == "calendar":
            return ["calendar"]
        found, features = ["cycles"], len(WEEKDAYS) + len(CELLS) * ("hour" in usable)
        if rows >= ROWS_PER_FEATURE * features:
            found.append("calendar")
            if {"hour", "weekday"} <= set(usable):
                found.append("weekends")
        return found

    def use(self, counts: Counts, rows: int, calendar: str = "cycles") -> Use:
        """Use the parts that the span of all times allows."""
        parts = self.usable()
        if self.span.low >= self.span.high and self.time != "cyclic":
            once = self.span.low == self.span.high
            why = "constant" if once else "without a valid date"
            return Use(self.gap_feature(counts, rows), [GAP], why)
        if not parts and self.forced and not self.is_clock:
            parts = ["days"]
        if not parts:
            short = "too short for hour, weekday or season"
            lacks = short if self.days < WHOLE else "without an hour, weekday or season that varies"
            why = f"a date: rows cover {span_of(self.days)}, {lacks}; `time='linear'` uses it as a "
            return Use([], [], why + "number, `time='cyclic'` uses all")
        features = list[Feature]()
        for part in parts:
            if part == "days":
                features.append(self._feature("days", {"days": 1.0}))
            elif calendar == "cycles" or part == "season":
                features += [self._feature(key, self._wave(key)) for key in _waves(part)]
            elif part == "hour":
                features += self._hours(counts, apart=calendar == "weekends")
            else:
                features += self._weekdays(counts, apart=calendar == "weekends")
        features += self.gap_feature(counts, rows)
        return Use(features, [GAP], "", self._note(parts, calendar))

    def _feature(self, name: str, of: Mapping[str, float]) -> Feature:
        return Feature(f"{self.name}: {name}", of)

    def _wave(self, key: str) -> dict[str, float]:
        """Return the raw features that a sine or cosine is the sum of."""
        if key in self.keys:
            return {key: 1.0}
        place, angles = _waves("weekday").index(key), 2.0 * np.pi * np.arange(7.0) / 7.0
        wave = (np.cos if place % 2 else np.sin)((1 + place // 2) * angles)
        return {day: float(wave[at]) for at, day in enumerate(WEEKDAYS) if day in self.keys}

    def _hours(self, counts: Counts, apart: bool) -> list[Feature]:
        """Return hours of the day, at weekends apart or not, without the most frequent one."""
        found = []
        for hour in range(24):
            keys = [key for key in CELLS[2 * hour : 2 * hour + 2] if key in self.keys]
            for of in [[key] for key in keys] if apart else [keys]:
                name = of[0] if apart else CELLS[2 * hour]
                found.append((self._feature(name, dict.fromkeys(of, 1.0)), sum(map(counts, of))))
        return _without_reference(found)

    def _weekdays(self, counts: Counts, apart: bool) -> list[Feature]:
        """Return weekdays without the most frequent one, and without one of the weekend."""
        found = list[Feature]()
        for group in [WEEKDAYS[:SATURDAY], WEEKDAYS[SATURDAY:]] if apart else [WEEKDAYS]:
            days = [day for day in group if day in self.keys]
            found += _without_reference([(self._feature(d, {d: 1.0}), counts(d)) for d in days])
        return found

    def _note(self, parts: Sequence[str], calendar: str) -> str:
        words = {"days": "trend"}
        if calendar != "cycles":
            words |= {"hour": "hours", "weekday": "weekdays"}
        if calendar == "weekends":
            words["hour"] = "hours, at weekends apart"
        used = ", ".join(words.get(part, part) for part in parts)
        note = f"{self.name!r} is a {self.described}, used as {used}"
        if self.is_clock or self.time not in ("auto", "calendar"):
            return note
        note += f": rows cover {span_of(self.days)}"
        short = [part for part, (length, _) in PARTS.items() if self.days < WHOLE * length]
        if short:
            note += f", too short for {' and '.join(short)}"
        elif "season" in parts and self.days < WHOLE * TREND:
            note += ", so that season and trend cannot be told apart"
        return note

    @property
    def described(self) -> str:
        """The kind of date in words."""
        if self.is_clock:
            return "time of day"
        since = " since 1970" if self.form.endswith("seconds") else ""
        parts = f" in {len(self.parts)} columns, {', '.join(self.parts)}" if self.parts else ""
        return f"date{parts}" if self.form == "stored" else f"date ({self.form}{since})"


def _without_reference(found: Sequence[tuple[Feature, float]]) -> list[Feature]:
    """Return the features of enough rows but the most frequent one, the reference."""
    enough = [each for each in found if each[1] >= MIN_ROWS]
    first = max(enough, key=lambda each: each[1], default=None)
    return [each[0] for each in enough if each is not first]


def _calendar(moments: Array) -> tuple[Array, Array]:
    """Return hours and weekdays (0 is Monday) of times in microseconds since 1970."""
    return moments % DAY // 3_600_000_000, (moments - MONDAY) // DAY % 7


def _of_year(times: Array) -> Array:
    """Return the share of the year that has passed."""
    year = times.astype("M8[Y]")
    first, following = year.astype("M8[us]"), (year + 1).astype("M8[us]")
    return np.asarray((times - first) / (following - first))


def _month_ends(times: Array) -> tuple[bool, bool]:
    """Return whether all times are on the first, and whether all are on the last day of a month."""
    days = times.astype("M8[D]")
    first, last = (bool((each == each.astype("M8[M]")).all()) for each in (days, days + 1))
    return first, last


def _joined(parts: Sequence[Any]) -> Array:
    """Return times from the numbers of years, months, days and hours, NaT if one is missing."""
    year, month, day, *hour = (doubles(numbers_in(part)) for part in parts)
    of_day = hour[0] if hour else np.zeros(len(year))
    whole = np.stack([year, month, day, of_day])
    with np.errstate(invalid="ignore"):
        known = (whole == np.floor(whole)).all(axis=0) & (np.abs(year) < 1e5)
        known &= (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31) & (of_day >= 0)
        known &= of_day <= 24
    year, month, day, of_day = np.where(known, whole, 1.0).astype(np.int64)
    months = ((year - 1970) * 12 + month - 1).astype("M8[M]")
    days = months.astype("M8[D]") + (day - 1)
    times = days.astype("M8[us]") + of_day.astype("m8[h]")
    return np.where(known & (days.astype("M8[M]") == months), times, np.datetime64("NaT"))


def span_of(days: float) -> str:
    """Describe a length of time.

    Examples
    --------
    >>> span_of(60.0), span_of(0.5)
    ('60 days', '12 hours')
    """
    for unit, length in (("days", 1.0), ("hours", 1 / 24), ("minutes", 1 / 1440)):
        if days >= 2 * length:
            return f"{days / length:,.0f} {unit}"
    return f"{days * 86400:,.3g} seconds"
