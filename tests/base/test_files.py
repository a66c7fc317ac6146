"""Files that are replaced in one piece."""

import errno
import os
import sys
import types

import pytest

from mixfree.base import files


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    """A writer that opens the file itself would have emptied it."""
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), files.replacing(tmp_path / "f") as file:
        file.write(b"half of the new")
        raise KeyboardInterrupt
    assert (tmp_path / "f").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_system_that_opens_no_folders_still_writes(tmp_path, monkeypatch):
    """On Windows a folder cannot be opened; a writer that insists on its fsync would fail."""
    opened = os.open

    def no_folders(path, *arguments):
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments)

    monkeypatch.setattr(files.os, "open", no_folders)
    with files.replacing(tmp_path / "f") as file:
        file.write(b"new")
    assert (tmp_path / "f").read_bytes() == b"new"


def test_a_folder_that_does_not_exist_is_named_with_the_file(tmp_path):
    """Catches the name of the hidden file, which nobody asked for."""
    path = tmp_path / "none" / "f"
    with pytest.raises(FileNotFoundError) as caught, files.replacing(path):
        pass
    assert f"cannot write {path}: No such file" in str(caught.value)
    assert ".part" not in str(caught.value)


def test_a_file_system_without_locks_still_writes(tmp_path, monkeypatch):
    """As some network drives: catches a refusal, and a second writer that takes every unfinished
    file for one of a killed process.
    """

    def unsupported(handle, how):
        raise OSError(errno.ENOLCK, "No locks available")

    locks = types.SimpleNamespace(LOCK_EX=2, LOCK_NB=4, flock=unsupported)
    monkeypatch.setitem(sys.modules, "fcntl", locks)
    with files.only_writer(tmp_path / "f"), files.replacing(tmp_path / "f") as first:
        first.write(b"first")
        with files.replacing(tmp_path / "f") as second:
            second.write(b"second")
    assert (tmp_path / "f").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["f"]


@pytest.fixture
def windows(monkeypatch):
    """Locks as Windows has them, where moreover an open file cannot be removed."""
    opened, closed, unlinked = os.open, os.close, os.unlink
    handles, locked = {}, set()

    def open_(path, *given):
        handle = opened(path, *given)
        handles[handle] = os.fstat(handle)
        return handle

    def close(handle):
        handles.pop(handle, None)
        locked.discard(handle)
        closed(handle)

    def unlink(path, **given):
        if any(os.path.samestat(os.stat(path), each) for each in handles.values()):
            raise PermissionError(errno.EACCES, "it is open", str(path))
        unlinked(path, **given)

    def locking(handle, mode, count):
        assert (mode, count) == ("try", 1)
        if any(os.path.samestat(handles[handle], handles[each]) for each in locked):
            raise PermissionError(errno.EACCES, "it is locked")
        locked.add(handle)

    msvcrt = types.SimpleNamespace(locking=locking, LK_NBLCK="try")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", msvcrt)
    theirs = {**vars(os), "name": "nt", "open": open_, "close": close, "unlink": unlink}
    monkeypatch.setattr(files, "os", types.SimpleNamespace(**theirs))
    monkeypatch.setattr(os, "unlink", unlink)  # for paths


def test_locks_of_windows(tmp_path, windows):
    """Catches a lock that two writers get, or that cannot be removed since it is still open."""
    with files.only_writer(tmp_path / "f"):
        with (
            pytest.raises(ValueError, match="is being written by another process"),
            files.only_writer(tmp_path / "f"),
        ):
            pass
        assert os.listdir(tmp_path) == [".f.lock"]
    assert os.listdir(tmp_path) == []
    with files.only_writer(tmp_path / "f"):
        pass
