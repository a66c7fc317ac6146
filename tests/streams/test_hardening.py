"""Hostile files, names and concurrent processes must not harm a model or the process."""

import hashlib
import json
import os
import stat
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from mixfree.base.files import only_writer
from mixfree.linear import Squared
from mixfree.linear.learner_for import learner_for
from mixfree.streams import FitPlan, Source, StreamFit, find_files
from mixfree.streams.fit import model_file
from tests.streams.data import run, table, write

CSV = "a,b,y\n" + "".join(
    f"{i % 7},{i % 5},{i % 7 + 2 * (i % 5) + 0.1 * (i % 3)}\n" for i in range(99)
)


POSIX = hasattr(os, "mkfifo")  # has links, pipes, devices and permissions


def fit(*arguments):
    return run("fit", *arguments, "--target", "y", "-q")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a working directory with a small CSV file."""
    monkeypatch.chdir(tmp_path)
    Path("d.csv").write_text(CSV)
    return tmp_path


def header(content, *arrays):
    return json.dumps({"content": content, "arrays": arrays})


ONE, EIGHT = {"a": {"$array": 0}}, bytes(8)
WRONG = {  # header, bytes of the arrays, what is said
    "a negative shape": (header(ONE, ["float64", [-1]]), EIGHT, "dtype and shape"),
    "trailing bytes": (header({}), EIGHT, "8 bytes follow its arrays"),
    "an array that is cut short": (header(ONE, ["float64", [2**40]]), EIGHT, "longer than"),
    "an array used twice": (header({**ONE, "b": ONE["a"]}, ["float64", [1]]), EIGHT, "twice"),
    "an array that is not there": (header({"a": {"$array": 7}}), b"", "does not exist"),
    "a truth value of 2": (header(ONE, ["bool", [1]]), b"\2", "neither 0 nor 1"),
    "objects": (header(ONE, ["object", [1]]), EIGHT, "not the dtype and shape"),
    "no mark of the format": (header({"a": {"$pickle": 1}}), b"", "not part of the format"),
    "a float that is none": (header({"a": {"$float": "7"}}), b"", "not part of the format"),
    "no content": ('{"arrays": []}', b"", "must have exactly content"),
    "a list": ("[1, 2]", b"", "must have exactly content"),
    "deep nesting": ('{"content": ' + "[" * 9000 + "]" * 9000 + "}", b"", "deep"),
    "no JSON": ("{", b"", "Expecting"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_right_checksum_over_a_wrong_structure_is_refused(tmp_path, case):
    """Catches shapes of −1, trailing bytes, and errors of other types."""
    text, arrays, said = WRONG[case]
    start = struct.pack("<8sIQ", model_file.MAGIC, model_file.VERSION, len(text))
    body = start + text.encode() + arrays
    (tmp_path / "m").write_bytes(body + hashlib.sha256(body).digest())
    with pytest.raises(ValueError, match=said):
        model_file.load(tmp_path / "m")


def test_a_small_model_file_cannot_ask_for_a_large_memory(folder):
    """Catches memory allocated for as many features as a file claims."""
    assert fit("d.csv", "--model", "m") == 0
    state = model_file.load("m")
    column = {"kind": "number", "name": "a", "forced": False, "form": "point"}
    column |= {"whole": False, "moments": np.zeros(5), "places": {"value": 1 << 40}}
    state["encoder"]["columns"] = [column]
    with pytest.raises(ValueError, match="do not fit together"):
        StreamFit.from_state(state)


@pytest.mark.parametrize(
    ("method", "path", "value"),
    [
        ("mag", ("scale", "mean"), np.zeros(0)),
        ("mag", ("optimizer", "x"), np.zeros(99)),
        (
            "adagrad",
            ("optimizer", "gradient", "sample", "columns"),
            [np.zeros((8, 1)), np.zeros(8), np.ones(8)],
        ),
        ("mag", ("optimizer", "steps"), 2**62),
        ("exact", ("sums", "current", "mean"), np.zeros(0)),
    ],
)
def test_states_of_other_shapes_never_reach_a_kernel(method, path, value):
    """Catches `free(): invalid next size` for a running scale of length 0 with a valid checksum."""
    memory = {"memory": 8} if method == "adagrad" else {}
    learner = learner_for(Squared(), 3, method=method, **memory)
    rows = np.random.default_rng(0).standard_normal((20, 3))
    learner.advance(rows, rows[:, 0])
    state = learner.state_dict()
    inside = state
    for name in path[:-1]:
        inside = inside[name]
    inside[path[-1]] = value
    with pytest.raises(ValueError, match=r"fit|shape|kind"):
        learner.load_state_dict(state)
        learner.advance(rows, rows[:, 0])  # memory is compared with the rows that come


LINKS = ["link", "second name", "pipe", "device"] if POSIX else []


@pytest.mark.parametrize("kind", ["input", "text", "folder", *LINKS])
def test_a_model_takes_the_place_of_a_model_only_and_before_the_pass(folder, capsys, kind):
    """Catches `fit own.csv --model own.csv`, which destroyed the data and exited with 0."""
    place = {"input": Path("d.csv"), "device": Path(os.devnull)}.get(kind, Path("m"))
    make = {
        "link": lambda: place.symlink_to("d.csv"),
        "second name": lambda: os.link("d.csv", place),
        "text": lambda: place.write_text("mine"),
        "pipe": lambda: os.mkfifo(place),
        "folder": place.mkdir,
    }
    if kind in make:
        make[kind]()
    Path("d.csv").write_text(CSV + "x,y,z\n")  # the pass itself would fail
    assert fit("d.csv", "--model", place) == 2
    error = capsys.readouterr().err
    assert "--model must not be" in error
    assert error.count("\n") == 1
    assert Path("d.csv").read_text().startswith(CSV)


def test_a_refit_keeps_permissions_and_links(folder):
    """Catches 0600 that becomes 0644, and a link that becomes a file."""
    assert fit("d.csv", "--model", "m") == 0
    Path("m").chmod(0o600)
    mode, link = stat.S_IMODE(os.stat("m").st_mode), Path("link" if POSIX else "m")
    if POSIX:
        link.symlink_to("m")
    before = Path("m").read_bytes()
    assert fit("d.csv", "--model", link, "--method", "mag") == 0
    assert link.is_symlink() == POSIX
    assert Path("m").read_bytes() != before
    assert stat.S_IMODE(os.stat("m").st_mode) == mode


def test_the_second_writer_of_a_model_is_refused_and_a_crash_leaves_no_lock(folder, capsys):
    """Catches two writers that replace each other's checkpoints."""
    code = (
        "import sys, time; from mixfree.base.files import only_writer\n"
        "with only_writer('m'): print('locked', flush=True); time.sleep(60)"
    )
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    ) as first:
        assert first.stdout.readline() == b"locked\n"
        assert fit("d.csv", "--model", "m") == 2
        assert "m is being written by another process" in capsys.readouterr().err
        first.kill()
    assert fit("d.csv", "--model", "m") == 0
    assert sorted(os.listdir()) == ["d.csv", "m"]


def test_two_threads_never_have_the_lock_at_once(tmp_path):
    """Catches a lock file that is removed while another thread waits for it, and locked twice."""
    inside, most = [], []

    def write(_):
        with suppress(ValueError), only_writer(tmp_path / "m"):
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(800)))
    assert max(most) == 1
    assert os.listdir(tmp_path) == []


def test_an_arrow_file_that_is_damaged_or_becomes_shorter(tmp_path):
    """Catches a SIGSEGV from invalid offsets, and a SIGBUS from a mapped file that shrinks."""
    path = tmp_path / "d.arrow"
    texts = pa.array(["ab", "cd", "ef"] * 50)
    offsets = np.frombuffer(texts.buffers()[1], np.int32).copy()
    offsets[7] = 2**30
    buffers = [None, pa.py_buffer(offsets), texts.buffers()[2]]
    broken = pa.Array.from_buffers(pa.string(), 150, buffers)
    data = pa.table({"c": broken, "y": np.arange(150.0)})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, data.schema) as writer:
        writer.write_table(data)
    with pytest.raises(ValueError, match=r"d\.arrow: .*offset"):
        StreamFit.begin(Source(find_files([str(path)])), FitPlan("y"))
    whole = write(table(60_000), tmp_path / "w.arrow")
    source = Source(find_files([whole]))
    source.open(["u", "load"])
    first = source.look(10)
    os.truncate(whole, 4096)  # were it mapped, the process would end
    assert len(first[0].batch.column("u").to_pylist()) == 10


def test_files_as_they_are_named_and_linked(folder):
    """Catches skipped capitals, and links to a parent folder read 41 times."""
    Path("up").mkdir()
    Path("up/A.CSV").write_text(CSV)
    if POSIX:
        Path("up/self").symlink_to(".")
    for entry in ("up", "up/**/*.CSV", "up/A.CSV"):
        assert fit(entry, "--model", "m") == 0
        assert StreamFit.load("m").read == 99


@pytest.mark.skipif(not POSIX, reason="needs pipes")
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "arrow"])
def test_a_pipe_is_read_once_to_its_end(folder, ending):
    """Catches the head of a pipe that is read twice, or as it is compressed."""
    data = pa.table({"x": np.zeros(40_000), "y": np.arange(40_000.0)})
    content = Path(write(data, f"whole.{ending}")).read_bytes()
    if ending == "arrow":
        with pa.BufferOutputStream() as sink, pa.ipc.new_stream(sink, data.schema) as stream:
            stream.write_table(data)
        content = sink.getvalue()
    os.mkfifo(f"pipe.{ending}")
    thread = threading.Thread(target=Path(f"pipe.{ending}").write_bytes, args=[content])
    thread.start()
    source = Source(find_files([f"pipe.{ending}"]))
    source.open(["y"])
    found = [float(each) for piece in source.pieces() for each in piece.batch["y"].to_pylist()]
    thread.join()
    assert found == list(range(40_000))
    assert source.row_count() is None


def test_files_that_cannot_be_read_are_named(folder, capsys):
    """Catches one name too many, or none."""
    Path("gone.csv").write_text("a,y\n1,2\n")
    (gone,) = find_files(["gone.csv"])
    os.remove("gone.csv")
    with pytest.raises(FileNotFoundError) as caught:
        Source([gone])
    assert str(caught.value).count("gone.csv") == 1
    os.mkdir("none")
    assert fit("none", "--model", "m") == 2
    assert "the folder none has no data files (.csv, .tsv" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no data given"):
        find_files([])


def test_a_text_in_the_first_row_may_be_long(folder):
    """Catches a header that is lost because Python's reader of CSV refuses the row after it."""
    rows = "".join(f"{i % 7},{i % 5},t\n" for i in range(50))
    Path("long.csv").write_text(f'a,y,html\n1,2,"{"<p>, " * 40_000}"\n{rows}')
    source = Source(find_files(["long.csv"]))
    assert source.schema.names == ["a", "y", "html"]
    assert fit("long.csv", "--model", "m") == 0
    assert StreamFit.load("m").used == 51
