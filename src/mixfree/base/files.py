"""Which files may be replaced, their atomic replacement, and locks that end with the process."""

import contextlib
import errno
import glob
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

ENDS = 1 << 16  # bytes at both ends of a file in which its mark is looked for
# Errors of a full disk or quota, which do not name the file.
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


def check_place(
    path: str | os.PathLike[str],
    name: str,
    mark: bytes,
    inputs: Iterable[str | os.PathLike[str]] = (),
    force: bool = False,
) -> None:
    """Raise ValueError or OSError if a command must not or cannot write to ``path``.

    Its folder must be writable, which is tried. A file that exists is replaced only if it is no
    input, and empty or an earlier output of the same kind; ``force`` replaces any file.

    Parameters
    ----------
    name
        Name of the argument.
    mark
        Bytes near the beginning or the end of every output of this kind; after a newline, at the
        beginning of a line.

    Examples
    --------
    >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> size = path.write_text("bread, milk")
    >>> check_place(path, "weights", b"\\nfeature,weight")
    Traceback (most recent call last):
    ValueError: weights must not be ..., which exists and is no earlier output ...
    """
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder} to write to")
    if os.path.exists(path):
        if not os.path.isfile(path):
            raise ValueError(f"{name} must not be {path}, which is not a file")
        read = any(os.path.exists(each) and os.path.samefile(path, each) for each in inputs)
        if not force and (read or not _has_mark(path, mark)):
            what = "is an input" if read else "exists and is no earlier output of this kind"
            raise ValueError(
                f"{name} must not be {path}, which {what}: give another name, or `force`"
            )
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error


def _has_mark(path: str | os.PathLike[str], mark: bytes) -> bool:
    """Whether a file is empty or has the mark."""
    with open(path, "rb") as file:
        head = file.read(ENDS)
        file.seek(max(file.seek(0, os.SEEK_END) - ENDS, 0))
        return not head or mark in b"\n" + head or mark in file.read()


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a new file that replaces ``path`` once it is complete and on the disk.

    If anything fails before, the old file is unchanged. Links are followed, and an existing file
    keeps its permissions. Unfinished files of killed processes are removed.

    Examples
    --------
    >>> path = Path(tempfile.mkdtemp()) / "numbers"
    >>> with replacing(path) as file:
    ...     size = file.write(b"1 2 3")
    >>> path.read_bytes()
    b'1 2 3'
    """
    place = Path(os.path.realpath(path))
    _remove_abandoned(place)
    mode = stat.S_IMODE(place.stat().st_mode) if place.is_file() else None
    name = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    # The system applies the umask to these permissions.
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(name, flags, 0o666 if mode is None else mode)
    except OSError as error:
        raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            _lock(file.fileno())
            if mode is not None:
                os.chmod(name, mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, place)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        if isinstance(error, OSError) and error.errno in _FULL:
            raise OSError(
                error.errno, f"cannot write {path}: {error.strerror}; what was there is unchanged"
            ) from error
        raise
    _sync_folder(place.parent)


@contextlib.contextmanager
def only_writer(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the write lock of a file; ValueError while another process holds it.

    The lock is on a hidden file beside it and ends with the process, however that ends.

    Examples
    --------
    >>> path = Path(tempfile.mkdtemp()) / "model"
    >>> with only_writer(path), only_writer(path):
    ...     pass
    Traceback (most recent call last):
    ValueError: ...model is being written by another process: wait for it, or give another name
    """
    place = Path(os.path.realpath(path))
    beside = place.with_name(f".{place.name}.lock")
    handle = _locked_file(beside)
    if handle is None:
        raise ValueError(
            f"{path} is being written by another process: wait for it, or give another name"
        )
    try:
        yield
    finally:
        if os.name == "nt":  # where an open file cannot be removed
            os.close(handle)
        with contextlib.suppress(OSError):
            beside.unlink()
        if os.name != "nt":
            os.close(handle)


def _locked_file(path: Path) -> int | None:
    """The handle of a locked file; None if another process holds the lock."""
    while True:
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        if _lock(handle) is False:
            os.close(handle)
            return None
        # The previous holder may have removed the file between the two lines above.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        os.close(handle)


def _lock(handle: int) -> bool | None:
    """Try to lock an open file until it is closed; None if its file system has no locks."""
    try:
        import fcntl
    except ImportError:
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _remove_abandoned(place: Path) -> None:
    """Remove unfinished files for ``place`` that no process is writing."""
    for old in place.parent.glob(f".{glob.escape(place.name)}.*.part"):
        with contextlib.suppress(OSError):
            handle = os.open(old, os.O_RDWR)
            try:
                abandoned = _lock(handle)
            finally:
                os.close(handle)
            if abandoned:
                old.unlink()


def _sync_folder(folder: Path) -> None:
    """Write the folder's new entry to the disk, where the system supports it."""
    with contextlib.suppress(PermissionError):  # Windows opens no folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
