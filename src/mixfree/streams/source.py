"""Several files as one stream of batches."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import chain
from typing import Any, NamedTuple

from mixfree.streams.files import STDIN, StreamFile
from mixfree.streams.formats import Reader

__all__ = ["Piece", "Source"]


class Piece(NamedTuple):
    """A batch of rows, its file, and the number of its first row in that file, from 0."""

    file: str
    start: int
    batch: Any


class Source:
    """The rows of one or more files with the same columns, in order.

    Parameters
    ----------
    files
        From :func:`mixfree.streams.files.find_files`.

    Attributes
    ----------
    schema
        Names of the columns and the types in which the first file is read.
    decimal_comma
        Whether decimals may be separated by commas.
    unfinished
        Files whose last line had no end and was left out.
    """

    def __init__(self, files: Sequence[StreamFile]) -> None:
        self.files = list(files)
        self._first = Reader(self.files[0])
        self.schema = self._first.schema
        self.check_same_columns(str(self.files[0]), self.schema.names)
        self.decimal_comma = self._first.decimal_comma
        self.unfinished: list[str] = []
        self._known = frozenset(self.schema.names)
        self._names: list[str] = []
        self._ahead: list[Piece] = []
        self._pieces: Iterator[Piece] = iter(())

    def open(
        self, names: Iterable[str], numbers: Iterable[str] = (), whole_lines: bool = True
    ) -> None:
        """Begin to read; for the arguments see :meth:`mixfree.streams.formats.Reader.batches`."""
        self._names = list(dict.fromkeys(names))
        self._pieces = self._read(frozenset(numbers), whole_lines)

    def narrow(self, names: Iterable[str], numbers: Iterable[str] = ()) -> None:
        """Begin anew with some of the columns; standard input goes on, with what was seen."""
        self._names = list(dict.fromkeys(names))
        if self.files[0].path != STDIN:
            self._ahead = []
            self._pieces = self._read(frozenset(numbers), whole_lines=True)

    def look(self, rows: int) -> list[Piece]:
        """The first ``rows`` rows; :meth:`pieces` gives them again."""
        while sum(piece.batch.num_rows for piece in self._ahead) < rows:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._ahead.append(piece)
        seen, first = 0, []
        for piece in self._ahead:
            first.append(piece._replace(batch=piece.batch.slice(0, rows - seen)))
            seen += first[-1].batch.num_rows
        return first

    def pieces(self) -> Iterator[Piece]:
        """All batches in order."""
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
        """ValueError, with similar names, if a column does not exist."""
        for name in names:
            if name not in self._known:
                near = get_close_matches(name, self.schema.names, n=3, cutoff=0.5)
                hint = (
                    f"did you mean {', '.join(map(repr, near))}?"
                    if near
                    else f"the columns are {', '.join(map(repr, self.schema.names[:20]))}"
                )
                raise ValueError(f"{self.files[0]}: there is no {what} {name!r}; {hint}")

    def _read(self, numbers: frozenset[str], whole_lines: bool) -> Iterator[Piece]:
        self.unfinished = []
        for index, file in enumerate(self.files):
            reader = self._first if index == 0 else Reader(file)
            self.check_same_columns(str(reader.file), reader.schema.names)
            start = file.start
            for batch in reader.batches(self._names, numbers, whole_lines):
                yield Piece(str(file), start, batch)
                start += batch.num_rows
            if reader.unfinished:
                self.unfinished.append(str(file))

    def check_same_columns(self, file: str, names: Sequence[str]) -> None:
        """ValueError if a file has other columns than the first, or two of the same name."""
        for name, count in Counter(names).items():
            if count > 1:
                raise ValueError(f"{file}: {count} columns are called {name!r}; rename all but one")
        mine, theirs = set(self.schema.names), set(names)
        if mine != theirs:
            missing, extra = sorted(mine - theirs), sorted(theirs - mine)
            raise ValueError(
                f"{file} has other columns than {self.files[0]}: "
                + "; ".join(
                    f"{word} {', '.join(map(repr, names))}"
                    for word, names in (("without", missing), ("with", extra))
                    if names
                )
            )
