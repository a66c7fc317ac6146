"""Reads batches of rows from CSV, Parquet, Arrow and JSON lines, with errors that say where."""

import csv
import io
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

from mixfree.base.extras import require
from mixfree.streams.files import STDIN, StreamFile
from mixfree.streams.numbers import is_text

__all__ = ["Dialect", "Reader"]

ROWS = 1 << 13  # rows per batch of Parquet and Arrow
BLOCK = 1 << 20  # bytes of text per batch of CSV and JSON lines
PAGE = 1 << 16  # bytes read ahead of each Parquet column, and of a CSV file for its head
MIN_ROWS = 32  # rows of a CSV file per batch, if they are not too long
LARGEST_BLOCK = 1 << 25  # bytes of text per batch of a CSV file with long rows
LONGEST_TEXT = 1 << 14  # bytes of a text that may come again in every row
LONGEST_HEAD = 1 << 24  # bytes of a CSV file in which its first two lines must be
_EMPTY = ("Empty CSV", "Empty JSON", "file size is 0 bytes", "null or length 0")


class Reader:
    """The columns of one file, and its rows in batches.

    Values are read as the file has them, CSV as text: what they are is decided by whoever looks
    at them, and not by the block of text that they happen to be in.

    Parameters
    ----------
    file
        What to read.

    Attributes
    ----------
    schema
        Names of the columns and the types in which they are read.
    decimal_comma
        Whether fields are separated by semicolons, so that decimals may be by commas.
    unfinished
        Whether the last line that was read had no end, and was left out.
    """

    def __init__(self, file: StreamFile) -> None:
        self.file = file
        self.unfinished = False
        self._head = b""
        self._stdin: Any = None
        self._dialect = Dialect((), ",", 1)
        with self._explained():
            self.schema = self._schema()
            self.schema.names  # noqa: B018 - raises if they are not in UTF-8
        self.decimal_comma = file.format == "csv" and self._dialect.delimiter == ";"

    def batches(
        self, names: Sequence[str], numbers: Collection[str] = (), whole_lines: bool = True
    ) -> Iterator[Any]:
        """Record batches with the named columns.

        Parameters
        ----------
        names
            Columns to read.
        numbers
            Columns of CSV to read as doubles, which is quicker; as text from the batch on in
            which one of them is not a number.
        whole_lines
            Whether the last line of a text counts only if it has an end: it may be half written.
        """
        asked = Asked(list(names), frozenset(numbers), whole_lines)
        with self._explained():
            for batch in _OPEN[self.file.format](self, asked):
                if batch.num_rows:
                    yield batch

    def _schema(self) -> Any:
        pyarrow = require("pyarrow")
        if self.file.format == "parquet":
            return require("pyarrow.parquet").read_schema(self.file.path)
        if self.file.format == "arrow":
            self._stdin = _open_arrow(self) if self.file.path == STDIN else None
            return (self._stdin or _open_arrow(self)).schema
        if self.file.format == "csv":
            self._dialect = Dialect.of(self._first_lines(), self.file.tabs)
            return pyarrow.schema([(name, pyarrow.string()) for name in self._dialect.names])
        if self.file.path == STDIN:
            self._head = sys.stdin.buffer.read(BLOCK)
            cut = self._head.rfind(b"\n") + 1 if len(self._head) == BLOCK else BLOCK
            source: Any = io.BytesIO(self._head[:cut])
        else:
            source = _raw(self)
        found = require("pyarrow.json").open_json(source, read_options=_json_options()).schema
        return pyarrow.schema([(field.name, _json_type(field.type)) for field in found])

    def _first_lines(self) -> bytes:
        """The beginning of a CSV file with at least two lines, if it has them."""
        head, source = b"", None if self.file.path == STDIN else _raw(self)
        while head.count(b"\n") < 2 or not b"".join(head.split(b"\n")[1:-1]).strip():
            more = source.read(PAGE) if source else sys.stdin.buffer.read(PAGE)
            head += more
            if not more or len(head) > LONGEST_HEAD:
                break
        if source is None:
            self._head = head
        return head

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
        bad = re.search(r"column #(\d+): (?:Row #(\d+): )?.*invalid UTF8 data", message)
        if bad:
            column = self.schema.names[int(bad[1])]
            line = f"line {bad[2]}, " if bad[2] else ""
            return f"{line}column {column!r}: not in UTF-8"
        ragged = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", message)
        if ragged:
            line = f"line {ragged[1]}" if ragged[1] else "a line"
            return f"{line} has {ragged[3]} fields instead of {ragged[2]}"
        if "straddl" in message:
            return f"a line is longer than {self._dialect.block:,} bytes"
        changed = re.search(r"Column\(/(.*)\) changed from (\w+) to (\w+)", message)
        if changed:
            return f"column {changed[1]!r} changes from {changed[2]} to {changed[3]}"
        return message


class Dialect(NamedTuple):
    """How a CSV file is written.

    Names of its columns, what separates fields, lines of its head, and bytes of its longest of
    the first lines.
    """

    names: tuple[str, ...]
    delimiter: str
    lines: int
    width: int = 0

    @property
    def block(self) -> int:
        """Bytes to read at a time, so that a batch of a wide file has some rows, too."""
        return min(max(BLOCK, MIN_ROWS * self.width), LARGEST_BLOCK)

    @classmethod
    def of(cls, head: bytes, tabs: bool = False) -> "Dialect":
        """The dialect of a file that begins with some bytes.

        A column without a name is called by its place. Rows with one field more than the head
        have row names before the first column, as R writes them, or a delimiter at their end.

        Examples
        --------
        >>> Dialect.of(b'"u","v"\\n"1",2.5,3\\n')
        Dialect(names=('column 1', 'u', 'v'), delimiter=',', lines=1, width=9)
        >>> Dialect.of(b"time;load\\n1,5;2\\n").delimiter
        ';'
        """
        # The bytes may end within a letter, and rows that are not in UTF-8 have a line to be named.
        text = head.decode("utf-8-sig", errors="surrogateescape")
        if not text.strip():
            raise EOFError(_EMPTY[0])
        candidates = ["\t"] if tabs else [",", ";", "\t", "|"]
        found = {delimiter: _first_records(text, delimiter) for delimiter in candidates}

        def likely(delimiter: str) -> tuple[bool, int]:
            head, row, _ = found[delimiter]
            return len(row) - len(head) in (0, 1) or not row, len(head)

        delimiter = max(candidates, key=likely)
        names, row, lines = found[delimiter]
        if len(row) == len(names) + 1:
            names = [*names, ""] if row[-1] == "" else ["", *names]
        for name in names:
            name.encode("utf-8", "surrogateescape").decode()  # raises if it is not in UTF-8
        width = max(map(len, head.splitlines()[:4]))
        return cls(_all_named(names), delimiter, lines, width)


def _first_records(text: str, delimiter: str) -> tuple[list[str], list[str], int]:
    """The fields of the head and of the row after it, and the lines that the head takes."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        head = next(record for record in reader if record)
        lines = reader.line_num
        return head, next((record for record in reader if record), []), lines
    except (csv.Error, StopIteration):
        return [text], [], 1


def _all_named(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name if name else f"column {at}" for at, name in enumerate(names, start=1))


class Asked(NamedTuple):
    """What to read of a file; see :meth:`Reader.batches`."""

    names: list[str]
    numbers: frozenset[str]
    whole_lines: bool


def _csv_options(dialect: Dialect, types: dict[str, Any]) -> dict[str, Any]:
    csv = require("pyarrow.csv")
    return {
        # With one thread the reader can tell the line of an error.
        "read_options": csv.ReadOptions(
            use_threads=False,
            block_size=dialect.block,
            column_names=list(dialect.names),
            skip_rows=dialect.lines,
        ),
        "parse_options": csv.ParseOptions(delimiter=dialect.delimiter),
        "convert_options": csv.ConvertOptions(
            strings_can_be_null=True,
            column_types=types,
            include_columns=list(types),
        ),
    }


def _json_options() -> Any:
    return require("pyarrow.json").ReadOptions(use_threads=False, block_size=BLOCK)


def _json_type(inferred: Any) -> Any:
    """The type to read a field as whose first values have some type."""
    pyarrow = require("pyarrow")
    types = pyarrow.types
    if types.is_integer(inferred) or types.is_null(inferred):
        return pyarrow.float64()
    return pyarrow.string() if types.is_timestamp(inferred) else inferred


def _raw(reader: Reader) -> Any:
    """The file's bytes, decompressed; of standard input also those read for the schema."""
    pyarrow = require("pyarrow")
    if reader.file.path == STDIN:
        return pyarrow.PythonFile(_Joined(reader._head, sys.stdin.buffer), mode="r")
    return pyarrow.input_stream(reader.file.path, compression=reader.file.compression)


def _lines(reader: Reader, whole_lines: bool) -> Any:
    """The same, without a last line that has no end."""
    raw = _raw(reader)
    return require("pyarrow").PythonFile(_WholeLines(raw, reader), "r") if whole_lines else raw


def _open_csv(reader: Reader, asked: Asked) -> Iterator[Any]:
    pyarrow = require("pyarrow")
    types, done = dict.fromkeys(asked.names, pyarrow.string()), 0
    if asked.numbers and reader.file.path != STDIN:
        numbers = {name: pyarrow.float64() for name in asked.names if name in asked.numbers}
        try:
            for batch in _csv_batches(reader, {**types, **numbers}, asked.whole_lines):
                yield batch
                done += batch.num_rows
            return
        except pyarrow.ArrowInvalid as error:
            if "invalid value" not in str(error):
                raise
    for batch in _csv_batches(reader, types, asked.whole_lines):
        yield batch.slice(min(done, batch.num_rows))
        done = max(done - batch.num_rows, 0)


def _csv_batches(reader: Reader, types: dict[str, Any], whole_lines: bool) -> Iterator[Any]:
    source, options = _lines(reader, whole_lines), _csv_options(reader._dialect, types)
    yield from require("pyarrow.csv").open_csv(source, **options)


def _open_jsonl(reader: Reader, asked: Asked) -> Iterator[Any]:
    json, schema = require("pyarrow.json"), reader.schema
    parse = json.ParseOptions(
        explicit_schema=require("pyarrow").schema([schema.field(name) for name in asked.names]),
        unexpected_field_behavior="ignore",
    )
    source = _lines(reader, asked.whole_lines)
    yield from json.open_json(source, read_options=_json_options(), parse_options=parse)


def _open_parquet(reader: Reader, asked: Asked) -> Iterator[Any]:
    # Without a buffer size, all of a row group is read at once; it can be as large as the file.
    # As dictionaries, texts that come again take no more memory than in the file.
    texts = [name for name in asked.names if is_text(reader.schema.field(name).type)]
    file = require("pyarrow.parquet").ParquetFile(
        reader.file.path, buffer_size=PAGE, pre_buffer=False, read_dictionary=texts
    )
    with file:
        groups = reader.file.row_groups
        for batch in file.iter_batches(ROWS, groups, columns=asked.names, use_threads=True):
            yield _plain(batch.select(asked.names))


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


def _arrow_batches(reader: Reader, asked: Asked) -> Iterator[Any]:
    opened = reader._stdin or _open_arrow(reader)
    count = getattr(opened, "num_record_batches", None)  # a stream does not know it
    for batch in opened if count is None else map(opened.get_batch, range(count)):
        for start in range(0, batch.num_rows, ROWS):
            yield _plain(batch.slice(start, ROWS).select(asked.names))


def _plain(batch: Any) -> Any:
    """The same without dictionaries; ArrowInvalid for texts that are too long to be repeated."""
    pyarrow = require("pyarrow")
    columns = []
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        if pyarrow.types.is_dictionary(values.type):
            if is_text(values.type.value_type):
                lengths = require("pyarrow.compute").binary_length(values.dictionary)
                longest = require("pyarrow.compute").max(lengths).as_py() or 0
                if longest > LONGEST_TEXT:
                    raise pyarrow.ArrowInvalid(
                        f"column {name!r} has a text of {longest:,} bytes, and {LONGEST_TEXT:,} "
                        f"are the most: `exclude={[name]!r}` leaves it out"
                    )
            values = values.dictionary_decode()
        columns.append(values)
    return pyarrow.RecordBatch.from_arrays(columns, names=batch.schema.names)


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


class _WholeLines(io.RawIOBase):
    """The bytes of a text up to its last end of a line."""

    def __init__(self, source: Any, reader: Reader) -> None:
        self._source, self._reader = source, reader
        self._ready = self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while not self._ready:
            more = self._source.read(BLOCK)
            if not (more or self._rest.endswith(b"\r")):
                self._reader.unfinished = bool(self._rest.strip())
                return b""
            data = self._rest + more
            # A line may end in \r alone; at the end of what was read, \n may still follow it.
            end = data.rfind(b"\n") + 1 or data.rfind(b"\r", 0, -1 if more else None) + 1
            self._ready, self._rest = data[:end], data[end:]
        size = len(self._ready) if size < 0 else size
        found, self._ready = self._ready[:size], self._ready[size:]
        return found
