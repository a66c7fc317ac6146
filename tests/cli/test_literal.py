"""Texts from the data are printed literally: no markup, no control characters, nothing hidden."""

import ast
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import mixfree.cli
from tests.helpers import run_command as run

NAMES = {"markup": "[/x]", "colour": "\x1b[31mred", "two lines": "a\nb", "turned": "a\u202eb"}
SHOWN = ["[/x]", r"\x1b[31mred", r"a\nb", r"a\u202eb"]
HIDDEN = ("\x1b", "\u202e", "a\nb")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a CSV file with such names of columns and categories, and a model of it."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1500, 4))
    words = rng.choice([f"{name}!" for name in NAMES.values() if "\n" not in name], 1500)
    path = folder / "\x1b[31m[red].parquet"
    table = {name: rows[:, at] for at, name in enumerate(NAMES.values())}
    table |= {"[b]word": words, "[i]y\u202e": rows @ [1.0, 2.0, 3.0, 4.0] + (words == words[0])}
    pa.parquet.write_table(pa.table(table), path)
    return path, "[i]y\u202e"


def check_seen(text, *expected):
    for each in HIDDEN:
        assert each not in text
    for each in expected:
        assert each in text


def test_commands_print_names_as_they_are(data, tmp_path, capsys):
    """Rich would take [/x] for the end of a style, and a terminal would obey control characters."""
    path, target = data
    model = tmp_path / "[m]\x1b[31m"
    given = [path, "--target", target]
    assert run("fit", *given, "--dry-run") == 0
    check_seen(capsys.readouterr().out, *SHOWN, r"[i]y\u202e")
    assert run("fit", *given, "--model", model, "-q") == 0
    assert run("inspect", model) == 0
    check_seen(capsys.readouterr().out, r"[m]\x1b[31m", *SHOWN, r"[i]y\u202e", r"[b]word=a\u202eb!")
    assert run("inspect", model, "--json") == 0
    out = capsys.readouterr().out
    check_seen(out)
    found = json.loads(out)
    assert found["target"] == target
    assert {each["feature"] for each in found["weights"]} >= set(NAMES.values())


def test_errors_name_what_is_wrong_as_it_is(data, capsys):
    path, _ = data
    assert run("fit", path, "--target", "[/x") == 2
    error = capsys.readouterr().err
    check_seen(error, r"\x1b[31m[red].parquet: there is no target column '[/x'", "'[/x]'")
    assert error.count("\n") == 1


def test_only_the_border_prints():
    """Catches a `print` in a command, which would pass texts of the data on unescaped."""
    for path in Path(mixfree.cli.__file__).parent.glob("*.py"):
        if path.name == "__init__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node, "id", getattr(node, "attr", getattr(node, "name", None)))
            assert name not in ("print", "Console"), f"{path.name}, line {node.lineno}"
