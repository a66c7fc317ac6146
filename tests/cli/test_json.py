"""The output of ``--json`` has exactly the fields described in docs/reference/json.csv."""

import csv
import json
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from mixfree.cli.options import VERSIONS
from tests.helpers import run_command
from tests.streams.data import table, write

FIELDS = Path(__file__).parents[2] / "docs" / "reference" / "json.csv"
TYPES = {"text": str, "number": int | float, "boolean": bool}
MEASURES = {"r2", "rmse", "mae", "log_loss", "accuracy", "auc", "loss"}


@cache
def described():
    """Return the types of the fields of each command."""
    found = {}
    with FIELDS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["command"], {})[row["field"]] = row["type"]
    found["inspect"] = found["fit"] | found["inspect"]
    return found


def fields(value, path=""):
    if isinstance(value, dict):
        for name, each in value.items():
            yield from fields(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for each in value:
            yield from fields(each, f"{path}[]")
    else:
        yield path, value


def answer(capsys, command, *arguments):
    assert run_command(command, *arguments, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == f"mixfree {command}"
    assert found["version"] == VERSIONS[command]
    return found


def check(command, *answers):
    """Check that exactly the described fields exist, with their types."""
    known, seen = described()[command], set()
    for path, value in (pair for found in answers for pair in fields(found)):
        of, _, name = path.rpartition(".")
        if known.get(of) == "measures":
            assert name in MEASURES
            assert value is None or isinstance(value, float)
            seen.add(of)
        elif path in known:
            seen.add(path)
            assert value is None or isinstance(value, TYPES[known[path]]), path
        else:  # what may be null as a whole
            assert value is None and any(
                field.startswith((f"{path}.", f"{path}[")) for field in known
            ), path
    assert seen == set(known)


def odd_table():
    data = table()
    days = np.datetime64("2024-01-01T00:00:00") + np.arange(len(data)) * np.timedelta64(1, "h")
    gap = [None if at == 50 else value for at, value in enumerate(data["u"].to_pylist())]
    data = data.set_column(0, "u u", pa.array(gap)).append_column("when", pa.array(days))
    return data.append_column("No", pa.array(range(len(data)))).append_column(
        "twice", pa.array(2.0 * np.array(data["load"]))
    )


def test_fit_and_inspect(tmp_path, capsys):
    """Catches a column name changed like a field name, and rounded or exchanged weights."""
    path, model = write(odd_table(), tmp_path / "d.parquet"), tmp_path / "m"
    options = ["--model", model, "-q", "--missing", "skip"]
    one = answer(capsys, "fit", path, *options, "--target", "load")
    assert {each["name"] for each in one["columns"]["used"]} >= {"u u", "when"}
    assert "up to rounding: 'twice'; --leave-out those" in one["warnings"][0]
    half = answer(capsys, "fit", path, *options, "--target", "load", "--half-life", 200)
    assert half["optimality_gap"] is None
    classes = answer(capsys, "fit", path, *options, "--target", "colour")
    weights = tmp_path / "w.csv"
    first = answer(capsys, "inspect", model, "--weights", weights)
    head, *lines = csv.reader(weights.read_text(encoding="utf-8").splitlines())
    assert [[*each] for each in first["weights"]] == [head] * len(lines)
    for line, each in zip(lines, first["weights"], strict=True):
        numbers = (None if text in ("", "inf", "-inf") else float(text) for text in line[2:])
        assert [*line[:2], *numbers] == [*each.values()]
    steps = ["--target", "load", "--method", "ladder"]
    stepped = answer(capsys, "fit", path, *options, *steps)
    check("fit", one, half, classes, stepped)
    second = answer(capsys, "inspect", model, "--weights", weights)
    check("inspect", first, second)
    assert weights.read_text(encoding="utf-8").splitlines()[1].endswith(",,,,,")


def test_td(capsys):
    found = answer(capsys, "td", "FrozenLake-v1", "--samples", 2000)
    check("td", found)


def test_chain(tmp_path, capsys):
    path = tmp_path / "path.csv"
    states = np.random.default_rng(0).integers(0, 2, 2000)
    path.write_text("\n".join(map(str, states)))
    known = answer(capsys, "chain", "two-state", "0.1", "--plot", tmp_path / "p.png")
    check("chain", known, answer(capsys, "chain", path, "--estimate"))
