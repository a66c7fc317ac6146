"""The record of the rows read, which detects that a fit is resumed with other data."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixfree.base.extras import require
from mixfree.base.state import State, loading
from mixfree.streams.read.source import Piece
from mixfree.streams.read.values import decoded

EVERY = 1 << 16  # every such row is in the checksum, and so are the rows 1, 2, 3, 5, 9, 17, …
_REMEDY = (
    "give the same data from its beginning, followed by new rows or files, or fit anew, without "
    "`resume`"
)


@dataclass(slots=True)
class FileRead(State):
    """The path of a file, its first row, the rows read, and checksums of some and of the last."""

    path: str
    start: int = 0
    rows: int = 0
    checksum: int = 0
    last: int = 0

    @property
    def name(self) -> str:
        """The name by which a resumed fit knows the file, which may have moved."""
        return Path(self.path).name


class ReadRecord:
    """The files of a stream, as far as they have been read."""

    def __init__(self) -> None:
        self.files: list[FileRead] = []

    @property
    def rows(self) -> int:
        """Rows read from all files."""
        return sum(file.rows for file in self.files)

    def add(self, piece: Piece) -> None:
        """Record a batch; the division of a file into batches does not matter."""
        if piece.start == 0 or not self.files:
            self.files.append(FileRead(piece.file, piece.start))
        file, count = self.files[-1], piece.batch.num_rows
        end, first = piece.start + count, -(-piece.start // EVERY) * EVERY
        powers = {1 << k for k in range(end.bit_length()) if piece.start <= 1 << k < end}
        rows = [row - piece.start for row in powers | {*range(first, end, EVERY)}]
        *some, file.last = _checksums(piece, [*rows, count - 1])
        file.checksum += sum(some)  # so that checksums of parts of a file add up
        file.rows += count

    def merge(self, other: "ReadRecord") -> None:
        """Append the record of later rows, which may begin within the last file."""
        for file in other.files:
            if file.start:
                self.files[-1].rows += file.rows
                self.files[-1].checksum += file.checksum
                self.files[-1].last = file.last
            else:
                self.files.append(file.copy())

    def rest(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Yield the batches after the rows already read; ValueError unless these come first."""
        again, left = ReadRecord(), self.rows
        for piece in pieces:
            if left:
                count = min(left, piece.batch.num_rows)
                again.add(piece.slice(0, count))
                left -= count
                self._check_begins_with(again, finished=left == 0)
                piece = piece.slice(count)
            if piece.batch.num_rows:
                yield piece
        if left:
            was = f"but the model has learnt from {self.rows:,}"
            raise ValueError(f"the data has {again.rows:,} rows, {was}: {_REMEDY}")

    def _check_begins_with(self, again: "ReadRecord", finished: bool) -> None:
        """Raise ValueError if files differ; the last one has only begun unless ``finished``."""
        for before, now in zip(self.files, again.files, strict=False):
            ended, wrong = finished or now is not again.files[-1], ""
            if now.name != before.name:
                wrong = f"is not {before.name}, with which the model was begun"
            elif ended and now.rows != before.rows:
                wrong = f"has {now.rows:,} rows, but the model has learnt from {before.rows:,}"
            elif ended and (now.checksum, now.last) != (before.checksum, before.last):
                last = " in the last line" * (now.checksum == before.checksum)
                wrong = f"has changed{last} since the model learnt from it"
            if wrong:
                raise ValueError(f"{now.name} {wrong}: {_REMEDY}")
            before.path = now.path

    def state_dict(self) -> dict[str, Any]:
        """Return the record as plain values."""
        return {"files": [file.plain() for file in self.files]}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "ReadRecord":
        """Rebuild the record that gave ``state``; raise ValueError if the state is invalid."""
        record = cls()
        with loading(what := "record of the rows read"):
            record.files = [FileRead("").restored(file, what) for file in state["files"]]
        return record


def _checksums(piece: Piece, rows: list[int]) -> list[int]:
    """Return the checksums of some rows of a batch."""
    found = zip(rows, *(_canonical(each, rows) for each in piece.batch.columns), strict=True)
    return [zlib.crc32(f"{piece.start + row} {values}".encode()) for row, *values in found]


def _canonical(values: Any, rows: list[int]) -> list[Any]:
    """Return some values, which are the same for numbers and their texts."""
    pyarrow, found = require("pyarrow"), list[Any]()
    if values.type == pyarrow.float64():  # in a tenth of the time
        return [values[row].as_py() for row in rows]
    some = decoded(pyarrow.concat_arrays([values.slice(row, 1) for row in rows]))
    for text in some.cast(pyarrow.string()).to_pylist():
        try:
            found.append(float(text))
        except (TypeError, ValueError):
            found.append(text)
    return found
