"""Runs go on where they stopped, in a folder that is theirs, with a record of the code."""

import json
import subprocess
from types import SimpleNamespace
from unittest import mock

import pytest

import mixfree
from mixfree.base.terminal import Table
from mixfree.reproduce.engine import run
from mixfree.reproduce.engine.report import Report, Settings
from mixfree.reproduce.engine.run import run_experiment, write_report

SETTINGS = Settings(samples=100, seeds=3, p=(0.1,))
ROWS = [
    {"seed": 0, "value": 0.1 + 0.2, "name": "a,b"},
    {"seed": 1, "value": 1e-300, "name": "c"},
    {"seed": 2, "length": 7},
]


def made_up(broken=()):
    """An experiment of three cells, of which those that are ``broken`` fail."""

    def measure(cell):
        assert cell["seed"] not in broken
        return [ROWS[cell["seed"]]]

    return SimpleNamespace(
        FULL=SETTINGS,
        cells=lambda settings: [{"seed": seed} for seed in settings.seed_numbers],
        measure=measure,
        report=lambda rows, settings: Report([Table("T", ["n"], [(len(rows),)])], {}),
    )


def go(folder, broken=(), settings=SETTINGS, command="mixfree reproduce it"):
    return run_experiment(made_up(broken), command, settings, folder, jobs=1)


def snapshot(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_rows_are_written_exactly_with_what_a_row_lacks_left_empty(tmp_path):
    csv, report = go(tmp_path / "new")
    values = '0,0.30000000000000004,"a,b",\n1,1e-300,c,\n2,,,7\n'
    assert csv.read_text() == "seed,value,name,length\n" + values
    assert "| 3 |" in report.read_text()


def test_a_run_that_fails_keeps_its_finished_cells(tmp_path, monkeypatch):
    """Catches a part that is measured again, and results of two commits that pass for one."""
    monkeypatch.setattr(run, "_commit", lambda: "first")
    with pytest.raises(AssertionError):
        go(tmp_path, broken=[2])
    kept = snapshot(tmp_path / "parts")
    assert len(kept) == 2
    monkeypatch.setattr(run, "_commit", lambda: "second")
    go(tmp_path, broken=[0, 1])
    assert snapshot(tmp_path / "parts").items() > kept.items()
    measured = json.loads((tmp_path / "measured.json").read_bytes())
    assert measured["commit"] == "first, second" and measured["seeds"] == [0, 2]
    before = snapshot(tmp_path)
    go(tmp_path, broken=[0, 1, 2])
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"command": "mixfree reproduce that"}, "command mixfree reproduce it .*not mixfree"),
        ({"settings": SETTINGS.changed(samples=99)}, "--samples 100 .*, not .* --samples 99 "),
        ({"versions": "0.1"}, r"'numpy': '2.*, not .*'numpy': '0\.1'"),
    ],
)
def test_results_of_something_else_are_left_alone(tmp_path, monkeypatch, changed, message):
    go(tmp_path)
    before = snapshot(tmp_path)
    if other := changed.pop("versions", None):
        found = run.version
        monkeypatch.setattr(run, "version", lambda of: other if of == "numpy" else found(of))
    with pytest.raises(ValueError, match=message):
        go(tmp_path, **changed)
    assert snapshot(tmp_path) == before


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"contains other files \(thesis\.tex\)"):
        go(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_script_writes_its_tables_with_their_record(tmp_path):
    """Catches a report without its record, which could not be published."""
    tables = [Table("First", ["a", "b"], [["1", "2"]]), Table("Second", ["c"], [["3"]])]
    write_report(tmp_path / "new" / "folder", "a script", tables, [1000])
    text = (tmp_path / "new" / "folder" / "report.md").read_text()
    assert text.endswith("| 1 | 2 |\n\nSecond\n\n| c |\n|:--|\n| 3 |\n")
    found = json.loads((tmp_path / "new" / "folder" / "measured.json").read_bytes())
    assert (found["command"], found["seeds"]) == ("a script", [1000, 1000])
    assert {"python", "numpy", "numba"} <= found["versions"].keys()
    assert found["versions"]["mixfree"] == mixfree.__version__  # of the code, not as installed


def test_the_commit_is_that_of_a_checkout_and_of_nothing_else(monkeypatch):
    """Without Git, or installed inside another repository, there is none."""
    fail = mock.Mock(side_effect=subprocess.CalledProcessError(128, "git"))
    monkeypatch.setattr(run.subprocess, "run", fail)
    assert run._commit() is None
