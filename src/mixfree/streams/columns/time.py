"""Columns of dates: their cycles, their calendar and their trend."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.streams.columns import dates
from mixfree.streams.columns.column import BEYOND, GAP, MIN_ROWS, Column, Counts, Feature, Raw, Use
from mixfree.streams.read.values import decoded, doubles, numbers_in

TIMES = ("auto", "cyclic", "calendar", "linear", "none")  # encodings of dates
# How the hours of a day and the days of a week are used: as smooth cycles, as categories, or as
# categories with other hours at weekends; and the parts of a date in words.
WORDS = {
    "cycles": {"days": "trend"},
    "calendar": {"days": "trend", "hour": "hours", "weekday": "weekdays"},
    "weekends": {"days": "trend", "hour": "hours, at weekends apart", "weekday": "weekdays"},
}
CALENDARS = tuple(WORDS)
# Periodic parts of a date, with their period in days and number of harmonics.
PARTS = {"hour": (1, 2), "weekday": (7, 2), "season": (365, 1)}
TREND = 2 * 365  # days from which a trend can be told from the season
MIN_COVERED = 0.95  # share of a period to be covered: the times of a day end before the next day
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SATURDAY = 5
ROWS_PER_FEATURE = 10  # least rows per feature of a calendar
DAY = 86_400_000_000  # microseconds
HOUR, MINUTE = 3_600_000_000, 60_000_000
MONDAY = 4  # days since 1970
ORIGIN = 10_957 * DAY  # 1 January 2000, the day 0 of a trend
EVERY_YEAR = 2.0 / 365.0  # leap years move the same day of the year by less


def _sines(part: str, shares: Array) -> dict[str, Array]:
    """Return sines and cosines of shares of a period, by the names of the raw features."""
    found = dict[str, Array]()
    for wave in range(1, PARTS[part][1] + 1):
        for name, function in (("sin", np.sin), ("cos", np.cos)):
            values = function(2.0 * np.pi * wave * shares)
            values[np.abs(values) < 1e-12] = 0.0  # rounding errors: a microsecond is 7e-11
            found[f"{part} {name}" + f" {wave}" * (wave > 1)] = values
    return found


BY_MINUTE = _sines("hour", np.arange(1440.0) / 1440.0)  # of the day, which most times are
WAVES = {part: [*_sines(part, np.zeros(0))] for part in PARTS}
CELLS = [f"{hour:02} h{end}" for hour in range(24) for end in ("", " weekend")]
# What times have shown: the least and the greatest of these.
MOMENT, OF_DAY, OF_YEAR, WEEKDAY, FIRST, LAST = range(6)


@dataclass(eq=False)
class Time(Column):
    """A date, whose raw features are sines and cosines, hours and weekdays, and days."""

    form: str = "stored"  # how it is written: see :func:`mixfree.streams.columns.dates.times_in`
    time: str = "auto"  # one of ``TIMES``
    parts: tuple[str, ...] = ()  # columns of year, month, day and perhaps hour, instead of one
    # The least and the greatest microsecond since 1970, microsecond of the day, share of the year
    # and weekday, and whether all or some are the first or the last day of a month.
    span: Array = field(init=False, repr=False)

    kind = "time"

    def __post_init__(self) -> None:
        self.span = np.outer([BEYOND, -BEYOND], np.ones(6))
        waves = ["days", *WAVES["hour"], *WAVES["season"]]
        self.places = dict.fromkeys(WAVES["hour"] if self.is_clock else waves, -1)

    @property
    def is_clock(self) -> bool:
        """Whether there is only a time of day."""
        return dates.is_clock(self.form) and not self.parts

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns of the file that it is read from."""
        return self.parts or (self.name,)

    @property
    def expected(self) -> str:  # type: ignore[override]
        """The values expected, in words."""
        return "a time of day" if self.is_clock else f"a date ({self.form})"

    def values(self, batch: Any) -> Any:
        """Return the values of a batch, or of each part."""
        return [decoded(batch[p]) for p in self.parts] if self.parts else super().values(batch)

    def parse(self, values: Any, grow: bool) -> Array:
        """Return NumPy times, NaT where missing."""
        return _joined(values) if self.parts else dates.times_in(values, self.form)

    def learn(self, entries: Array) -> None:
        """Take note of the span of the times."""
        gap = self.gaps(entries)
        known = entries if gap is None else entries[~gap]
        if not len(known):
            return
        days, of_day = _divided(known)
        different, which = _different(days)
        different = different[np.bincount(which) > 0]
        date = different.astype("M8[D]")
        first, last = (each == each.astype("M8[M]") for each in (date, date + 1))
        shown = known.astype(np.int64), of_day, _of_year(different), (different - MONDAY) % 7
        ends = ([f(each) for each in (*shown, first, last)] for f in (np.min, np.max))
        self._join(np.array([*ends], np.float64))

    def _join(self, span: Array) -> None:
        (low, high), (least, greatest) = self.span, span
        self.span = np.array([np.minimum(low, least), np.maximum(high, greatest)])

    def merge(self, other: Self) -> None:
        """Join the spans of both."""
        self._join(other.span)

    def raw(self, entries: Array) -> Raw:
        """Return days, sines and cosines, weekdays and hours."""
        if (gap := self.gaps(entries)) is not None:  # any time will do
            entries = np.where(gap, entries[int(gap.argmin())], entries)
        days, of_day = _divided(entries)
        minutes, hours = of_day // MINUTE, of_day // HOUR
        if (minutes * MINUTE == of_day).all():
            numbers = {key: values.take(minutes) for key, values in BY_MINUTE.items()}
        else:
            numbers = _sines("hour", of_day / DAY)
        if self.is_clock:
            return Raw(numbers, [(CELLS, 2 * hours)] * self.has_calendar)
        different, which = _different(days)
        numbers["days"] = (entries.astype(np.int64) - ORIGIN) / DAY
        season = _sines("season", _of_year(different))
        numbers |= {key: values.take(which) for key, values in season.items()}
        weekdays = (different - MONDAY) % 7
        cells = [(CELLS, 2 * hours + (weekdays >= SATURDAY).take(which))] * self.has_calendar
        return Raw(numbers, [(WEEKDAYS, weekdays.take(which)), *cells])

    @property
    def has_calendar(self) -> bool:
        """Whether hours are summed, so that a calendar can be used instead of cycles."""
        return self.time in ("auto", "calendar")

    @property
    def days(self) -> float:
        """Days between the first and the last time, negative if there is no time."""
        return float(self.span[1, MOMENT] - self.span[0, MOMENT]) / DAY

    def usable(self) -> list[str]:
        """Return the parts that vary, and whose period is covered.

        Times that all lie on the first or all on the last day of a month stand for months, without
        weekdays. Times that cover two years also have a trend, ``"days"``.
        """
        if self.time == "linear":
            return ["days"]
        low, high = self.span.tolist()
        varies = {
            "hour": high[OF_DAY] > low[OF_DAY],
            "weekday": high[WEEKDAY] > low[WEEKDAY] and not (low[FIRST] or low[LAST]),
            "season": high[OF_YEAR] - low[OF_YEAR] > EVERY_YEAR,
        }
        if self.is_clock:
            return ["hour"] * (self.time == "cyclic" or varies["hour"])
        if self.time == "cyclic":
            return [*PARTS]
        long = {part: self.days >= MIN_COVERED * length for part, (length, _) in PARTS.items()}
        found = [part for part in PARTS if long[part] and varies[part]]
        return found + ["days"] * (self.days >= MIN_COVERED * TREND)

    def calendars(self, rows: int) -> list[str]:
        """Return the ways in which hours and weekdays can be used, the simplest first."""
        usable = {"hour", "weekday"} & set(self.usable())
        features = len(WEEKDAYS) + len(CELLS) * ("hour" in usable)
        if self.time != "auto" or not usable or rows < ROWS_PER_FEATURE * features:
            return ["cycles"]
        return ["cycles", "calendar", "weekends"] if len(usable) == 2 else ["cycles", "calendar"]

    def use(self, counts: Counts, rows: int, calendar: str) -> Use:
        """Use the parts that the span of all times allows."""
        parts, calendar = self.usable(), "calendar" if self.time == "calendar" else calendar
        hours = {cell[:2] for cell in CELLS if counts[cell]}  # few cannot tell waves apart
        if self.days <= 0.0 and self.time != "cyclic":
            why = "without a valid date" if self.days else "constant"
            return Use(self.gap_feature(counts, rows), [GAP], why)
        if not parts and self.forced and not self.is_clock:
            parts = ["days"]
        if not parts:
            lacks = "without an hour, weekday or season that varies"
            if self.days < MIN_COVERED:
                lacks = "too short for hour, weekday or season"
            why = f"a date: rows cover {span_of(self.days)}, {lacks}; `time='linear'` uses it as a "
            return Use([], [], why + "number, `time='cyclic'` uses all")
        step, features = 1 if calendar == "weekends" else 2, list[Feature]()
        for part in parts:
            if part == "days":
                features.append(Feature(f"{self.name}: days", {"days": 1.0}))
            elif part == "hour" and (calendar != "cycles" or 0 < len(hours) <= len(WAVES[part])):
                cells = [CELLS[at : at + step] for at in range(0, len(CELLS), step)]
                features += self._without_reference(cells, counts)
            elif calendar == "cycles" or part == "season":
                features += [Feature(f"{self.name}: {k}", self._wave(k)) for k in WAVES[part]]
            else:
                days = [[day] for day in WEEKDAYS]
                groups = [days[:SATURDAY], days[SATURDAY:]] if step == 1 else [days]
                features += [f for each in groups for f in self._without_reference(each, counts)]
        features += self.gap_feature(counts, rows)
        return Use(features, [GAP], "always at the same hour", self._note(parts, calendar))

    def _wave(self, key: str) -> dict[str, float]:
        """Return the raw features that a sine or cosine is the sum of."""
        if not key.startswith("weekday"):
            return {key: 1.0}
        wave = _sines("weekday", np.arange(7.0) / 7.0)[key]
        return {day: float(wave[at]) for at, day in enumerate(WEEKDAYS) if day in self.places}

    def _without_reference(self, levels: Sequence[Sequence[str]], counts: Counts) -> list[Feature]:
        """Return features of levels of enough rows but the most frequent one, the reference."""
        found = list[tuple[int, Feature]]()
        for keys in levels:
            of = {key: 1.0 for key in keys if key in self.places}
            if (count := sum(counts[key] for key in of)) >= MIN_ROWS:
                found.append((count, Feature(f"{self.name}: {keys[0]}", of)))
        reference = max(found, key=lambda each: each[0], default=None)
        return [each[1] for each in found if each is not reference]

    def _note(self, parts: Sequence[str], calendar: str) -> str:
        used = ", ".join(WORDS[calendar].get(part, part) for part in parts)
        note = f"{self.name!r} is a {self.described}, used as {used}"
        if self.is_clock or not self.has_calendar:
            return note
        note += f": rows cover {span_of(self.days)}"
        short = [part for part, (length, _) in PARTS.items() if self.days < MIN_COVERED * length]
        if short:
            note += f", too short for {' and '.join(short)}"
        elif "season" in parts and self.days < MIN_COVERED * TREND:
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


def _divided(times: Array) -> tuple[Array, Array]:
    """Return days and microseconds of the day: `divmod` takes thrice as long."""
    micro = times.astype(np.int64)
    days = micro // DAY
    return days, micro - days * DAY


def _different(days: Array) -> tuple[Array, Array]:
    """Return the different days, or all between them, and the place of each day among them."""
    first, last = int(days.min()), int(days.max())
    if last - first < len(days):
        return np.arange(first, last + 1), days - first
    return np.unique(days, return_inverse=True)


def _of_year(days: Array) -> Array:
    """Return the share of the year that has passed at noon."""
    date = days.astype("M8[D]")
    year = date.astype("M8[Y]")
    first, following = year.astype("M8[D]"), (year + 1).astype("M8[D]")
    return np.asarray(((date - first).astype(float) + 0.5) / (following - first).astype(float))


def _joined(parts: Sequence[Any]) -> Array:
    """Return times from the numbers of years, months, days and hours, NaT if one is missing."""
    numbers = np.stack([doubles(numbers_in(part)) for part in parts])
    known = (np.abs(numbers) < 1e5).all(axis=0)
    whole = np.where(known, numbers, 0.0).astype(np.int64)
    known &= (whole == numbers).all(axis=0)
    hour = whole[3] if len(parts) > 3 else np.zeros_like(whole[0])
    known &= (hour >= 0) & (hour <= 24)
    return dates.times_of(whole[0], whole[1], whole[2], hour * HOUR, known)


def span_of(days: float) -> str:
    """Describe a length of time."""
    for unit, length in (("days", 1.0), ("hours", 1 / 24), ("minutes", 1 / 1440)):
        if days >= 2 * length:
            return f"{days / length:,.0f} {unit}"
    return f"{days * 86400:,.3g} seconds"
