"""The header and the delimiter of a CSV file, and its rows."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from mixfree.base.extras import require

__all__ = ["BLOCK", "LARGEST_BLOCK", "Dialect"]

BLOCK = 1 << 21  # bytes of text per batch
MIN_ROWS = 32  # least rows per batch, unless they are very long
LARGEST_BLOCK = 1 << 25  # bytes of text per batch of a file with long rows


class Dialect(NamedTuple):
    """How a CSV file is written.

    The names of its columns, the delimiter, the number of lines up to and including the header,
    and the number of bytes to read at a time, enough for several rows of a wide file.
    """

    names: tuple[str, ...]
    delimiter: str
    lines: int
    block: int = 0

    @classmethod
    def of(cls, head: bytes, header: bool = True) -> "Dialect":
        """Detect the dialect of a file from its first bytes.

        The delimiter is the most frequent one in the first line, outside of quotation marks. A
        column without a name is named after its position, also row names, which R writes before
        the first column of the header. Without a header, columns are c1, c2, ….

        Examples
        --------
        >>> Dialect.of(b'time;"load, kW";\\n1,5;2;x\\n')
        Dialect(names=('time', 'load, kW', 'column 3'), delimiter=';', lines=1, block=2097152)
        """
        # The bytes may end within a character; rows not in UTF-8 are reported later, by line.
        text = head.decode("utf-8-sig", errors="surrogateescape")
        first = re.sub('"[^"]*"', "", text).lstrip().partition("\n")[0]
        delimiter = max("\t;|,", key=first.count)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        try:
            names = next(filter(None, reader))
        except csv.Error as error:
            raise ValueError("its first line is too long for names of columns") from error
        if "\n" in names[-1] and reader.line_num >= text.count("\n"):
            raise ValueError("a quotation mark in the header is not closed")
        longest = max(map(len, head.splitlines()[:4]))
        block = min(max(BLOCK, MIN_ROWS * longest), LARGEST_BLOCK)
        if not header:
            return cls(tuple(f"c{at + 1}" for at in range(len(names))), delimiter, 0, block)
        lines = reader.line_num
        with suppress(csv.Error):  # a field that is too long for Python's reader
            names = ["", *names] if len(next(filter(None, reader), [])) > len(names) else names
        for name in names:
            name.encode("utf-8", "surrogateescape").decode()  # raises unless it is UTF-8
        named = tuple(name.strip() or f"column {at}" for at, name in enumerate(names, start=1))
        return cls(named, delimiter, lines, block)

    def batches(self, source: Any, types: Mapping[str, Any]) -> Iterator[Any]:
        """Read columns of these types."""
        csv = require("pyarrow.csv")
        yield from csv.open_csv(
            source,
            # Only with one thread do errors contain the line number.
            csv.ReadOptions(
                use_threads=False,
                block_size=self.block,
                column_names=list(self.names),
                skip_rows=self.lines,
            ),
            csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            csv.ConvertOptions(
                strings_can_be_null=True, column_types=dict(types), include_columns=list(types)
            ),
        )
