"""Readers of CSV, Parquet, Arrow and JSON lines in batches, with errors that name the place."""

import io
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

from mixfree.base.extras import require
from mixfree.streams.read.dialect import BLOCK, LARGEST_BLOCK, Dialect
from mixfree.streams.read.files import STDIN, StreamFile, disguise
from mixfree.streams.read.json_lines import (
    MIN_ROWS,
    JsonLines,
    check_width,
    flat,
    flat_schema,
    parts_of,
)
from mixfree.streams.read.values import is_text, without_views

__all__ = ["NOT_UTF8", "Reader"]

ROWS = 1 << 13  # rows per batch of Parquet and Arrow
PAGE = 1 << 16  # bytes read ahead per Parquet column, and of a CSV file to find its header
CELLS = 1 << 22  # most values per batch of JSON lines
LONGEST_TEXT = 1 << 14  # most bytes of a dictionary-encoded text, which every row may repeat
LONGEST_HEAD = 1 << 24  # most bytes of the first two lines of a CSV file
NOT_UTF8 = "not in UTF-8: `iconv -f latin1 -t utf-8 FILE > utf8.csv` converts it"
_EMPTY = ("Empty CSV", "Empty JSON", "file size is 0 bytes", "null or length 0")


class Reader:
    """The columns of one file, and its rows in batches.

    CSV is read as text: the first look decides on types, so that they do not depend on where
    PyArrow divides the file into blocks.

    Parameters
    ----------
    file
        The file to read.
    arriving
        Whether each batch is what the standard input holds, so that no row waits for others. JSON
        objects then need not have all columns, and `schema` is empty.

    Attributes
    ----------
    schema
        Names of the columns and the types in which they are read.
    decimal_comma
        Whether the delimiter is a semicolon, so that numbers may have decimal commas.
    """

    def __init__(self, file: StreamFile, arriving: bool = False) -> None:
        self.file, self.arriving = file, arriving
        self._before = 0  # lines before the block being read, of which PyArrow does not know
        self._head = b""
        self._pipe: Any = None  # a stream that can be read only once
        self._stream: Any = None  # the Arrow stream read from the pipe
        self._dialect = Dialect((), ",", 1)
        self._lines = JsonLines(None, None)
        self._outer: dict[str, str] = {}  # top-level Arrow column of each nested column
        with self._explained():
            if file.once:
                self._pipe = _pipe(file)
            try:
                self.schema = self._schema()
                check_width(len(self.schema.names))  # raises if they are not in UTF-8
            except BaseException:
                self._close_pipe()
                raise
        self.decimal_comma = file.format == "csv" and self._dialect.delimiter == ";"

    def batches(
        self,
        names: Sequence[str],
        numbers: Collection[str] = (),
        threads: bool = True,
    ) -> Iterator[Any]:
        """Yield record batches with the named columns.

        Parameters
        ----------
        names
            Columns to read.
        numbers
            CSV columns to read as doubles, which is faster; from the first batch with a value that
            is not a number, all columns are read as text.
        threads
            Whether Parquet columns are read by several threads, which takes more CPU time in total.
        """
        request = Request(list(names), frozenset(numbers), threads)
        try:
            with self._explained():
                for batch in _OPEN[self.file.format](self, request):
                    if batch.num_rows:
                        yield batch
        finally:
            self._close_pipe()

    def _close_pipe(self) -> None:
        if self._pipe is not None and self.file.path != STDIN:
            self._pipe.close()

    def _schema(self) -> Any:
        pyarrow = require("pyarrow")
        if self.file.format == "parquet":
            return flat_schema(require("pyarrow.parquet").read_schema(self.file.path))[0]
        if self.file.format == "arrow":
            self._stream = _open_arrow(self) if self.file.once else None
            schema, self._outer = flat_schema((self._stream or _open_arrow(self)).schema)
            return schema
        if self.arriving and self.file.format == "jsonl":
            return pyarrow.schema([])
        head = self._first_lines(PAGE if self.file.format == "csv" else BLOCK)
        if (instead := disguise(head)) is not None:
            raise EOFError(f"it is {instead}")
        if self.file.format == "csv":
            self._dialect = Dialect.of(head, self.file.tabs, self.file.header)
            return pyarrow.schema([(name, pyarrow.string()) for name in self._dialect.names])
        if not head.strip():
            raise EOFError(_EMPTY[1])
        self._lines = JsonLines.of(head[: head.rfind(b"\n") + 1] or head)
        return self._lines.schema

    def _first_lines(self, least: int = PAGE) -> bytes:
        """Read the beginning of a text file, up to at least its header and first row."""
        head, source = b"", self._pipe or _raw(self)
        read = source.read1 if self.arriving else source.read
        while not Dialect.is_complete(head.split(b"\n")[:-1]):
            more = read(max(least, len(head)))
            head += more
            if len(head) > LONGEST_HEAD and b"\n" not in head and b"\r" not in head:
                raise EOFError(f"its first line is longer than {LONGEST_HEAD:,} bytes")
            if not more or len(head) > LONGEST_HEAD:
                break
        if self._pipe is not None:
            self._head = head
        return head

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Name the file in PyArrow's errors, and the line and column where known."""
        pyarrow = require("pyarrow")
        try:
            yield
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.file}: a column's name is {NOT_UTF8}") from error
        except OSError as error:
            if str(self.file) in str(error):
                raise
            reason = self._reason(" ".join(str(error).split()))
            raise OSError(f"{self.file}: {reason}") from error
        except (pyarrow.ArrowException, EOFError) as error:
            reason = self._reason(" ".join(str(error).split()))
            raise ValueError(f"{self.file}: {reason}") from error

    def _reason(self, message: str) -> str:
        if "Could not skip initial" in message:  # a header without a newline
            return "there are no rows"
        if any(words in message for words in _EMPTY):
            if self._dialect.names:
                return "there are no rows"
            within = self.file.once or self.file.compression is not None
            there = not within and os.path.getsize(self.file.path) > 0
            what = "is truncated" if self.file.format == "arrow" else "has only blank lines"
            return f"the file {what}" if there else "the file is empty"
        if "1330795073 metadata bytes" in message:  # "ARRO", the beginning of a file
            return "it is an Arrow file, not a stream: decompress it, or name it instead of a pipe"
        if "incorrect header check" in message:
            return "it is not compressed by gzip: rename it to end without .gz"
        bad = re.search(r"column #(\d+): (?:Row #(\d+): )?.*invalid UTF8 data", message)
        if bad:
            column = self.schema.names[int(bad[1])]
            line = f"line {int(bad[2]) + self._before}, " if bad[2] else ""
            return f"{line}column {column!r} is {NOT_UTF8}"
        ragged = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", message)
        if ragged:
            line = f"line {int(ragged[1]) + self._before}" if ragged[1] else "a line"
            comment = re.search(r"got \d+: #", message)
            hint = "; `grep -v '^#' FILE > plain.csv` removes comments" if comment else ""
            return f"{line} has {ragged[3]} fields instead of {ragged[2]}{hint}"
        if "straddl" in message:
            block = self._dialect.block if self.file.format == "csv" else LARGEST_BLOCK
            quote = ", or a quotation mark is not closed" if self.file.format == "csv" else ""
            return f"a line is longer than {block:,} bytes{quote}"
        return message


class Request(NamedTuple):
    """The arguments of :meth:`Reader.batches`."""

    names: list[str]
    numbers: frozenset[str]
    threads: bool


def _raw(reader: Reader) -> Any:
    """Open the decompressed bytes of the file; for a pipe, from its beginning."""
    pyarrow = require("pyarrow")
    if reader._pipe is not None:
        return pyarrow.PythonFile(_Joined(reader._head, reader._pipe), mode="r")
    return pyarrow.input_stream(reader.file.path, compression=reader.file.compression)


def _pipe(file: StreamFile) -> Any:
    """Open a stream that can be read only once, decompressed."""
    if file.path == STDIN:
        return sys.stdin.buffer
    raw = open(file.path, "rb")  # noqa: SIM115 - closed by the reader
    if file.compression is None:
        return raw
    return require("pyarrow").input_stream(raw, compression=file.compression)


def _open_csv(reader: Reader, request: Request) -> Iterator[Any]:
    pyarrow = require("pyarrow")
    types, done = dict.fromkeys(request.names, pyarrow.string()), 0
    if reader.arriving:
        for block in _arrivals(reader):
            at, skip = pyarrow.BufferReader(block), 0 if reader._before else reader._dialect.lines
            yield from _csv_batches(at, reader._dialect, types, skip, len(block))
        return
    if request.numbers and not reader.file.once:
        numbers = {name: pyarrow.float64() for name in request.names if name in request.numbers}
        try:
            for batch in _csv_blocks(reader, {**types, **numbers}):
                yield batch
                done += batch.num_rows
            return
        except pyarrow.ArrowInvalid as error:
            if "invalid value" not in str(error):
                raise
    for batch in _csv_blocks(reader, types):
        yield batch.slice(min(done, batch.num_rows))
        done = max(done - batch.num_rows, 0)


def _csv_blocks(reader: Reader, types: dict[str, Any]) -> Iterator[Any]:
    dialect = reader._dialect
    return _csv_batches(_raw(reader), dialect, types, dialect.lines, dialect.block)


def _csv_batches(
    source: Any, dialect: Dialect, types: dict[str, Any], skip_lines: int, block: int
) -> Iterator[Any]:
    csv = require("pyarrow.csv")
    yield from csv.open_csv(
        source,
        # Only with one thread do errors contain the line number.
        csv.ReadOptions(
            use_threads=False,
            block_size=block,
            column_names=list(dialect.names),
            skip_rows=skip_lines,
        ),
        csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        csv.ConvertOptions(
            strings_can_be_null=True, column_types=types, include_columns=list(types)
        ),
    )


def _arrivals(reader: Reader) -> Iterator[bytes]:
    """Yield the whole lines that a pipe holds; a line of CSV may end within quotation marks."""
    data, ended, csv = reader._head, False, reader.file.format == "csv"
    while True:
        end = len(data) if ended else data.rfind(b"\n") + 1
        if data[:end].strip() and (ended or not csv or data.count(b'"', 0, end) % 2 == 0):
            yield data[:end]
            reader._before += data.count(b"\n", 0, end)
            data = data[end:]
        if ended:
            return
        more = reader._pipe.read1(BLOCK)
        data, ended = data + more, not more
        if len(data) > LARGEST_BLOCK:
            raise require("pyarrow").ArrowInvalid("straddling object")


def _open_jsonl(reader: Reader, request: Request) -> Iterator[Any]:
    if reader.arriving:
        for block in _arrivals(reader):
            table = reader._lines.table(block, request.names, reader._before)
            yield from table.combine_chunks().to_batches()
        return
    lines, done = _WholeLines(_raw(reader)), 0
    # PyArrow takes time for every column in every row, however short a row may be.
    rows = max(CELLS // max(len(request.names), 1), MIN_ROWS)
    while block := lines.read():
        for part in parts_of(block, rows):
            if part.strip():
                table = reader._lines.table(part, request.names, done)
                yield from table.combine_chunks().to_batches()
            done += part.count(b"\n") or part.count(b"\r")


def _open_parquet(reader: Reader, request: Request) -> Iterator[Any]:
    # Without a buffer size, whole row groups are read at once, which can be as large as the file.
    # Dictionaries keep repeated texts as small as they are in the file.
    texts = [name for name in request.names if is_text(reader.schema.field(name).type)]
    file = require("pyarrow.parquet").ParquetFile(
        reader.file.path, buffer_size=PAGE, pre_buffer=False, read_dictionary=texts
    )
    with file:
        groups = reader.file.row_groups
        how = {"columns": request.names, "use_threads": request.threads}
        for batch in file.iter_batches(ROWS, groups, **how):
            yield _plain(batch, request.names)


def _open_arrow(reader: Reader) -> Any:
    pyarrow = require("pyarrow")
    if reader._pipe is not None:
        return pyarrow.ipc.open_stream(reader._pipe)
    if reader.file.compression is not None:
        return pyarrow.ipc.open_stream(_raw(reader))
    # Not memory-mapped: if the file is truncated meanwhile, the process would crash.
    source = pyarrow.OSFile(reader.file.path)
    try:
        return pyarrow.ipc.open_file(source)
    except pyarrow.ArrowInvalid:
        source.seek(0)
        return pyarrow.ipc.open_stream(source)


def _arrow_batches(reader: Reader, request: Request) -> Iterator[Any]:
    opened = reader._stream or _open_arrow(reader)
    count = getattr(opened, "num_record_batches", None)  # None for a stream
    for batch in opened if count is None else map(opened.get_batch, range(count)):
        batch = batch.select(list(dict.fromkeys(reader._outer[name] for name in request.names)))
        batch.validate(full=True)  # invalid offsets in a damaged file would crash the process
        _check_types(batch)
        for start in range(0, batch.num_rows, ROWS):
            yield _plain(batch.slice(start, ROWS), request.names)


def _check_types(batch: Any) -> None:
    """Raise ArrowInvalid for a type without arrays in Python, such as an interval of months."""
    for place, field in enumerate(batch.schema):
        try:
            waiting = [batch.column(place)]
            while waiting:
                if require("pyarrow").types.is_struct((column := waiting.pop()).type):
                    waiting += column.flatten()
        except KeyError as error:
            raise require("pyarrow").ArrowInvalid(
                f"column {field.name!r} is of type {field.type}, which cannot be read: "
                f"`exclude={[field.name]!r}` leaves it out"
            ) from error


def _plain(batch: Any, names: list[str]) -> Any:
    """Select columns, with structs flattened and dictionaries decoded.

    Raises ArrowInvalid for very long texts.
    """
    pyarrow = require("pyarrow")
    if all(map(pyarrow.types.is_primitive, batch.schema.types)):
        return batch.select(names)
    batch, columns = flat(batch, names), []
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        values = without_views(values)
        if pyarrow.types.is_dictionary(values.type):
            if is_text(values.type.value_type):
                lengths = require("pyarrow.compute").binary_length(values.dictionary)
                longest = require("pyarrow.compute").max(lengths).as_py() or 0
                if longest > LONGEST_TEXT:
                    raise pyarrow.ArrowInvalid(
                        f"column {name!r} has a text of {longest:,} bytes, more than "
                        f"{LONGEST_TEXT:,}: `exclude={[name]!r}` leaves it out"
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
    """The bytes already read from a stream, followed by the rest of it."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = io.BytesIO(head), rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._head.read(size) or self._rest.read(size)


class _WholeLines:
    """The bytes of a text file in blocks of whole lines."""

    def __init__(self, source: Any) -> None:
        self._source, self._rest = source, b""

    def read(self) -> bytes:
        """Return the next lines, nothing at the end."""
        while True:
            more = self._source.read(BLOCK)
            data = self._rest + more
            # A line may end in \r alone, but \n may follow an \r at the end of the bytes read.
            end = data.rfind(b"\n") + 1 or data.rfind(b"\r", 0, -1) + 1 if more else len(data)
            found, self._rest = data[:end], data[end:]
            if found or not more:
                return bytes(found)
            if len(self._rest) > LARGEST_BLOCK:
                raise require("pyarrow").ArrowInvalid("straddling object")
