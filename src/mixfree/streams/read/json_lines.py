"""JSON lines as columns, with nested objects flattened."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from mixfree.base.extras import require
from mixfree.streams.read.files import NOT_UTF8
from mixfree.streams.read.values import label_of, outer_names

__all__ = ["columns_of", "rows_of", "schema_of"]

MIN_ROWS = 256  # rows per batch, however many columns there are
CELLS = 1 << 22  # most values per batch
DEEPEST = 64  # most levels of nested objects that have columns
# Whole numbers of more digits than a double can have become infinite.
_DECODER = json.JSONDecoder(
    parse_int=lambda digits: int(digits) if len(digits) < 300 else float(digits)
)

Row = dict[str, Any]


def rows_of(block: bytes, before: int = 0) -> list[Row]:
    """Parse the lines of a block, which ``before`` lines of the file precede.

    Examples
    --------
    >>> rows_of(b'{"y": 1, "wind": {"speed": 2.5}}')
    [{'y': 1, 'wind.speed': 2.5}]
    """
    lines = block.splitlines()
    filled = [line for line in lines if line.strip()]
    rows: list[Any] = []
    with suppress(ValueError, RecursionError):  # which line it is, is found below
        rows = _DECODER.decode((b"[" + b",".join(filled) + b"]").decode("utf-8-sig"))
    if len(rows) != len(filled) or not all(type(row) is dict for row in rows):
        numbered = enumerate(lines, start=before + 1)
        rows = [_object(line, number) for number, line in numbered if line.strip()]
    if block.count(b"{") == len(rows):
        return rows
    return [dict(_values(row)) for row in rows]


def schema_of(rows: Sequence[Row]) -> Any:
    """Return the columns of some rows and their types."""
    kinds: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            kinds.setdefault(name, set()).add(type(value))
    objects = outer_names(kinds)  # null in some rows
    found = {name: _type_of(each) for name, each in kinds.items() if name not in objects}
    return require("pyarrow").schema(found)


def columns_of(
    rows: Sequence[Row], names: Sequence[str], types: Mapping[str, Any]
) -> Iterator[Any]:
    """Yield batches of some columns, of known types where all values are missing."""
    step = max(CELLS // max(len(names), 1), MIN_ROWS)
    for at in range(0, len(rows), step):
        part = rows[at : at + step]
        columns = [_column([row.get(name) for row in part], types.get(name)) for name in names]
        yield require("pyarrow").RecordBatch.from_arrays(columns, names=list(names))


def _object(line: bytes, number: int) -> Row:
    try:
        found = _DECODER.decode(line.decode("utf-8-sig"))
        if isinstance(found, dict):
            return found
        what = (
            "is not an object in {braces}, of which JSON lines have one per line; "
            "`jq -c '.[]' FILE > lines.jsonl` converts a JSON list"
        )
    except UnicodeDecodeError:
        what = f"is {NOT_UTF8}"
    except json.JSONDecodeError as error:
        what = f"is not JSON: {error.msg} at column {error.colno}"
    except RecursionError:
        what = "is nested too deeply"
    raise require("pyarrow").ArrowInvalid(f"line {number} {what}")


def _values(row: Row, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all values of a row by name; below the deepest level, objects are values."""
    for name, value in row.items():
        if isinstance(value, dict) and before.count(".") < DEEPEST:
            yield from _values(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _type_of(kinds: set[type]) -> Any:
    """Return the type of a column whose values are of these kinds; texts if they differ."""
    pyarrow, kinds = require("pyarrow"), kinds - {type(None)}
    if kinds == {bool}:
        return pyarrow.bool_()
    if kinds == {list}:
        return pyarrow.list_(pyarrow.null())
    return pyarrow.float64() if kinds <= {int, float} else pyarrow.string()


def _column(values: list[Any], known: Any) -> Any:
    pyarrow, kinds = require("pyarrow"), set(map(type, values))
    if kinds == {type(None)}:
        return pyarrow.nulls(len(values), known or pyarrow.float64())
    kind = _type_of(kinds)
    if kind in (pyarrow.bool_(), pyarrow.float64()):
        if int in kinds:  # PyArrow refuses some of them as doubles
            values = [None if value is None else float(value) for value in values]
        return pyarrow.array(values, kind)
    if kind == known != pyarrow.string():
        with suppress(pyarrow.ArrowException):  # lists of different kinds become texts
            return pyarrow.array(values)
    # A lone surrogate cannot be encoded in UTF-8.
    texts = [text and text.encode("utf-8", "replace").decode() for text in map(_text, values)]
    return pyarrow.array(texts, pyarrow.string())


def _text(value: Any) -> str | None:
    """Return a value as text, a number as it is in a column of numbers."""
    if value is None or isinstance(value, str):
        return value
    return label_of(value) if type(value) in (int, float) else json.dumps(value)
