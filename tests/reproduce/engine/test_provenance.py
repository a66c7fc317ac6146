import json
from pathlib import Path

import pytest

from mixfree.base.table import Table
from mixfree.reproduce.engine import provenance
from mixfree.reproduce.engine.provenance import (
    PACKAGE,
    changed_since,
    code_of,
    source_of,
    write_record,
    write_report,
)

START = PACKAGE / "steps" / "adagrad.py"


def test_the_source_of_an_experiment_is_what_it_can_reach():
    """Following only imports at the top of a file would miss kernels, which are imported late."""
    found = source_of(PACKAGE / "reproduce" / "paper" / "fig1.py")
    assert {"reproduce/paper/fig1.py", "steps/adagrad.py", "kernels/steps.py"} <= found.keys()
    assert not any(name.startswith(("torch/", "streams/", "td/")) for name in found)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('"""Other words."""\n\n\ndef f(x):\n    """Other words."""\n    return x + 1\n', True),
        ("# a comment\ndef f(x):\n\n    # another\n    return x + 1\n", True),
        ('"""Words."""\ndef f(x):\n    return x + 2\n', False),
        ('"""Words."""\ndef f(x):\n    """Words."""\n    x + 1\n', False),
    ],
)
def test_words_may_change_and_code_may_not(text, same):
    """A digest of the whole file would call every corrected comment a change of the code."""
    before = '"""Words."""\n\ndef f(x):\n    """Words\n    over lines."""\n    return x + 1\n'
    assert (code_of(text) == code_of(before)) == same


def test_a_record_names_the_files_that_changed(tmp_path, monkeypatch):
    write_record(tmp_path, START, "a command", range(1000, 1003))
    record = json.loads((tmp_path / "measured.json").read_bytes())
    assert record["seeds"] == [1000, 1002]
    assert changed_since(record) == []
    record["source"] |= {"steps/adagrad.py": "other", "gone.py": "0"}
    assert changed_since(record) == ["gone.py", "steps/adagrad.py"]


def test_results_of_several_states_of_the_code_have_no_source(tmp_path, monkeypatch):
    """Otherwise a resumed run would pass for one by the code that only finished it."""
    write_record(tmp_path, START, "a command")
    write_record(tmp_path, START, "a command", begun=True)
    assert json.loads((tmp_path / "measured.json").read_bytes())["source"]
    monkeypatch.setattr(provenance, "source_of", lambda start: {"steps/adagrad.py": "other"})
    write_record(tmp_path, START, "a command", begun=True)
    record = json.loads((tmp_path / "measured.json").read_bytes())
    assert record["source"] is None and changed_since(record) is None


def test_results_older_than_records_have_no_source(tmp_path):
    write_record(tmp_path, START, "a command", begun=True)
    assert json.loads((tmp_path / "measured.json").read_bytes())["source"] is None


def test_a_script_uses_what_the_scripts_beside_it_import():
    """An example that reaches the optimisers through a module of the examples only."""
    examples = Path(__file__).parents[3] / "examples"
    assert "torch/ladder.py" in source_of(examples / "torch_series.py")


def test_a_script_writes_its_tables_with_their_record(tmp_path):
    """Catches a report without its record, which could not be published."""
    tables = [Table("First", ["a", "b"], [["1", "2"]]), Table("Second", ["c"], [["3"]])]
    write_report(tmp_path / "new" / "folder", START, "a script", tables, [1000])
    text = (tmp_path / "new" / "folder" / "report.md").read_text()
    assert (
        text.index("First") < text.index("| 1 | 2 |") < text.index("Second") < text.index("| 3 |")
    )
    record = json.loads((tmp_path / "new" / "folder" / "measured.json").read_bytes())
    assert (record["command"], record["seeds"]) == ("a script", [1000, 1000])
