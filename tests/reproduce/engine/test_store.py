import json
import re

import pyarrow.parquet
import pytest

from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.store import Store

SETTINGS = Settings(samples=100, seeds=2, p=(0.1,))
CELL = {"seed": 0, "p": 0.1}
ROWS = [{"seed": 0, "value": 0.1 + 0.2, "name": "a,b"}, {"seed": 0, "value": 1e-300, "name": "c"}]


def snapshot(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_rows_come_back_exactly(tmp_path):
    Store(tmp_path / "new", "fig1", SETTINGS).keep(CELL, ROWS)
    again = Store(tmp_path / "new", "fig1", SETTINGS)
    assert again.rows(CELL) == ROWS
    assert again.rows({"p": 0.1, "seed": 0}) == ROWS
    assert again.rows({**CELL, "seed": 1}) is None


def test_rows_are_written_as_csv_and_parquet(tmp_path):
    csv, parquet = Store(tmp_path, "fig1", SETTINGS).write_rows(ROWS)
    assert csv.read_text() == 'seed,value,name\n0,0.30000000000000004,"a,b"\n0,1e-300,c\n'
    assert pyarrow.parquet.read_table(parquet).to_pylist() == ROWS


def test_the_settings_say_how_to_do_it_again(tmp_path):
    Store(tmp_path, "fig1", SETTINGS)
    about = json.loads((tmp_path / "settings.json").read_text())
    assert about["command"] == (
        "mixfree reproduce fig1 --samples 100 --seeds 2 --p 0.1 --first-seed 0"
    )
    assert about["seeds"] == [0, 1]
    assert {"python", "mixfree", "numpy", "numba"} <= about["versions"].keys()


@pytest.mark.parametrize(
    ("experiment", "settings", "message"),
    [
        ("fig2", SETTINGS, "experiment fig1, not fig2"),
        ("fig1", SETTINGS.changed(samples=99), "samples 100, not 99"),
        ("fig1", SETTINGS.changed(p=(0.2,)), r"p \[0.1\], not \[0.2\]"),
    ],
)
def test_results_of_something_else_are_left_alone(tmp_path, experiment, settings, message):
    Store(tmp_path, "fig1", SETTINGS).keep(CELL, ROWS)
    before = snapshot(tmp_path)
    with pytest.raises(ValueError, match=message):
        Store(tmp_path, experiment, settings)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("settings", {"gone": 3}, r"gone 3, not nothing\)"),
        ("settings", {"gone": None}, r"gone None, not nothing\)"),
        ("versions", {"numpy": "0.1"}, r"numpy 0\.1, not \d"),
        ("seeds", [7], r"\(other seeds\)"),
        ("command", "mixfree reproduce fig1 --fast", r"\(another command\)"),
    ],
)
def test_results_of_another_version_are_left_alone(tmp_path, key, value, message):
    """Catches a difference that is not found where the folder has a setting of its own."""
    Store(tmp_path, "fig1", SETTINGS)
    path = tmp_path / "settings.json"
    about = json.loads(path.read_text())
    about[key] = about[key] | value if isinstance(value, dict) else value
    path.write_text(json.dumps(about))
    with pytest.raises(ValueError, match=message):
        Store(tmp_path, "fig1", SETTINGS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv", "someone's data"),
        ("settings.json", '{"experiment": "fig1", "settings"'),
        ("settings.json", "[1, 2]"),
        ("parts/0123.json", '{"cell": {"seed": 0}, "ro'),
        ("parts/0123.json", '{"cell": {"seed": 0}, "rows": []}'),
        ("parts/0123.json", "[]"),
    ],
)
def test_foreign_and_half_written_files_are_named_and_left_alone(tmp_path, name, content):
    if name.startswith("parts"):
        Store(tmp_path, "fig1", SETTINGS)
    (tmp_path / name).write_text(content)
    before = snapshot(tmp_path)
    with pytest.raises(ValueError, match=re.escape(name)):
        Store(tmp_path, "fig1", SETTINGS)
    assert snapshot(tmp_path) == before


def test_rows_that_are_not_ours_are_not_replaced(tmp_path):
    store = Store(tmp_path, "fig1", SETTINGS)
    (tmp_path / "rows.csv").write_text("half of a li")
    with pytest.raises(ValueError, match=r"rows\.csv contains rows of other"):
        store.write_rows(ROWS)
    assert (tmp_path / "rows.csv").read_text() == "half of a li"


def test_rows_may_have_columns_of_their_own(tmp_path):
    """What a row lacks is empty in both files, wherever in the stream of rows it is."""
    rows = [{"seed": 0, "gap": 0.5}, {"seed": 1, "length": 7}]
    written = Store(tmp_path, "ladder", SETTINGS).write_rows(rows)
    assert written[0].read_text() == "seed,gap,length\n0,0.5,\n1,,7\n"
    found = pyarrow.parquet.read_table(written[1]).to_pylist()
    assert found == [{"seed": 0, "gap": 0.5, "length": None}, {"seed": 1, "gap": None, "length": 7}]


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot write in the folder"):
        Store(tmp_path / "file" / "below", "fig1", SETTINGS)
