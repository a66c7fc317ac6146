"""Files that are replaced in one piece."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = ["replacing"]


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a new file that takes the place of ``path`` once it is complete and on the disk.

    If anything fails before that, the old file stays as it is.

    Examples
    --------
    >>> path = Path(tempfile.mkdtemp()) / "numbers"
    >>> with replacing(path) as file:
    ...     size = file.write(b"1 2 3")
    >>> path.read_bytes()
    b'1 2 3'
    """
    place = Path(path).absolute()
    handle, name = tempfile.mkstemp(prefix=f".{place.name}.", suffix=".part", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, place)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
    _sync_folder(place.parent)


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk, too, where the system can do that to a folder."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows opens no folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    """The permissions that new files of this process are denied; to ask is to set it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
