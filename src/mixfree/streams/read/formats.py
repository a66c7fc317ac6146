"""Readers of CSV, Parquet, Arrow and JSON lines in batches, with errors that name the place."""

import os
import re
import sys
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from mixfree.base.extras import require
from mixfree.streams.read.dialect import MAX_LINE, Dialect
from mixfree.streams.read.files import NOT_UTF8, STDIN, StreamFile, not_text
from mixfree.streams.read.json_lines import columns_of, rows_of, schema_of
from mixfree.streams.read.values import decoded, flat, is_text

BLOCK = 1 << 21  # bytes of JSON lines, or of a pipe, per batch
ROWS, CELLS = 7 << 15, 1 << 23  # most per batch, but of CSV; PyArrow moves 2^18 rows twice
PAGE = 1 << 16  # bytes read ahead per Parquet column
MAX_COLUMNS = 20_000  # most columns of a file
LONGEST_TEXT = 1 << 14  # most bytes of a dictionary-encoded text, which every row may repeat
# Words of PyArrow's errors, and what they mean.
_MEANING = {
    "Empty CSV": "there are no rows",
    "Could not skip initial": "there are no rows",  # a header without a newline
    "null or length 0": "the file is truncated",
    "1330795073 metadata bytes": "it is an Arrow file, not a stream: decompress it, or name it",
    "incorrect header check": "it is not compressed by gzip: rename it to end without .gz",
    "straddling": f"a line is longer than {MAX_LINE:,} bytes, or a quotation mark is not closed",
}


class Reader:
    """The columns of one file with their types in ``schema``, and its rows in batches.

    CSV is read as text: the first look decides on types, so that they do not depend on where
    PyArrow divides the file into blocks. If the delimiter is a semicolon, numbers may have a
    ``decimal_comma``.

    If rows are ``arriving``, each batch is what the standard input holds, so that no row waits for
    others. JSON objects then need not have all columns, and the schema is empty.
    """

    def __init__(self, file: StreamFile, arriving: bool = False) -> None:
        self.file, self.arriving = file, arriving
        self._before = 0  # lines before the block being read, of which PyArrow does not know
        # What can be read only once stays open: its bytes and those read ahead, or Arrow's reader.
        self._opened: Any = None
        self._head, self._stream = b"", None
        self._dialect = Dialect((), ",", 1)
        with self._explained():
            self.schema = self._schema()
            if len(self.schema.names) > MAX_COLUMNS:  # raises if they are not in UTF-8
                what = f"it has more than {MAX_COLUMNS:,} columns, the most that are accepted"
                raise ValueError(f"{what}: leave out some")
        self.decimal_comma = file.format == "csv" and self._dialect.delimiter == ";"

    def batches(
        self, names: Sequence[str], numbers: Collection[str] = (), threads: bool = True
    ) -> Iterator[Any]:
        """Yield record batches with the named columns.

        Columns of CSV that are ``numbers`` are read as doubles, which is faster, up to the first
        batch with a value that is not a number. Parquet is read by several ``threads``, which takes
        more CPU time in total.
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
        if not self.file.once and os.path.getsize(self.file.path) == 0:
            raise ValueError("the file is empty")
        if format in ("parquet", "arrow"):
            if format == "parquet":
                stored = require("pyarrow.parquet").read_schema(self.file.path)
            else:
                opened = self._open_arrow()
                self._stream, stored = opened if self.file.once else None, opened.schema
            # Unlike `empty_table`, it does not import pandas.
            return flat(pyarrow.Table.from_batches([], stored)).schema
        if self.arriving and format == "jsonl":
            return pyarrow.schema([])
        source = self._open()
        read = source.read1 if self.arriving else source.read
        head = more = read(BLOCK)
        # A header may arrive in pieces, and have newlines within quotation marks.
        while self.arriving and more and (b"\n" not in head or head.count(b'"') % 2):
            more = read(BLOCK)
            head += more
        self._head = head if self.file.once else b""
        if (instead := not_text(head)) is not None:
            raise ValueError(f"it is {instead}")
        if not head.strip():
            raise ValueError(f"the file {'has only blank lines' if head else 'is empty'}")
        if format == "jsonl":
            return schema_of(rows_of(head[: head.rfind(b"\n") + 1] or head))
        self._dialect = Dialect.of(head, self.file.header)
        return pyarrow.schema([(name, pyarrow.string()) for name in self._dialect.names])

    def _open(self) -> Any:
        """Open the decompressed bytes of the file; what can be read only once stays open."""
        open_ = partial(require("pyarrow").input_stream, compression=self.file.compression)
        if not self.file.once:
            return open_(self.file.path)
        if self._opened is None:
            self._opened = sys.stdin.buffer
            if self.file.path != STDIN:
                pipe = open(self.file.path, "rb")  # noqa: SIM115
                weakref.finalize(self, pipe.close)
                self._opened = open_(pipe)
        return self._opened

    def _blocks(self) -> Iterator[bytes]:
        """Yield whole lines: what a pipe holds if rows are arriving, else blocks of the file.

        A line of CSV may end within quotation marks.
        """
        source, csv = self._open(), self.file.format == "csv"
        read = source.read1 if self.arriving else source.read
        data, more, self._head = b"", self._head or read(BLOCK), b""
        while data or more:
            data += more
            if len(data) > MAX_LINE + BLOCK:
                raise ValueError("straddling")
            end = data.rfind(b"\n") + 1 if more else len(data)
            if end and not (more and csv and data.count(b'"', 0, end) % 2):
                if not data[:end].isspace():
                    yield data[:end]
                self._before += data.count(b"\n", 0, end)
                data = data[end:]
            more = more and read(BLOCK)

    def _csv(self, names: list[str], numbers: Collection[str]) -> Iterator[Any]:
        pyarrow, dialect = require("pyarrow"), self._dialect
        types, done = dict.fromkeys(names, pyarrow.string()), 0
        if self.file.once:
            for block in self._blocks():
                lines = 0 if self._before else dialect.lines
                part = dialect._replace(lines=lines)
                yield from part.batches(pyarrow.BufferReader(block), types)
            return
        doubles = {name: pyarrow.float64() for name in names if name in numbers}
        try:
            for batch in dialect.batches(self._open(), types | doubles):
                yield batch
                done += batch.num_rows
            return
        except pyarrow.ArrowInvalid as error:
            if not doubles or "invalid value" not in str(error):
                raise
        for batch in dialect.batches(self._open(), types):
            yield batch.slice(min(done, batch.num_rows))
            done = max(done - batch.num_rows, 0)

    def _json(self, names: list[str]) -> Iterator[Any]:
        step = _batch_rows(names)
        for block in self._blocks():
            rows = rows_of(block, self._before)
            yield from (columns_of(rows[at : at + step], names) for at in range(0, len(rows), step))

    def _parquet(self, names: list[str], threads: bool) -> Iterator[Any]:
        # Without a buffer size, whole row groups are read at once, which can be as large as the
        # file. Dictionaries keep repeated texts as small as they are in the file; PyArrow cannot
        # read those of structs (wind.side) in several row groups.
        stored = (name for name in names if "." not in name)
        texts = [name for name in stored if is_text(self.schema.field(name).type)]
        with require("pyarrow.parquet").ParquetFile(
            self.file.path, buffer_size=PAGE, pre_buffer=False, read_dictionary=texts
        ) as file:
            groups, step = self.file.row_groups, _batch_rows(names)
            threads = threads and require("pyarrow").cpu_count() > 1  # one thread only costs more
            found = file.iter_batches(step, groups, columns=names, use_threads=threads)
            yield from map(self._selected(names), found)

    def _open_arrow(self) -> Any:
        pyarrow = require("pyarrow")
        if self.file.once:
            return pyarrow.ipc.open_stream(self._open())
        # Not memory-mapped: if the file is truncated meanwhile, the process would crash.
        source = pyarrow.OSFile(self.file.path)
        stored = source.read(6) == b"ARROW1"
        source.seek(0)
        return pyarrow.ipc.open_file(source) if stored else pyarrow.ipc.open_stream(source)

    def _arrow(self, names: list[str]) -> Iterator[Any]:
        opened, step = self._stream or self._open_arrow(), _batch_rows(names)
        selected = self._selected(names)
        count = getattr(opened, "num_record_batches", None)  # None for a stream
        for batch in opened if count is None else map(opened.get_batch, range(count)):
            batch.validate(full=True)  # invalid offsets in a damaged file would crash the process
            for start in range(0, batch.num_rows, step):
                yield selected(batch.slice(start, step))

    def _selected(self, names: list[str]) -> Callable[[Any], Any]:
        """Return what selects columns of a batch, by the types of all batches."""
        types, primitive = map(self.schema.field, names), require("pyarrow").types.is_primitive
        if any("." in each.name or not primitive(each.type) for each in types):
            return partial(_plain, names=names)
        return lambda batch: batch.select(names)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Name the file in errors, and the line and column where PyArrow knows them."""
        try:
            yield
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.file}: a column's name is {NOT_UTF8}") from error
        except (OSError, ValueError, require("pyarrow").ArrowException) as error:
            if isinstance(error, OSError) and str(self.file) in str(error):
                raise
            kind = OSError if isinstance(error, OSError) else ValueError
            reason = self._reason(" ".join(str(error).split()))
            raise kind(f"{self.file}: {reason}") from error

    def _reason(self, message: str) -> str:
        for words, meaning in _MEANING.items():
            if words in message:
                return meaning
        if bad := re.search(r"column #(\d+): (?:Row #(\d+): )?.*invalid UTF8 data", message):
            line = f"line {int(bad[2]) + self._before}, " if bad[2] else ""
            return f"{line}column {self.schema.names[int(bad[1])]!r} is {NOT_UTF8}"
        if ragged := re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", message):
            line = f"line {int(ragged[1]) + self._before}" if ragged[1] else "a line"
            comment = re.search(r"got \d+: #", message) or self._dialect.names[0].startswith("#")
            hint = "; `grep -v '^#' FILE > plain.csv` removes comments" if comment else ""
            there = f"{ragged[3]} field{'s' * (ragged[3] != '1')}"
            return f"{line} has {there} instead of {ragged[2]}{hint}"
        return message


def _batch_rows(names: Sequence[str]) -> int:
    """Return the rows per batch, most of them in whole blocks."""
    return min(ROWS, max(1 << (CELLS // max(len(names), 1)).bit_length() >> 1, 64))


def _plain(batch: Any, names: list[str]) -> Any:
    """Select columns, with structs flattened and dictionaries decoded, but those of texts.

    Raises ValueError for very long texts.
    """
    pyarrow = require("pyarrow")
    table = flat(pyarrow.Table.from_batches([batch])).select(names)
    columns = [column.chunk(0) for column in table.columns]
    for place, (name, values) in enumerate(zip(names, columns, strict=True)):
        if not (pyarrow.types.is_dictionary(values.type) and is_text(values.type.value_type)):
            columns[place] = decoded(values)
        else:
            lengths = require("pyarrow.compute").binary_length(values.dictionary)
            longest = require("pyarrow.compute").max(lengths).as_py() or 0
            if longest > LONGEST_TEXT:
                raise ValueError(
                    f"column {name!r} has a text of {longest:,} bytes, more than "
                    f"{LONGEST_TEXT:,}: `exclude={[name]!r}` leaves it out"
                )
    return pyarrow.RecordBatch.from_arrays(columns, names=names)
