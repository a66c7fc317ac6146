"""Cache of compiled code on disk, which is stale when any file that was compiled in has changed."""

import hashlib
import uuid
import warnings
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

_SOURCES = (
    "kernels/*.py",
    "steps/*.py",
    "gradients/mlmc.py",
    "base/arithmetic.py",
    "reproduce/*/*_kernel.py",
)


class _Files(IndexDataCacheFile):
    """Numba's cache files of a function, valid for the present text of every source.

    Numba numbers its files from 1, so that two processes that compile at the same time can
    overwrite each other's results; here file names are unique.
    """

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:  # damaged, or of another version, whose types are gone
            return {}

    def _data_name(self, number: int) -> str:
        return f"{self._index_name.removesuffix('.nbi')}.{uuid.uuid4().hex[:16]}.nbc"


def keep_on_disk(dispatcher: Any) -> None:
    """Cache a compiled function on disk, if there is a writable folder."""
    try:
        found: Any = FunctionCache(dispatcher.py_func)
    except RuntimeError:  # no writable folder
        warn_once(
            "no folder for compiled code is writable; every process compiles again unless "
            "NUMBA_CACHE_DIR is a writable folder"
        )
        return
    stem = found._cache_file._index_name.removesuffix(".nbi")
    found._cache_file = _Files(found._cache_path, stem, fingerprint())
    dispatcher._cache = found


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
    >>> {"engine.py", "ladder_rule.py"} <= {source.name for source in sources()}
    True
    """
    package = Path(__file__).parent.parent
    return sorted(source for pattern in _SOURCES for source in package.glob(pattern))
