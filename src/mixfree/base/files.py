"""Which files may be replaced, their atomic replacement, and locks that end with the process."""

import contextlib
import glob
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

ENDS = 1 << 16  # bytes at both ends of a file in which its mark is looked for


def check_place(
    path: str | os.PathLike[str],
    name: str,
    mark: bytes,
    inputs: Iterable[str | os.PathLike[str]] = (),
    force: bool = False,
) -> None:
    """Raise ValueError or OSError if a command must not or cannot write to ``path``.

    Its folder must be writable, which is tried. A file that exists is replaced only if it is no
    input, and empty or an earlier output of the same kind, which has the ``mark`` near its
    beginning or end (after a newline: at the beginning of a line); ``force`` replaces any file.
    Errors call the path by the ``name`` of its argument.
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
    keeps its permissions.
    """
    place = Path(os.path.realpath(path))
    part = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            if place.is_file():
                shutil.copymode(place, part)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, place)
    except OSError as error:
        # A full disk does not name the file; other files may be opened inside the block.
        if error.errno is None or error.filename not in (None, str(part)):
            raise
        what = f"cannot write {path}: {error.strerror}"
        raise OSError(error.errno, f"{what}; what was there is unchanged") from error
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def only_writer(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the write lock of a file; ValueError while another process holds it.

    The lock is on a hidden file beside it and ends with the process, however that ends.
    """
    place = Path(os.path.realpath(path))
    beside = place.with_name(f".{place.name}.lock")
    while True:
        with open(beside, "ab") as file:
            if not _lock(file.fileno()):
                raise ValueError(
                    f"{path} is being written by another process: wait for it, or give another name"
                )
            # The previous holder may have removed the file between the two lines above.
            try:
                if not os.path.samestat(os.fstat(file.fileno()), beside.stat()):
                    continue
            except FileNotFoundError:
                continue
            for left in place.parent.glob(f".{glob.escape(place.name)}.*.part"):
                left.unlink(missing_ok=True)  # by a process that was killed
            try:
                yield
            finally:
                with contextlib.suppress(OSError):  # Windows removes no open file
                    beside.unlink()
            return


def _lock(handle: int) -> bool:
    """Try to lock an open file until it is closed; True also if its file system has no locks."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        pass
    return True
