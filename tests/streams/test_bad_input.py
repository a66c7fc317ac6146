"""Bad input: one line with the problem and its place, exit code 2, and nothing lost."""

import errno
import gzip
import os
import re
from pathlib import Path

import pytest

from mixfree.base import files
from mixfree.streams import find_files
from tests.streams.data import run, table, write

GOOD = "a,b,y\n1,2,3\n4,5,7\n2,0,1\n"

# Files by name: what is in them, what is said, and options.
ROWS = '{"a": 1, "y": 2}\n{"a": 2, "y": 3}\n'
DAYS = "".join(f"{n % 9 + 1}/{n % 12 + 1}/2020,{n % 7}\n" for n in range(200))
PACKED = gzip.compress(b"a,y\n1,2\n" * 99)
WRONG = {
    "target.csv": ("a,b,lod\n1,2,3\n", "there is no target column 'y'"),
    "ragged.csv": ("a,b,y\n1,2,3\n4,5\n6,7,8\n", "line 3 has 2 fields instead of 3"),
    "marked.csv": ("a,y\n1,2\n# the end\n", "grep -v '^#' FILE > plain.csv removes"),
    "empty.csv": ("", "the file is empty"),
    "empty.parquet": ("", "the file is empty"),
    "cut.arrow": ("\xff\xff\xff\xff\0\0\0\0", "the file is truncated"),
    "blank.csv": ("\n\n\n", "the file has only blank lines"),
    "rows.csv": ("a,b,y\n", "there are no rows"),
    "infinite.csv": ("a,b,y\n1,2,3\n4,inf,6\n", "row 2, column 'b' is infinite"),
    "large.csv": (
        "a,b,y\n1,2,3\n2,4,5\n3,1.7e80,7\n4,-1.7e80,9\n",
        "row 3, column 'b' is 1.7e+80: values must be at most 1e+75 in size",
    ),
    "high.csv": (
        "a,b,y\n1,2,3\n2,4,-1.7e80\n",
        "row 2, column 'y' is -1.7e+80: values must be at most 1e+75 in size",
    ),
    "sum.csv": ("a,y\n1,2" + 2 * "\n1e308,1e308", "row 2, column 'a' is 1e+308: values must be"),
    "changes.jsonl": (
        ROWS * 6000 + '{"a": "x", "y": 3}\n',
        "row 12001, column 'a' is 'x', not a number; --missing",
        *("--missing", "error", "--loss", "squared"),
    ),
    "array.json": ("[" + '{"a": 1, "y": 2},' * 200_000, "line 1 is not an object in {braces}"),
    "late.jsonl": ("\n" + ROWS * 150_000 + "{y}\n", "line 300002 is not JSON: Expecting"),
    "deep.jsonl": (
        ROWS + '{"a": ' + "[" * 10**5 + "]" * 10**5 + "}\n",
        "line 3 is nested too deeply",
    ),
    "long.jsonl": ('{"y": 1}\n"' + "x" * (9 << 22), "a line is longer than 8,388,608 bytes"),
    "latin.jsonl": ('{"c": "gr\xf6n", "y": 2}\n', "line 1 is not in UTF-8: iconv"),
    "name.csv": ("gr\xf6sse,y\n1,2\n3,4\n", "a column's name is not in UTF-8"),
    "latin.csv": (
        "c,y\n" + "x,2\n" * 300_000 + "gr\xf6n,3\n",
        "line 300002, column 'c' is not in UTF-8: iconv -f latin1 -t utf-8 FILE",
    ),
    "wide.csv": (",".join(f"c{i}" for i in range(20_001)) + "\n", "more than 20,000 columns"),
    "head.csv": ("x" * (1 << 26), "its first line is too long for names of columns"),
    "open.csv": ('y,"a\n' + "1,2\n" * 9, "a quotation mark in the header is not closed"),
    "quote.csv": ('a,y\n1,2\n3,"' + "4,5\n" * (1 << 22), "or a quotation mark is not closed"),
    "texts.csv": (
        "u,y\n" + "1,2\n2,3.5\n" * 6_000 + "off,1\n" * 1_000,
        "1,000 of 13,000 values of column 'u' are not what its first ones are, the first: ",
        *("--loss", "squared"),
    ),
    "off.csv": (
        "u,y\n" + "1,2\n2,3.5\n" * 6_000 + "1,off\n" * 1_000,
        "column 'y' is 'off'; correct or remove these rows",
    ),
    "twins.csv": ("a,a,y\n1,2,3\n", "2 columns are called 'a'; rename all but one"),
    "same.csv": ("1,1,2\n3,4,5\n", "'1'; if the first line is a row, --no-header names the"),
    "headless.csv": ("1.5,2\n2.5,3\n", "if the first line is a row, --no-header names the"),
    "titled.csv": ("Report\n\na,y\n1,2\n", "if the header is line N, tail -n +N FILE > table.csv"),
    "broken.csv.gz": (PACKED[:-6] + b"\0" + PACKED[-5:], "zlib inflate failed"),
    "plain.csv.gz": (GOOD, "it is not compressed by gzip: rename it to end without .gz"),
    "packed.csv": (PACKED, "it is compressed by gzip: rename it to end in .gz"),
    "packed": (PACKED, "it is compressed by gzip: rename it to end in .gz"),
    "counts.csv": (
        "x,y\n" + "1,0\n2,3\n" * 6_000 + "1,-1\n",
        "row 12001, column 'y' is refused: targets of the Poisson loss must not be negative",
        *("--loss", "poisson"),
    ),
    "utf16.csv": ("a,y\n1,2\n".encode("utf-16"), "it is in UTF-16: iconv -f utf-16 -t utf-8 FILE"),
    "odd.dat": (b"PAR1", "it is a Parquet file: give --format parquet"),
    "p.parquet.gz": ("", "decompress it: only text can be read compressed"),
}
# Files whose columns cannot be learnt from, which are not named.
WRONG_COLUMNS = {
    "constant": ("a,b,y\n1,2,3\n4,5,3\n", "the target 'y' is always 3: nothing can be learnt"),
    "one class": ("a,b,y\n1,2,no\n4,5,no\n", "only one class"),
    "alone": ("y\n1\n2\n", "no column to learn from but the target 'y'"),
    "dates": (f"a,y\n{DAYS}", "cannot be told apart in the first rows: --dates a=%d/%m/%Y reads"),
    "many classes": (
        "x,y\n" + "".join(f"{n % 7}.5,k{n % 300}\n" for n in range(1_200)),
        "'y' has more than 50 classes in the first 1,200 rows, such as 'k0', 'k1', 'k10': "
        "for a number give --loss squared, else all of them as --set classes",
    ),
    "text": ("x,y\n1,a\n2,b\n", "'y' is text, such as 'a': --loss logis", "--loss", "squared"),
    "date": ("x,y\n1,2019-01-01\n2,2019-01-02\n", "'y' is a date (%Y-%m-%d): give another column"),
    "gaps": (
        "x,w,y\n" + 10 * "1,,2.5\n,1,1.5\n4,,3.5\n5,,4.5\n",
        "all 40 rows were left out (10: 'x' is missing; 30: 'w' is missing)",
        *("--missing", "skip"),
    ),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", [*WRONG, *WRONG_COLUMNS])
def test_what_is_wrong_with_a_file_is_said_as_it_is(folder, capsys, name):
    """Catches errors of PyArrow, "the file is empty" for four other causes, a model of no rows, and
    an error that prints thirty kilobytes of class names."""
    content, message, *options = (WRONG | WRONG_COLUMNS)[name]
    Path(name).write_bytes(content.encode("latin-1") if isinstance(content, str) else content)
    assert run("fit", name, "--target", "y", "--model", "m", "-q", *options) == 2
    error = capsys.readouterr().err
    assert name in WRONG_COLUMNS or f"{name}: " in error or f"{name}, row" in error
    assert message in error and error.count("\n") == 1 and len(error) < 400
    assert os.listdir() == [name]


def test_columns_that_change_between_files(tmp_path, capsys):
    (tmp_path / "1.csv").write_text(GOOD)
    (tmp_path / "2.csv").write_text(GOOD.replace("b", "c"))
    assert run("fit", tmp_path, "--target", "y", "-q") == 2
    error = capsys.readouterr().err
    assert "2.csv has other columns than" in error
    assert "without 'b'; with 'c'" in error


def test_a_folder_of_folders_is_told_its_glob(tmp_path, capsys):
    """Catches "no data files" for a dataset that is divided into folders."""
    for month in ("9", "10"):
        (tmp_path / f"month={month}").mkdir()
        (tmp_path / f"month={month}" / "part.csv").write_text(GOOD)
    assert run("fit", tmp_path, "--target", "y", "-q") == 2
    found = re.search(r"has data only in folders: give '(.*)'\n", capsys.readouterr().err)
    files = [Path(file.path).parent.name for file in find_files([found[1]])]
    assert files == ["month=9", "month=10"]


OF_LADDER = ["d.csv", "--method", "ladder"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.csv"], "there is no file nowhere.csv"),
        (["d.csv", "--features", "laod"], "there is no column 'laod'; did you mean 'load'?"),
        (["-", "--format", "parquet"], "standard input: Parquet cannot be read from a pipe"),
        (["d.csv", "--format", "xml"], "--format must be one of csv, parquet, arrow, jsonl"),
        (["d.csv", "--missing", "drop"], "--missing must be one of 'auto', 'skip', 'error'"),
        (["d.csv", "--set", "categories=tone"], "there is no column 'tone'"),
        (["d.csv", "--checkpoint-every", "0"], "--checkpoint-every must be a whole number"),
        (["d.csv", "--features", "load"], "the target 'load' cannot be a feature"),
        (["d.csv", "--method", "sgd-dd"], "needs to know the mixing time: give --set mixing_time"),
        (["d.csv", "--model", "nowhere/m"], "there is no folder"),
        (["d.csv", "--dates", "u=dd/mm"], "--dates must be like '%d/%m/%Y' or 'seconds' since"),
        (["d.csv", "--set", "classes=a"], "classes must be at least two and all different, not a"),
        (["d.csv", "--set", "classes=a,b"], "classes must be different values as in the target"),
        (["d.csv", "--set", "classes=a,b", "--loss", "huber"], "not be given with the huber loss"),
        (["d.csv", "--set", "block=3"], "is for iterative methods, such as --method ladder"),
        (["d.csv", "--method", "mag", "--set", "draws=2"], "--set draws is for a memory"),
        (["d.csv", "--set", "memory=lots"], "a number of bytes, or such as '32MB', not 'lots'"),
        (["d.csv", "--half-life", "long"], "--half-life must be a number of rows or 'auto', not"),
        (["d.csv", "--method", "mag", "--half-life", "50"], "--half-life needs --method exact"),
        (
            [*OF_LADDER, "--set", "mixing_time=5"],
            "ladder does not take --set mixing_time: its options are first, block, length",
        ),
        ([*OF_LADDER, "--set", "fit_intercept=False"], "fit_intercept=false, not 'fit_interc"),
        ([*OF_LADDER, "--set", "block"], "--set must be NAME=VALUE with a number"),
        ([*OF_LADDER, "--set", "block=3", "--set", "block=4"], "--set block is given twice"),
        ([*OF_LADDER, "--set", "half-life=5"], "no 'half-life'; did you mean 'half_life'?"),
        ([*OF_LADDER, "--set", "magic=5"], "no 'magic'; mixfree methods lists its names"),
        ([*OF_LADDER, "--set", "l2=-1", "--l2", "1"], "--l2 is given twice"),
    ],
)
def test_bad_arguments(folder, capsys, arguments, message):
    write(table(100), "d.csv")
    assert run("fit", *arguments, "--target", "load", "-q") == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


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
