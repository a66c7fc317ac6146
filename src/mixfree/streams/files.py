"""The files of a stream, and the format of each."""

import glob
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mixfree.base.extras import require

__all__ = ["COMPRESSIONS", "FORMATS", "STDIN", "SUFFIXES", "StreamFile", "find_files"]

STDIN = "-"
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}
FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))


@dataclass(frozen=True)
class StreamFile:
    """One file of a stream; ``path`` is ``"-"`` for standard input.

    Of a Parquet file it may be some row groups only, the first of which begins at row ``start``.
    """

    path: str
    format: str
    compression: str | None = None
    tabs: bool = False
    row_groups: tuple[int, ...] | None = None
    start: int = 0

    def __str__(self) -> str:
        return "standard input" if self.path == STDIN else self.path

    def parts(self) -> "list[tuple[StreamFile, int]]":
        """What can be read by itself, row groups of Parquet or else the file, and bytes of each."""
        if self.format != "parquet":
            return [(self, Path(self.path).stat().st_size)]
        metadata = require("pyarrow.parquet").read_metadata(self.path)
        found, start = [], 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            part = replace(self, row_groups=(number,), start=start)
            found.append((part, int(group.total_byte_size)))
            start += int(group.num_rows)
        return found

    def row_count(self) -> int | None:
        """Number of rows: exact for Parquet, estimated for plain text, None for the rest."""
        if self.format == "parquet":
            return int(require("pyarrow.parquet").read_metadata(self.path).num_rows)
        if self.path == STDIN or self.compression or self.format == "arrow":
            return None
        with open(self.path, "rb") as file:
            head = file.read(1 << 16)
        lines = head.count(b"\n")
        return Path(self.path).stat().st_size * lines // len(head) if head else 0


def find_files(data: Sequence[str], format: str | None = None) -> list[StreamFile]:
    """The files of a stream in order: as given, and sorted by name within a folder or glob.

    Parameters
    ----------
    data
        Files, folders, globs, or ``"-"`` for standard input.
    format
        ``"csv"``, ``"parquet"``, ``"arrow"`` or ``"jsonl"``; by default what each name ends in
        says it, and standard input is CSV.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("b.csv.gz", "a.csv", "notes.md"):
    ...     (folder / name).touch()
    >>> [(Path(file.path).name, file.compression) for file in find_files([str(folder)])]
    [('a.csv', None), ('b.csv.gz', 'gzip')]
    """
    if format is not None and format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
    found = [file for entry in data for file in _expand(entry, format)]
    if not found:
        raise ValueError("no data given")
    return found


def _expand(entry: str, format: str | None) -> list[StreamFile]:
    if entry == STDIN:
        if format == "parquet":
            raise ValueError("Parquet cannot be read from standard input: its index is at its end")
        return [StreamFile(STDIN, format or "csv")]
    path = Path(entry)
    if path.is_dir():
        inside = sorted(str(each) for each in path.iterdir() if each.is_file())
        names = [name for name in inside if not _hidden(name) and (format or _known(name))]
        if not names:
            raise ValueError(f"the folder {entry} has no data files ({', '.join(SUFFIXES)})")
    elif path.exists():
        names = [entry]
    elif glob.has_magic(entry):
        names = sorted(name for name in glob.glob(entry, recursive=True) if Path(name).is_file())
        if not names:
            raise ValueError(f"no file matches {entry}")
    else:
        raise ValueError(f"there is no file {entry}")
    return [_file(name, format) for name in names]


def _file(name: str, format: str | None) -> StreamFile:
    path = Path(name)
    compression = COMPRESSIONS.get(path.suffix)
    if compression is not None:
        path = path.with_suffix("")
    kind = format or SUFFIXES.get(path.suffix)
    if kind is None:
        raise ValueError(
            f"{name}: its name does not tell its format; give `format`, one of {', '.join(FORMATS)}"
        )
    if compression is not None and kind == "parquet":
        raise ValueError(
            f"{name}: a compressed Parquet file cannot be read; Parquet compresses its own columns"
        )
    return StreamFile(name, kind, compression, tabs=path.suffix == ".tsv")


def _known(name: str) -> bool:
    path = Path(name)
    if path.suffix in COMPRESSIONS:
        path = path.with_suffix("")
    return path.suffix in SUFFIXES


def _hidden(name: str) -> bool:
    """Whether a file in a folder is no data, like ``_SUCCESS`` or ``.crc`` files."""
    return Path(name).name.startswith((".", "_"))
