"""JSON lines as columns, with nested objects flattened."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np

from mixfree.base.extras import require
from mixfree.streams.read.values import label_of

__all__ = ["JsonLines", "flat", "outer_fields"]

MIN_ROWS = 256  # rows that PyArrow reads at a time, however many columns there are
CELLS = 1 << 22  # most values per batch
DEEPEST = 64  # most levels of nested objects and arrays that PyArrow is given
# Whole numbers of more digits than a double can have become infinite.
_DECODER = json.JSONDecoder(
    parse_int=lambda digits: int(digits) if len(digits) < 300 else float(digits)
)


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

    def __init__(self, first: bytes | None = None) -> None:
        pyarrow = require("pyarrow")
        self.schema, self._stored = pyarrow.schema([]), None  # the latter as fields are nested
        if first is None:
            return
        tables = [_by_arrow(part) for part in _parts(first, CELLS // MIN_ROWS)]
        found = None
        if all(table is not None for table in tables):
            with suppress(pyarrow.ArrowException):  # for a column of different types
                schemas = [table.schema for table in tables]
                found = pyarrow.unify_schemas(schemas, promote_options="permissive")
        if found is None:
            rows = _rows(first, 0)
            names = dict.fromkeys(chain.from_iterable(rows))
            objects = _outer(names)  # null in some rows
            self.schema = _table(rows, [name for name in names if name not in objects]).schema
        else:
            self._stored = pyarrow.schema([(each.name, _read_as(each.type)) for each in found])
            self.schema = flat(self._stored.empty_table()).schema

    def batches(self, block: bytes, names: Sequence[str], line: int) -> Iterator[Any]:
        """Read some columns; a column of both numbers and texts is read as text.

        ``line`` is the number of lines before the block, for error messages.
        """
        for part in _parts(block, len(names)):
            table = None
            if self._stored is not None:
                fields = outer_fields(self._stored, names)
                table = _by_arrow(part, require("pyarrow").schema(fields))
            table = _table(_rows(part, line), names) if table is None else flat(table).select(names)
            yield from table.combine_chunks().to_batches()
            line += part.count(b"\n")


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


def _parts(block: bytes, columns: int) -> Iterator[bytes]:
    """Divide lines into parts, since PyArrow takes time for every column in every row."""
    lines, rows = block.splitlines(keepends=True), max(CELLS // max(columns, 1), MIN_ROWS)
    parts = (b"".join(lines[at : at + rows]) for at in range(0, len(lines), rows))
    yield from (part for part in parts if part.strip())


def _read_as(inferred: Any) -> Any:
    """Return the type to read a field as, from the type inferred for its first values."""
    pyarrow = require("pyarrow")
    types = pyarrow.types
    if types.is_struct(inferred):
        return pyarrow.struct([(each.name, _read_as(each.type)) for each in inferred])
    if types.is_integer(inferred) or types.is_null(inferred):
        return pyarrow.float64()
    return pyarrow.string() if types.is_timestamp(inferred) else inferred


def _by_arrow(block: bytes, schema: Any = None) -> Any:
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
    try:
        found = _DECODER.decode(line.decode("utf-8-sig"))
        if isinstance(found, dict):
            return found
        what = (
            "is not an object in {braces}, of which JSON lines have one per line; "
            "`jq -c '.[]' FILE > lines.jsonl` converts a JSON list"
        )
    except UnicodeDecodeError:
        what = "is not in UTF-8"
    except json.JSONDecodeError as error:
        what = f"is not JSON: {error.msg} at column {error.colno}"
    except RecursionError:
        what = "is nested too deeply"
    raise require("pyarrow").ArrowInvalid(f"line {number} {what}")


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
        numbers = [None if value is None else float(value) for value in values]
        return pyarrow.array(numbers, pyarrow.float64())
    # A lone surrogate cannot be encoded in UTF-8.
    texts = [text and text.encode("utf-8", "replace").decode() for text in map(_text, values)]
    return pyarrow.array(texts, pyarrow.string())


def _text(value: Any) -> str | None:
    """Return a value as text, a number as it is in a column of numbers."""
    if value is None or isinstance(value, str):
        return value
    return label_of(value) if type(value) in (int, float) else json.dumps(value)
