"""Dates in the formats of real files."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mixfree.sklearn import StreamEncoder, StreamRegressor
from mixfree.streams import FitPlan, Source, StreamFit, find_files
from mixfree.streams.columns.dates import forms_of, times_in
from mixfree.streams.columns.kinds import Choices, verdict_on
from mixfree.streams.columns.time import Time

HOURS = np.datetime64("2019-11-20T00:00", "us") + np.arange(1000) * np.timedelta64(1, "h")


def written(pattern):
    return pa.array([time.strftime(pattern) for time in HOURS.tolist()])


RECOGNISED = {
    "ISO": written("%Y-%m-%dT%H:%M:%S"),
    "ISO with a zone": written("%Y-%m-%d %H:%M:%S.000+01:00"),
    "slashes": pa.array([f"{t.year}/{t.month}/{t.day} {t.hour}:00" for t in HOURS.tolist()]),
    "American": written("%m/%d/%Y %I:%M %p"),
    "American, short": written("%m/%d/%y %H:%M"),
    "British": written("%d/%m/%Y %H:%M"),
    "German": pa.array([f"{t.day}.{t.month}.{t.year} {t.hour}:00" for t in HOURS.tolist()]),
    "Oracle": written("%d-%b-%y %H:%M"),
    "with names": written("%B %d, %Y %I:%M %p"),
    "stored": pa.array(HOURS),
    "stored with a zone": pa.array(HOURS, pa.timestamp("us", "UTC")),
}
GIVEN = {
    "%H:%M, %d-%b-%Y": written("%H:%M, %d-%b-%Y"),
    "%A, %B %d, %Y %I:%M %p": written("%A, %B %d, %Y %I:%M %p"),
    "%d/%b/%Y:%H:%M:%S %z": written("%d/%b/%Y:%H:%M:%S -0700"),
    "%a, %d %b %Y %H:%M:%S %Z": written("%a, %d %b %Y %H:%M:%S GMT"),
    "%Y%m%d%H%M": pa.array([int(f"{t:%Y%m%d%H%M}") for t in HOURS.tolist()]),
    "seconds": pa.array(HOURS.astype("M8[s]").astype(np.int64)),
    "milliseconds": pa.array((HOURS.astype("M8[ms]").astype(np.int64)).astype(str)),
    "nanoseconds": pa.array(HOURS.astype("M8[ns]").astype(np.int64)),
}


def times(values, given=None):
    """Return the times of a column, as it is judged."""
    choices = Choices(time="linear", dates={} if given is None else {"at": given})
    return verdict_on(values, "at", choices).column.parse(values, grow=False)


@pytest.mark.parametrize("case", RECOGNISED)
def test_every_form_gives_the_same_times(case):
    """Catches a format read with day and month exchanged, or without hours."""
    np.testing.assert_array_equal(times(RECOGNISED[case]), HOURS)


@pytest.mark.parametrize("form", GIVEN)
def test_formats_that_are_given(form):
    """Catches a directive read as another, and dates guessed from other texts and numbers."""
    np.testing.assert_array_equal(times(GIVEN[form], form), HOURS)
    assert not isinstance(verdict_on(GIVEN[form], "timestamp", Choices(time="linear")).column, Time)
    if form.endswith("seconds"):
        np.testing.assert_array_equal(times(GIVEN[form], ""), HOURS)


def test_a_named_column_without_a_format():
    days = [datetime.date(2019, 1, 1) + datetime.timedelta(n) for n in range(300)]
    digits = pa.array([int(f"{day:%Y%m%d}") for day in days])
    assert verdict_on(digits, "at", Choices(dates={"at": ""})).column.form == "%Y%m%d"
    for values in (["1/2/2019", "3/4/2019"], ["noon", "night"], [1.5, 2.5], [20201301]):
        with pytest.raises(ValueError, match="the format of the dates in column 'at', such as "):
            verdict_on(pa.array(values), "at", Choices(dates={"at": ""}))


def test_day_and_month_are_not_guessed():
    """Days 1 to 12 fit both readings: catches a rule by the order of the rows."""
    days = [datetime.date(2019, 3, day).strftime("%d/%m/%Y") for day in range(1, 13)]
    found = verdict_on(pa.array(days), "at", Choices())
    assert found.column is None
    assert "cannot be told apart in the first rows: `dates={'at': '%d/%m/%Y'}`" in found.why


def test_what_looks_a_little_like_a_date_is_none():
    for text in ("192.168.1.1", "3.11.10", "16:10", "2019-02-30", "2019-13-01", "12-34-56", "3/4"):
        assert forms_of(pa.array([text])) == []


def usable(times, form="stored"):
    column = Time("at", form=form)
    column.learn(np.asarray(times).astype("M8[us]"))
    return column.usable()


def raw(times, part):
    """Return the features of one part of a date."""
    encoder = StreamEncoder(time="cyclic")
    rows = encoder.fit_transform(pa.table({"at": times.astype("M8[us]")}))
    names = encoder.get_feature_names_out()
    return rows[:, [name.startswith(f"at: {part}") for name in names]]


def test_a_clock_without_a_date_and_a_date_without_a_clock():
    clock = pa.array([f"{hour:02}.30.00" for hour in range(24)])
    found = verdict_on(clock, "x", Choices(dates={"x": "%H.%M.%S"}))
    assert found.type == "time of day"
    assert usable(times_in(clock, "%H.%M.%S"), "%H.%M.%S") == ["hour"]
    days = pa.array((HOURS[0] + np.arange(400) * np.timedelta64(1, "D")).astype("M8[D]"))
    assert usable(times_in(days, "stored")) == ["weekday", "season"]


def test_cyclic_features():
    """Monday and Sunday are neighbours; a year has passed by half on the 2nd of July."""
    given = np.array(["2019-07-02T12:00", "2019-07-01T06:00"], "M8[us]")
    hour = raw(given, "hour")
    np.testing.assert_allclose(hour[:, :2], [[0.0, -1.0], [1.0, 0.0]], atol=1e-12)
    week = HOURS[:1].astype("M8[D]") + np.arange(5, 12)  # from a Monday to the next Sunday
    sines = raw(week, "weekday")
    near = np.linalg.norm(sines - np.roll(sines, 1, axis=0), axis=1)
    np.testing.assert_allclose(near, near[0])
    np.testing.assert_allclose(raw(given[:1], "season"), [[0.0, -1.0]], atol=1e-12)


@pytest.mark.parametrize("hours", [6, 12])
def test_few_hours_are_categories_and_sines_of_them_exactly_0(hours):
    """Catches weights of 1e14 for rounding errors of sin(2π), and of 1e4 for seconds of delay."""
    given = HOURS[0] + np.arange(0, 400 * hours, hours) * np.timedelta64(1, "h")
    assert not raw(given, "hour sin" + " 2" * (hours == 6)).any(axis=0)[0]
    late = given + np.arange(400) % 60 * np.timedelta64(1, "s")
    model = StreamRegressor().fit(pa.table({"at": late, "y": np.arange(400) % 7}), target="y")
    names = [f"at: {hour:02} h" for hour in range(hours, 24, hours)]
    assert [name for name in model.encoder_.get_feature_names_out() if "h" in name] == names
    assert np.abs(model.coef_).max() < 10.0


@pytest.mark.parametrize("day", ["first", "last"])
def test_months_have_no_weekday(day):
    """Catches noise from the weekday on which a month happens to begin."""
    months = np.arange("1990-01", "2000-01", dtype="M8[M]")
    days = months.astype("M8[D]") if day == "first" else (months + 1).astype("M8[D]") - 1
    assert usable(days) == ["season", "days"]
    assert usable(days[::12]) == ["days"]
    assert usable(days + 3) == ["weekday", "season", "days"]


def test_hours_are_categories_where_they_predict_better(tmp_path):
    """Catches smooth cycles where rush hours differ at weekends, and categories of noise."""
    hours = np.datetime64("2021-03-01T00", "h") + np.arange(24 * 200)
    rng, clock = np.random.default_rng(0), hours.astype(int) % 24
    weekend = (hours.astype("M8[D]").astype(int) - 4) % 7 >= 5
    rush = 9.0 * np.isin(clock, [8, 17]) * ~weekend + 5.0 * (clock == 23) * weekend
    smooth = np.sin(2 * np.pi * clock / 24)
    for target, calendar in ((rush, "weekends"), (smooth, "cycles")):
        y = target + rng.standard_normal(len(hours))
        pq.write_table(pa.table({"at": hours.astype("M8[us]"), "y": y}), tmp_path / "d.parquet")
        source = Source(find_files([str(tmp_path / "d.parquet")]))
        fit = StreamFit.begin(source, FitPlan("y"))
        fit.run(source.pieces())
        assert fit._best_calendar() == calendar
