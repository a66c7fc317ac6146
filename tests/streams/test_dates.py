"""Dates in the formats of real files."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from mixfree.streams.dates import features_of, form_of, parts_that_vary, times_in
from mixfree.streams.kinds import Choices, judge

HOURS = np.datetime64("2019-11-20T00:00", "us") + np.arange(1000) * np.timedelta64(1, "h")


def written(pattern):
    return pa.array([time.strftime(pattern) for time in HOURS.tolist()])


FORMS = {
    "ISO": written("%Y-%m-%dT%H:%M:%S"),
    "ISO with a zone": written("%Y-%m-%d %H:%M:%S.000+01:00"),
    "slashes": pa.array([f"{t.year}/{t.month}/{t.day} {t.hour}:00" for t in HOURS.tolist()]),
    "American": written("%m/%d/%y %I:%M %p"),
    "British": written("%d/%m/%Y %H:%M"),
    "German": pa.array([f"{t.day}.{t.month}.{t.year} {t.hour}:00" for t in HOURS.tolist()]),
    "by name": written("%d-%b-%Y %H:%M"),
    "month by name": written("%B %d, %Y %I:%M %p"),
    "of a web server": written("%d/%b/%Y:%H:%M:%S -0700"),
    "of mail": written("%a, %d %b %Y %H:%M:%S GMT"),
    "digits": pa.array([int(f"{t:%Y%m%d%H%M}") for t in HOURS.tolist()]),
    "seconds": pa.array(HOURS.astype("M8[s]").astype(np.int64)),
    "milliseconds": pa.array((HOURS.astype("M8[ms]").astype(np.int64)).astype(str)),
    "nanoseconds": pa.array(HOURS.astype("M8[ns]").astype(np.int64)),
    "stored": pa.array(HOURS),
    "stored with a zone": pa.array(HOURS, pa.timestamp("us", "UTC")),
}


@pytest.mark.parametrize("case", FORMS)
def test_every_form_gives_the_same_times(case):
    """Catches a format read with day and month exchanged, or without hours."""
    values = FORMS[case]
    form = form_of(values, "timestamp")
    np.testing.assert_array_equal(times_in(values, form), HOURS)


@pytest.mark.parametrize("name", ["when", "dt", "day", "sale_day", "Datum", "fecha"])
def test_more_names_of_columns_of_dates(name):
    """Catches 20190101, 20190102, … taken for row numbers, and days of a month for dates."""
    days = [datetime.date(2019, 1, 1) + datetime.timedelta(n) for n in range(300)]
    assert form_of(pa.array([int(f"{day:%Y%m%d}") for day in days]), name) == "digits"
    assert form_of(pa.array([day.day for day in days]), name) is None


def test_repeated_dates_in_several_forms_are_left_out():
    """Catches hourly rows, whose dates repeat, encoded as hashed categories."""
    days = [datetime.date(2019, 1, 1) + datetime.timedelta(n // 8) for n in range(2400)]
    patterns = "%Y-%m-%d", "%d/%m/%Y", "%b %d, %Y"
    texts = [day.strftime(patterns[n % 3]) for n, day in enumerate(days)]
    found = judge(pa.array(texts), "at", Choices())
    assert found.column is None
    assert found.why.startswith("dates in several formats")


def test_the_order_of_the_rows_tells_day_from_month():
    """Days 1 to 12 fit both readings: catches a fixed rule."""
    days = [datetime.date(2019, 3, day) for day in range(1, 13)]
    for pattern, form in (("%d/%m/%Y", "day first"), ("%m/%d/%Y", "month first")):
        values = pa.array([day.strftime(pattern) for day in days])
        assert form_of(values, "when") == form
        assert form_of(values, "when", day_first=form != "day first") != form


def test_a_clock_without_a_date_and_a_date_without_a_clock():
    clock = pa.array([f"{hour:02}.30.00" for hour in range(24)])
    assert form_of(clock, "x") == "clock"
    assert parts_that_vary(times_in(clock, "clock"), "clock") == ["hour"]
    days = pa.array((HOURS[0] + np.arange(400) * np.timedelta64(1, "D")).astype("M8[D]"))
    assert parts_that_vary(times_in(days, "stored"), "stored") == ["weekday", "season"]


@pytest.mark.parametrize(
    "texts",
    [
        ["red", "green"],
        ["192.168.1.1", "10.0.0.1"],
        ["1.2.3", "1.2.4"],
        ["2019-02-30", "2019-13-01"],
        ["12-34-56", "98-76-54"],
        ["3/4", "1/2"],
    ],
)
def test_what_looks_a_little_like_a_date_is_none(texts):
    assert form_of(pa.array(texts), "date") is None


def test_numbers_are_dates_only_where_the_name_says_so():
    """Catches incomes of a billion read as times."""
    assert form_of(FORMS["seconds"], "income") is None
    assert form_of(pa.array([1.0, 2.0, 3.0]), "time") is None


def test_cyclic_features():
    """Monday and Sunday are neighbours; a year has passed by half on the 2nd of July."""
    times = np.array(["2019-07-02T12:00", "2019-07-01T06:00", "NaT"], "M8[us]")
    hour = features_of(times, ["hour"], 0.0)
    np.testing.assert_allclose(hour[:2, :2], [[0.0, -1.0], [1.0, 0.0]], atol=1e-12)
    assert np.isnan(hour[2]).all()
    week = HOURS[:1].astype("M8[D]") + np.arange(5, 12)  # from a Monday to the next Sunday
    sines = features_of(week.astype("M8[us]"), ["weekday"], 0.0)
    near = np.linalg.norm(sines - np.roll(sines, 1, axis=0), axis=1)
    np.testing.assert_allclose(near, near[0])
    season = features_of(times[:1], ["season"], 0.0)
    np.testing.assert_allclose(season, [[0.0, -1.0]], atol=1e-12)
    np.testing.assert_allclose(features_of(times[:2], ["days"], 18078.0)[:, 0], [1.5, 0.25])


@pytest.mark.parametrize("day", ["first", "last"])
def test_months_have_no_weekday(day):
    """Catches noise from the weekday on which a month happens to begin."""
    months = np.arange("1990-01", "2000-01", dtype="M8[M]")
    days = months.astype("M8[D]") if day == "first" else (months + 1).astype("M8[D]") - 1
    assert parts_that_vary(days.astype("M8[us]"), "stored") == ["season", "days"]
    assert parts_that_vary(days[::12].astype("M8[us]"), "stored") == ["days"]
    assert parts_that_vary((days + 3).astype("M8[us]"), "stored") == ["weekday", "season", "days"]
