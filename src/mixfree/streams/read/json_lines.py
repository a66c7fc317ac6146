"""JSON lines as columns, with nested objects flattened."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from mixfree.base.extras import require
from mixfree.streams.read.values import label_of

__all__ = ["JsonLines", "flat", "outer_fields", "parts_of"]

MIN_ROWS = 256  # rows that PyArrow reads at a time, however many columns there are
CELLS = 1 << 22  # most values per batch
DEEPEST = 64  # most levels of nested objects and arrays that PyArrow is given


class JsonLines:
    """Columns of a file of JSON lines.

    PyArrow reads the lines; where it cannot, as in a column of both numbers and texts, Python does.

    Parameters
    ----------
    first
        The first lines of the file, or None if nothing is known of its columns.

    Attributes
    ----------
    schema
        The columns, with nested fields as ``outer.inner``.

    Examples
    --------
    >>> JsonLines(b'{"y": 1, "wind": {"speed": 2.5}}').schema.names
    ['y', 'wind.speed']
    """

    def __init__(self, first: bytes | None) -> None:
        self.schema = self._stored = None  # columns, and the fields of a row as they are nested
        if first is None:
            return
        if (found := _inferred(first)) is None:
            rows = _rows(first, 0)
            names = dict.fromkeys(chain.from_iterable(rows))
            objects = _outer(names)  # null in some rows
            self.schema = _table(rows, [name for name in names if name not in objects]).schema
        else:
            fields = [(field.name, _read_as(field.type)) for field in found]
            self._stored = require("pyarrow").schema(fields)
            self.schema = flat(self._stored.empty_table()).schema

    def table(self, block: bytes, names: Sequence[str], line: int) -> Any:
        """Read some columns; a column of both numbers and texts is read as text.

        ``line`` is the number of lines before the block, for error messages.
        """
        if self._stored is not None:
            fields = outer_fields(self._stored, names)
            found = _by_arrow(block, require("pyarrow").schema(fields))
            if found is not None:
                return flat(found).select(list(names))
        return _table(_rows(block, line), names)


def parts_of(block: bytes, columns: int) -> Iterator[bytes]:
    """Divide lines into parts, since PyArrow takes time for every column in every row."""
    lines, rows = block.splitlines(keepends=True), max(CELLS // max(columns, 1), MIN_ROWS)
    parts = (b"".join(lines[at : at + rows]) for at in range(0, len(lines), rows))
    yield from (part for part in parts if part.strip())


def flat(table: Any) -> Any:
    """Flatten the structs of a table.

    Examples
    --------
    >>> import pyarrow
    >>> flat(pyarrow.table({"wind": [{"speed": 2.5}]})).column_names
    ['wind.speed']
    """
    is_struct = require("pyarrow").types.is_struct
    for _ in range(DEEPEST):
        if not any(map(is_struct, table.schema.types)):
            break
        table = table.flatten()
    return table


def outer_fields(schema: Any, names: Sequence[str]) -> list[Any]:
    """Return the fields of a schema that contain the named columns of its flattened table."""
    wanted = _outer(names).union(names)
    return [field for field in schema if field.name in wanted]


def _outer(names: Iterable[str]) -> set[str]:
    """Return the names of the objects that may contain columns."""
    return {name[:at] for name in names for at in range(len(name)) if name[at] == "."}


def _inferred(block: bytes) -> Any:
    """Return the schema of a block as PyArrow infers it; None if it cannot."""
    pyarrow, found = require("pyarrow"), []
    for part in parts_of(block, CELLS // MIN_ROWS):
        table = _by_arrow(part, None)
        if table is None:
            return None
        found.append(table.schema)
    try:
        return pyarrow.unify_schemas(found, promote_options="permissive")
    except pyarrow.ArrowException:  # a column of different types
        return None


def _read_as(inferred: Any) -> Any:
    """Return the type to read a field as, from the type inferred for its first values."""
    pyarrow = require("pyarrow")
    types = pyarrow.types
    if types.is_struct(inferred):
        return pyarrow.struct([(each.name, _read_as(each.type)) for each in inferred])
    if types.is_integer(inferred) or types.is_null(inferred):
        return pyarrow.float64()
    return pyarrow.string() if types.is_timestamp(inferred) else inferred


def _by_arrow(block: bytes, schema: Any) -> Any:
    """Read lines with PyArrow; None if it cannot, and Python may, or tell the line."""
    pyarrow, reader = require("pyarrow"), require("pyarrow.json")
    behaviour = "infer" if schema is None else "ignore"
    parse = reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior=behaviour)
    read = reader.ReadOptions(use_threads=False, block_size=len(block) + 1)
    if not _safe_for_arrow(block):
        return None
    try:
        return reader.read_json(pyarrow.BufferReader(block), read, parse)
    except pyarrow.ArrowInvalid:
        return None


def _safe_for_arrow(block: bytes) -> bool:
    """Whether PyArrow can parse some lines: a null as a row ends the process, and deep nesting may.

    The answer may be no for lines that are safe, but not the other way round.
    """
    if re.search(rb"(?:^|[\r\n}])\s*null", block):
        return False
    if block.count(b"{") + block.count(b"[") <= block.count(b"\n") + DEEPEST:
        return True
    characters = np.frombuffer(block, np.uint8)
    opening, closing = (np.isin(characters, bytearray(each)) for each in (b"{[", b"}]"))
    return bool(np.cumsum(opening.astype(np.int32) - closing).max() < DEEPEST)


def _rows(block: bytes, before: int) -> list[dict[str, Any]]:
    """Parse the lines of a block, which ``before`` lines of the file precede."""
    lines = enumerate(block.splitlines(), start=before + 1)
    return [dict(_values(_object(line, number))) for number, line in lines if line.strip()]


def _object(line: bytes, number: int) -> dict[str, Any]:
    pyarrow = require("pyarrow")
    try:
        found = json.loads(line)
    except UnicodeDecodeError as error:
        raise pyarrow.ArrowInvalid(f"line {number} is not in UTF-8") from error
    except json.JSONDecodeError as error:
        what = f"{error.msg} at column {error.colno}"
        raise pyarrow.ArrowInvalid(f"line {number} is not JSON: {what}") from error
    except RecursionError as error:
        raise pyarrow.ArrowInvalid(f"line {number} is nested too deeply") from error
    if not isinstance(found, dict):
        raise pyarrow.ArrowInvalid(
            f"line {number} is not an object in {{braces}}, of which JSON lines have one per line; "
            "`jq -c '.[]' FILE > lines.jsonl` converts a JSON list"
        )
    return found


def _values(row: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all values of a row by name; below the deepest level, objects are values."""
    for name, value in row.items():
        if isinstance(value, dict) and before.count(".") < DEEPEST:
            yield from _values(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _table(rows: list[dict[str, Any]], names: Sequence[str]) -> Any:
    columns = [_column([row.get(name) for row in rows]) for name in names]
    return require("pyarrow").Table.from_arrays(columns, names=list(names))


def _column(values: list[Any]) -> Any:
    """Return an array of booleans or doubles if all values are such, else of texts."""
    pyarrow = require("pyarrow")
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {bool}:
        return pyarrow.array(values, pyarrow.bool_())
    if kinds <= {int, float}:
        numbers = [None if value is None else _double(value) for value in values]
        return pyarrow.array(numbers, pyarrow.float64())
    # A lone surrogate cannot be encoded in UTF-8.
    texts = [text and text.encode("utf-8", "replace").decode() for text in map(_text, values)]
    return pyarrow.array(texts, pyarrow.string())


def _text(value: Any) -> str | None:
    """Return a value as text, a number as it is in a column of numbers."""
    if value is None or isinstance(value, str):
        return value
    return label_of(_double(value)) if type(value) in (int, float) else json.dumps(value)


def _double(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
