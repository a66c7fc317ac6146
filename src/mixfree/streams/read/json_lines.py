"""JSON lines as columns, with nested objects flattened."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mixfree.base.extras import require
from mixfree.streams.read.files import NOT_UTF8
from mixfree.streams.read.values import label_of, outer_names

__all__ = ["columns_of", "rows_of", "schema_of"]

Row = dict[str, Any]


def rows_of(block: bytes, before: int = 0) -> list[Row]:
    """Parse the lines of a block, which ``before`` lines of the file precede.

    Examples
    --------
    >>> rows_of(b'{"y": 1, "wind": {"speed": 2.5}}')
    [{'y': 1.0, 'wind.speed': 2.5}]
    """
    lines = enumerate(block.splitlines(), start=before + 1)
    return [_row(line, number) for number, line in lines if line.strip()]


def schema_of(rows: Sequence[Row]) -> Any:
    """Return the columns of some rows and their types."""
    kinds: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            kinds.setdefault(name, set()).add(type(value))
    objects = outer_names(kinds)  # null in some rows
    found = {name: _type_of(each) for name, each in kinds.items() if name not in objects}
    return require("pyarrow").schema(found)


def columns_of(rows: Sequence[Row], types: Mapping[str, Any]) -> Any:
    """Return a batch of some columns, of these types where all values are missing."""
    pyarrow, columns = require("pyarrow"), []
    for name, known in types.items():
        values = [row.get(name) for row in rows]
        kinds = set(map(type, values)) - {type(None)}
        kind = _type_of(kinds) if kinds else known
        texts = kind == pyarrow.string()
        columns.append(pyarrow.array(map(_text, values) if texts else values, kind))
    return pyarrow.RecordBatch.from_arrays(columns, names=[*types])


def _row(line: bytes, number: int) -> Row:
    try:
        found = json.loads(line, parse_int=float)
        if isinstance(found, dict):
            return dict(_values(found)) if line.count(b"{") > 1 else found
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
    raise ValueError(f"line {number} {what}")


def _values(row: Row, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _values(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _type_of(kinds: set[type]) -> Any:
    """Return the type of a column whose values are of these kinds; texts if they differ."""
    pyarrow, kinds = require("pyarrow"), kinds - {type(None)}
    if kinds == {bool}:
        return pyarrow.bool_()
    return pyarrow.float64() if kinds <= {float} else pyarrow.string()


def _text(value: Any) -> str | None:
    """Return a value as text, a number as it is in a column of numbers."""
    if isinstance(value, float):
        return label_of(value)
    text = value if value is None or isinstance(value, str) else json.dumps(value)
    return text and text.encode("utf-8", "replace").decode()  # a lone surrogate is not UTF-8
