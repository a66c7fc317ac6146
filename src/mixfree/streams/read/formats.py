"""Readers of CSV, Parquet, Arrow and JSON lines in batches, with errors that name the place."""

import io
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mixfree.base.extras import require
from mixfree.streams.read.dialect import BLOCK, LARGEST_BLOCK, Dialect
from mixfree.streams.read.files import NOT_UTF8, STDIN, StreamFile, not_text
from mixfree.streams.read.json_lines import columns_of, rows_of, schema_of
from mixfree.streams.read.values import decoded, flat, is_text, outer_names

__all__ = ["Reader"]

ROWS, CELLS = 1 << 16, 1 << 21  # most rows and values per batch of Parquet and Arrow
PAGE = 1 << 16  # bytes read ahead per Parquet column, and of a CSV file to find its header
MAX_COLUMNS = 20_000  # most columns of a file
LONGEST_TEXT = 1 << 14  # most bytes of a dictionary-encoded text, which every row may repeat
# Words of PyArrow's errors, and what they mean.
_MEANING = {
    "Could not skip initial": "there are no rows",  # a header without a newline
    "1330795073 metadata bytes": "it is an Arrow file, not a stream: decompress it, or name it",
    "incorrect header check": "it is not compressed by gzip: rename it to end without .gz",
}
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
        self._stream: Any = None  # the Arrow stream read from a pipe
        self._dialect = Dialect((), ",", 1)
        with self._explained():
            self._pipe = _Pipe(file) if file.once else None
            self.schema = self._schema()
            if len(self.schema.names) > MAX_COLUMNS:  # raises if they are not in UTF-8
                what = f"it has more than {MAX_COLUMNS:,} columns, the most that are accepted"
                raise EOFError(f"{what}: leave out some")
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
        found = {
            "csv": lambda: self._csv(list(names), numbers),
            "jsonl": lambda: self._json(list(names)),
            "parquet": lambda: self._parquet(list(names), threads),
            "arrow": lambda: self._arrow(list(names)),
        }[self.file.format]()
        with self._explained():
            yield from (batch for batch in found if batch.num_rows)

    def _schema(self) -> Any:
        pyarrow, format = require("pyarrow"), self.file.format
        if format == "parquet":
            stored = require("pyarrow.parquet").read_schema(self.file.path)
            return flat(stored.empty_table()).schema
        if format == "arrow":
            opened = self._open_arrow()
            self._stream = opened if self.file.once else None
            return flat(opened.schema.empty_table()).schema
        if self.arriving and format == "jsonl":
            return pyarrow.schema([])
        head = self._first_lines(PAGE if format == "csv" else BLOCK)
        if (instead := not_text(head)) is not None:
            raise EOFError(f"it is {instead}")
        if format == "csv":
            self._dialect = Dialect.of(head, self.file.tabs, self.file.header)
            return pyarrow.schema([(name, pyarrow.string()) for name in self._dialect.names])
        if not head.strip():
            raise EOFError(_EMPTY[1])
        return schema_of(rows_of(head[: head.rfind(b"\n") + 1] or head))

    def _first_lines(self, least: int) -> bytes:
        """Read the beginning of a text file, up to at least its header and first row."""
        head, source = b"", self._open()
        read = source.read1 if self.arriving else source.read
        while not Dialect.is_complete(head):
            more = read(max(least, len(head)))
            head += more
            if len(head) > LARGEST_BLOCK:
                raise EOFError("straddling object")
            if not more:
                break
        if self._pipe is not None:
            self._pipe.unread(head)
        return head

    def _open(self) -> Any:
        """Open the decompressed bytes of the file; a pipe is open."""
        opened = require("pyarrow").input_stream
        return self._pipe or opened(self.file.path, compression=self.file.compression)

    def _blocks(self) -> Iterator[bytes]:
        """Yield whole lines: what a pipe holds if rows are arriving, else blocks of the file.

        A line of CSV may end within quotation marks.
        """
        data, ended, csv = b"", False, self.file.format == "csv"
        source = self._open()
        read = source.read1 if self.arriving else source.read
        while not ended:
            more = read(BLOCK)
            data, ended = data + more, not more
            if len(data) > LARGEST_BLOCK:
                raise require("pyarrow").ArrowInvalid("straddling object")
            end = len(data) if ended else data.rfind(b"\n") + 1
            if data[:end].strip() and (ended or not csv or data.count(b'"', 0, end) % 2 == 0):
                yield data[:end]
                self._before += data.count(b"\n", 0, end)
                data = data[end:]

    def _csv(self, names: list[str], numbers: Collection[str]) -> Iterator[Any]:
        pyarrow, dialect = require("pyarrow"), self._dialect
        types, done = dict.fromkeys(names, pyarrow.string()), 0
        if self.arriving:
            for block in self._blocks():
                lines = 0 if self._before else dialect.lines
                part = dialect._replace(lines=lines, block=len(block))
                yield from part.batches(pyarrow.BufferReader(block), types)
            return
        if numbers and not self.file.once:
            doubles = {name: pyarrow.float64() for name in names if name in numbers}
            try:
                for batch in dialect.batches(self._open(), types | doubles):
                    yield batch
                    done += batch.num_rows
                return
            except pyarrow.ArrowInvalid as error:
                if "invalid value" not in str(error):
                    raise
        for batch in dialect.batches(self._open(), types):
            yield batch.slice(min(done, batch.num_rows))
            done = max(done - batch.num_rows, 0)

    def _json(self, names: list[str]) -> Iterator[Any]:
        types = {field.name: field.type for field in self.schema}
        for block in self._blocks():
            yield from columns_of(rows_of(block, self._before), names, types)

    def _parquet(self, names: list[str], threads: bool) -> Iterator[Any]:
        # Without a buffer size, whole row groups are read at once, which can be as large as the
        # file. Dictionaries keep repeated texts as small as they are in the file.
        texts = [name for name in names if is_text(self.schema.field(name).type)]
        with require("pyarrow.parquet").ParquetFile(
            self.file.path, buffer_size=PAGE, pre_buffer=False, read_dictionary=texts
        ) as file:
            groups = self.file.row_groups
            step = _batch_rows(names)
            for batch in file.iter_batches(step, groups, columns=names, use_threads=threads):
                yield _plain(batch, names)

    def _open_arrow(self) -> Any:
        pyarrow = require("pyarrow")
        if self._pipe is not None or self.file.compression is not None:
            return pyarrow.ipc.open_stream(self._open())
        # Not memory-mapped: if the file is truncated meanwhile, the process would crash.
        source = pyarrow.OSFile(self.file.path)
        try:
            return pyarrow.ipc.open_file(source)
        except pyarrow.ArrowInvalid:
            source.seek(0)
            return pyarrow.ipc.open_stream(source)

    def _arrow(self, names: list[str]) -> Iterator[Any]:
        opened = self._stream or self._open_arrow()
        count = getattr(opened, "num_record_batches", None)  # None for a stream
        outer = outer_names(names).union(names)
        wanted = [name for name in opened.schema.names if name in outer]
        for batch in opened if count is None else map(opened.get_batch, range(count)):
            batch = batch.select(wanted)
            batch.validate(full=True)  # invalid offsets in a damaged file would crash the process
            step = _batch_rows(names)
            for start in range(0, batch.num_rows, step):
                yield _plain(batch.slice(start, step), names)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Name the file in PyArrow's errors, and the line and column where known."""
        pyarrow = require("pyarrow")
        try:
            yield
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.file}: a column's name is {NOT_UTF8}") from error
        except (OSError, pyarrow.ArrowException, EOFError) as error:
            if isinstance(error, OSError) and str(self.file) in str(error):
                raise
            kind = OSError if isinstance(error, OSError) else ValueError
            reason = self._reason(" ".join(str(error).split()))
            raise kind(f"{self.file}: {reason}") from error

    def _reason(self, message: str) -> str:
        for words, meaning in _MEANING.items():
            if words in message:
                return meaning
        if any(words in message for words in _EMPTY):
            if self._dialect.names:
                return "there are no rows"
            within = self.file.once or self.file.compression is not None
            there = not within and os.path.getsize(self.file.path) > 0
            what = "is truncated" if self.file.format == "arrow" else "has only blank lines"
            return f"the file {what}" if there else "the file is empty"
        if bad := re.search(r"column #(\d+): (?:Row #(\d+): )?.*invalid UTF8 data", message):
            line = f"line {int(bad[2]) + self._before}, " if bad[2] else ""
            return f"{line}column {self.schema.names[int(bad[1])]!r} is {NOT_UTF8}"
        if ragged := re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", message):
            line = f"line {int(ragged[1]) + self._before}" if ragged[1] else "a line"
            comment = re.search(r"got \d+: #", message)
            hint = "; `grep -v '^#' FILE > plain.csv` removes comments" if comment else ""
            return f"{line} has {ragged[3]} fields instead of {ragged[2]}{hint}"
        if "straddl" in message:
            csv = self.file.format == "csv"
            block = LARGEST_BLOCK if self.arriving else self._dialect.block or LARGEST_BLOCK
            quote = ", or a quotation mark is not closed" if csv else ""
            return f"a line is longer than {block:,} bytes{quote}"
        return message


def _batch_rows(names: Sequence[str]) -> int:
    return min(ROWS, max(CELLS // max(len(names), 1), 64))


def _plain(batch: Any, names: list[str]) -> Any:
    """Select columns, with structs flattened and dictionaries decoded.

    Raises ArrowInvalid for very long texts.
    """
    pyarrow = require("pyarrow")
    if all(map(pyarrow.types.is_primitive, batch.schema.types)):
        return batch.select(names)
    table = flat(pyarrow.Table.from_batches([batch])).select(names)
    columns = [column.chunk(0) for column in table.columns]
    for name, values in zip(names, columns, strict=True):
        if pyarrow.types.is_dictionary(values.type) and is_text(values.type.value_type):
            lengths = require("pyarrow.compute").binary_length(values.dictionary)
            longest = require("pyarrow.compute").max(lengths).as_py() or 0
            if longest > LONGEST_TEXT:
                raise pyarrow.ArrowInvalid(
                    f"column {name!r} has a text of {longest:,} bytes, more than "
                    f"{LONGEST_TEXT:,}: `exclude={[name]!r}` leaves it out"
                )
    return pyarrow.RecordBatch.from_arrays([decoded(each) for each in columns], names=names)


class _Pipe(io.RawIOBase):
    """A stream that can be read only once, decompressed; what was read ahead is read again."""

    def __init__(self, file: StreamFile) -> None:
        self._ahead, self._own = io.BytesIO(), file.path != STDIN
        self._rest: Any = open(file.path, "rb") if self._own else sys.stdin.buffer  # noqa: SIM115
        if file.compression is not None:
            self._rest = require("pyarrow").input_stream(self._rest, file.compression)

    def unread(self, data: bytes) -> None:
        self._ahead = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._ahead.read(size) or self._rest.read(size)

    def read1(self, size: int = -1) -> bytes:
        return self._ahead.read(size) or self._rest.read1(size)

    def close(self) -> None:
        if self._own:
            self._rest.close()
        super().close()
