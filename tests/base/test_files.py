"""Files that are replaced in one piece."""

import os

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
