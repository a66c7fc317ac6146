"""Atomic replacement of files, and locks that do not survive a crash."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = ["only_writer", "replacing"]

# Errors of a full disk or quota, which do not name the file.
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a new file that replaces ``path`` once it is complete and on the disk.

    If anything fails before, the old file is unchanged. Links are followed, and an existing file
    keeps its permissions. Unfinished files of killed processes are removed.

    Examples
    --------
    >>> import tempfile
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
    >>> import tempfile
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
        if not _lock(handle):
            os.close(handle)
            return None
        # The previous holder may have removed the file between the two lines above.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        os.close(handle)


def _lock(handle: int) -> bool:
    """Try to lock an open file; the lock ends when the file is closed."""
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
    except OSError:  # a file system without locks
        return True
    return True


def _remove_abandoned(place: Path) -> None:
    """Remove unfinished files for ``place`` that no process is writing."""
    for old in place.parent.glob(f".{_literal(place.name)}.*.part"):
        with contextlib.suppress(OSError):
            handle = os.open(old, os.O_RDWR)
            try:
                abandoned = _lock(handle)
            finally:
                os.close(handle)
            if abandoned:
                old.unlink()


def _literal(name: str) -> str:
    """Escape a name for use in a glob pattern."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _sync_folder(folder: Path) -> None:
    """Write the folder's new entry to the disk, where the system supports it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows opens no folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
