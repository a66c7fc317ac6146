"""Bad input: one line with the problem and its place, exit code 2, and nothing lost."""

import errno
import gzip
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mixfree.base import files
from mixfree.streams import find_files
from tests.streams.data import run, table, write

GOOD = "a,b,y\n1,2,3\n4,5,7\n2,0,1\n"

CASES = {
    "missing target": ("a,b,lod\n1,2,3\n", "there is no target column 'y'"),
    "ragged": ("a,b,y\n1,2,3\n4,5\n6,7,8\n", "line 3 has 2 fields instead of 3"),
    "empty": ("", "the file is empty"),
    "header only": ("a,b,y\n", "there are no rows"),
    "infinite": ("a,b,y\n1,2,3\n4,inf,6\n", "row 2, column 'b' is infinite"),
    "infinite target": ("a,b,y\n1,2,3\n4,5,-inf\n", "row 2, column 'y' is infinite"),
    "constant": ("a,b,y\n1,2,3\n4,5,3\n", "the target 'y' is always 3"),
    "one class": ("a,b,y\n1,2,no\n4,5,no\n", "only one class"),
    "too large": (
        "a,b,y\n1,2,3\n2,4,5\n3,1.7e80,7\n4,-1.7e80,9\n",
        "row 3, column 'b' is 1.7e+80: values must be at most 1e+75 in size",
    ),
    "too large a target": (
        "a,b,y\n1,2,3\n2,4,-1.7e80\n",
        "row 2, column 'y' is -1.7e+80: values must be at most 1e+75 in size",
    ),
    "two of a name": ("a,a,y\n1,2,3\n4,5,6\n", "2 columns are called 'a'"),
    "no features": ("y\n1\n2\n", "no column to learn from besides the target 'y'"),
}


@pytest.mark.parametrize(
    ("case", "method"), [*((case, "auto") for case in CASES), ("too large", "ladder")]
)
def test_bad_file(tmp_path, capsys, case, method):
    text, message = CASES[case]
    path = tmp_path / "data.csv"
    path.write_text(text)
    options = ["--model", tmp_path / "m", "--method", method, "-q"]
    assert run("fit", path, "--target", "y", *options) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "data.csv" in error or case in ("constant", "one class", "no features")
    assert error.count("\n") == 1
    assert not (tmp_path / "m").exists()


def test_near_names_are_suggested(tmp_path, capsys):
    write(table(), tmp_path / "d.csv")
    assert run("fit", tmp_path / "d.csv", "--target", "laod", "-q") == 2
    assert "there is no target column 'laod'; did you mean 'load'?" in capsys.readouterr().err


def test_columns_that_change_between_files(tmp_path, capsys):
    (tmp_path / "1.csv").write_text(GOOD)
    (tmp_path / "2.csv").write_text(GOOD.replace("b", "c"))
    assert run("fit", tmp_path, "--target", "y", "-q") == 2
    error = capsys.readouterr().err
    assert "2.csv has other columns than" in error
    assert "without 'b'; with 'c'" in error


def test_a_target_of_lists(tmp_path, capsys):
    """Catches the answer that the target cannot be a feature."""
    path = write(pa.table({"x": [1.0, 2.0], "y": [[1], [2]]}), tmp_path / "d.parquet")
    assert run("fit", path, "--target", "y", "-q") == 2
    assert "column 'y' cannot be used: it contains lists" in capsys.readouterr().err


def test_a_folder_of_folders_is_told_its_glob(tmp_path, capsys):
    """Catches "no data files" for a dataset that is divided into folders."""
    for month in ("9", "10"):
        (tmp_path / f"month={month}").mkdir()
        (tmp_path / f"month={month}" / "part.csv").write_text(GOOD)
    assert run("fit", tmp_path, "--target", "y", "-q") == 2
    found = re.search(r"has data only in folders: give '(.*)'\n", capsys.readouterr().err)
    files = [Path(file.path).parent.name for file in find_files([found[1]])]
    assert files == ["month=9", "month=10"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.csv"], "there is no file nowhere.csv"),
        (["no*.csv"], "no file matches no*.csv"),
        (["-", "--format", "parquet"], "Parquet cannot be read from standard input"),
        (["d.csv", "--format", "xml"], "--format must be one of csv, parquet, arrow, jsonl"),
        (["d.csv", "--missing", "drop"], "--missing must be one of 'auto', 'skip', 'error'"),
        (["d.csv", "--loss", "cubic"], "--loss must be one of"),
        (["d.csv", "--method", "magic"], "--method must be one of"),
        (["d.csv", "--set", "categories=tone"], "there is no column 'tone'"),
        (["d.csv", "--checkpoint-every", "0"], "--checkpoint-every must be a whole number"),
        (["d.csv", "--features", "load"], "the target 'load' cannot be a feature"),
        (["odd.dat"], "the format is unknown; give --format, one of"),
        (["d.csv", "--method", "sgd-dd"], "needs to know the mixing time: give --set mixing_time"),
        (["d.csv", "--model", "nowhere/m"], "there is no folder"),
        (
            ["changes.jsonl", "--missing", "error"],
            "changes.jsonl, row 12001, column 'a' is 'x', not a number; --missing",
        ),
        (["objects.jsonl"], "objects.jsonl: line 1 is not an object in {braces}"),
        (["cut.csv.gz"], "cut.csv.gz: Truncated compressed stream"),
        (["broken.csv.gz"], "broken.csv.gz: zlib inflate failed"),
        (["plain.csv.gz"], "plain.csv.gz: it is not compressed by gzip: rename it to end without"),
        (["name.csv"], "name.csv: a column's name is not in UTF-8"),
        (
            ["late.csv"],
            "late.csv: line 300002, column 'c' is not in UTF-8: iconv -f latin1 -t utf-8 FILE",
        ),
        (["packed.csv"], "packed.csv: it is compressed by gzip: rename it to end in .gz"),
        (["packed"], "packed: it is compressed by gzip: rename it to end in .gz"),
        (["wide.csv"], "wide.csv: it is in UTF-16: iconv -f utf-16 -t utf-8 FILE > utf8.csv"),
        (
            ["headless.csv"],
            "if the first line is a row, --no-header names the columns c1, c2, …",
        ),
        (["titled.csv"], "if the header is line N, tail -n +N FILE > table.csv removes the lines"),
        (["marked.csv"], "has 1 fields instead of 2; grep -v '^#' FILE > plain.csv removes"),
        (["unclear.csv"], "cannot be told apart in the first rows: --dates a=%d/%m/%Y reads"),
        (["d.csv", "--dates", "u=dd/mm"], "--dates must be formats such as '%d/%m/%Y' or 'sec"),
        (["d.csv", "--dates", "w=%Y"], "there is no column 'w'"),
        (["latin.jsonl"], "latin.jsonl: column 'c' is not in UTF-8"),
        (
            ["d.csv", "--set", "classes=a"],
            "classes must be at least two and all different, not a",
        ),
        (
            ["d.csv", "--set", "classes=a,b,a"],
            "classes must be at least two and all different, not a, b, a",
        ),
        (
            ["d.csv", "--set", "classes=a,b"],
            "; the classes are a, b: give all of them as --set classes",
        ),
        (
            ["d.csv", "--set", "classes=a,b", "--loss", "huber"],
            "classes must not be given with the huber loss",
        ),
        (["empty.parquet"], "empty.parquet: the file is empty"),
        (["empty.arrow"], "empty.arrow: the file is empty"),
    ],
)
def test_bad_arguments(tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    write(table(), "d.csv")
    for name in ("odd.dat", "empty.parquet", "empty.arrow"):
        (tmp_path / name).touch()
    rows = '{"a": 1, "load": 2}\n{"a": 2, "load": 3}\n' * 6000
    (tmp_path / "changes.jsonl").write_text(rows + '{"a": "x", "load": 3}\n')
    (tmp_path / "packed.csv").write_bytes(gzip.compress(b"a,load\n1,2\n"))
    (tmp_path / "packed").write_bytes(gzip.compress(b"a,load\n1,2\n"))
    (tmp_path / "wide.csv").write_text("a,load\n1,2\n", encoding="utf-16")
    (tmp_path / "headless.csv").write_text("1.5,2\n2.5,3\n")
    (tmp_path / "titled.csv").write_text("Report\n\na,load\n1,2\n")
    (tmp_path / "marked.csv").write_text("a,load\n1,2\n# the end\n")
    days = "".join(f"{n % 9 + 1}/{n % 12 + 1}/2020,{n % 7}\n" for n in range(200))
    (tmp_path / "unclear.csv").write_text(f"a,load\n{days}")
    (tmp_path / "objects.jsonl").write_text('[{"a": 1, "load": 2}]\n')
    packed = bytearray(gzip.compress(b"a,load\n1,2\n" * 99))
    packed[-6] ^= 255
    (tmp_path / "broken.csv.gz").write_bytes(packed)
    (tmp_path / "plain.csv.gz").write_text(GOOD)
    (tmp_path / "name.csv").write_bytes(b"gr\xf6sse,load\n1,2\n3,4\n")
    (tmp_path / "late.csv").write_bytes(b"c,load\n" + b"x,2\n" * 300_000 + b"gr\xf6n,3\n")
    (tmp_path / "latin.jsonl").write_bytes(b'{"c": "gr\xf6n", "load": 2}\n')
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"a,load\n1,2\n" * 99)[:40])
    assert run("fit", *arguments, "--target", "load", "-q") == 2
    assert message in capsys.readouterr().err


def test_a_new_class_is_refused_where_it_appears(tmp_path, capsys):
    labels = ["a", "b"] * 6000 + ["c"]
    data = pa.table({"x": np.arange(12001.0), "y": labels})
    path = write(data, tmp_path / "d.parquet")
    assert run("fit", path, "--target", "y", "--model", tmp_path / "m", "-q") == 2
    assert "row 12001, column 'y' has the unknown class 'c'" in capsys.readouterr().err
    options = ["--set", "classes=a,b,c", "--model", tmp_path / "m", "-q"]
    assert run("fit", path, "--target", "y", *options) == 0


def test_a_full_disk_leaves_the_model_before(tmp_path, capsys, monkeypatch):
    path = write(table(), tmp_path / "d.csv")
    arguments = ["fit", path, "--target", "load", "--model", tmp_path / "m", "-q"]
    assert run(*arguments) == 0
    before = (tmp_path / "m").read_bytes()

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    assert run(*arguments, "--method", "adagrad") == 2
    assert "No space left on device; what was there is unchanged" in capsys.readouterr().err
    assert (tmp_path / "m").read_bytes() == before
    for command, flag, name in (
        ("predict", "-o", "p.csv"),
        ("inspect", "--weights", "w.csv"),
        ("report", "-o", "r.html"),
    ):  # whose errors did not name the file
        given = [tmp_path / "m", path] if command == "predict" else [tmp_path / "m"]
        assert run(command, *given, flag, tmp_path / name) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"mixfree: cannot write {tmp_path / name}: No space left on")
        assert error.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == ["d.csv", "m"]


def test_a_model_for_other_features(tmp_path, capsys):
    path = write(table(), tmp_path / "d.csv")
    assert run("fit", path, "--target", "load", "--model", tmp_path / "m", "-q") == 0
    other = write(table().drop_columns(["v"]), tmp_path / "other.csv")
    assert run("predict", tmp_path / "m", other, "-o", tmp_path / "p.csv") == 2
    assert "there is no column 'v'" in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--set", "mixing_time=5"],
            "ladder does not take --set mixing_time: its options are first, block, length",
        ),
        (["--set", "fit_intercept=False"], "fit_intercept=false, not 'fit_intercept=False'"),
        (["--set", "block"], "--set must be NAME=VALUE with a number"),
        (["--set", "block=0"], "block must be"),
        (["--set", "block=3", "--set", "block=4"], "--set block is given twice"),
        (["--set", "half-life=5"], "--set has no 'half-life'; did you mean 'half_life'?"),
        (["--set", "magic=5"], "--set has no 'magic'; mixfree methods lists its names"),
        (["--set", "output=lst"], "output must be one of"),
        (["--set", "l2=-1", "--l2", 1], "--l2 is given twice"),
        (["--set", "memory=100", "--set", "draws=0"], "draws must be"),
        (["--set", "draws=2", "--set", "memory=0"], "--set draws is for a memory"),
    ],
)
def test_options_of_the_method(tmp_path, capsys, arguments, message):
    path = tmp_path / "d.csv"
    path.write_text(GOOD)
    options = ["--model", tmp_path / "m", "-q", "--method", "ladder", *arguments]
    assert run("fit", path, "--target", "y", *options) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "block=3"], "is for iterative methods: name one as --method"),
        (["--set", "step_scale=2"], "--set step_scale is for iterative methods"),
        (["--method", "mag", "--set", "draws=2"], "--set draws is for a memory"),
        (
            ["--set", "memory=lots"],
            "memory must be a number of bytes, or such as '32MB', not 'lots'",
        ),
        (["--half-life", "long"], "--half-life must be a number of rows or 'auto', not 'long'"),
        (["--half-life", "0"], "--half-life must be"),
        (["--method", "mag", "--half-life", "50"], "--half-life needs --method exact"),
    ],
)
def test_options_of_the_exact_method(tmp_path, capsys, arguments, message):
    path = tmp_path / "d.csv"
    path.write_text(GOOD)
    assert run("fit", path, "--target", "y", "--model", tmp_path / "m", "-q", *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
