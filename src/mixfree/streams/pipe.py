"""Rows from standard input, available as soon as they arrive."""

import csv
import json
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, TypeAlias

from mixfree.base.extras import require
from mixfree.streams.dialect import Dialect
from mixfree.streams.files import STDIN, StreamFile
from mixfree.streams.formats import LONGEST_HEAD, PAGE
from mixfree.streams.json_lines import value_at
from mixfree.streams.numbers import label_of
from mixfree.streams.source import check_columns, check_different

__all__ = ["Pipe", "Value", "text_of"]

Value: TypeAlias = str | float | None  # only JSON has numbers; in CSV they are texts
_VALUES = frozenset((str, float, type(None)))
# `json.loads` would create a decoder per call, which takes as long as decoding a line.
_decoded = json.JSONDecoder(parse_int=float).decode


class Pipe:
    """Rows of CSV or JSON lines, each as a list of the values of some columns.

    Parameters
    ----------
    stream
        A binary stream with ``read1``.
    format
        ``"csv"`` or ``"jsonl"``.
    names
        The columns to read. A name that a JSON object lacks is missing in that row.

    Attributes
    ----------
    row
        Number of the last row read, from 1.
    marks
        Texts that denote a missing value.

    Examples
    --------
    >>> import io
    >>> pipe = Pipe(io.BytesIO(b"a,b\\n1,x\\n2,y\\n"), "csv", ["b"])
    >>> [values for values in pipe]
    [['x'], ['y']]
    """

    def __init__(self, stream: IO[bytes], format: str, names: Sequence[str]) -> None:
        self.file = str(StreamFile(STDIN, format))
        self.row = 0
        self._lines, self._names = _Lines(stream, self.file), list(names)
        self._csv = format == "csv"
        null_values = require("pyarrow.csv").ConvertOptions().null_values if self._csv else ()
        self.marks = frozenset(null_values)

    @property
    def waits(self) -> bool:
        """Whether the next row has not arrived yet."""
        return self._lines.empty

    def __iter__(self) -> Iterator[list[Value]]:
        with self._explained():
            yield from self._records() if self._csv else self._objects()

    def _records(self) -> Iterator[list[Value]]:
        head = list[bytes]()
        while not Dialect.is_complete(head) and (line := self._lines.take()):
            head.append(line)
        if not any(line.strip() for line in head):
            raise ValueError(f"{self.file}: the file is empty")
        try:
            dialect = Dialect.of(b"".join(head))
        except EOFError as error:
            raise ValueError(f"{self.file}: {error}") from error
        check_different(self.file, dialect.names)
        check_columns(self._names, dialect.names, "column", self.file)
        self._lines.put_back(head[dialect.lines :])
        fields, places = len(dialect.names), [dialect.names.index(name) for name in self._names]
        for record in csv.reader(self._lines, delimiter=dialect.delimiter):
            if not record:
                continue
            self.row += 1
            if len(record) != fields:
                raise self._bad(f"has {len(record)} fields instead of {fields}")
            yield [record[place] for place in places]

    def _objects(self) -> Iterator[list[Value]]:
        for line in self._lines:
            if not line.strip():
                continue
            self.row += 1
            found = _decoded(line)
            if not isinstance(found, dict):
                raise self._bad("is not a JSON object")
            try:
                values = [found[name] for name in self._names]
            except KeyError:
                values = [value_at(found, name) for name in self._names]
            if not _VALUES.issuperset(map(type, values)):
                values = [self._value(*each) for each in zip(values, self._names, strict=True)]
            yield values

    def _value(self, value: Any, name: str) -> Value:
        """Return a JSON value as CSV would contain it."""
        if isinstance(value, (list, dict)):
            raise self._bad(f"column {name!r} is a list or an object")
        return str(value).lower() if isinstance(value, bool) else value

    def _bad(self, what: str) -> ValueError:
        return ValueError(f"{self.file}, row {self.row}, {what}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Name the row in the errors of the parsers."""
        try:
            yield
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.file}, row {self.row + 1}, is not in UTF-8") from error
        except csv.Error as error:
            raise ValueError(
                f"{self.file}, row {self.row + 1}, cannot be read as CSV: {error}"
            ) from error
        except (json.JSONDecodeError, RecursionError) as error:
            raise self._bad(f"is not JSON: {error}") from error


class _Lines:
    """Lines of text; the last may lack a newline."""

    def __init__(self, stream: IO[bytes], file: str) -> None:
        self._stream: Any = stream
        self._file = file
        self._ready: deque[bytes] = deque()
        self._rest = bytearray()  # of a line that has not ended

    @property
    def empty(self) -> bool:
        return not self._ready

    def take(self) -> bytes:
        """Return the next line with its newline; empty at the end of the stream."""
        while not self._ready:
            more = self._stream.read1(PAGE)
            if not more:
                last, self._rest = bytes(self._rest), bytearray()
                return last
            self._rest += more
            if b"\n" in more:
                *whole, self._rest = self._rest.split(b"\n")
                self._ready.extend(bytes(line) + b"\n" for line in whole)
            if len(self._rest) > LONGEST_HEAD:
                raise ValueError(f"{self._file}: a line is longer than {LONGEST_HEAD:,} bytes")
        return self._ready.popleft()

    def put_back(self, lines: Sequence[bytes]) -> None:
        """Return lines to the front of the queue."""
        self._ready.extendleft(reversed(lines))

    def __iter__(self) -> Iterator[str]:
        ready = self._ready
        while line := ready.popleft() if ready else self.take():
            yield line.decode()


def text_of(value: Value) -> str | None:
    """Return a value as CSV would contain it.

    Examples
    --------
    >>> text_of(3.0), text_of("x")
    ('3', 'x')
    """
    return label_of(value) if isinstance(value, float) else value
