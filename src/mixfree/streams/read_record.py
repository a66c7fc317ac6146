"""Which rows of a stream have been read, so that resuming with other data is noticed."""

import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mixfree.base.checks import MOST_COUNTED, check_whole, shown
from mixfree.base.state import loading
from mixfree.streams.source import Piece

__all__ = ["FileRead", "ReadRecord"]

EVERY = 1 << 16  # one row of so many is in the checksum, and the rows 1, 2, 3, 5, 9, 17, …
_REMEDY = (
    "give the same data again from its beginning, with new rows or files after it, "
    "or another `model` file"
)


@dataclass
class FileRead:
    """A file's name, its first row and number of rows read, and a checksum of a few of them."""

    name: str
    start: int = 0
    rows: int = 0
    checksum: int = 0


class ReadRecord:
    """The files of a stream as far as they have been read.

    Examples
    --------
    >>> import pyarrow
    >>> record = ReadRecord()
    >>> record.add(Piece("days/1.csv", 0, pyarrow.record_batch({"a": [1.0, 2.0]})))
    >>> [(file.name, file.rows) for file in record.files]
    [('1.csv', 2)]
    """

    def __init__(self) -> None:
        self.files: list[FileRead] = []

    @property
    def rows(self) -> int:
        """Rows read from all files."""
        return sum(file.rows for file in self.files)

    def add(self, piece: Piece) -> None:
        """Record a batch; how a file is cut into batches does not matter."""
        if piece.start == 0 or not self.files:
            self.files.append(FileRead(Path(piece.file).name, piece.start))
        file, count = self.files[-1], piece.batch.num_rows
        numbers = np.arange(piece.start, piece.start + count)
        checked = np.flatnonzero((numbers & (numbers - 1) == 0) | (numbers % EVERY == 0))
        for row in checked.tolist():
            values = [_canonical(each[0]) for each in piece.batch.slice(row, 1).columns]
            # Parts of a file that were read apart have checksums that add up.
            file.checksum += zlib.crc32(f"{piece.start + row} {values}".encode())
        file.rows += count

    def merge(self, other: "ReadRecord") -> None:
        """Append what was read after this; the first file may be the rest of the last one here."""
        for file in other.files:
            if file.start:
                self.files[-1].rows += file.rows
                self.files[-1].checksum += file.checksum
            else:
                self.files.append(replace(file))

    def rest(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """The batches that follow what has been read, which must come first and be the same.

        Raises
        ------
        ValueError
            When the data does not begin with what has been read.
        """
        again, before = ReadRecord(), self.rows
        left = before
        for piece in pieces:
            if left:
                old = piece._replace(batch=piece.batch.slice(0, left))
                again.add(old)
                count = old.batch.num_rows
                left -= count
                _compare(self.files, again.files, finished=left == 0)
                piece = Piece(piece.file, piece.start + count, piece.batch.slice(count))
            if piece.batch.num_rows:
                yield piece
        if left:
            raise ValueError(
                f"the data has {before - left:,} rows, but {before:,} were learnt from before: "
                + _REMEDY
            )

    def state_dict(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {"files": [asdict(file) for file in self.files]}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "ReadRecord":
        """The record that gave ``state``; ValueError if there is none."""
        record = cls()
        with loading("record of what was read"):
            record.files = [FileRead(**file) for file in state["files"]]
            for file in record.files:
                for name in ("start", "rows", "checksum"):
                    check_whole(
                        getattr(file, name), f"{name} of the state", least=0, most=MOST_COUNTED
                    )
            if record.rows >= MOST_COUNTED:
                raise ValueError(f"the state has {record.rows} rows, which are too many")
            for file in record.files:
                if not isinstance(file.name, str):
                    raise ValueError(f"name of the state must be a text, not {shown(file.name)}")
        return record


def _canonical(scalar: Any) -> Any:
    """A value that is the same whether a number was read as such or as text."""
    try:
        value = scalar.as_py()
    except (OverflowError, ValueError):  # a date that Python does not know
        return scalar.value
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _compare(known: list[FileRead], again: list[FileRead], finished: bool) -> None:
    """ValueError if files read again differ; unless ``finished``, the last is still being read."""
    for number, (before, now) in enumerate(zip(known, again, strict=False), start=1):
        if now.name != before.name:
            raise ValueError(f"the model was begun with {before.name}, not {now.name}: {_REMEDY}")
        if number == len(again) and not finished:
            return
        if now.rows != before.rows:
            raise ValueError(
                f"{now.name} has {now.rows:,} rows now and had {before.rows:,} when the model "
                f"learnt from it: {_REMEDY}"
            )
        if now.checksum != before.checksum:
            raise ValueError(f"{now.name} has other rows than the model learnt from: {_REMEDY}")
