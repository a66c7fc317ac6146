import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib import import_module

import pytest

from mixfree.reproduce import EXPERIMENTS, experiment
from tests.helpers import run_command

# Long enough for a signal to arrive during the run.
SMALL = ["fig1", "--samples", "300000", "--seeds", "2", "--p", "0.01"]


def run(*arguments):
    return run_command("reproduce", *arguments)


def files(folder):
    """Return the files of a finished run, without temporary files and the dated record."""
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".") and path.name != "measured.json"
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    assert run(*SMALL, "--out", folder, "--jobs", 1) == 0
    found = files(folder)
    final = {"rows.csv", "report.md", "fig1.png", "fig1.svg"}
    assert final <= {str(name) for name in found} and len(found) == len(final) + 4 * 2
    return found


@pytest.mark.parametrize("how", [["--jobs", 2], ["--jobs", 2, "--backend", "dask"]])
def test_jobs_and_backend_do_not_matter(undisturbed, tmp_path, how):
    assert run(*SMALL, "--out", tmp_path / "out", *how) == 0
    assert files(tmp_path / "out") == undisturbed


# On Windows a process can be killed, but not interrupted from outside.
@pytest.mark.parametrize("stop", ["kill", "interrupt"] if os.name == "posix" else ["kill"])
def test_a_stopped_sweep_goes_on_where_it_was(undisturbed, tmp_path, ctrl_c, stop):
    folder = tmp_path / "out"
    command = [sys.executable, "-m", "mixfree", "reproduce", *SMALL, "--out", str(folder)]
    process = subprocess.Popen(
        [*command, "--jobs", "1"], stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    while process.poll() is None and not list(folder.glob("parts/*.json")):
        time.sleep(0.005)
    process.kill() if stop == "kill" else process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("parts/*.json")}
    assert 0 < len(kept) < 8
    if stop == "interrupt":
        assert process.returncode == 130
        assert b"continues from the finished runs" in errors and b"Traceback" not in errors
    assert run(*SMALL, "--out", folder, "--jobs", 1) == 0
    assert files(folder) == undisturbed
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fig9"], "experiment must be one of fig1"),
        (["fig1", "--p", "1.5"], "p must be a probability"),
        (["fig1", "--backend", "slurm"], "backend must be one of 'loky', 'dask'"),
        (["fig1", "--out", f"{__file__}/nowhere"], "Not a directory"),
    ],
)
def test_mistakes_are_one_message_and_code_two(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    assert message in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_all_experiments_one_after_the_other(tmp_path, capsys, monkeypatch):
    """Catches experiments that share a folder, or one size for all."""
    small = {
        name: experiment(name).QUICK.changed(seeds=2, samples=samples)
        for name, samples in (("fig1", 1000), ("lower-bound", 100))
    }
    monkeypatch.setattr(
        import_module("mixfree.cli.reproduce"), "EXPERIMENTS", dict.fromkeys(small, "")
    )
    for name, settings in small.items():
        monkeypatch.setattr(experiment(name), "QUICK", settings)
    assert run("all", "--quick", "--out", tmp_path, "--jobs", 1) == 0
    assert {name.parts[0] for name in files(tmp_path)} == {f"{name}-quick" for name in small}
    capsys.readouterr()
    assert run("all", "--quick", "--seeds", 3, "--out", tmp_path) == 2
    assert "name one experiment to change its size" in capsys.readouterr().err


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_quick_version_that_reports(name, tmp_path):
    assert run(name, "--quick", "--seeds", 2, "--out", tmp_path, "--jobs", 1) == 0
    about = json.loads((tmp_path / "measured.json").read_text())
    assert about["command"].startswith(f"mixfree reproduce {name} ")
    assert list(tmp_path.glob("*.png"))
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert not re.search(r"\| (holds|fails) \|", report)
    assert ("| verdict |" in report) == ("No verdicts: they need" in report)
