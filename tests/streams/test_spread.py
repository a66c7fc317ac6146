"""A fit spread over threads or processes equals the fit of one thread."""

import io
import os
import signal

import distributed
import numpy as np
import pyarrow as pa
import pytest

from mixfree.streams import FitPlan, Source, StreamFit, find_files
from mixfree.streams.fit import spread
from tests.streams import data as streams
from tests.streams.data import table, write


def run(*arguments):
    return streams.run(*arguments, "--target", "load", "-q")


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
    np.testing.assert_allclose(found.model.learner.weights, alone.model.learner.weights, rtol=1e-10)
    assert (found.read, found.used, found.complete) == (12_000, 11_998, True)
    assert found.encoder.left_out == alone.encoder.left_out
    assert found.read_record.state_dict() == alone.read_record.state_dict()
    # The course of the stream is whole and in order; nothing of it was predicted ahead.
    course, other = found.timeline, alone.timeline
    assert (course.rows, course.tested) == (11_998, 0)
    means = [each.total("target") / 11_998 + each.origin for each in (course, other)]
    assert means[0] == pytest.approx(means[1])
    assert course.bins.least[0] == other.bins.least[0]
    assert course.bins.greatest.max() == other.bins.greatest.max()
    # Batches are cut elsewhere: standard errors are those of other 32 to 64 batches.
    noise = 4.0 / np.sqrt(2.0 * 32)
    ratio = found.model.learner.inference.bse / alone.model.learner.inference.bse
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
    u = np.asarray(table(12_000)["u"])
    error = u.std() / np.sqrt(2048)
    assert found.reservoir.rows[:, 0].mean() == pytest.approx(u.mean(), abs=5.0 * error)
    assert run("fit", data, "--missing", "skip", "--model", model, "--resume") == 0


def test_parts_that_fit_into_the_memory_make_the_fit_of_all_rows(data, tmp_path):
    """Seeds and incomplete blocks must not matter as long as every row is kept."""
    fits = []
    for name, workers in (("one", []), ("two", ["--workers", 2])):
        options = ["--loss", "huber", "--missing", "skip", "--model", tmp_path / name]
        assert run("fit", data, *options, *workers) == 0
        fits.append(StreamFit.load(tmp_path / name))
    one, two = (each.model.learner.weights for each in fits)
    np.testing.assert_allclose(two, one, rtol=1e-8)


def test_what_cannot_be_divided_is_fitted_at_once_and_said_to_be(tmp_path, capsys):
    """Catches a single worker for everything, which had one batch for intervals."""
    path = write(table(300), tmp_path / "d.csv")
    assert run("fit", path, "--model", tmp_path / "m", "--workers", 2) == 0
    out = capsys.readouterr().out
    assert "workers    none: a single file is not split, unless it is Parquet with several" in out
    assert "no intervals" not in out
    assert run("fit", path, "--model", tmp_path / "m", "--workers", 1) == 0
    assert "workers    none\n" in capsys.readouterr().out


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


def test_other_texts_of_all_parts_count_together(tmp_path):
    """Catches a fault in 0.8 % of the rows that stops the part with 1.7 % of them."""
    values = (np.arange(12_000) % 40).astype("U4")
    values[7000:7100] = "n.d."
    for part in (slice(6000), slice(6000, None)):
        rows = pa.table({"x": values[part], "load": np.arange(12_000)[part]})
        write(rows, tmp_path / f"{part.start or 0}.csv")
    assert run("fit", tmp_path, "--model", tmp_path / "m", "--workers", 2) == 0


def test_parts_have_as_many_bytes(tmp_path):
    """Catches parts of as many files each."""
    for name, size in zip("abcd", (30, 10, 10, 10), strict=True):
        (tmp_path / f"{name}.csv").write_text("x" * size)
    assert [*map(len, spread.parts_of(find_files([str(tmp_path)]), 2))] == [1, 3]


@pytest.mark.parametrize("wrong", [0, 1])
def test_an_error_of_a_part_stops_the_other_threads(data, monkeypatch, wrong):
    """Catches threads that read their part to its end, as after Ctrl-C."""

    def fit_part(untrained, number, files, tell):
        while number != wrong:
            tell(number, untrained)
        raise ValueError("a part is wrong")

    monkeypatch.setattr(spread, "fit_part", fit_part)
    source = Source(find_files([str(data)]))
    fit = StreamFit.begin(source, FitPlan("load", missing="skip"))
    with pytest.raises(ValueError, match="a part is wrong"):
        spread.run_on_workers(fit, source, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "ladder"], "--workers needs --method exact"),
        (["--half-life", "100"], "--workers needs no --half-life"),
        (["--resume"], "--workers cannot be combined with --resume"),
        (["--checkpoint-every", 100], "--workers cannot be combined with --checkpoint-every"),
        (["--workers", "many"], "--workers must be a whole number"),
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


def test_an_address_is_that_of_a_cluster(tmp_path, monkeypatch, capsys):
    """Catches an address taken for a number of processes, or rewritten."""

    def answer(fit, source, address, show):
        raise ValueError(f"asked {address}")

    monkeypatch.setattr(spread, "run_on_cluster", answer)
    path = write(table(), tmp_path / "d.parquet")
    assert run("fit", path, "--model", tmp_path / "m", "--workers", "tcp://host:8786") == 2
    assert capsys.readouterr().err == "mixfree: asked tcp://host:8786\n"


@pytest.mark.slow
def test_a_dask_cluster_of_which_a_worker_is_killed(data, alone):
    """Catches parts of a killed worker that are lost, or merged twice."""
    source = Source(find_files([str(data)]))
    fit, seen, killed = StreamFit.begin(source, FitPlan("load", missing="skip")), [], []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:

        def show(*now):
            seen.append(now)
            if not killed:
                killed.append(next(iter(cluster.workers.values())).pid)
                os.kill(killed[0], signal.SIGKILL)

        threads, parts = spread.run_on_cluster(fit, source, cluster.scheduler_address, show)
        assert killed[0] not in [worker.pid for worker in cluster.workers.values()]
    assert threads == 2
    assert parts == len(seen) > 2
    assert seen[-1][0] == 12_000
    check_same(fit, alone)
