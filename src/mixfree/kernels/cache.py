"""What Numba has compiled, kept on disk: never stale, never mixed up, never in the way."""

import contextlib
import hashlib
import uuid
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

_ANEW = "every process compiles anew unless NUMBA_CACHE_DIR is a folder with room"
_SOURCES = (
    "kernels/*.py",
    "steps/*.py",
    "gradients/mlmc.py",
    "base/arithmetic.py",
    "reproduce/*/*_kernel.py",
)


class SafeFiles(IndexDataCacheFile):
    """Numba's files of one function, with three defects of theirs mended.

    - A result is stale when any file of :func:`sources` has changed, not only the function's own.
    - Numba counts its files from 1, so that of two processes which compile at once each may write
      what the other's entry in the index stands for. Here a name belongs to one result only, and
      what no index names any more is removed.
    - An index or a result that is truncated or empty leads to a compilation, not to a traceback.
    """

    def __init__(self, folder: str | Path, stem: str) -> None:
        super().__init__(folder, stem, fingerprint())
        self._stem = stem

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:  # pickle promises no particular one
            return {}

    def _load_data(self, name: str) -> Any:
        try:
            return super()._load_data(name)
        except Exception as error:
            raise OSError(f"{name} is damaged") from error  # which Numba takes for a missing file

    def _save_index(self, overloads: dict[Any, str]) -> None:
        super()._save_index(overloads)
        self._remove_all_but({self._index_name, *overloads.values()})

    def _data_name(self, number: int) -> str:
        return f"{self._stem}.{uuid.uuid4().hex[:16]}.nbc"

    def _remove_all_but(self, kept: set[str]) -> None:
        """Remove what there is of this function, from any line of its module, besides ``kept``.

        Whoever was about to read one of them compiles anew.
        """
        function, _, line_and_version = self._stem.rpartition("-")
        version = line_and_version.partition(".")[2]
        for path in Path(self._cache_path).iterdir():
            name = path.name
            own = name.startswith(f"{function}-") and f".{version}." in name
            if own and path.suffix in (".nbi", ".nbc") and name not in kept:
                with contextlib.suppress(OSError):
                    path.unlink()


class _Cache(FunctionCache):
    """Numba's cache of a function, on such files; a disk that fails only costs time."""

    _cache_file: Any

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        stem = self._cache_file._index_name.removesuffix(".nbi")
        self._cache_file = SafeFiles(self._cache_path, stem)

    @contextlib.contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            warn_once(f"compiled code cannot be kept on disk: {error.strerror}; {_ANEW}")


def keep_on_disk(dispatcher: Any) -> None:
    """Let a compiled function be loaded from disk by the next process, where that is possible."""
    try:
        dispatcher._cache = _Cache(dispatcher.py_func)
    except RuntimeError:  # there is no folder that can be written to
        warn_once(f"no folder for compiled code is writable; {_ANEW}")


@cache
def warn_once(message: str) -> None:
    """Warn, but never twice of the same in one process."""
    warnings.warn(message, RuntimeWarning, stacklevel=3)


@cache
def fingerprint() -> str:
    """Hash of the text of every source."""
    digest = hashlib.sha256()
    for source in sources():
        digest.update(source.read_bytes())
    return digest.hexdigest()


def sources() -> list[Path]:
    """Every file whose text the machine code depends on: the twins, and where constants are from.

    Examples
    --------
    >>> {"engine.py", "distance.py"} <= {source.name for source in sources()}
    True
    """
    package = Path(__file__).parent.parent
    return sorted(source for pattern in _SOURCES for source in package.glob(pattern))
