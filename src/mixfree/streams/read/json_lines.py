"""JSON lines as columns, with nested objects flattened."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mixfree.base.extras import require
from mixfree.streams.read.values import label_of

__all__ = ["MIN_ROWS", "JsonLines", "check_width", "flat", "flat_schema", "parts_of"]

MAX_COLUMNS = 20_000  # most columns of a file
MIN_ROWS = 256  # rows that PyArrow reads at a time, however many columns there are
DEEPEST = 64  # most levels of nested objects and arrays that PyArrow is given


class JsonLines(NamedTuple):
    """Columns of a file of JSON lines.

    ``schema`` has the columns, with nested fields as ``outer.inner``, and ``outer`` the top-level
    field of each; ``stored`` has the fields of a row as nested in the file, or is None if PyArrow
    cannot read them.
    """

    schema: Any
    stored: Any
    outer: Mapping[str, str] = {}

    @classmethod
    def of(cls, block: bytes) -> "JsonLines":
        """Detect the columns of a file from its first lines.

        Examples
        --------
        >>> JsonLines.of(b'{"y": 1, "wind": {"speed": 2.5}}').schema.names
        ['y', 'wind.speed']
        """
        pyarrow = require("pyarrow")
        found = _fields(block)
        if found is None:
            kinds = dict[str, set[type]]()
            nested = False
            for row in _objects(block, 0):
                for name, value in _values(row):
                    kinds.setdefault(name, set()).add(type(value))
                    nested |= name not in row
                check_width(len(kinds))
            schema = pyarrow.schema([(name, _type_of(each)) for name, each in kinds.items()])
            return cls(schema, None if nested else schema, {name: name for name in kinds})
        stored = pyarrow.schema([(field.name, _type(field.type)) for field in found])
        schema, outer = flat_schema(stored)
        return cls(schema, stored, outer)

    def table(self, block: bytes, names: Sequence[str], line: int) -> Any:
        """Read some columns; a column of both numbers and texts is read as text.

        ``line`` is the number of lines before the block, for error messages.
        """
        pyarrow = require("pyarrow")
        if self.stored is not None:
            fields = dict.fromkeys(self.outer[name] for name in names)
            schema = pyarrow.schema([self.stored.field(name) for name in fields])
            found = _by_arrow(block, schema)
            if found is not None:
                return flat(found.combine_chunks(), names)
        rows = _objects(block, line)
        columns = [_column([_value_at(row, name) for row in rows]) for name in names]
        return pyarrow.Table.from_arrays(columns, names=list(names))


def check_width(columns: int) -> None:
    """Raise ArrowInvalid if a file has too many columns."""
    if columns > MAX_COLUMNS:
        raise require("pyarrow").ArrowInvalid(
            f"it has more than {MAX_COLUMNS:,} columns, the most that are accepted: leave out some"
        )


def parts_of(block: bytes, rows: int) -> Iterator[bytes]:
    """Divide a block into parts of at most ``rows`` lines.

    Examples
    --------
    >>> [*parts_of(b"a\\nb\\nc", 2)]
    [b'a\\nb\\n', b'c']
    """
    lines = block.splitlines(keepends=True)
    yield from (b"".join(lines[at : at + rows]) for at in range(0, len(lines), rows))


def _fields(block: bytes) -> Any:
    """Return the schema of a block as PyArrow infers it; None if it cannot.

    It is inferred for a few rows at a time, since PyArrow takes time for every key in every row.
    """
    pyarrow, found = require("pyarrow"), []
    for part in parts_of(block, MIN_ROWS):
        if part.strip():
            table = _by_arrow(part, None)
            if table is None:
                return None
            found.append(table.schema)
    try:
        return pyarrow.unify_schemas(found, promote_options="permissive")
    except pyarrow.ArrowException:  # a column of different types
        return None


def _value_at(found: Any, name: str) -> Any:
    """Return the value of a column in a JSON object, None if it does not exist.

    Examples
    --------
    >>> _value_at({"wind": {"speed": 2.5}}, "wind.speed"), _value_at({"wind": 1.0}, "wind.speed")
    (2.5, None)
    """
    while name not in found:
        places = (at for at, character in enumerate(name) if character == ".")
        at = next((at for at in places if isinstance(found.get(name[:at]), dict)), None)
        if at is None:
            return None
        found, name = found[name[:at]], name[at + 1 :]
    return found[name]


def flat_schema(schema: Any) -> tuple[Any, dict[str, str]]:
    """Return the schema with structs flattened, and the top-level column of each name.

    Examples
    --------
    >>> import pyarrow
    >>> wind = pyarrow.struct([("speed", pyarrow.float64())])
    >>> flat_schema(pyarrow.schema([("wind", wind)]))[1]
    {'wind.speed': 'wind'}
    """
    pyarrow = require("pyarrow")
    fields, outer = list[Any](), dict[str, str]()

    def add(name: str, kind: Any, first: str, depth: int = DEEPEST) -> None:
        if depth and pyarrow.types.is_struct(kind):
            for each in kind:
                add(f"{name}.{each.name}", each.type, first, depth - 1)
        else:
            fields.append((name, kind))
            outer[name] = first

    for field in schema:
        add(field.name, field.type, field.name)
    return pyarrow.schema(fields), outer


def flat(table: Any, names: Sequence[str] | None = None) -> Any:
    """Flatten the structs of a table or batch, and select the named columns if given."""
    pyarrow = require("pyarrow")
    found = list(zip(table.schema.names, table.columns, strict=True))
    for _ in range(DEEPEST):
        if not any(pyarrow.types.is_struct(values.type) for _, values in found):
            break
        deeper = list[Any]()
        for name, values in found:
            if pyarrow.types.is_struct(values.type):
                inner = [f"{name}.{each.name}" for each in values.type]
                deeper += zip(inner, values.flatten(), strict=True)
            else:
                deeper.append((name, values))
        found = deeper
    if names is not None:
        columns = dict(found)
        found = [(name, columns[name]) for name in names]
    return type(table).from_arrays([each for _, each in found], names=[name for name, _ in found])


def _by_arrow(block: bytes, schema: Any) -> Any:
    """Read lines with PyArrow; None if it cannot, and Python may, or tell the line."""
    pyarrow, reader = require("pyarrow"), require("pyarrow.json")
    behaviour = "infer" if schema is None else "ignore"
    parse = reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior=behaviour)
    read = reader.ReadOptions(use_threads=False, block_size=len(block) + 1)
    if not _arrow_takes(block):
        return None
    try:
        return reader.read_json(pyarrow.BufferReader(block), read, parse)
    except pyarrow.ArrowInvalid:
        return None


def _objects(block: bytes, before: int) -> list[dict[str, Any]]:
    """Parse the lines of a block, which ``before`` lines of the file precede."""
    lines = enumerate(block.splitlines(), start=before + 1)
    return [_object(line, number) for number, line in lines if line.strip()]


def _values(
    row: dict[str, Any], before: str = "", depth: int = DEEPEST
) -> Iterator[tuple[str, Any]]:
    """Yield all values of a row by name; below the deepest level, objects are values."""
    for name, value in row.items():
        if isinstance(value, dict) and depth:
            yield from _values(value, f"{before}{name}.", depth - 1)
        else:
            yield f"{before}{name}", value


def _arrow_takes(block: bytes) -> bool:
    """Whether PyArrow can safely parse some lines of JSON.

    A null instead of a row crashes the process, and so may deep nesting. The answer may be no for
    lines that are safe, but not the other way round.
    """
    if re.search(rb"(?:^|[\r\n}])\s*null", block):
        return False
    opened = block.count(b"{") + block.count(b"[")
    if opened <= block.count(b"\n") + DEEPEST:
        return True
    characters = np.frombuffer(block, np.uint8)
    opening, closing = (np.isin(characters, bytearray(each)) for each in (b"{[", b"}]"))
    depth = np.cumsum(opening.astype(np.int32) - closing)
    return bool(depth.max() < DEEPEST)


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


def _column(values: list[Any]) -> Any:
    """Return an array of booleans or doubles if all values are such, else of texts."""
    pyarrow = require("pyarrow")
    kind = _type_of({type(value) for value in values})
    if kind == pyarrow.bool_():
        return pyarrow.array(values, kind)
    if kind == pyarrow.float64():
        numbers = [None if value is None else _double(value) for value in values]
        return pyarrow.array(numbers, pyarrow.float64())
    texts = [_text(value) for value in values]
    # A lone surrogate cannot be encoded in UTF-8.
    whole = [text and text.encode("utf-8", "replace").decode() for text in texts]
    return pyarrow.array(whole, pyarrow.string())


def _text(value: Any) -> str | None:
    """Return a value as text, a number as it is in a column of numbers."""
    if value is None or isinstance(value, str):
        return value
    if type(value) in (int, float):
        return label_of(_double(value))
    return json.dumps(value)


def _type_of(kinds: set[type]) -> Any:
    pyarrow, known = require("pyarrow"), kinds - {type(None)}
    if known == {bool}:
        return pyarrow.bool_()
    return pyarrow.float64() if known <= {int, float} else pyarrow.string()


def _double(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _type(inferred: Any) -> Any:
    """Return the type to read a field as, from the type inferred for its first values."""
    pyarrow = require("pyarrow")
    types = pyarrow.types
    if types.is_struct(inferred):
        return pyarrow.struct([(each.name, _type(each.type)) for each in inferred])
    if types.is_integer(inferred) or types.is_null(inferred):
        return pyarrow.float64()
    return pyarrow.string() if types.is_timestamp(inferred) else inferred
