"""Reads batches of rows from CSV, Parquet, Arrow and JSON lines, with errors that say where."""

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from mixfree.base.extras import require
from mixfree.streams.files import STDIN, StreamFile

__all__ = ["Reader"]

ROWS = 1 << 13  # rows per batch of Parquet and Arrow
BLOCK = 1 << 20  # bytes of text per batch of CSV and JSON lines
PAGE = 1 << 16  # bytes read ahead of each Parquet column
_EMPTY = ("Empty CSV", "Empty JSON", "file size is 0 bytes", "null or length 0")


class Reader:
    """The columns of one file, and its rows in batches.

    Parameters
    ----------
    file
        What to read.
    """

    def __init__(self, file: StreamFile) -> None:
        self.file = file
        self._head = b""
        self._stdin: Any = None
        with self._explained():
            self.schema = self._schema()
            self.schema.names  # noqa: B018 - raises if they are not in UTF-8

    def batches(self, types: dict[str, Any]) -> Iterator[Any]:
        """Record batches with the columns named in ``types``, converted to these types."""
        with self._explained():
            for batch in _OPEN[self.file.format](self, types):
                if batch.num_rows:
                    yield batch

    def _schema(self) -> Any:
        if self.file.format == "parquet":
            return require("pyarrow.parquet").read_schema(self.file.path)
        if self.file.format == "arrow":
            self._stdin = _open_arrow(self) if self.file.path == STDIN else None
            return (self._stdin or _open_arrow(self)).schema
        if self.file.path == STDIN:
            self._head = sys.stdin.buffer.read(BLOCK)
            cut = self._head.rfind(b"\n") + 1 if len(self._head) == BLOCK else BLOCK
            source: Any = io.BytesIO(self._head[:cut])
        else:
            source = _raw(self)
        if self.file.format == "csv":
            return require("pyarrow.csv").open_csv(source, **_csv_options(self.file)).schema
        return require("pyarrow.json").open_json(source, read_options=_json_options()).schema

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Name the file, and where pyarrow tells them, the line and column, in its errors."""
        pyarrow = require("pyarrow")
        try:
            yield
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, EOFError) as error:
            raise ValueError(f"{self.file}: {self._reason(str(error))}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.file}: a column's name is not in UTF-8") from error
        except OSError as error:
            if str(self.file) in str(error):
                raise
            raise OSError(f"{self.file}: {error}") from error

    def _reason(self, message: str) -> str:
        if any(words in message for words in _EMPTY):
            return "the file is empty"
        bad = re.search(
            r"column #(\d+): (?:Row #(\d+): )?.*invalid (?:value '(.*)'|UTF8 data)", message
        )
        if bad:
            column = self.schema.names[int(bad[1])]
            line = f"line {bad[2]}, " if bad[2] else ""
            what = "not in UTF-8" if bad[3] is None else f"{bad[3]!r} is not a number"
            return f"{line}column {column!r}: {what}"
        ragged = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", message)
        if ragged:
            line = f"line {ragged[1]}" if ragged[1] else "a line"
            return f"{line} has {ragged[3]} fields instead of {ragged[2]}"
        changed = re.search(r"Column\(/(.*)\) changed from (\w+) to (\w+)", message)
        if changed:
            return f"column {changed[1]!r} changes from {changed[2]} to {changed[3]}"
        return message


def _csv_options(file: StreamFile, types: dict[str, Any] | None = None) -> dict[str, Any]:
    csv = require("pyarrow.csv")
    convert = {"column_types": types, "include_columns": list(types)} if types else {}
    return {
        # With one thread the reader can tell the line of an error.
        "read_options": csv.ReadOptions(use_threads=False, block_size=BLOCK),
        "parse_options": csv.ParseOptions(delimiter="\t" if file.tabs else ","),
        "convert_options": csv.ConvertOptions(strings_can_be_null=True, **convert),
    }


def _json_options() -> Any:
    return require("pyarrow.json").ReadOptions(use_threads=False, block_size=BLOCK)


def _raw(reader: Reader) -> Any:
    """The file's bytes, decompressed; of standard input also those read for the schema."""
    pyarrow = require("pyarrow")
    if reader.file.path == STDIN:
        return pyarrow.PythonFile(_Joined(reader._head, sys.stdin.buffer), mode="r")
    return pyarrow.input_stream(reader.file.path, compression=reader.file.compression)


def _open_csv(reader: Reader, types: dict[str, Any]) -> Iterator[Any]:
    yield from require("pyarrow.csv").open_csv(_raw(reader), **_csv_options(reader.file, types))


def _open_jsonl(reader: Reader, types: dict[str, Any]) -> Iterator[Any]:
    json = require("pyarrow.json")
    parse = json.ParseOptions(
        explicit_schema=require("pyarrow").schema(list(types.items())),
        unexpected_field_behavior="ignore",
    )
    yield from json.open_json(_raw(reader), read_options=_json_options(), parse_options=parse)


def _open_parquet(reader: Reader, types: dict[str, Any]) -> Iterator[Any]:
    # Without a buffer size, all of a row group is read at once; it can be as large as the file.
    file = require("pyarrow.parquet").ParquetFile(
        reader.file.path, buffer_size=PAGE, pre_buffer=False
    )
    with file:
        groups = reader.file.row_groups
        for batch in file.iter_batches(ROWS, groups, columns=list(types), use_threads=True):
            yield _cast(batch, types)


def _open_arrow(reader: Reader) -> Any:
    pyarrow = require("pyarrow")
    if reader.file.path == STDIN:
        return pyarrow.ipc.open_stream(sys.stdin.buffer)
    if reader.file.compression is not None:
        return pyarrow.ipc.open_stream(_raw(reader))
    source = pyarrow.memory_map(reader.file.path)
    try:
        return pyarrow.ipc.open_file(source)
    except pyarrow.ArrowInvalid:
        return pyarrow.ipc.open_stream(source)


def _arrow_batches(reader: Reader, types: dict[str, Any]) -> Iterator[Any]:
    opened = reader._stdin or _open_arrow(reader)
    count = getattr(opened, "num_record_batches", None)  # a stream does not know it
    for batch in opened if count is None else map(opened.get_batch, range(count)):
        for start in range(0, batch.num_rows, ROWS):
            yield _cast(batch.slice(start, ROWS), types)


def _cast(batch: Any, types: dict[str, Any]) -> Any:
    """The columns named in ``types``, converted if they have another type."""
    pyarrow = require("pyarrow")
    columns = []
    for name, kind in types.items():
        column = batch.column(name)
        try:
            columns.append(column if column.type == kind else column.cast(kind, safe=False))
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
            raise pyarrow.ArrowInvalid(f"column {name!r}: {error}") from error
    return pyarrow.RecordBatch.from_arrays(columns, names=list(types))


_OPEN = {
    "csv": _open_csv,
    "jsonl": _open_jsonl,
    "parquet": _open_parquet,
    "arrow": _arrow_batches,
}


class _Joined(io.RawIOBase):
    """Bytes already read from a stream, then the rest of it."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = io.BytesIO(head), rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._head.read(size) or self._rest.read(size)
