"""Several files as one stream of record batches."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import chain
from typing import Any, NamedTuple

from mixfree.base.checks import shown
from mixfree.streams.read.files import StreamFile
from mixfree.streams.read.formats import Reader


class Piece(NamedTuple):
    """A batch of rows, its file, the index of its first row in that file, and weights if any.

    ``name`` is that of the file wherever its folder is.
    """

    file: str
    start: int
    batch: Any
    weights: Any = None
    name: str = ""

    def slice(self, begin: int, length: int | None = None) -> "Piece":
        """Return ``length`` rows from ``begin`` on, or all from there."""
        end = None if length is None else begin + length
        weights = None if self.weights is None else self.weights[begin:end]
        batch = self.batch.slice(begin, length)
        return self._replace(start=self.start + begin, batch=batch, weights=weights)


class Source:
    """The rows of one or more files with the same columns, in order.

    Parameters
    ----------
    files
        Found by :func:`mixfree.streams.read.files.find_files`.
    arriving
        Whether each batch is what the standard input holds, so that no row waits for others.
    """

    def __init__(self, files: Sequence[StreamFile], arriving: bool = False) -> None:
        self.files = list(files)
        self._first = Reader(self.files[0], arriving)
        self.schema = self._first.schema
        check_different(str(self.files[0]), self.schema.names)
        self.decimal_comma = self._first.decimal_comma
        self._names: list[str] = []
        self._ahead: list[Piece] = []
        self._pieces: Iterator[Piece] = iter(())
        self._once = self.files[0].once

    def open(self, names: Iterable[str], numbers: Iterable[str] = (), threads: bool = True) -> None:
        """Start reading from the beginning; for the arguments see :meth:`.Reader.batches`.

        What can be read only once goes on, with some of the columns.
        """
        before, self._names = self._names, list(dict.fromkeys(names))
        looked_at = bool(self._ahead) and before == self._names  # and nothing but CSV has numbers
        again = looked_at and all(file.format != "csv" for file in self.files)
        if not (again or (before and self._once)):
            self._ahead = []
            self._pieces = self._read(frozenset(numbers), threads)

    def look(self, rows: int) -> list[Piece]:
        """Return the first ``rows`` rows; :meth:`pieces` yields them again."""
        while sum(piece.batch.num_rows for piece in self._ahead) < rows:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._ahead.append(piece)
        seen, first = 0, []
        for piece in self._ahead:
            first.append(piece.slice(0, rows - seen))
            seen += first[-1].batch.num_rows
        return first

    def pieces(self) -> Iterator[Piece]:
        """Yield all batches in order."""
        ahead, self._ahead = self._ahead, []
        for piece in chain(ahead, self._pieces):
            if piece.batch.schema.names != self._names:
                piece = piece._replace(batch=piece.batch.select(self._names))
            yield piece

    def row_count(self) -> int | None:
        """Number of rows: exact for Parquet, estimated for plain text, otherwise None."""
        counts = [file.row_count() for file in self.files]
        return None if None in counts else sum(count for count in counts if count is not None)

    def require_columns(self, names: Sequence[str], what: str) -> None:
        """Raise ValueError, with similar names, if a column does not exist."""
        known = self.schema.names
        there = frozenset(known)
        for name in names:
            if name in there:
                continue
            if near := get_close_matches(name, known, n=3, cutoff=0.5):
                hint = f"did you mean {', '.join(map(repr, near))}?"
            else:
                more = ", …" if len(known) > 20 else ""
                hint = f"the columns are {', '.join(map(shown, known[:20]))}{more}"
                hint += _header_hint(known)
            raise ValueError(f"{self.files[0]}: there is no {what} {name!r}; {hint}")

    def _read(self, numbers: frozenset[str], threads: bool = True) -> Iterator[Piece]:
        for index, file in enumerate(self.files):
            reader = self._first if index == 0 else Reader(file)
            self.check_same_columns(str(reader.file), reader.schema.names)
            start = file.start
            for batch in reader.batches(self._names, numbers, threads):
                yield Piece(str(file), start, batch, name=file.name)
                start += batch.num_rows

    def check_same_columns(self, file: str, names: Sequence[str]) -> None:
        """Raise ValueError if a file has other columns than the first, or two of the same name."""
        check_different(file, names)
        mine, theirs = set(self.schema.names), set(names)
        other = {"without": sorted(mine - theirs), "with": sorted(theirs - mine)}
        listed = (f"{word} {', '.join(map(repr, each))}" for word, each in other.items() if each)
        if mine != theirs:
            raise ValueError(f"{file} has other columns than {self.files[0]}: {'; '.join(listed)}")


def check_different(file: str, names: Sequence[str]) -> None:
    """Raise ValueError if two columns have the same name."""
    for name, count in Counter(names).items():
        if count > 1:
            hint = _header_hint(names) or "; rename all but one"
            raise ValueError(f"{file}: {count} columns are called {name!r}{hint}")


def _header_hint(names: Sequence[str]) -> str:
    """Suggest a command if the first line of a file does not look like a header."""
    if sum(not re.fullmatch(r"column \d+", name) for name in names) == 1:
        return "; if the header is line N, `tail -n +N FILE > table.csv` removes the lines above it"
    if any(re.fullmatch(r"[-+.,\d\s]*\d[-+.,\d\s]*", name) for name in names):
        return "; if the first line is a row, `no_header` names the columns c1, c2, …"
    return ""
