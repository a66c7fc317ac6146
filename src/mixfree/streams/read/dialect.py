"""The header and the delimiter of a CSV file, and its rows."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from mixfree.base.extras import require

MAX_LINE = 1 << 23  # bytes of the longest line, and of text per batch of a CSV file
LOOK = 100  # rows that tell a delimiter at their end from row names at their beginning


class Dialect(NamedTuple):
    """The names of the columns of a CSV file, their delimiter, and the lines of the header."""

    names: tuple[str, ...]
    delimiter: str
    lines: int

    @classmethod
    def of(cls, head: bytes, header: bool = True) -> "Dialect":
        """Detect the dialect of a file from its first bytes.

        The delimiter is the most frequent one in the first line, outside of quotation marks. A
        column without a name is named after its position, also row names, which R writes before
        the first column of the header, and the empty one after a delimiter that ends every row but
        the header. Without a header, columns are c1, c2, ….

        Examples
        --------
        >>> Dialect.of(b'time;"load, kW";\\n1,5;2;x\\n')
        Dialect(names=('time', 'load, kW', 'column 3'), delimiter=';', lines=1)
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
        if not header:
            return cls(tuple(f"c{at + 1}" for at in range(len(names))), delimiter, 0)
        lines = reader.line_num
        with suppress(csv.Error):  # a field that is too long for Python's reader
            rows = list(islice(filter(None, reader), LOOK))
            if rows and len(rows[0]) > len(names):
                names = ["", *names] if any(row[-1] for row in rows) else [*names, ""]
        for name in names:
            name.encode("utf-8", "surrogateescape").decode()  # raises unless it is UTF-8
        named = tuple(name.strip() or f"column {at}" for at, name in enumerate(names, start=1))
        return cls(named, delimiter, lines)

    def batches(self, source: Any, types: Mapping[str, Any]) -> Iterator[Any]:
        """Read columns of these types."""
        csv = require("pyarrow.csv")
        yield from csv.open_csv(
            source,
            # Only with one thread do errors contain the line number.
            csv.ReadOptions(
                use_threads=False,
                block_size=MAX_LINE,
                column_names=list(self.names),
                skip_rows=self.lines,
            ),
            csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            csv.ConvertOptions(
                strings_can_be_null=True, column_types=dict(types), include_columns=list(types)
            ),
        )
