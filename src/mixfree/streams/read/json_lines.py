"""JSON lines as columns, with nested objects flattened."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from mixfree.base.extras import require
from mixfree.streams.read.files import NOT_UTF8
from mixfree.streams.read.values import label_of

Row = dict[str, Any]


def rows_of(block: bytes, before: int = 0) -> list[Row]:
    """Parse the lines of a block, which ``before`` lines of the file precede."""
    lines = enumerate(block.splitlines(), start=before + 1)
    return [_row(line, number) for number, line in lines if line.strip()]


def schema_of(rows: Sequence[Row]) -> Any:
    """Return the columns of some rows, as texts; each batch has types of its own."""
    pyarrow, names = require("pyarrow"), dict.fromkeys(chain.from_iterable(rows))
    # Objects, which are null in some rows, are no columns.
    objects = {name[:at] for name in names for at in range(len(name)) if name[at] == "."}
    return pyarrow.schema([(name, pyarrow.string()) for name in names if name not in objects])


def columns_of(rows: Sequence[Row], names: Sequence[str]) -> Any:
    """Return a batch of some columns: of numbers or truth values where all are, else of texts."""
    pyarrow, columns = require("pyarrow"), []
    for name in names:
        values = [row.get(name) for row in rows]
        kinds = set(map(type, values)) - {type(None)}
        if kinds not in ({float}, {bool}):
            columns.append(pyarrow.array(map(_text, values), pyarrow.string()))
        else:
            columns.append(pyarrow.array(values))
    return pyarrow.RecordBatch.from_arrays(columns, names=[*names])


def _row(line: bytes, number: int) -> Row:
    what = (
        "is not an object in {braces}, of which JSON lines have one per line; "
        "`jq -c '.[]' FILE > lines.jsonl` converts a JSON list"
    )
    try:
        if line.lstrip(b"\xef\xbb\xbf \t").startswith(b"{"):
            found: Row = json.loads(line, parse_int=float)
            return dict(_values(found)) if line.count(b"{") > 1 else found
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


def _text(value: Any) -> str | None:
    """Return a value as text, a number as it is in a column of numbers."""
    if isinstance(value, float):
        return label_of(value)
    text = value if value is None or isinstance(value, str) else json.dumps(value)
    return text and text.encode("utf-8", "replace").decode()  # a lone surrogate is not UTF-8
