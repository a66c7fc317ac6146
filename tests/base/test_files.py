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


def test_a_folder_that_does_not_exist_is_named_with_the_file(tmp_path):
    """Catches the name of the hidden file, which nobody asked for."""
    path = tmp_path / "none" / "f"
    with pytest.raises(FileNotFoundError) as caught, files.replacing(path):
        pass
    assert f"cannot write {path}: No such file" in str(caught.value)
    assert ".part" not in str(caught.value)


def test_a_file_system_without_locks_still_writes(tmp_path, monkeypatch):
    """As some network drives: catches a refusal, and two writers of one unfinished file."""

    def unsupported(handle, how):
        raise OSError(errno.ENOLCK, "No locks available")

    locks = types.SimpleNamespace(LOCK_EX=2, LOCK_NB=4, flock=unsupported)
    monkeypatch.setitem(sys.modules, "fcntl", locks)
    (tmp_path / ".f.0.part").write_bytes(b"half of it")  # by a process that was killed
    with files.only_writer(tmp_path / "f"), files.replacing(tmp_path / "f") as first:
        first.write(b"first")
        with files.replacing(tmp_path / "f") as second:
            second.write(b"second")
    assert (tmp_path / "f").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["f"]
