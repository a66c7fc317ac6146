"""Results on disk."""

import tempfile
from os import PathLike
from pathlib import Path


def writable_folder(path: str | PathLike[str]) -> Path:
    """The folder, made if need be, once a file has been written in it; OSError if it cannot.

    Work that takes minutes should fail before it begins.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise OSError(f"cannot write in the folder {folder}: {error.strerror}") from error
