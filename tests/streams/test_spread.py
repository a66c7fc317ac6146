"""A fit spread over processes equals the fit of one process."""

import io
import multiprocessing
import os
import signal
import subprocess
import sys
from functools import partial
from multiprocessing import forkserver
from multiprocessing.connection import Connection

import distributed
import numpy as np
import pyarrow as pa
import pytest

from mixfree.cli import main
from mixfree.streams import FitPlan, Source, StreamFit, find_files, spread
from tests.streams.data import table, write


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments), "--target", "load", "-q"])
    return ended.value.code


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return Parquet with row groups, then CSV, with a missing value in each."""
    folder = tmp_path_factory.mktemp("parts")
    columns = table(12_000).to_pydict()
    columns["v"][5000] = columns["load"][11_000] = None
    whole = pa.table(columns)
    write(whole[:6000], folder / "1.parquet")
    write(whole[6000:7000], folder / "2.csv")
    write(whole[7000:], folder / "3.csv.gz")
    return folder


@pytest.fixture(scope="module")
def alone(data):
    path = data / "alone.mixfree"
    assert run("fit", data, "--missing", "skip", "--model", path) == 0
    return StreamFit.load(path)


def check_same(found, alone):
    np.testing.assert_allclose(found.learner.weights, alone.learner.weights, rtol=1e-10)
    assert (found.read, found.used, found.complete) == (12_000, 11_998, True)
    assert found.encoder.left_out == alone.encoder.left_out
    assert found.read_record.state_dict() == alone.read_record.state_dict()
    # The course of the stream is whole and in order; nothing of it was predicted ahead.
    course = found.timeline
    assert (course.rows, course.tested) == (11_998, 0)
    assert course.total("target") / 11_998 + course.origin == pytest.approx(
        alone.timeline.total("target") / 11_998 + alone.timeline.origin
    )
    assert (course.bins.least[0], course.bins.greatest.max()) == (
        alone.timeline.bins.least[0],
        alone.timeline.bins.greatest.max(),
    )
    # Batches are cut elsewhere: standard errors are those of other 32 to 64 batches.
    noise = 4.0 / np.sqrt(2.0 * 32)
    ratio = found.learner.bse / alone.learner.bse
    assert (np.abs(np.log(ratio)) < noise).all(), ratio


def test_two_workers_find_what_one_process_finds(data, alone, tmp_path, capsys):
    """Catches parts merged out of order."""
    model = tmp_path / "m"
    assert run("fit", data, "--missing", "skip", "--model", model, "--workers", 2) == 0
    out = capsys.readouterr().out
    assert "12,000 read, 11,998 used, 2 left out" in out
    assert "workers    2, which fitted" in out
    found = StreamFit.load(model)
    check_same(found, alone)
    # Reservoirs with the same seed in every part would keep the same places of each.
    assert len(np.unique(found.reservoir.rows, axis=0)) == 2048
    assert found.reservoir.rows[:, 0].mean() == pytest.approx(
        np.nanmean(table(12_000)["u"]), abs=5.0 * np.std(table(12_000)["u"]) / np.sqrt(2048)
    )
    assert run("fit", data, "--missing", "skip", "--model", model, "--resume") == 0


def test_parts_that_fit_into_the_memory_make_the_fit_of_all_rows(data, tmp_path):
    """Seeds and incomplete blocks must not matter as long as every row is kept."""
    fits = []
    for name, workers in (("one", []), ("two", ["--workers", 2])):
        options = ["--loss", "huber", "--missing", "skip", "--model", tmp_path / name]
        assert run("fit", data, *options, *workers) == 0
        fits.append(StreamFit.load(tmp_path / name))
    np.testing.assert_allclose(fits[1].learner.weights, fits[0].learner.weights, rtol=1e-8)


def test_what_cannot_be_divided_is_fitted_at_once_and_said_to_be(tmp_path, capsys):
    """Catches a single worker for everything, which had one batch for intervals."""
    path = write(table(300), tmp_path / "d.csv")
    assert run("fit", path, "--model", tmp_path / "m", "--workers", 2) == 0
    out = capsys.readouterr().out
    assert "workers    none: a single file is not split, unless it is Parquet with several" in out
    assert "no intervals" not in out
    assert run("fit", path, "--model", tmp_path / "m", "--workers", 1) == 0
    assert "workers    none\n" in capsys.readouterr().out


def begun(data):
    source = Source(find_files([str(data)]))
    return StreamFit.begin(source, FitPlan("load", missing="skip")), source


def test_a_worker_that_dies_is_replaced_and_nothing_counts_twice(data, alone):
    """Catches finished parts merged a second time."""
    fit, source = begun(data)
    killed = []

    def kill_one(rows, seconds):
        children = set(_children()) - set(before)
        if rows and children and not killed:
            killed.append(min(children))
            os.kill(killed[0], signal.SIGKILL)

    before = _children()
    spread.run_on_workers(fit, source, 2, kill_one)
    assert killed
    check_same(fit, alone)


def test_workers_that_always_die_are_told_of(data, monkeypatch):
    fit, source = begun(data)
    monkeypatch.setattr(spread, "_work", _die)
    with pytest.raises(OSError, match="workers died 3 times"):
        spread.run_on_workers(fit, source, 2)


def test_workers_that_cannot_be_started_are_told_of(data, monkeypatch):
    """Catches a fit that ends at the first failure to start a worker, which may be by chance."""
    fit, source = begun(data)
    tried = []

    def none_left(*arguments):
        tried.append(arguments)
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(spread, "_Worker", none_left)
    monkeypatch.setattr(spread, "PAUSE", 0.0)
    with pytest.raises(OSError, match="cannot be started: Resource temporarily unavailable"):
        spread.run_on_workers(fit, source, 2)
    assert len(tried) == spread.MOST_DEATHS


def _die(*arguments):
    os._exit(1)


def test_a_worker_may_die_in_the_middle_of_its_answer(data, alone, tmp_path, monkeypatch):
    """Catches waiting forever for the second half of an answer."""
    fit, source = begun(data)
    died = tmp_path / "died"
    monkeypatch.setattr(spread, "_work", partial(_die_while_answering, died))
    spread.run_on_workers(fit, source, 2)
    assert died.exists()
    check_same(fit, alone)


def _die_while_answering(died, *arguments):
    """Once, write the first half of a long message and exit."""
    whole = Connection._send

    def half(self, data, *rest):
        if len(data) > 20_000 and not died.exists():
            died.touch()
            whole(self, data[: len(data) // 2], *rest)
            os._exit(1)
        whole(self, data, *rest)

    Connection._send = half
    spread._work(*arguments)


@pytest.mark.skipif(
    "forkserver" not in multiprocessing.get_all_start_methods(),
    reason="on Windows workers are started one by one, without a process that starts them",
)
def test_the_process_that_starts_workers_may_die(data, alone):
    fit, source = begun(data)
    killed = []

    def kill_it(rows, seconds):
        if rows and not killed:
            killed.append(forkserver._forkserver._forkserver_pid)
            os.kill(killed[0], signal.SIGKILL)

    spread.run_on_workers(fit, source, 2, kill_it)
    assert killed
    check_same(fit, alone)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no signal that kills")
def test_workers_end_with_the_first_process(data):
    """Catches workers that wait forever on a pipe that they hold open themselves."""
    code = (
        "import os, signal, sys\n"
        "from mixfree.streams import FitPlan, Source, StreamFit, find_files, spread\n"
        "source = Source(find_files([sys.argv[1]]))\n"
        "fit = StreamFit.begin(source, FitPlan('load', missing='skip'))\n"
        "spread.run_on_workers(fit, source, 2, lambda *_: os.kill(os.getpid(), signal.SIGKILL))"
    )
    # What it writes to ends with the last of its processes.
    done = subprocess.run(
        [sys.executable, "-c", code, data],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        timeout=100,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


def _children():
    """Return the process ids of workers spawned by this process."""
    return [child.pid for child in multiprocessing.active_children()]


def test_what_is_wrong_in_a_part_is_told_with_its_place(data, tmp_path, capsys):
    for name in ("1.parquet", "2.csv"):
        os.symlink(data / name, tmp_path / name)
    (tmp_path / "3.csv").write_text("u,v,colour,on,load\n1,2,red,true,3\n1,inf,red,true,3\n")
    options = ["--missing", "skip", "--model", tmp_path / "m", "--workers", 2]
    assert run("fit", tmp_path, *options) == 2
    assert "3.csv, row 2, column 'v' is infinite" in capsys.readouterr().err
    (tmp_path / "3.csv").write_text("u,v,color,on,load\n1,2,red,true,3\n")
    assert run("fit", tmp_path, *options) == 2
    error = capsys.readouterr().err
    assert "3.csv has other columns than" in error
    assert "without 'colour'; with 'color'" in error
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "ladder"], "--workers needs --method exact"),
        (["--half-life", "100"], "--workers needs no --half-life"),
        (["--missing", "mean"], "--workers cannot be combined with --missing mean"),
        (["--resume"], "--workers cannot be combined with --resume"),
        (["--checkpoint-every", 100], "--workers cannot be combined with --checkpoint-every"),
        (["--cluster", "tcp://nowhere:1"], "--workers cannot be combined with --cluster"),
        (["--workers", 0], "--workers must be a whole number"),
    ],
)
def test_what_cannot_be_spread_is_refused(tmp_path, capsys, arguments, message):
    path = write(table(), tmp_path / "d.parquet")
    assert run("fit", path, "--model", tmp_path / "m", "--workers", 2, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_standard_input_cannot_be_spread(monkeypatch, capsys):
    text = b"u,load\n" + b"1,2\n3,4\n" * 20
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert run("fit", "-", "--workers", 2) == 2
    assert "--workers needs files: standard input" in capsys.readouterr().err


def test_a_dask_cluster(data, alone):
    fit, source = begun(data)
    seen = []
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        threads, parts = spread.run_on_cluster(fit, source, address, lambda *now: seen.append(now))
    assert threads == 2
    assert parts == len(seen) > 2
    assert seen[-1][0] == 12_000
    check_same(fit, alone)
