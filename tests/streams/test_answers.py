"""``mixfree predict -``: rows of a pipe, answered as they arrive."""

import io
import json
import re
import signal
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from mixfree.streams import Source, find_files, write_predictions
from tests.streams import data as streams
from tests.streams.data import table, write


class Pieces(io.BytesIO):
    """A pipe that holds some bytes at a time."""

    def __init__(self, data, size):
        super().__init__(data)
        self.size = size

    def read1(self, size=-1):
        return super().read1(min(size, self.size))


@pytest.fixture
def fitted(tmp_path):
    """Return a fit, and a file with missing values, new categories and dates."""
    rows = table(1000).to_pydict()
    hours = np.datetime64("2020-01-01") + np.arange(1000) * np.timedelta64(1, "h")
    rows["when"] = [str(each).replace("T", " ") for each in hours]

    def fit(target, **changed):
        found = streams.fitted((pa.table({**rows, **changed}), tmp_path / "train.csv"), target)
        found.encoder.missing = "skip"
        return found

    rows["colour"][5], rows["u"][7], rows["v"][8] = "mauve", None, None
    return fit, write(pa.table(rows), tmp_path / "new.csv")


@pytest.fixture
def answered(monkeypatch):
    """Return a function that passes bytes through ``write_predictions``, some at a time."""

    def answered(fit, data, out=None, size=1 << 20, format="csv", **options):
        out = io.BytesIO() if out is None else out
        monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=Pieces(data, size)))
        source = Source(find_files(["-"], format), arriving=True)
        return write_predictions(fit, source, out, **options), out.getvalue().decode()

    return answered


@pytest.mark.parametrize("target", ["load", "on", "colour"])
def test_answers_are_the_predictions_of_the_file(tmp_path, fitted, answered, target):
    """Bitwise: catches a matrix product, or numbers printed with fewer digits."""
    fit = fitted[0](target)
    out = tmp_path / "p.parquet"
    in_file = write_predictions(fit, Source(find_files([fitted[1]])), out, ["when"])
    file = pa.parquet.read_table(out)
    assert in_file.empty == 2
    for size in (7, 1000, 1 << 20):
        written, text = answered(fit, Path(fitted[1]).read_bytes(), size=size, keep=["when"])
        assert written == in_file
        options = pa.csv.ConvertOptions(strings_can_be_null=True)
        pipe = pa.csv.read_csv(io.BytesIO(text.encode()), convert_options=options)
        assert pipe.column_names == file.column_names
        for name in file.column_names[1:]:
            same = [str(each).lower() for each in file[name].to_pylist()]
            assert [str(each).lower() for each in pipe[name].to_pylist()] == same


def test_json_lines_are_answered_in_json_lines(fitted, answered):
    """A missing key is a missing value, but a text that denotes one in CSV is not."""
    fit = fitted[0]("load")
    fit.encoder.missing = "auto"
    day = {"when": "2020-01-02 03:00", "colour": "red", "on": True}
    objects = [{"u": 1, "v": 2.5, '100 % "x"': 'a\nü"%s', **day}, {"u": 1.0, **day}]
    data = "".join(json.dumps(each) + "\n" for each in objects).encode()
    _, text = answered(fit, data, format="jsonl", keep=["u", "colour", '100 % "x"'])
    first, second = map(json.loads, text.splitlines())
    csv = b"on,colour,when,v,u\ntrue,red,2020-01-02 03:00,2.5,1\ntrue,red,2020-01-02 03:00,,1\n"
    found = [float(line) for line in answered(fit, csv)[1].splitlines()[1:]]
    assert [first["prediction"], second["prediction"]] == found
    assert (first["u"], first["colour"], first['100 % "x"']) == (1.0, "red", 'a\nü"%s')
    assert second['100 % "x"'] is None and "ü" in text


BAD = {
    "csv": {
        b"u,v,colour,on\n": "there is no column 'when'; the columns are 'u'",
        b"u,v,colour,on,when\n1,x,red,true,2020-01-01\n": "row 1, column 'v' is 'x', not a number",
        b"u,v,colour,on,when\n1,,red,true,2020-01-01\n": "row 1, column 'v' is missing",
        b"u,v,colour,on,when\n1,inf,red,true,2020-01-01\n": "row 1, column 'v' is infinite",
        b"u,v,colour,on,when\n": "there are no rows",
        b'u,v,"colour,on,when\n1,2,red,true,2020-01-01\n': "a quotation mark in the header is not",
        b"u,v,colour,on,when\n1,2,red,true,2020-01-01\n1,2\n": "line 3 has 2 fields instead of 5",
        b"u,v,colour,on,when\n1,2," + b"x" * (33 << 20): "a line is longer than",
    },
    "jsonl": {
        b"\n{\n": "line 2 is not JSON",
        b'{"u": [1]}\n': "row 1, column 'u' is '[1.0]', not a number",
    },
}


@pytest.mark.parametrize("format", BAD)
def test_a_bad_row_is_named(fitted, answered, format):
    fit = fitted[0]("load")
    fit.encoder.missing = "error"
    for data, message in BAD[format].items():
        with pytest.raises(ValueError, match=re.escape(message)):
            answered(fit, data, format=format)


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_blank_lines_are_not_answered(fitted, answered, size):
    """Catches one answer too many, and a row cut where a quoted text has a newline."""
    fit, row = fitted[0]("load"), b'1,2,"r\ned",true,2020-01-01\n'
    head = b"u,v,colour,on,when\n"
    written, text = answered(fit, head + row + b"\n\r\n" + row, size=size)
    _, plain = answered(fit, head + 2 * row)
    assert written.rows == 2
    assert text == plain


def test_rows_before_a_bad_one_are_answered(fitted, answered):
    """Catches a batch given up as a whole, which loses the two rows before the third."""
    fit = fitted[0]("load")
    fit.encoder.missing = "error"
    good, out = b"1,2,red,true,2020-01-01\n", io.BytesIO()
    bad = b"1,x,red,true,2020-01-01\n"
    with pytest.raises(ValueError, match="standard input, row 3, column 'v' is 'x'"):
        answered(fit, b"u,v,colour,on,when\n" + 2 * good + bad + good, out)
    assert len(out.getvalue().splitlines()) == 3


def command(model):
    return subprocess.Popen(
        [sys.executable, "-m", "mixfree", "predict", str(model), "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_pipe_is_answered_before_it_ends_and_ends_quietly(tmp_path, fitted, ctrl_c):
    """Answers that wait for a full buffer would let the test hang."""
    fit = fitted[0]("load", when=["2020-01-01"] * 1000)
    fit.save(tmp_path / "m")
    row = b"1,2,red,true\n"
    with command(tmp_path / "m") as pipe:
        pipe.stdin.write(b"u,v,colour,on\n" + row)
        pipe.stdin.flush()
        first = pipe.stdout.readline(), pipe.stdout.readline()
        pipe.stdin.write(row)
        pipe.stdin.flush()
        assert first == (b'"prediction"\n', pipe.stdout.readline())
        pipe.send_signal(signal.SIGINT)
        assert (pipe.wait(), pipe.stderr.read()) == (130, b"")
    with command(tmp_path / "m") as pipe:
        pipe.stdout.close()
        pipe.stdin.write(b"u,v,colour,on\n" + 10 * row)
        pipe.stdin.close()
        assert pipe.stderr.read() == b""
        assert pipe.wait() == 1
