"""Cache of compiled code on disk, safe against stale, mixed-up and damaged files."""

import contextlib
import hashlib
import uuid
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

_ANEW = "every process compiles again unless NUMBA_CACHE_DIR is a writable folder with space"
_SOURCES = (
    "kernels/*.py",
    "steps/*.py",
    "gradients/mlmc.py",
    "base/arithmetic.py",
    "reproduce/*/*_kernel.py",
)


class SafeFiles(IndexDataCacheFile):
    """Numba's cache files of one function, with three corrections.

    - A result is stale if any file of :func:`sources` has changed, not only the function's own.
    - Numba numbers its files from 1, so that two processes that compile at the same time can
      overwrite each other's results. Here file names are unique, and files that are no longer in
      the index are removed.
    - A truncated or empty file leads to a new compilation instead of a traceback.
    """

    def __init__(self, folder: str | Path, stem: str) -> None:
        super().__init__(folder, stem, fingerprint())
        self._stem = stem

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:  # pickle can raise any exception
            return {}

    def _load_data(self, name: str) -> Any:
        try:
            return super()._load_data(name)
        except Exception as error:
            raise OSError(f"{name} is damaged") from error  # Numba treats it as missing

    def _save_index(self, overloads: dict[Any, str]) -> None:
        super()._save_index(overloads)
        self._remove_all_but({self._index_name, *overloads.values()})

    def _data_name(self, number: int) -> str:
        return f"{self._stem}.{uuid.uuid4().hex[:16]}.nbc"

    def _remove_all_but(self, kept: set[str]) -> None:
        """Remove all files of this function, wherever it stood in its module, except ``kept``.

        A process that was about to read one of them compiles again.
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
    """Numba's cache of a function with such files; errors of the disk only cost time."""

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
    """Cache a compiled function on disk, if there is a writable folder."""
    try:
        dispatcher._cache = _Cache(dispatcher.py_func)
    except RuntimeError:  # no writable folder
        warn_once(f"no folder for compiled code is writable; {_ANEW}")


@cache
def warn_once(message: str) -> None:
    """Warn once per process and message."""
    warnings.warn(message, RuntimeWarning, stacklevel=3)


@cache
def fingerprint() -> str:
    """Hash of the text of every source."""
    digest = hashlib.sha256()
    for source in sources():
        digest.update(source.read_bytes())
    return digest.hexdigest()


def sources() -> list[Path]:
    """Every file on which the machine code depends: the twins, and the modules of constants.

    Examples
    --------
    >>> {"engine.py", "distance.py"} <= {source.name for source in sources()}
    True
    """
    package = Path(__file__).parent.parent
    return sorted(source for pattern in _SOURCES for source in package.glob(pattern))
