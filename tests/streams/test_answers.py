"""``mixfree predict -``: rows of a pipe, answered as they arrive."""

import io
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from mixfree.streams import FitPlan, Source, StreamFit, find_files, write_predictions
from mixfree.streams.answers import answer_rows
from mixfree.streams.columns import Boolean, Category, Number, Time
from mixfree.streams.encoder import Encoder
from mixfree.streams.pipe import text_of
from mixfree.streams.row_encoder import RowEncoder
from mixfree.streams.source import Piece
from tests.streams.data import table, write

NUMBERS = ["1.5", "-0", "1e-5", "+2", " 3 ", "1,234.5", "1e400", "x", None, "9" * 250, "٣", "1_0"]
NUMBERS += ["$5", "-€1,234.5", "12 %", "1'234", "%"]
DATES = {
    "year first": ["2020/1/1 0:00", "2020-02-30", "2019-12-31T23:59:60.1234567Z", "0020-01-01"],
    "month first": ["1/13/11 1:05 pm", "13/1/2011", "Mon, 2/3/69 12:00 AM", "1/2/2011 13:00 pm"],
    "day first": ["31.12.2019 23:00", "12/31/2019", "29.2.2100"],
    "day, month by name": ["1st Feb 2020", "30 Foo 2020", "Tue 2-mar-99 4.30"],
    "month by name, day": ["January 5th, 2020", "Dec 31 1969 23:00"],
    "clock": ["7:30", "23.59.59,5", "12:00 am", "24:00"],
    "seconds": ["1577836800", "1577836800.25", "5e9", "0"],
    "milliseconds": ["1577836800001"],
    "digits": ["20200229", "20200230", "20200229.0", "202002291530"],
    "stored": ["2020-06-01 12:00:00", "noon"],
}


def both_ways(column, texts, marks=()):
    """Return the features of texts from the encoder of batches and from that of rows."""
    encoder = Encoder([column], Number("y"), missing="mean")
    known = [None if text in marks else text for text in texts]
    batch = pa.record_batch({"c": pa.array(known, pa.string())})
    by_batch, _ = encoder.rows_and_gaps(Piece("f", 0, batch))
    counts = encoder.unknown.copy(), encoder.hashed.copy()
    encoder.unknown.clear()
    encoder.hashed.clear()
    read = RowEncoder(encoder, marks)
    by_row = np.array([read([text]) for text in texts])
    assert (encoder.unknown, encoder.hashed) == counts
    return by_batch, by_row


@pytest.mark.parametrize("form", DATES)
def test_a_date_has_the_features_that_it_has_in_a_file(form):
    """Bitwise: catches another sine, time zone or century."""
    texts = [*DATES[form], *(each for others in DATES.values() for each in others), None]
    cycles = "hour", "weekday", "season"
    for parts, origin in (cycles, 0.0), (("days",), 18262.0), ((*cycles, "days"), 18262.0):
        by_batch, by_row = both_ways(Time("c", form, parts, origin), texts)
        assert np.isfinite(by_batch[0]).all()
        assert by_row.tobytes() == by_batch.tobytes()


def test_numbers_and_texts_have_the_features_that_they_have_in_a_file():
    finite = [text for text in NUMBERS if text != "1e400"]
    texts = ["red", "blue", "grün", "NA", "", None, "red"]
    for column, given, marks in (
        (Number("c"), finite, ("NA", "")),
        (Number("c", "comma"), ["1,5", "1.234,5", "2", "1,5e3", "x", "1 234,5", "5,5 €", None], ()),
        (Boolean("c"), ["true", "False", "1", "2", None], ()),
        (Category("c", ("red", "NA")), texts, ("NA", "")),
        (Category("c", ("red",), 4), texts, ()),
    ):
        by_batch, by_row = both_ways(column, given, marks)
        np.testing.assert_array_equal(by_row, by_batch)


def test_numbers_of_json_have_the_features_of_their_texts():
    """In a column of decimal commas, texts or dates, a number is treated as its text."""
    numbers = [0.1, 3.0, 1e300, 1.5e9, 5e-324, float("inf"), float("nan")]
    for column in (
        Number("c"),
        Number("c", "comma"),
        Boolean("c"),
        Category("c", ("3", "0.1")),
        Time("c", "seconds", ("hour", "days")),
    ):
        read = RowEncoder(Encoder([Number("a"), column, Number("b")], Number("y")))
        for number in numbers:
            given = read([number, number, 2.0]), read([text_of(number), text_of(number), "2"])
            np.testing.assert_array_equal(*given)


@pytest.fixture
def fitted(tmp_path):
    """Return a fit, and a file with missing values, new categories and dates."""
    rows = table(1000).to_pydict()
    hours = np.datetime64("2020-01-01") + np.arange(1000) * np.timedelta64(1, "h")
    rows["when"] = [str(each).replace("T", " ") for each in hours]

    def fit(target, method="exact", **changed):
        path = write(pa.table({**rows, **changed}), tmp_path / "train.csv")
        source = Source(find_files([path]))
        found = StreamFit.begin(source, FitPlan(target, parameters={"method": method}))
        found.run(source.pieces())
        found.encoder.set_missing("skip", found.reservoir.rows)
        return found

    rows["colour"][5], rows["u"][7], rows["v"][8] = "mauve", None, None
    return fit, write(pa.table(rows), tmp_path / "new.csv")


def answered(fit, data, **options):
    out = io.BytesIO()
    written = answer_rows(fit, io.BytesIO(data), out, **options)
    return written, out.getvalue().decode()


@pytest.mark.parametrize("target", ["load", "on", "colour"])
def test_answers_are_the_predictions_of_the_file(tmp_path, fitted, target):
    """Bitwise: catches a matrix product, or numbers printed with fewer digits."""
    fit = fitted[0](target)
    out = tmp_path / "p.parquet"
    in_file = write_predictions(fit, Source(find_files([fitted[1]])), out, ["when"])
    file = pa.parquet.read_table(out)
    assert in_file.empty == 2
    for batch in (1, 7, 1024):
        written, text = answered(fit, Path(fitted[1]).read_bytes(), keep=["when"], batch=batch)
        assert written == in_file
        options = pa.csv.ConvertOptions(strings_can_be_null=True)
        pipe = pa.csv.read_csv(io.BytesIO(text.encode()), convert_options=options)
        assert pipe.column_names == file.column_names
        for name in file.column_names[1:]:
            same = [str(each).lower() for each in file[name].to_pylist()]
            assert [str(each).lower() for each in pipe[name].to_pylist()] == same


def test_json_lines_are_answered_in_json_lines(fitted):
    """A missing key is a missing value, but a text that denotes one in CSV is not."""
    fit = fitted[0]("load")
    fit.encoder.set_missing("mean", fit.reservoir.rows)
    day = {"when": "2020-01-02 03:00", "colour": "red", "on": True}
    objects = [{"u": 1, "v": 2.5, '100 % "x"': 'a\nü"%s', **day}, {"u": 1.0, **day}]
    data = "".join(json.dumps(each) + "\n" for each in objects).encode()
    _, text = answered(fit, data, format="jsonl", keep=["u", "colour", '100 % "x"'])
    first, second = map(json.loads, text.splitlines())
    csv = b"on,colour,when,v,u\ntrue,red,2020-01-02 03:00,2.5,1\ntrue,red,2020-01-02 03:00,,1\n"
    found = [float(line) for line in answered(fit, csv)[1].splitlines()[1:]]
    assert [first["prediction"], second["prediction"]] == found
    assert (first["u"], first["colour"], first['100 % "x"']) == ("1", "red", 'a\nü"%s')
    assert second['100 % "x"'] is None and "ü" in text


BAD = {
    "csv": {
        b"u,v,colour,on\n": "there is no column 'when'; the columns are 'u'",
        b"u,v,colour,on,when\n1,x,red,true,2020-01-01\n": "row 1, column 'v' is 'x', not a number",
        b"u,v,colour,on,when\n1,,red,true,2020-01-01\n": "row 1, column 'v' is missing",
        b"u,v,colour,on,when\n1,inf,red,true,2020-01-01\n": "row 1, column 'v' is infinite",
        b"u,v,colour,on,when\n1,2,\xff,true,2020-01-01\n": "row 1, is not in UTF-8",
        b"u,v,colour,on,when\n": "there are no rows",
        b"": "the file is empty",
        b'u,v,"colour,on,when\n1,2,red,true,2020-01-01\n': "a quotation mark in the header is not",
        b"u,v,colour,on,when\n\n1,2," + b"x" * 200_000 + b",true,2020-01-01\n": (
            "row 1, cannot be read as CSV: field larger than field limit"
        ),
        b"u,v,colour,on,when\n1,2," + b"x" * (17 << 20): "a line is longer than 16,777,216 bytes",
    },
    "jsonl": {
        b"[1]\n": "row 1, is not a JSON object",
        b"\n{\n": "row 1, is not JSON",
        b'{"u": [1]}\n': "row 1, column 'u' is a list or an object",
        b"[" * 100_000: "row 1, is not JSON",
    },
}


@pytest.mark.parametrize("format", BAD)
def test_a_bad_row_is_named(fitted, format):
    fit = fitted[0]("load")
    fit.encoder.set_missing("error", fit.reservoir.rows)
    for data, message in BAD[format].items():
        with pytest.raises(ValueError, match=re.escape(message)):
            answered(fit, data, format=format)


@pytest.mark.parametrize("head", [b"# made by hand\nu,v,colour,on,when", b"# u,v,colour,on,when"])
def test_comments_and_blank_lines_are_not_answered(fitted, head):
    """Catches one answer too many, and a header that waits for a second row."""
    fit, row = fitted[0]("load"), b"1,2,red,true,2020-01-01\n"
    written, text = answered(fit, head + b"\n" + row + b"\n\r\n" + row)
    _, plain = answered(fit, b"u,v,colour,on,when\n" + 2 * row)
    assert written.rows == 2
    assert text == plain


@pytest.mark.parametrize("bad", [b"1,x,red,true,2020-01-01\n", b"1,2\n"])
def test_rows_before_a_bad_one_are_answered(fitted, bad):
    """Catches a batch given up as a whole, which loses the two rows before the third."""
    fit = fitted[0]("load")
    fit.encoder.set_missing("error", fit.reservoir.rows)
    good, out = b"1,2,red,true,2020-01-01\n", io.BytesIO()
    with pytest.raises(
        ValueError, match=r"standard input, row 3, (column 'v' is 'x'|has 2 fields)"
    ):
        answer_rows(fit, io.BytesIO(b"u,v,colour,on,when\n" + 2 * good + bad + good), out)
    assert len(out.getvalue().splitlines()) == 3


def command(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "mixfree.cli", "predict", "-", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_pipe_is_answered_before_it_ends_and_ends_quietly(tmp_path, fitted, ctrl_c):
    """Answers that wait for a full buffer would let the test hang."""
    fit = fitted[0]("load", when=["2020-01-01"] * 1000)
    fit.save(tmp_path / "m")
    row = b"1,2,red,true\n"
    with command("--model", tmp_path / "m") as pipe:
        pipe.stdin.write(b"u,v,colour,on\n" + row)
        pipe.stdin.flush()
        first = pipe.stdout.readline(), pipe.stdout.readline()
        pipe.stdin.write(row)
        pipe.stdin.flush()
        assert first == (b'"prediction"\n', pipe.stdout.readline())
        pipe.send_signal(signal.SIGINT)
        assert (pipe.wait(), pipe.stderr.read()) == (130, b"")
    with command("--model", tmp_path / "m") as pipe:
        pipe.stdout.close()
        pipe.stdin.write(b"u,v,colour,on\n" + 10 * row)
        pipe.stdin.close()
        assert pipe.stderr.read() == b""
        assert pipe.wait() == 1
