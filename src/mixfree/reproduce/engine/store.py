"""Results on disk: a folder that belongs to one experiment with one set of settings.

Every finished cell is a file of its own, written atomically, so an interrupted sweep loses only
the cells that were being measured. Files that this experiment did not write are never overwritten.
"""

import csv
import hashlib
import io
import json
import platform
import tempfile
from dataclasses import asdict
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

from mixfree.base.extras import require
from mixfree.base.files import replacing
from mixfree.reproduce.engine.provenance import write_record
from mixfree.reproduce.engine.report import Row
from mixfree.reproduce.engine.settings import Settings

__all__ = ["Cell", "Store", "check_writable_folder"]

Cell = dict[str, Any]
PACKAGES = ("mixfree", "numpy", "scipy", "numba", "joblib", "matplotlib", "pyarrow")


class Store:
    """The folder of an experiment's results.

    Raises
    ------
    OSError
        When the folder cannot be written.
    ValueError
        When it contains anything but results of the same experiment, settings and versions.

    Examples
    --------
    >>> store = Store(tempfile.mkdtemp(), "fig1", Settings(samples=100, seeds=1))
    >>> store.keep({"seed": 0}, [{"seed": 0, "value": 0.5}])
    >>> store.rows({"seed": 0})
    [{'seed': 0, 'value': 0.5}]
    >>> store.rows({"seed": 1}) is None
    True
    """

    def __init__(self, path: str | PathLike[str], experiment: str, settings: Settings) -> None:
        self.folder = Path(path)
        self.parts = self.folder / "parts"
        about: dict[str, Any] = {
            "command": f"mixfree reproduce {experiment} {settings.options()}",
            "experiment": experiment,
            "settings": asdict(settings),
            "seeds": list(settings.seed_numbers),
            "versions": {"python": platform.python_version()}
            | {package: version(package) for package in PACKAGES},
        }
        self._about = about
        self._claim(json.dumps(about, indent=1))
        self._parts = {path.stem: _read_part(path) for path in self.parts.glob("*.json")}

    def rows(self, cell: Cell) -> list[Row] | None:
        """Return the rows of a finished cell; None if it is not finished."""
        return self._parts.get(_name(cell))

    def keep(self, cell: Cell, rows: list[Row]) -> None:
        """Write the rows of a finished cell."""
        with replacing(self.parts / f"{_name(cell)}.json") as file:
            file.write(json.dumps({"cell": cell, "rows": rows}, indent=1).encode())
        self._parts[_name(cell)] = rows

    def record(self, start: Path) -> None:
        """Record that the source file ``start``, with its imports, measures the cells now."""
        command, seeds = self._about["command"], self._about["seeds"]
        write_record(self.folder, start, command, seeds, begun=bool(self._parts))

    def write_rows(self, rows: list[Row]) -> list[Path]:
        """Write all rows as ``rows.csv`` and ``rows.parquet``; missing values are empty."""
        written = []
        names = dict.fromkeys(name for row in rows for name in row)
        rows = [{name: row.get(name) for name in names} for row in rows]
        for name, content in (("rows.csv", _csv(rows)), ("rows.parquet", _parquet(rows))):
            path = self.folder / name
            if path.exists() and path.read_bytes() != content:
                raise ValueError(
                    f"{path} contains rows of other settings: move it, or choose another folder"
                )
            with replacing(path) as file:
                file.write(content)
            written.append(path)
        return written

    def _claim(self, about: str) -> None:
        """Mark the folder as this experiment's, or check that it is."""
        path = self.folder / "settings.json"
        check_writable_folder(self.folder)
        if not path.exists():
            # A killed sweep may leave temporary files, whose names begin with a dot.
            others = sorted(p.name for p in self.folder.iterdir() if not p.name.startswith("."))
            if others:
                raise ValueError(
                    f"{self.folder} contains other files ({', '.join(others[:3])}): "
                    "choose another folder"
                )
            with replacing(path) as file:
                file.write(about.encode())
        found = _json(path)
        if found != json.loads(about):
            difference = _difference(found, json.loads(about))
            raise ValueError(
                f"{path} describes other results ({difference}): choose another folder"
            )
        check_writable_folder(self.parts)


def check_writable_folder(path: str | PathLike[str]) -> Path:
    """Create the folder if needed and check that it is writable; raise OSError if not.

    Work that takes minutes should fail before it begins.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise OSError(f"cannot write in the folder {folder}: {error.strerror}") from error


def _read_part(path: Path) -> list[Row]:
    part = _json(path)
    if not isinstance(part, dict) or part.keys() != {"cell", "rows"}:
        raise ValueError(f"{path} is not a result file: move it, or choose another folder")
    if _name(part["cell"]) != path.stem:
        raise ValueError(f"{path} contains results of another cell: choose another folder")
    rows: list[Row] = part["rows"]
    return rows


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged or not a result file: move it, or choose another folder"
        ) from error


def _name(cell: Cell) -> str:
    return hashlib.sha256(json.dumps(cell, sort_keys=True).encode()).hexdigest()[:20]


def _difference(found: Any, expected: dict[str, Any]) -> str:
    if not isinstance(found, dict):
        return "not settings"
    for key in ("experiment", "settings", "versions"):
        if found.get(key) != expected[key]:
            mine, theirs = expected[key], found.get(key)
            if isinstance(mine, dict) and isinstance(theirs, dict):
                both = [
                    {k: each.get(k, "nothing") for k in mine | theirs} for each in (mine, theirs)
                ]
                key = next(k for k in both[0] if both[0][k] != both[1][k])
                mine, theirs = (each[key] for each in both)
            return f"{key} {theirs}, not {mine}"
    return "another command" if found.get("seeds") == expected["seeds"] else "other seeds"


def _csv(rows: list[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _parquet(rows: list[Row]) -> bytes:
    pyarrow, parquet = require("pyarrow"), require("pyarrow.parquet")
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.Table.from_pylist(rows), sink)
    return bytes(sink.getvalue())
