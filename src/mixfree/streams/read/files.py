"""The files of a stream, and the format of each."""

import glob
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mixfree.base.checks import shown
from mixfree.base.extras import require

STDIN, STDIN_SHOWN = "-", "standard input"
ENDINGS = {
    "csv": (".csv", ".tsv", ".txt"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".arrows", ".feather", ".ipc"),
    "jsonl": (".jsonl", ".ndjson", ".json"),
}
SUFFIXES = {ending: format for format, endings in ENDINGS.items() for ending in endings}
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}
# First bytes of files that are not text, with what to do about them.
_BEGINNINGS = {
    b"\x1f\x8b": "compressed by gzip: rename it to end in .gz, or pipe it through zcat",
    b"BZh": "compressed by bzip2: rename it to end in .bz2, or pipe it through bzcat",
    b"\xfd7zXZ\0": "compressed by xz: `xzcat FILE > plain.csv`",
    b"PK\x03\x04": "an archive or a spreadsheet: extract it, or save it as CSV",
    b"PAR1": "a Parquet file: give `format='parquet'`",
    b"ARROW1": "an Arrow file: give `format='arrow'`",
    b"\xff\xfe": "in UTF-16: `iconv -f utf-16 -t utf-8 FILE > utf8.csv` converts it",
    b"\xfe\xff": "in UTF-16: `iconv -f utf-16 -t utf-8 FILE > utf8.csv` converts it",
}
NOT_UTF8 = "not in UTF-8: `iconv -f latin1 -t utf-8 FILE > utf8.csv` converts it"
FORMATS = tuple(ENDINGS)


@dataclass(frozen=True)
class StreamFile:
    """One file of a stream, or some row groups of a Parquet file, beginning at row ``start``.

    ``path`` is ``"-"`` for standard input, and ``name`` begins below the folder of all files.
    """

    path: str
    format: str
    compression: str | None = None
    header: bool = True
    row_groups: tuple[int, ...] | None = None
    start: int = 0
    name: str = ""

    def __str__(self) -> str:
        return STDIN_SHOWN if self.path == STDIN else self.path

    @property
    def once(self) -> bool:
        """Whether the file can be read only once: standard input, a pipe or a device."""
        return self.path == STDIN or (os.path.exists(self.path) and not os.path.isfile(self.path))

    @property
    def named(self) -> bool:
        """Whether the format is the one that the name implies."""
        return self.format == SUFFIXES.get(_suffix(self.path)[0], "csv")

    def parts(self) -> "list[tuple[StreamFile, int]]":
        """Return the parts that can be read separately, with their sizes in bytes.

        These are the row groups of a Parquet file; any other file is one part.
        """
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
        """Number of rows: exact for Parquet, estimated for plain text, otherwise None."""
        if self.format == "parquet":
            return int(require("pyarrow.parquet").read_metadata(self.path).num_rows)
        if self.once or self.compression or self.format == "arrow":
            return None
        with open(self.path, "rb") as file:
            head = file.read(1 << 16)
        lines = head.count(b"\n")
        return Path(self.path).stat().st_size * lines // len(head) if head else 0


def not_text(head: bytes) -> str | None:
    """Describe a file that is not text by its first bytes; None if it may be text."""
    return next((what for first, what in _BEGINNINGS.items() if head.startswith(first)), None)


def find_files(
    data: Sequence[str], format: str | None = None, header: bool = True
) -> list[StreamFile]:
    """Return the files of a stream: in the given order, and sorted by name within a folder or glob.

    Numbers in names are sorted by value: ``day9.csv`` comes before ``day10.csv``.

    Parameters
    ----------
    data
        Files, folders, globs, or ``"-"`` for standard input.
    format
        ``"csv"``, ``"parquet"``, ``"arrow"`` or ``"jsonl"``. By default the extension of each
        file decides; standard input and files of other extensions are CSV.
    header
        Whether the first line of CSV has the names of the columns; if not, they are c1, c2, ….

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
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {shown(format)}")
    found = [file for entry in data for file in _expand(entry, format)]
    if not found:
        raise ValueError("no data given")
    places = [Path(file.path).absolute() for file in found]
    shared = set.intersection(*({*place.parents} for place in places))
    names = ("/".join(place.parts[len(shared) :]) for place in places)
    return [replace(f, header=header, name=name) for f, name in zip(found, names, strict=True)]


def _expand(entry: str, format: str | None) -> list[StreamFile]:
    path = Path(entry)
    if path.is_dir():
        names = _data_in(path.iterdir(), format)
        if not names:
            what = f"no data files ({', '.join(SUFFIXES)})"
            for deeper in _data_in(path.rglob("*"), format)[:1]:
                inside = path / "**" / f"*{Path(deeper).suffix}"
                what = f"data only in folders: give '{inside}'"
            raise ValueError(f"the folder {entry} has {what}")
    elif entry == STDIN or path.exists():
        names = [entry]
    else:
        # A link to a parent folder would repeat the same files.
        found = sorted(filter(os.path.isfile, glob.glob(entry, recursive=True)), key=_natural)
        names = list({os.path.realpath(name): name for name in reversed(found)}.values())[::-1]
        if not names:
            what = "no file matches" if glob.has_magic(entry) else "there is no file"
            raise ValueError(f"{what} {entry}")
    return [_file(name, format) for name in names]


def _data_in(paths: Iterable[Path], format: str | None) -> list[str]:
    """Return the names of data files, in order; files like `_SUCCESS` and `.crc` are not data."""
    files = (each for each in paths if each.is_file() and not each.name.startswith((".", "_")))
    names = sorted(map(str, files), key=_natural)
    return [name for name in names if format or _suffix(name)[0] in SUFFIXES]


def _natural(name: str) -> tuple[list[str | int], str]:
    """Return a key that sorts names by their texts and the values of their numbers."""
    parts = re.split("([0-9]+)", name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)], name


def _file(name: str, format: str | None) -> StreamFile:
    suffix, compression = _suffix(name)
    found = StreamFile(name, format or SUFFIXES.get(suffix, "csv"), compression)
    if found.format in ("parquet", "arrow") and compression:
        raise ValueError(f"{found}: decompress it: only text can be read compressed")
    if found.format == "parquet" and found.once:
        raise ValueError(f"{found}: Parquet cannot be read from a pipe: name a file instead")
    return found


def _suffix(name: str) -> tuple[str, str | None]:
    """Return the extension of a file before that of its compression, and the compression."""
    path = Path(name.lower())
    compression = COMPRESSIONS.get(path.suffix)
    return (path if compression is None else path.with_suffix("")).suffix, compression
